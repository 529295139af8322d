"""The partitions of the metadata table that this release maintains, as values that do it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.errors import CorruptDataError, InternalError
from pyhudi.format.metadata_table.index_definitions import FIRST_VERSION, IndexDefinition
from pyhudi.metadata_table.partitions.bloom_filters import BloomFiltersPartition
from pyhudi.metadata_table.partitions.column_stats import ColumnStatsPartition
from pyhudi.metadata_table.partitions.expression_index import expression_index_of
from pyhudi.metadata_table.partitions.files import FilesPartition
from pyhudi.metadata_table.partitions.partition_stats import PartitionStatsPartition
from pyhudi.metadata_table.partitions.protocol import MetadataPartition
from pyhudi.metadata_table.partitions.record_index import GroupSizing, RecordIndexPartition
from pyhudi.metadata_table.partitions.record_index_by_partition import PARTITIONED_KEY, RecordIndexByPartition
from pyhudi.metadata_table.partitions.secondary_index import SecondaryIndexPartition
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS, load_index_definitions
from pyhudi.table.metadata_partitions import (
    BLOOM_FILTERS,
    EXPRESSION_INDEX_PREFIX,
    FILES,
    RECORD_INDEX,
    SECONDARY_INDEX_PREFIX,
    is_maintained,
)
from pyhudi.table.state import TableState

PARTITIONS: Final[Mapping[str, MetadataPartition]] = {
    FILES: FilesPartition(),
    COLUMN_STATS: ColumnStatsPartition(),
    PARTITION_STATS: PartitionStatsPartition(),
    BLOOM_FILTERS: BloomFiltersPartition(),
    RECORD_INDEX: RecordIndexPartition(),
}
"""Those that a table has once. Whoever adds one changes its row in `pyhudi.table.metadata_partitions`, too."""


def maintained_partition(name: str, table: TableState) -> MetadataPartition:
    """The value that maintains a partition of this table, for which `is_maintained` holds.

    Indexes of which a table may have several take their definition from the table; they get a branch here.
    """
    if name.startswith(SECONDARY_INDEX_PREFIX):
        return _secondary_index(name, table)
    if name.startswith(EXPRESSION_INDEX_PREFIX):
        definition = load_index_definitions(table).get(name)
        if definition is None:
            raise CorruptDataError("the expression index has no definition: drop it", index=name)
        return expression_index_of(definition, table)
    if name == RECORD_INDEX and is_by_partition(table):
        return RecordIndexByPartition()
    found = PARTITIONS.get(name)
    if found is None:
        raise InternalError("no code maintains this partition of the metadata table", partition=name)
    return found


def is_by_partition(table: TableState) -> bool:
    """Whether the record index of a table is one by partition. Cost: a read of the definitions."""
    definition = load_index_definitions(table).get(RECORD_INDEX)
    return definition is not None and definition.options.get(PARTITIONED_KEY) == "true"


def _secondary_index(name: str, table: TableState) -> SecondaryIndexPartition:
    """Cost: a read of the definitions."""
    definition = load_index_definitions(table).get(name)
    if definition is None or len(definition.source_columns) != 1:
        raise CorruptDataError("the secondary index has no definition: drop it", index=name)
    return secondary_index_of(definition)


def secondary_index_of(definition: IndexDefinition, sizing: GroupSizing | None = None) -> SecondaryIndexPartition:
    """What maintains the secondary index of a definition. `sizing`: for a new one, how many file groups it gets."""
    return SecondaryIndexPartition(
        name=definition.name,
        column=definition.source_columns[0],
        hashes_values=definition.version not in (None, FIRST_VERSION),
        sizing=sizing or GroupSizing(),
    )


def kept_partitions(table: TableState) -> tuple[MetadataPartition, ...]:
    """What maintains the partitions of the table's metadata table, `files` first; empty where it has none."""
    names = [name for name in table.config.metadata_partitions if is_maintained(name)]
    if FILES not in names:
        return ()
    try:
        return tuple(
            maintained_partition(name, table) for name in sorted(names, key=lambda name: (name != FILES, name))
        )
    except CorruptDataError:
        now = table.reload()
        if now.config.metadata_partitions == table.config.metadata_partitions:
            raise
        return kept_partitions(now)  # an index was dropped, and its definition, since the table was loaded
