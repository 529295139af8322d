"""The indexes that the options of a write ask for, as partitions of the metadata table."""

from __future__ import annotations

from pyhudi.config.options_metadata_table import MetadataTableOptions
from pyhudi.metadata_table.column_stats import ColumnStatsPartition
from pyhudi.metadata_table.partition import MetadataPartition
from pyhudi.metadata_table.partition_stats import PartitionStatsPartition
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS
from pyhudi.table.state import TableState


def asked_indexes(options: MetadataTableOptions) -> tuple[MetadataPartition, ...]:
    """The partitions that are to be built where they are not there, in the order in which they are built."""
    if options.enabled is False or not (options.column_stats or options.partition_stats):
        return ()
    columns = ColumnStatsPartition(options.indexed_columns, options.indexed_columns_max)
    return (columns, PartitionStatsPartition()) if options.partition_stats else (columns,)


def can_be_built(partition: MetadataPartition, table: TableState) -> bool:
    """Whether a table can have a partition of the metadata table."""
    if partition.name != PARTITION_STATS:
        return True
    return bool(table.config.partition_fields) and table.version.has_secondary_indexes


def has_column_stats(table: TableState) -> bool:
    """Whether the table keeps statistics of files."""
    return COLUMN_STATS in table.config.metadata_partitions
