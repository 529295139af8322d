"""Slices whose rows are read in parts: bootstrapped ones, by the row groups that skeleton and source have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.base_file import opened_base_file, row_group_ends
from pyhudi.io.slices.base_rows import DIVIDED_FROM_BYTES, ROWS_PER_PART, row_ranges
from pyhudi.read.conditions import Condition, columns_of
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage

_UNKNOWN_SIZE: Final = 2**62
_EXPANSION: Final = 6
"""About how many times its size a file takes in memory, or less."""


def parts_of(
    storage: Storage, plan: ScanPlan, one: ScanSlice, columns: Sequence[str], condition: Condition | None
) -> list[tuple[int, range | None]]:
    """About how many bytes each part of a slice takes, and its rows; None for all rows.

    Parts whose row groups in the source cannot match the condition are left out. Cost: none for a small slice; else the
    footers of skeleton and source.
    """
    source = one.files.source
    if source is None or one.files.logs:
        return [(_UNKNOWN_SIZE, None)]
    if source.size < DIVIDED_FROM_BYTES:
        return [(source.size * _EXPANSION, None)]
    parts = row_ranges(storage, one.files, columns, ROWS_PER_PART)
    if not parts:
        return [(_UNKNOWN_SIZE, None)]
    size = source.size * _EXPANSION // len(parts)
    return [(size, rows) for rows in _matching(plan, one, parts, condition)]


def _matching(plan: ScanPlan, one: ScanSlice, parts: Sequence[range], condition: Condition | None) -> Sequence[range]:
    """The parts that statistics in the footer of the source do not rule out.

    Those of floating-point columns are not asked: many writers leave NaN out of them.
    """
    source = one.files.source
    assert source is not None
    assert one.files.base is not None
    if condition is None or condition.prunes is None or one.files.names_in_base is not None:
        return parts
    asked = columns_of(condition.whole, plan.schema)
    if any(name in META_COLUMNS or not _is_plain(plan.schema.field(name).type) for name in asked):
        return parts
    storage = open_spec(source.storage)
    with opened_base_file(storage, source.path) as (file, parquet):
        if any(not _has_type(parquet.schema_arrow, plan.schema.field(name)) for name in asked):
            return parts
        fragment = ds.ParquetFileFormat().make_fragment(file)
        kept = {group.id for group in fragment.subset(condition.prunes, plan.schema).row_groups}
        ends = row_group_ends(parquet.metadata)
    begins = (0, *ends[:-1])
    return [rows for rows in parts if any(begins[number] < rows.stop and ends[number] > rows.start for number in kept)]


def _is_plain(kind: pa.DataType) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_boolean)
    return any(is_kind(kind) for is_kind in kinds)


def _has_type(stored: pa.Schema, field: pa.Field) -> bool:
    return field.name in stored.names and bool(stored.field(field.name).type == field.type)
