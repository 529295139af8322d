"""Selects the completed instants that may leave the active timeline. Pure.

The oldest go first, so that what stays is the newest part of the timeline, without holes. An instant that readers or
services still need there holds back everything from it on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyhudi.config.options_cleaning import ArchivingOptions
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, position_of


@dataclass(frozen=True, slots=True)
class Needed:
    """What has to stay on the active timeline, by requested times; None where nothing of the kind is there.

    `earliest_retained`: the oldest write that cleaning retains. `replacement`: the oldest write that replaced file
    groups whose files may still be there: without it, readers would show their rows again. `compaction`: the newest
    compaction, from which the next one is counted. `last_clean`: where the next clean begins. `beside_pending`: in
    version 6, which has no completion times, the oldest write that may have completed since a pending one began.
    `dead_plans`: planned cleans and clusterings that are damaged: no process can execute them, so they need nothing.
    `unmerged`: the oldest write whose delta commit no compaction of the metadata table has merged.
    """

    earliest_retained: str | None = None
    replacement: str | None = None
    compaction: str | None = None
    last_clean: str | None = None
    beside_pending: str | None = None
    dead_plans: frozenset[str] = frozenset()
    unmerged: str | None = None


_LEAVES = WRITE_ACTIONS | {Action.CLEAN, Action.ROLLBACK}
"""The actions whose instants JVM Hudi archives; others stay on the active timeline."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an instant may leave the active timeline now, and why, for the user."""

    instant: Instant
    leaves: bool
    reason: str


def archivable(timeline: Timeline, options: ArchivingOptions, needed: Needed) -> tuple[Instant, ...]:
    """The instants that may be archived now, oldest first; none while there are no more than the options allow."""
    if len(timeline.completed_writes) <= options.max_commits:
        return ()
    return tuple(verdict.instant for verdict in verdicts(timeline, options, needed) if verdict.leaves)


def verdicts(timeline: Timeline, options: ArchivingOptions, needed: Needed) -> tuple[Verdict, ...]:
    """All instants, oldest first, with what is to become of them."""
    completed = timeline.completed_writes
    if len(completed) <= options.max_commits:
        reason = f"there are {len(completed)} completed commits, and {options.max_commits} may be there"
        return tuple(Verdict(instant, leaves=False, reason=reason) for instant in timeline.instants)
    savepoints = {instant.requested_time for instant in timeline.instants if instant.action is Action.SAVEPOINT}
    holders = _holders(timeline, options, needed, savepoints)
    bound = min(holders)[0]
    spared = {*savepoints, needed.last_clean}
    oldest = [
        instant for instant in timeline.instants if instant.requested_time < bound and _may_leave(instant, spared)
    ]
    newest_write = max((instant.requested_time for instant in oldest if instant.action in WRITE_ACTIONS), default="")
    leaving = {instant for instant in oldest if instant.requested_time <= newest_write}
    found = []
    for instant in timeline.instants:
        held = min((holder for holder in holders if holder[0] <= instant.requested_time), default=None)
        reason = held[1] if held is not None else _reason(instant, spared, leaves=instant in leaving)
        found.append(Verdict(instant, leaves=instant in leaving, reason=reason))
    return tuple(found)


def _holders(
    timeline: Timeline, options: ArchivingOptions, needed: Needed, savepoints: Collection[str]
) -> list[tuple[str, str]]:
    """The times from which on everything stays, with the reasons."""
    completed = timeline.completed_writes
    newest = completed[len(completed) - options.min_commits].requested_time
    kept = () if options.beyond_savepoint else savepoints
    pending = _needed_by_pending(timeline, needed.dead_plans)
    because = "" if pending is None else f"; an action is pending since {pending}"
    found = [
        (newest, f"it is not older than the newest {options.min_commits} commits"),
        (
            max(completed, key=position_of).requested_time,
            "the write {} completed last: readers go on from its completion",
        ),
        (pending, "an action is pending since {}, or wrote beside one that is"),
        (min(kept, default=None), "the write {} has a savepoint"),
        (_completed_after_savepoint(timeline, kept), "the write {} completed after one that has a savepoint"),
        (needed.earliest_retained, "cleaning retains the states since {}" + because),
        (needed.replacement, "file groups that {} replaced are not cleaned"),
        (needed.compaction, "the next compaction is counted from {}"),
        (needed.beside_pending, "the write {} may have completed beside one that is pending"),
        (needed.unmerged, "the metadata table has not merged what {} wrote"),
    ]
    return [(time, reason.format(time)) for time, reason in found if time is not None]


def _completed_after_savepoint(timeline: Timeline, savepoints: Collection[str]) -> str | None:
    """The oldest write that completed after one with a savepoint, whose state leaves it out.

    It may have begun long before. Readers of the savepoint could not tell it from those that belong to the state.
    """
    ended: dict[str, str] = {write.requested_time: position_of(write) for write in timeline.completed_writes}
    first = min((ended[time] for time in savepoints if time in ended), default=None)
    return None if first is None else min((time for time, position in ended.items() if position > first), default=None)


def _reason(instant: Instant, spared: Collection[str | None], *, leaves: bool) -> str:
    if leaves:
        return "the options keep fewer commits, and nothing needs it"
    if instant.requested_time in spared:
        return "it has a savepoint, or the next clean begins there"
    if not _may_leave(instant, ()):
        return "only completed writes, cleans and rollbacks are archived"
    return "the newest commit that leaves is older"


def _may_leave(instant: Instant, spared: Collection[str | None]) -> bool:
    is_completed = instant.state is InstantState.COMPLETED
    return is_completed and instant.action in _LEAVES and instant.requested_time not in spared


def _needed_by_pending(timeline: Timeline, besides: Collection[str]) -> str | None:
    """The oldest instant that a pending action has to find: itself, and what completed since it began.

    A write looks for conflicts among those that completed since it began, which may have begun long before.
    """
    open_times = (
        instant.requested_time for instant in timeline.instants if instant.state is not InstantState.COMPLETED
    )
    pending = min((time for time in open_times if time not in besides), default=None)
    if pending is None:
        return None
    beside = (write.requested_time for write in timeline.completed_writes if position_of(write) > pending)
    return min([pending, *beside])
