"""Removal of planned cleans whose plans are damaged: no process can execute them, and they hold later ones back."""

from __future__ import annotations

from pyhudi.errors import CorruptDataError
from pyhudi.services.cleaning.execute import load_clean_plan, pending_cleans
from pyhudi.services.cleaning.withdraw import withdraw_clean
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.features import check_writable
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock


def remove_corrupt_clean_plans(call: ServiceCall) -> tuple[str, ...]:
    """Take the pending cleans with a damaged plan from the timeline; their instants. What they deleted stays deleted.

    Raises `InvalidRequestError` where another process is executing one. Cost: the table lock, a read per pending clean.
    """
    check_writable(call.table)
    removed: list[str] = []
    with table_lock(call.table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.CLEAN)
        for instant in pending_cleans(table.timeline):
            try:
                load_clean_plan(table.storage, instant, table)
            except CorruptDataError:
                withdraw_clean(table, instant, call.settings.heartbeat, call.environment, lock, is_damaged=True)
                removed.append(instant.requested_time)
    return tuple(removed)
