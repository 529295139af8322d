"""Catching up: what was done to the table between two timelines, as changes that an index can follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyhudi.config.enums import TableType
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.clean import decode_clean_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.metadata_table.file_changes import Change, change_of_clean, change_of_commit
from pyhudi.storage.bounded import read_decoded
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, instant_path, load_rollback_plan, position_of


class CannotCatchUpError(Exception):
    """Something happened that no index follows: it is built again from the table as it is now."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action that was completed meanwhile, and the table as it was when the action was about to complete."""

    change: Change
    table: TableState


def steps_between(before: Timeline, now: TableState) -> Iterator[Step]:
    """The actions that were completed since `before`, in the order in which they were completed.

    Raises `CannotCatchUpError` after a restore, the rollback of a completed write, or when writes that `before` does
    not have were archived. Cost: a read per action.
    """
    _check_whole(before, now)
    known = {_identity(one) for one in before.instants if one.state is InstantState.COMPLETED}
    late = [one for one in now.timeline.instants if one.state is InstantState.COMPLETED and _identity(one) not in known]
    late.sort(key=lambda one: (position_of(one), one.requested_time))
    for number, instant in enumerate(late):
        if instant.action in WRITE_ACTIONS:
            metadata = load_commit_metadata(now.storage, instant, now.version)
            change = change_of_commit(instant.requested_time, metadata)
        elif instant.action is Action.CLEAN:
            path = instant_path(instant, now.version)
            cleaned = read_decoded(now.storage, path, CONTAINER_BYTES_MAX, decode_clean_metadata)
            change = change_of_clean(instant.requested_time, cleaned)
        else:
            continue
        yield Step(change, now.with_timeline(_without(before, now, late[number:])))


def _check_whole(before: Timeline, now: TableState) -> None:
    restored = {instant.requested_time for instant in before.instants if instant.action is Action.RESTORE}
    if any(
        instant.action is Action.RESTORE and instant.requested_time not in restored for instant in now.timeline.instants
    ):
        raise CannotCatchUpError("the table was restored")
    if before.latest_time and now.timeline.starts_after(before.latest_time):
        raise CannotCatchUpError("writes that are not in the index were archived")
    ended = {_identity(instant) for instant in before.instants if instant.state is InstantState.COMPLETED}
    for rollback in now.timeline.instants:
        if rollback.action is Action.ROLLBACK and _identity(rollback) not in ended:
            undone = load_rollback_plan(now.storage, rollback, now.version).instant_time
            if undone in before.completed_times:
                raise CannotCatchUpError("a completed write was rolled back")
    gone = before.completed_times - now.timeline.completed_times
    if any(not now.timeline.starts_after(time) for time in gone):
        raise CannotCatchUpError("a completed write is no longer there")


def _without(before: Timeline, now: TableState, late: list[Instant]) -> Timeline:
    """The timeline of now, with the late actions still pending."""
    pending = {_identity(one): _pending(before, now, one) for one in late}
    instants = tuple(pending.get(_identity(instant), instant) for instant in now.timeline.instants)
    return Timeline(now.version, instants, now.timeline.foreign)


def _pending(before: Timeline, now: TableState, completed: Instant) -> Instant:
    """An action before it was completed, which may have changed the word for it."""
    for instant in before.instants:
        if instant.requested_time == completed.requested_time and instant.state is not InstantState.COMPLETED:
            return instant
    is_compaction = completed.action is Action.COMMIT and now.config.table_type is TableType.MERGE_ON_READ
    action = Action.COMPACTION if is_compaction else completed.action
    return replace(completed, action=action, state=InstantState.INFLIGHT, completion_time=None)


def _identity(instant: Instant) -> tuple[str, Action]:
    return instant.requested_time, instant.action
