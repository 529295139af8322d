"""The comparison of `column_stats` with the footers of the base files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.records import conformed
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, KEY
from pyhudi.metadata_table.file_ranges import read_file_ranges
from pyhudi.metadata_table.lookup import records_with_keys
from pyhudi.metadata_table.partitions.column_stats import column_stats_records, columns_with_statistics, live_paths
from pyhudi.metadata_table.state import MetadataState
from pyhudi.table.index_definitions import COLUMN_STATS
from pyhudi.table.schema import load_table_schema

_FILES_AT_ONCE: Final = 1024
_BOUNDS: Final = ("minValue", "maxValue")
_COUNTS: Final = ("valueCount", "nullCount")


def statistics_differences(state: MetadataState) -> Iterator[dict[str, Any]]:
    """Where statistics of base files differ from their footers: rows with problem, path and detail.

    Statistics that are missing count; those of files that are gone do no harm, and do not. Cost: a footer per base
    file, and all of `column_stats`.
    """
    table = state.table
    schema = load_table_schema(table)
    if COLUMN_STATS not in table.config.metadata_partitions or schema is None:
        return
    columns = columns_with_statistics(table, schema)
    paths = [path for path in live_paths(table) if path.endswith(".parquet")]
    for start in range(0, len(paths), _FILES_AT_ONCE):
        for ranges in read_file_ranges(table.storage, None, paths[start : start + _FILES_AT_ONCE], columns):
            if ranges.num_rows:
                yield from _compared(state, ranges)


def _compared(state: MetadataState, ranges: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    expected = conformed(column_stats_records(state.table.version, ranges), COLUMN_STATS_COLUMN)
    keys = expected.column(KEY)
    stored = records_with_keys(state, COLUMN_STATS, COLUMN_STATS_COLUMN, keys).combine_chunks()
    place = pc.index_in(keys, stored.column(KEY).combine_chunks())
    found = stored.column(COLUMN_STATS_COLUMN).combine_chunks().take(place)
    is_there = pc.is_valid(place).to_numpy(zero_copy_only=False)
    footers = expected.column(COLUMN_STATS_COLUMN)
    agrees = np.ones(len(keys), np.bool_)
    for name in _BOUNDS:
        agrees &= equal_values(footers.field(name), found.field(name))
    agrees |= without_values(footers)
    for name in _COUNTS:
        agrees &= equal_values(footers.field(name), found.field(name))
    agrees |= without_bounds(footers.field("maxValue"))
    for row in np.flatnonzero(~is_there | ~agrees).tolist():
        partition, name, column = (ranges.column(part)[row].as_py() for part in ("partition_path", "file", "column"))
        problem = "other statistics" if is_there[row] else "without statistics"
        yield {"problem": problem, "path": f"{partition}/{name}" if partition else name, "detail": f"column {column}"}


def without_values(statistics: pa.StructArray) -> npt.NDArray[np.bool_]:
    """Whether all values are null: any bounds are right then, and JVM Hudi stores 0 for some columns."""
    same = pc.equal(statistics.field("valueCount"), statistics.field("nullCount"))
    return np.asarray(pc.fill_null(same, False), dtype=np.bool_)


def without_bounds(largest: pa.StructArray) -> npt.NDArray[np.bool_]:
    """Whether a footer knows no bounds, as of columns with NaN, of which whoever wrote the file may know them."""
    found = np.zeros(len(largest), np.bool_)
    for name in ("FloatWrapper", "DoubleWrapper"):
        values = pc.struct_field(largest, [name, "value"])
        found |= pc.fill_null(pc.equal(values, float("inf")), False).to_numpy(zero_copy_only=False)
    return found


def equal_values(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    """Whether values are equal, null like null, and NaN like NaN."""
    if pa.types.is_struct(one.type):
        agrees = np.ones(len(one), np.bool_)
        for child, counterpart in zip(one.flatten(), other.flatten(), strict=True):
            if not pa.types.is_list(child.type):  # statistics of Hudi are never lists
                agrees &= equal_values(child, counterpart)
        return agrees
    same = pc.fill_null(pc.equal(one, other), False)
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
    both_null = pc.and_(pc.is_null(one), pc.is_null(other))
    return np.asarray(pc.or_(same, both_null), dtype=np.bool_)
