"""The indexes that the options of a write ask for, as partitions of the metadata table."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.config.options_metadata_table import MetadataTableOptions, RecordIndexOptions
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.metadata_table.partitions.bloom_filters import BloomFiltersPartition
from pyhudi.metadata_table.partitions.column_stats import ColumnStatsPartition
from pyhudi.metadata_table.partitions.partition_stats import PartitionStatsPartition
from pyhudi.metadata_table.partitions.protocol import MetadataPartition
from pyhudi.metadata_table.partitions.record_index import GroupSizing, RecordIndexPartition
from pyhudi.metadata_table.partitions.record_index_by_partition import RecordIndexByPartition
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS
from pyhudi.table.metadata_partitions import RECORD_INDEX
from pyhudi.table.state import TableState


def asked_indexes(options: MetadataTableOptions, record_index: RecordIndexOptions) -> tuple[MetadataPartition, ...]:
    """The partitions that are to be built where they are not there, in the order in which they are built."""
    if options.enabled is False:
        return ()
    asked: list[MetadataPartition] = []
    if options.column_stats or options.partition_stats:
        asked.append(ColumnStatsPartition(columns=options.indexed_columns, columns_max=options.indexed_columns_max))
    if options.partition_stats:
        asked.append(PartitionStatsPartition())
    if options.bloom_filters:
        asked.append(BloomFiltersPartition(file_groups=options.bloom_file_groups))
    if record_index.enabled and record_index.by_partition:
        raise ConfigError(
            "a table has one record index: of all keys (hoodie.metadata.global.record.level.index.enable), or by "
            "partition (hoodie.metadata.record.level.index.enable)"
        )
    if record_index.by_partition:
        fewest, most = record_index.groups_min_of_partition, record_index.groups_max_of_partition
        asked.append(
            RecordIndexByPartition(sizing=replace(sizing_of(record_index), groups_min=fewest, groups_max=most))
        )
    elif record_index.enabled:
        asked.append(RecordIndexPartition(sizing=sizing_of(record_index)))
    return tuple(asked)


def sizing_of(options: RecordIndexOptions) -> GroupSizing:
    """How many file groups options give a new index over record keys."""
    return GroupSizing(
        groups_min=options.groups_min,
        groups_max=options.groups_max,
        growth=options.growth,
        group_bytes_max=options.group_bytes_max,
    )


def can_be_built(partition: MetadataPartition, table: TableState) -> bool:
    """Whether a table can have a partition of the metadata table.

    Raises `ConfigError` for a column to index that the table does not have.
    """
    if isinstance(partition, ColumnStatsPartition):
        partition.check(table)
    if partition.name == RECORD_INDEX and not table.config.populate_meta_fields:
        raise UnsupportedFeatureError(
            "this table does not keep record keys (hoodie.populate.meta.fields=false), so it can have no index of them",
            path=table.storage.uri,
        )
    if isinstance(partition, RecordIndexByPartition) and not table.version.has_completion_times:
        raise ConfigError("a table of version 6 has no record index by partition: upgrade it first")
    if partition.name != PARTITION_STATS:
        return True
    # A skeleton file says nothing of the columns of its source, so bounds of its partition would leave its rows out.
    is_bootstrapped = bool(table.config.values.get("hoodie.bootstrap.base.path"))
    return bool(table.config.partition_fields) and table.version.has_secondary_indexes and not is_bootstrapped


def has_column_stats(table: TableState) -> bool:
    """Whether the table keeps statistics of files."""
    return COLUMN_STATS in table.config.metadata_partitions
