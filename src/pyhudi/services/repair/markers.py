"""Removing the markers of a write that has ended."""

from __future__ import annotations

from pyhudi.errors import InvalidRequestError
from pyhudi.format.markers import marker_folder
from pyhudi.format.safe_paths import check_file_name
from pyhudi.format.timeline.instant import InstantState
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.features import check_writable
from pyhudi.transaction.locks.table_lock import table_lock


def delete_markers(call: ServiceCall, instant_time: str) -> None:
    """Delete the folder with the markers of a write. Cost: the table lock, a listing, and the deletion.

    Raises:
        InvalidRequestError: the write is pending: its markers say which files its rollback has to delete.
        UnsafePathError: the instant cannot be one.
    """
    check_writable(call.table)
    check_file_name(instant_time, source="instant_time")
    if not (instant_time.isascii() and instant_time.isdigit()):
        raise InvalidRequestError("instant_time must be an instant, such as 20240131100000000", instant=instant_time)
    with table_lock(call.table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        timeline = call.table.reload().timeline
        for instant in timeline.instants:
            if instant.requested_time == instant_time and instant.state is not InstantState.COMPLETED:
                raise InvalidRequestError(
                    "this instant is pending, and its markers say which files belong to it: roll it back, or let it "
                    "end; nothing was deleted",
                    instant=instant_time,
                )
        lock.check_held()
        call.table.storage.delete_folder(marker_folder(instant_time))
