"""Selects the completed instants that may leave the active timeline. Pure.

The oldest go first, so that what stays is the newest part of the timeline, without holes. An instant that readers or
services still need there holds back everything from it on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyhudi.config.options_archiving import ArchivingOptions
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


def archivable(timeline: Timeline, options: ArchivingOptions, needed: Needed) -> tuple[Instant, ...]:
    """The instants that may be archived now, oldest first; none while there are no more than the options allow."""
    completed = timeline.completed_writes
    if len(completed) <= options.max_commits:
        return ()
    savepoints = {one.requested_time for one in timeline.instants if one.action is Action.SAVEPOINT}
    holders = [
        completed[len(completed) - options.min_commits].requested_time,
        _needed_by_pending(timeline, needed.dead_plans),
        None if options.beyond_savepoint else min(savepoints, default=None),
        needed.earliest_retained,
        needed.replacement,
        needed.compaction,
        needed.beside_pending,
        needed.unmerged,
    ]
    bound = min(time for time in holders if time is not None)
    spared = {*savepoints, needed.last_clean}
    oldest = [one for one in timeline.instants if one.requested_time < bound and _may_leave(one, spared)]
    newest_write = max((one.requested_time for one in oldest if one.action in WRITE_ACTIONS), default="")
    return tuple(one for one in oldest if one.requested_time <= newest_write)


def _may_leave(instant: Instant, spared: Collection[str | None]) -> bool:
    is_completed = instant.state is InstantState.COMPLETED
    return is_completed and instant.action in _LEAVES and instant.requested_time not in spared


def _needed_by_pending(timeline: Timeline, besides: Collection[str]) -> str | None:
    """The oldest instant that a pending action has to find: itself, and what completed since it began.

    A write looks for conflicts among those that completed since it began, which may have begun long before.
    """
    open_times = (one.requested_time for one in timeline.instants if one.state is not InstantState.COMPLETED)
    pending = min((time for time in open_times if time not in besides), default=None)
    if pending is None:
        return None
    beside = (one.requested_time for one in timeline.completed_writes if position_of(one) > pending)
    return min([pending, *beside])
