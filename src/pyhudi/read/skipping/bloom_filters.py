"""Skipping of file slices by the bloom filters in the metadata table, for conditions that fix the record key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, NotFoundError, UnsupportedFeatureError
from pyhudi.format.bloom import BLOOM_FILTER_KEY, BLOOM_FILTER_KIND_KEY, BloomFilterType, parse_bloom_filter
from pyhudi.metadata_table.partitions.bloom_filters import FilterReader
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.column_statistics import FILES_MIN, IndexUse
from pyhudi.read.skipping.comparisons import Alternatives
from pyhudi.read.skipping.metadata_read import MetadataOfRead, note_if_invalid, unreadable
from pyhudi.read.skipping.record_index import fixed_keys, key_columns
from pyhudi.table.metadata_partitions import BLOOM_FILTERS
from pyhudi.table.state import TableState

_SLICES_MAX: Final = 1000
"""Of more slices the filters, of 430 KB each, are not read."""
_AT_ONCE: Final = 100


def skip_by_bloom_filters(
    table: TableState, plan: ScanPlan, asked: Alternatives | None, metadata: MetadataOfRead
) -> tuple[ScanPlan, IndexUse | None]:
    """The plan without the file slices whose filters exclude the keys of a condition, and what was done.

    Slices with logs stay: the filter of a base file does not have the keys in logs. Nothing is said where the table
    has no filters in its metadata table, or the condition does not fix the record key. Cost: that of `metadata`;
    of the filters the logs, and the blocks with those of the plan, 430 KB each. Memory: `_AT_ONCE` filters.
    """
    if BLOOM_FILTERS not in table.config.metadata_partitions:
        return plan, None
    keys = fixed_keys(table, plan.schema, asked)
    candidates = [
        file_slice for file_slice in plan.slices if file_slice.files.base is not None and not file_slice.files.logs
    ]
    if keys is None or len(candidates) < FILES_MIN:
        return plan, None
    columns = key_columns(table)
    if len(candidates) > _SLICES_MAX:
        note = f"more than {_SLICES_MAX} files are left, whose filters are not read"
        return plan, IndexUse(BLOOM_FILTERS, columns=columns, note=note)
    left_out: set[str] = set()
    try:
        if (why := note_if_invalid(metadata)) is not None:
            return plan, IndexUse(BLOOM_FILTERS, columns=columns, note=why)
        reader = FilterReader(metadata.state.slices(BLOOM_FILTERS))
        for start in range(0, len(candidates), _AT_ONCE):
            paths = base_paths(candidates[start : start + _AT_ONCE])
            left_out |= without_keys(reader.find(table.storage, paths), keys)
    except (CorruptDataError, NotFoundError, UnsupportedFeatureError) as error:
        return plan, IndexUse(BLOOM_FILTERS, columns=columns, note=unreadable(metadata, BLOOM_FILTERS, error))
    kept = tuple(
        file_slice for file_slice in plan.slices if file_slice.files.logs or file_slice.files.base not in left_out
    )
    return replace(plan, slices=kept), IndexUse(BLOOM_FILTERS, len(plan.slices) - len(kept), columns)


def base_paths(slices: Sequence[ScanSlice]) -> list[str]:
    """The paths of the base files of slices."""
    return [file_slice.files.base for file_slice in slices if file_slice.files.base is not None]


def without_keys(footers: Mapping[str, Mapping[str, str]], keys: pa.Array) -> set[str]:
    """The paths of those files whose filters exclude all keys."""
    found = set()
    for path, footer in footers.items():
        kind = BloomFilterType.from_footer(footer.get(BLOOM_FILTER_KIND_KEY), path=path)
        if not parse_bloom_filter(footer[BLOOM_FILTER_KEY], kind, path=path).might_contain(keys).any():
            found.add(path)
    return found
