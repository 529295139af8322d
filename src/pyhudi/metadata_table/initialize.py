"""Building partitions of the metadata table from the table as it is: the whole of it first, or one more index.

A partition counts from the put of the table's properties on that names it. Before, no reader opens its files, and who
builds it again begins by deleting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pyhudi.config.table_config import TableConfig
from pyhudi.environment import Environment
from pyhudi.format.metadata.commit import WriteStat, encode_commit_metadata
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE, encode_partition_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.format.properties import format_properties, table_checksum
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.metadata_table.delta_commit import CheckHeld, completed_after, delta_commit_metadata
from pyhudi.metadata_table.file_group import GroupTarget, by_file_group, create_group, file_ids, write_base
from pyhudi.metadata_table.folders import PROPERTIES_PATH, inner_version, partition_folder
from pyhudi.metadata_table.index_plans import delete_plan, load_plan
from pyhudi.metadata_table.partitions.protocol import (
    LargePartition,
    MetadataPartition,
    PlacedPartition,
    Source,
)
from pyhudi.storage.protocol import Storage
from pyhudi.table.index_definitions import load_index_definitions, put_index_definitions
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX
from pyhudi.table.metadata_table import PARTITIONS_KEY, drop_metadata_table
from pyhudi.table.state import TableState, update_properties
from pyhudi.table.timeline import Timeline, instant_path, load_timeline

_FIRST_TIME: Final = {True: 0, False: 10}
"""The first instant of a metadata table as a number, by whether its version has completion times."""
_TASK: Final = "0-0-0"
_BY_CLASS = {
    "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
    "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.archivelog.folder": "archived",
}
_BY_TYPE = {
    "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.archivelog.folder": "history",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
}


def initialize_partitions(source: Source, partitions: Sequence[MetadataPartition], check_held: CheckHeld) -> TableState:
    """Build partitions from the completed writes of the table, under the table lock; the table with them.

    `partitions`: `files` alone or first where the table has no metadata table, which is then created. What the folder
    of a partition holds is deleted first. Cost: four puts and those of the files per partition, a put for each file
    group, and what `initial_records` costs; at the end a put of the properties per partition.
    """
    table = source.table
    if FILES not in table.config.metadata_partitions:
        drop_metadata_table(table)
        check_held()
        put_metadata_table_properties(table.storage, table.config)
    for partition in partitions:
        _build(partition, replace(source, table=table), check_held)
        check_held()
        define_as_built(table, partition)
        names = [*table.config.metadata_partitions, partition.name]
        update_properties(table.storage, {PARTITIONS_KEY: ",".join(sorted(set(names)))})
        table = table.reload()
    return table


def define_as_built(table: TableState, partition: MetadataPartition) -> None:
    """Let the definition of an index say which of two kinds was built, under the table lock, before it counts.

    Cost: a read of the definitions; a put where they say otherwise.
    """
    definition = partition.definition if isinstance(partition, PlacedPartition) else None
    definitions = load_index_definitions(table)
    previous = definitions.get(partition.name)
    if definition is not None and previous != definition:
        put_index_definitions(table, {**definitions, partition.name: definition}.values())
    elif definition is None and partition.name == RECORD_INDEX and previous is not None:
        put_index_definitions(table, (index for index in definitions.values() if index.name != RECORD_INDEX))


def _build(partition: MetadataPartition, source: Source, check_held: CheckHeld) -> None:
    table = source.table
    timeline = load_timeline(table.storage, inner_version(table.version))
    check_held()
    table.storage.delete_folder(partition_folder(partition.name))
    built = write_initial_files(partition, source, _own_time(table, partition.name, timeline))
    check_held()
    commit_initial(table, built.target.instant_time, built.stats, source.environment)


def _own_time(table: TableState, partition: str, timeline: Timeline) -> str:
    """The next instant of the metadata table, and not that of a build of the partition which runs without the lock.

    Such a build finds its plan gone, and gives up. What it still writes is older than what is built here.
    """
    plan = load_plan(table.storage, partition)
    if plan is None:
        return next_initial_time(timeline)
    delete_plan(table.storage, partition)
    return f"{max(int(next_initial_time(timeline)), plan.number + 1):017d}"


@dataclass(frozen=True, slots=True)
class InitialFiles:
    """The files of a partition that was built and does not count yet: where they are, and their stats."""

    target: GroupTarget
    stats: tuple[WriteStat, ...]


def write_initial_files(partition: MetadataPartition, source: Source, instant_time: str) -> InitialFiles:
    """Write all files of a partition under an instant of the metadata table that nothing in its folder has.

    Nothing of it counts before `commit_initial`, and the put of the properties that names the partition.
    """
    storage, folder = source.storage, partition_folder(partition.name)
    target = GroupTarget(
        storage=storage.spec,
        partition=partition.name,
        file_ids=partition.initial_file_ids(source)
        if isinstance(partition, PlacedPartition)
        else file_ids(partition.file_id_prefix, partition.new_file_groups(source)),
        instant_time=instant_time,
        version=source.table.version,
        created_ms=source.environment.clock.now_ms(),
    )
    storage.put(f"{folder}/{PARTITION_METADATA_FILE}", encode_partition_metadata(instant_time, 1))
    for group in range(len(target.file_ids)):
        create_group(storage, target, group)
    return InitialFiles(target, tuple(_write(partition, source, target)))


def commit_initial(table: TableState, instant_time: str, stats: Sequence[WriteStat], environment: Environment) -> None:
    """Put the delta commit of the metadata table that names the files of a new partition, under the table lock."""
    storage, version = table.storage, inner_version(table.version)
    timeline = load_timeline(storage, version)
    requested = Instant(InstantTime(instant_time), Action.DELTA_COMMIT, InstantState.REQUESTED)
    inflight = advanced(requested, InstantState.INFLIGHT)
    storage.put(instant_path(requested, version), b"")
    storage.put(instant_path(inflight, version), b"")
    completed = completed_after(inflight, timeline, table, environment)
    metadata = delta_commit_metadata(table.version, WriteOperation.BULK_INSERT_PREPPED, stats)
    storage.put(instant_path(completed, version), encode_commit_metadata(metadata, version))


def _write(partition: MetadataPartition, source: Source, target: GroupTarget) -> list[WriteStat]:
    if isinstance(partition, PlacedPartition) or (isinstance(partition, LargePartition) and source.engine is not None):
        return list(partition.write_initial(source, target))
    batches = [batch for batch in partition.initial_records(source) if batch.num_rows]
    if not batches:
        return []
    records = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    return [
        write_base(source.storage, target, group, part, _TASK)
        for group, part in by_file_group(partition.hashed(records.column(0)), records, len(target.file_ids))
    ]


def next_initial_time(timeline: Timeline) -> InstantTime:
    """The time of the next partition that is built: small numbers of 17 digits, below all times of the clock."""
    first = _FIRST_TIME[timeline.version.has_completion_times]
    taken = [
        int(instant.requested_time) for instant in timeline.instants if instant.requested_time.startswith("0" * 10)
    ]
    return InstantTime(f"{max([first - 1, *taken]) + 1:017d}")


def metadata_table_properties(config: TableConfig) -> dict[str, str]:
    """The properties that JVM Hudi gives the metadata table of a table. It has the version of the table."""
    version, name = TABLE_VERSIONS[config.version.number], f"{config.name}_metadata"
    values = {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": str(version.layout_version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": KEY,
        "hoodie.populate.meta.fields": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.checksum": table_checksum("", name),
    }
    if version.has_generator_types:
        return {**values, **_BY_TYPE, "hoodie.table.initial.version": str(version)}
    return {**values, **_BY_CLASS}


def put_metadata_table_properties(storage: Storage, config: TableConfig) -> None:
    """Put the properties of the metadata table, which makes its folder a table. Cost: one put."""
    data = format_properties(metadata_table_properties(config), comment="Properties of a table made by pyhudi")
    storage.put(PROPERTIES_PATH, data)
