"""The outcome of a write, for a caller that lost its result.

The answer comes from the active and the archived timeline. If neither has the instant, the outcome is unknown.
"""

from __future__ import annotations

import enum

from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.restore import decode_restored_instants
from pyhudi.format.metadata.rollback import decode_rollback_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.storage.bounded import read_decoded
from pyhudi.table.archive.history import ArchivedOutcome, archived_outcome
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS, instant_path, load_rollback_plan


class Outcome(enum.StrEnum):
    """The outcome of an instant; the value is the word for it."""

    COMMITTED = "committed"
    PENDING = "pending"
    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"


def outcome_of(table: TableState, instant_time: str) -> Outcome:
    """The outcome of a write or a service in the table as it was loaded.

    COMMITTED: its rows are visible, or were until a later write replaced them. PENDING: it is planned, running, or dead
    and not rolled back yet. ROLLED_BACK: it will never be visible; its rollback has at least begun. UNKNOWN: neither
    timeline has the instant, because it never began, or because its rollback is no longer in the archive.

    Cost: for an instant of the active timeline, a read per pending rollback; otherwise a read per younger rollback, and
    the archive files that may have it. Raises `CorruptDataError` for damaged metadata.
    """
    found = [instant for instant in table.timeline.instants if instant.requested_time == instant_time]
    if any(instant.state is InstantState.COMPLETED for instant in found):
        return Outcome.COMMITTED
    if found:
        # A rollback that has begun ends a write; of a planned service it may keep the plan.
        ends = all(instant.action in WRITE_ACTIONS for instant in found) and _is_being_rolled_back(table, instant_time)
        return Outcome.ROLLED_BACK if ends else Outcome.PENDING
    is_undone = _is_being_rolled_back(table, instant_time) or rollback_of(table, instant_time) is not None
    if is_undone or _is_restored_away(table, instant_time):
        return Outcome.ROLLED_BACK
    match archived_outcome(table.storage, table.version, instant_time):
        case ArchivedOutcome.COMPLETED:
            return Outcome.COMMITTED
        case ArchivedOutcome.ROLLED_BACK:
            return Outcome.ROLLED_BACK
        case None:
            return Outcome.UNKNOWN


def _is_restored_away(table: TableState, instant_time: str) -> bool:
    """Whether a completed restore of the active timeline rolled an instant back. Cost: a read per younger restore.

    The rollbacks of a restore of pyhudi are on the timeline; JVM Hudi removes those of its own.
    """
    for restore in table.timeline.instants:
        is_done = restore.action is Action.RESTORE and restore.state is InstantState.COMPLETED
        if is_done and restore.requested_time > instant_time:
            path = instant_path(restore, table.version)
            if instant_time in read_decoded(table.storage, path, CONTAINER_BYTES_MAX, decode_restored_instants):
                return True
    return False


def rollback_of(table: TableState, instant_time: str) -> Instant | None:
    """The completed rollback of an instant on the active timeline. Cost: a read per younger rollback."""
    for rollback in reversed(table.timeline.instants):
        if rollback.action is not Action.ROLLBACK or rollback.state is not InstantState.COMPLETED:
            continue
        if rollback.requested_time > instant_time:
            path = instant_path(rollback, table.version)
            metadata = read_decoded(table.storage, path, CONTAINER_BYTES_MAX, decode_rollback_metadata)
            if metadata.instant_time == instant_time:
                return rollback
    return None


def _is_being_rolled_back(table: TableState, instant_time: str) -> bool:
    return any(
        load_rollback_plan(table.storage, rollback, table.version).instant_time == instant_time
        for rollback in table.timeline.pending_rollbacks
    )
