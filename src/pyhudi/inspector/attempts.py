"""Conflicts and failures as the timeline keeps them: writers that overlapped, and writes that were rolled back.

It keeps neither conflicts nor retries nor waits for locks themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.metadata.rollback import RollbackPlan
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.storage.bounded import at_once
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_rollback_plan

_ROLLBACKS_READ: Final = 50
_WRITES: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A write that was rolled back: its instant and action, and the rollback."""

    instant: str
    action: str
    rollback: Instant


@dataclass(frozen=True, slots=True)
class Overlap:
    """A write that began before an `earlier` one had completed, until the first of the two completed."""

    write: Instant
    earlier: Instant
    until: str


def read_rolled_back(state: TableState) -> tuple[RolledBack, ...]:
    """Writes that the newest rollbacks of the active timeline undid, oldest first. Cost: a read of each."""
    rollbacks = [instant for instant in state.timeline.instants if instant.action is Action.ROLLBACK]
    newest = rollbacks[-_ROLLBACKS_READ:]
    plans = at_once(state.storage, lambda rollback: _plan(state, rollback), newest)
    return tuple(
        RolledBack(plan.instant_time, plan.action, rollback)
        for rollback, plan in zip(newest, plans, strict=True)
        if plan is not None
    )


def _plan(state: TableState, rollback: Instant) -> RollbackPlan | None:
    """The plan of a rollback; None if it is not written yet, or archived by now."""
    try:
        return load_rollback_plan(state.storage, rollback, state.version)
    except (CorruptDataError, NotFoundError):
        return None


def overlaps_of(instants: Sequence[Instant], *, is_merge_on_read: bool) -> tuple[Overlap, ...]:
    """The completed writes among these instants, which are sorted by time, that began while another one ran.

    Each with the one that ran longest of those before it. The commits of a merge-on-read table are its compactions,
    which run beside writes as they should.
    """
    actions = _WRITES - {Action.COMMIT} if is_merge_on_read else _WRITES
    running: Instant | None = None
    overlaps = []
    for write in instants:
        if write.action not in actions or write.completion_time is None:
            continue
        if running is not None and running.completion_time is not None:
            if write.requested_time < running.completion_time:
                overlaps.append(Overlap(write, running, min(write.completion_time, running.completion_time)))
            if write.completion_time <= running.completion_time:
                continue
        running = write
    return tuple(overlaps)
