"""Lookup of column and partition statistics: payloads by column, for some partitions of the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.keys import partition_stats_keys, text_id
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN
from pyhudi.metadata_table.file_changes import stored_partition
from pyhudi.metadata_table.lookup import records_with_keys, records_with_prefixes
from pyhudi.metadata_table.state import MetadataState
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS

_PARTITIONS_MAX: Final = 64
"""So many partitions are looked up one by one; of more, all that a column has is read."""


def statistics_of_files(
    state: MetadataState, columns: Sequence[str], partition_paths: Sequence[str], *, partition: str = COLUMN_STATS
) -> dict[str, pa.StructArray]:
    """The statistics of the files of some partitions, and maybe of others, by column.

    `partition`: `column_stats`, or an expression index, whose statistics of partitions are among them.

    Cost: in each file group its logs, and index and wanted blocks of its base file. Raises as `records_with_prefixes`.
    """
    stored = [stored_partition(path) for path in partition_paths]
    ids = [text_id(path) for path in stored] if len(stored) <= _PARTITIONS_MAX else [""]
    prefixes = [text_id(column) + partition for column in columns for partition in ids]
    found = records_with_prefixes(state, partition, COLUMN_STATS_COLUMN, prefixes)
    return _by_column(found, columns)


def statistics_of_partitions(
    state: MetadataState, columns: Sequence[str], partition_paths: Sequence[str]
) -> dict[str, pa.StructArray]:
    """The statistics of some partitions, by column; `fileName` is the path. Cost: see `records_with_keys`."""
    stored = pa.array([stored_partition(path) for path in partition_paths], pa.string())
    keys = [partition_stats_keys(pa.array([column] * len(stored), pa.string()), stored) for column in columns]
    found = records_with_keys(state, PARTITION_STATS, COLUMN_STATS_COLUMN, pa.concat_arrays(keys))
    return _by_column(found, columns)


def _by_column(records: pa.Table, columns: Sequence[str]) -> dict[str, pa.StructArray]:
    payloads = records.column(COLUMN_STATS_COLUMN).combine_chunks()
    names = payloads.field("columnName")
    return {column: payloads.filter(pc.equal(names, column)) for column in columns}
