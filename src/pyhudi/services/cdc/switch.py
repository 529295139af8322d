"""Switching the capture of changes on or off for a table that exists: one put of its properties.

Writes log their changes as the properties say when they begin. So the switch refuses while a write is pending, and a
write that loaded the table before the switch gives way when it begins (`transaction.begin`): from the switch on, every
write captures its changes, as JVM Hudi's reader of change data needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.errors import UnsupportedFeatureError, WriteConflictError
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.restore.execute import finish_what_died
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.storage.naming import naming
from pyhudi.table.features import check_writable
from pyhudi.table.file_system_view import load_view
from pyhudi.table.lister import Lister
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.state import TableState, update_properties
from pyhudi.table.timeline import position_of
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock

CDC_ENABLED_KEY = "hoodie.table.cdc.enabled"
LOGGING_MODE_KEY = "hoodie.table.cdc.supplemental.logging.mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureChanged:
    """Whether a table captures its changes, after a switch.

    Attributes:
        is_on: whether writes from now on log their changes.
        mode: what they log of a change (`hoodie.table.cdc.supplemental.logging.mode`).
        since: the position of the newest write: as `begin` of `changes`, all later writes are in the range, and only
            these. None for a table without writes.
    """

    is_on: bool
    mode: str
    since: str | None


def switch_capture(call: ServiceCall, *, on: bool, mode: LoggingMode | None = None) -> CaptureChanged:
    """Let writes from now on log their changes, or no longer. `mode`: None for that of the table.

    Raises:
        WriteConflictError: a write is pending whose process is alive, or a restore or an index build.
        UnsupportedFeatureError: the table has change data logs of another mode, or is one that cannot be written.

    Cost: a listing of the timeline, and the lock; a put, unless the table is as asked; for another mode a listing of
    the table.
    """
    table = finish_what_died(call.table.reload(), call.settings, call.environment)
    check_writable(table)
    roll_back_failed_writes(table, call.settings, call.environment)
    storage = table.storage
    with naming(storage), table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = table.reload()
        kept = table.config.change_data_mode
        mode = mode or kept
        if on and mode is not kept:
            _check_no_logs_of(kept, table, call.lister)
        if table.config.cdc_enabled is not on or (on and mode is not kept):
            _check_no_write_runs(table)
            changes = {CDC_ENABLED_KEY: "true" if on else "false", **({LOGGING_MODE_KEY: mode.value} if on else {})}
            lock.check_held()
            update_properties(storage, changes)
    newest = max((position_of(write) for write in table.timeline.completed_writes), default=None)
    return CaptureChanged(is_on=on, mode=mode.value, since=newest)


def _check_no_logs_of(mode: LoggingMode, table: TableState, lister: Lister) -> None:
    if logs := load_view(table.storage, table.timeline, lister=lister).change_logs:
        raise UnsupportedFeatureError(
            f"the table has change data logs of the mode {mode.value}, and readers take all logs for those of the mode"
            " of the table: capture changes in this mode, or let a clean remove these logs first",
            path=min(logs),
        )


def _check_no_write_runs(table: TableState) -> None:
    """Cost: in version 6 a read per pending replace commit, which may be a clustering."""
    check_nothing_exclusive(table.timeline, Own.VERSION_CHANGE)
    for pending in table.timeline.pending_writes:
        if not is_clustering_plan(table.storage, table.version, pending):
            raise WriteConflictError(
                "a write is running that would complete without regard to the switch: let it finish, or end its process"
                " and roll it back, and call this again; nothing was changed",
                winner=pending.requested_time,
                action=pending.action.value,
            )
