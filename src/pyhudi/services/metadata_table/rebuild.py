"""Building the metadata table from the table, at first or again, and dropping it."""

from __future__ import annotations

from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.metadata_table.before_write import settle_metadata_table
from pyhudi.metadata_table.initialize import initialize_partitions
from pyhudi.metadata_table.partitions.maintained import maintained_partition
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.requested_indexes import asked_indexes
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.features import check_writable
from pyhudi.table.metadata_partitions import FILES, is_maintained
from pyhudi.table.metadata_table import drop_metadata_table, has_metadata_table
from pyhudi.table.state import TableState
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.settings import TransactionSettings


def rebuild_metadata_table(
    table: TableState, settings: TransactionSettings, environment: Environment, engine: Engine
) -> tuple[str, ...]:
    """Drop the metadata table and build the partitions again that it had; their names.

    Raises:
        InvalidRequestError: the table has no metadata table.
        WriteConflictError: a write is pending, whose part of the metadata table would be lost.

    Cost: the table lock; a listing of the table; `initialize_partitions`.
    """
    check_writable(table)
    storage = table.storage
    with table_lock(storage, environment, wait_ms=settings.lock_wait_ms) as lock:
        table = table.reload()
        if not has_metadata_table(table):
            raise InvalidRequestError(
                "the table has no metadata table: with the option hoodie.metadata.enable=true it is built"
            )
        _check_no_writes(table)
        kept = sorted(name for name in table.config.metadata_partitions if is_maintained(name) and name != FILES)
        names = (FILES, *kept)
        lock.check_held()
        drop_metadata_table(table)
        table = table.reload()
        initialize_partitions(
            Source(table, environment, settings.spill, engine),
            [maintained_partition(name, table) for name in names],
            lock.check_held,
        )
    return names


def build_metadata_table(call: ServiceCall) -> tuple[str, ...]:
    """Build the metadata table of a table that has none, with the indexes that the options ask for; its partitions.

    Raises:
        InvalidRequestError: the table has one.
        WriteConflictError: a write is pending, whose files it would not list.

    Cost: the table lock; a listing of the table; `initialize_partitions`.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        if has_metadata_table(table):
            raise InvalidRequestError("the table has a metadata table: init_metadata_table builds it again")
        _check_no_writes(table)
        table = settle_metadata_table(
            call.source_of(table),
            True,
            lock.check_held,
            indexes=asked_indexes(call.config.metadata_table, call.config.record_index),
        )
    return table.config.metadata_partitions


def remove_metadata_table(call: ServiceCall) -> None:
    """Drop the metadata table, if there is one: reads and writes list the store then. Cost: the table lock, deletes.

    Raises `WriteConflictError` while a write is pending.
    """
    check_writable(call.table)
    with table_lock(call.table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        _check_no_writes(table)
        lock.check_held()
        drop_metadata_table(table)


def _check_no_writes(table: TableState) -> None:
    check_nothing_exclusive(table.timeline, Own.ARCHIVING)
    if table.timeline.pending_writes:
        pending = table.timeline.pending_writes[0].requested_time
        raise WriteConflictError(
            "a write is running, whose part of the metadata table would be lost: try again when it has ended, or "
            "call recovery.roll_back_failed_writes() if its process died",
            instant=pending,
        )
