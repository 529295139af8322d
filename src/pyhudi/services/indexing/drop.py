"""Dropping an index: its partition of the metadata table, its definition, and a build of it that has not ended."""

from __future__ import annotations

from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.index_plans import delete_plan, load_plan
from pyhudi.services.call import ServiceCall
from pyhudi.services.indexing.running import fence_of, is_being_built
from pyhudi.table.features import check_writable
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS, load_index_definitions, put_index_definitions
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX
from pyhudi.table.metadata_table import drop_partitions
from pyhudi.table.state import TableState
from pyhudi.transaction.conflicts.check import check_nothing_exclusive, naming
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.plan_fencing import forget_runs

_SECONDARY = "secondary_index_"


def drop_index(call: ServiceCall, partition: str, *, keeps_definition: bool = False) -> None:
    """Take an index out of the table, as JVM Hudi's DROP INDEX does: nothing of it goes on the timeline.

    The properties stop naming it first, so that readers ignore what is deleted after that; a call that died is
    completed by the next one. Raises `InvalidRequestError` where there is no such index, or another one needs it, and
    `WriteConflictError` while another process builds it, or the table is restored. Cost: two or three reads and puts, a
    delete of the folder, and the table lock.
    """
    check_writable(call.reloaded().table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock, naming(storage):
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.INDEX_CHANGE)
        if is_being_built(storage, partition, call.settings.heartbeat, call.environment):
            raise WriteConflictError("another process is building this index", index=partition)
        _check_there(table, partition)
        if not keeps_definition:
            _check_not_needed(table, partition)
        lock.check_held()
        drop_partitions(table, (partition,))
        definitions = load_index_definitions(table)
        if partition in definitions and not keeps_definition:
            put_index_definitions(table, (one for name, one in definitions.items() if name != partition))
        delete_plan(storage, partition)
        forget_runs(storage, fence_of(partition))


def _check_not_needed(table: TableState, partition: str) -> None:
    present = table.config.metadata_partitions
    needing = [name for name in present if name.startswith(_SECONDARY)]
    if partition == RECORD_INDEX and needing:
        raise InvalidRequestError("secondary indexes need the record index: drop them first", indexes=needing)
    if partition == COLUMN_STATS and PARTITION_STATS in present:
        raise InvalidRequestError("statistics of partitions need those of files: drop partition_stats first")


def _check_there(table: TableState, partition: str) -> None:
    if partition == FILES:
        raise InvalidRequestError(
            "without `files` there is no metadata table: drop all of it by a write with hoodie.metadata.enable=false"
        )
    present, storage = table.config.metadata_partitions, table.storage
    is_there = (
        partition in present
        or partition in load_index_definitions(table)
        or load_plan(storage, partition) is not None
        or bool(storage.list_names(partition_folder(partition)))
    )
    if not is_there:
        raise InvalidRequestError("the table has no such index", index=partition, indexes=sorted(present))
