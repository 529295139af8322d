"""Dropping an index: its partition of the metadata table, its definition, and a build of it that has not ended."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.index_plans import delete_plan, load_plan, pending_plans
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.definitions import fence_of, is_being_built
from pyhudi.storage.naming import naming
from pyhudi.table.features import check_writable
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS, load_index_definitions, put_index_definitions
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, drop_partitions
from pyhudi.table.state import TableState
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.plan_fencing import forget_runs


def drop_index(call: ServiceCall, partition: str, *, keeps_definition: bool = False) -> None:
    """Take an index out of the table, as JVM Hudi's DROP INDEX does: nothing of it goes on the timeline.

    The properties stop naming it first, so that readers ignore what is deleted after that; a call that died is
    completed by the next one. Indexes that need it go with it, but for their definitions, with which they can be
    built again. Raises `InvalidRequestError` where there is no such index, and `WriteConflictError` while another
    process builds one of them, or the table is restored. Of what refuses a write, indexes do not refuse this one: it is
    the remedy. Cost: two or three reads and puts, a delete of each folder, and the table lock; for an index that others
    may need two listings.
    """
    check_writable(_without_indexes(call.reloaded().table))
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock, naming(storage):
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.INDEX_CHANGE)
        _check_there(table, partition)
        # The one that was asked for goes last: as long as something of it is there, it can be asked for again.
        gone = (*(() if keeps_definition else _needing(table, partition)), partition)
        for index in gone:
            if is_being_built(storage, index, call.settings.heartbeat, call.environment):
                raise WriteConflictError("another process is building this index", index=index)
        lock.check_held()
        drop_partitions(table, gone)
        definitions = load_index_definitions(table)
        if partition in definitions and not keeps_definition:
            put_index_definitions(table, (definition for name, definition in definitions.items() if name != partition))
        for index in gone:
            delete_plan(storage, index)
            forget_runs(storage, fence_of(index))


def _without_indexes(table: TableState) -> TableState:
    """The table as its checks see it where no index is in the way."""
    config = replace(table.config, metadata_partitions=(), metadata_partitions_inflight=())
    return TableState(table.storage, config, table.timeline)


def _needing(table: TableState, partition: str) -> tuple[str, ...]:
    """The indexes that cannot be without this one: a secondary index finds record keys, and the record index files.

    Also builds of them that have not ended, and what a drop that died has left of them.
    """
    if partition not in (RECORD_INDEX, COLUMN_STATS):
        return ()
    config, storage = table.config, table.storage
    folders = (folder.rpartition("/")[2] for folder in storage.list_folder(METADATA_TABLE_FOLDER).folders)
    plans = (plan.partition for plan in pending_plans(storage))
    present = {*config.metadata_partitions, *config.metadata_partitions_inflight, *folders, *plans}
    if partition == RECORD_INDEX:
        return tuple(sorted(name for name in present if name.startswith(SECONDARY_INDEX_PREFIX)))
    return (PARTITION_STATS,) if PARTITION_STATS in present else ()


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
