"""Selects the completed instants that may leave the active timeline. Pure.

The oldest go first, so that what stays is the newest part of the timeline, without holes. An instant that readers or
services still need there holds back everything from it on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyhudi.config.options_archiving import ArchivingOptions
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.table.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Archivable:
    """The instants to archive, oldest first, and what holds back the next one; empty where only their number does."""

    instants: tuple[Instant, ...]
    held_by: str = ""


@dataclass(frozen=True, slots=True)
class Needed:
    """What has to stay on the active timeline, by requested times; None where nothing of the kind is there.

    `earliest_retained`: the oldest write that cleaning retains. `replacement`: the oldest write that replaced file
    groups whose files may still be there: without it, readers would show their rows again. `compaction`: the newest
    compaction, from which the next one is counted. `last_clean`: where the next clean begins.
    """

    earliest_retained: str | None = None
    replacement: str | None = None
    compaction: str | None = None
    last_clean: str | None = None


def archivable(timeline: Timeline, options: ArchivingOptions, needed: Needed) -> Archivable:
    """The instants that may be archived now; none while the active timeline is not longer than the options say."""
    completed = timeline.completed_writes
    if len(completed) <= options.max_commits:
        return Archivable((), f"there are no more than {options.max_commits} completed commits")
    kept_from = completed[len(completed) - options.min_commits].requested_time
    holders = {
        "an action that is not completed": _first_pending(timeline),
        "a savepoint": None if options.beyond_savepoint else min(_savepoints(timeline), default=None),
        "the oldest write that cleaning retains": needed.earliest_retained,
        "a replacement whose file groups are not cleaned": needed.replacement,
        "the newest compaction": needed.compaction,
    }
    bound: str = kept_from
    held_by = ""
    for reason, time in holders.items():
        if time is not None and time < bound:
            bound, held_by = time, f"{reason} at {time}"
    spared = {*_savepoints(timeline), needed.last_clean}
    oldest = [one for one in timeline.instants if one.requested_time < bound and _may_leave(one, spared)]
    newest_write = max((one.requested_time for one in oldest if one.action in _WRITES), default="")
    return Archivable(tuple(one for one in oldest if one.requested_time <= newest_write), held_by)


_WRITES = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


def _may_leave(instant: Instant, spared: Collection[str | None]) -> bool:
    return instant.state is InstantState.COMPLETED and instant.requested_time not in spared


def _first_pending(timeline: Timeline) -> str | None:
    return min(
        (one.requested_time for one in timeline.instants if one.state is not InstantState.COMPLETED), default=None
    )


def _savepoints(timeline: Timeline) -> list[str]:
    return [one.requested_time for one in timeline.instants if one.action is Action.SAVEPOINT]
