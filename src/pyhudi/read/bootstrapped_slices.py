"""Slices whose rows are read in parts: bootstrapped ones, by the row groups that skeleton and source have in common."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pyhudi.io.base_file import opened_base_file, row_group_ends
from pyhudi.io.slices.base_rows import DIVIDED_FROM_BYTES, ROWS_PER_PART, row_ranges
from pyhudi.read.conditions import Condition, columns_of
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage


def parts_of(
    storage: Storage, plan: ScanPlan, one: ScanSlice, columns: Sequence[str], condition: Condition | None
) -> Sequence[range | None]:
    """The rows of each part of a slice; None for all rows.

    Parts whose row groups in the source cannot match the condition are left out. Cost: none for a small slice; else the
    footers of skeleton and source.
    """
    source = one.files.source
    if source is None or one.files.logs or source.size < DIVIDED_FROM_BYTES:
        return (None,)
    parts = row_ranges(storage, one.files, columns, ROWS_PER_PART)
    return _matching(plan, one, parts, condition) if parts else (None,)


def _matching(plan: ScanPlan, one: ScanSlice, parts: Sequence[range], condition: Condition | None) -> Sequence[range]:
    """The parts that statistics in the footer of the source do not rule out.

    Arrow passes over what a footer does not say, and statistics of writers that ordered texts or numbers in another
    way. A column that the source does not have, as it is of the skeleton or of the names of folders, may have any
    value. Statistics of columns with another type than that of the table, and of types whose order writers did not
    always agree about, are not asked.
    """
    import pyarrow.dataset as ds

    source = one.files.source
    assert source is not None
    assert one.files.base is not None
    if condition is None or condition.prunes is None or one.files.names_in_base is not None:
        return parts
    asked = columns_of(condition.prunes, plan.schema)
    storage = open_spec(source.storage)
    with opened_base_file(storage, source.path) as (file, parquet):
        stored = parquet.schema_arrow
        if any(name in stored.names and not _is_ordered(stored.field(name).type, plan, name) for name in asked):
            return parts
        fragment = ds.ParquetFileFormat().make_fragment(file)
        kept = {group.id for group in fragment.subset(condition.prunes, plan.schema).row_groups}
        ends = row_group_ends(parquet.metadata)
    begins = (0, *ends[:-1])
    return [rows for rows in parts if any(begins[number] < rows.stop and ends[number] > rows.start for number in kept)]


def _is_ordered(kind: pa.DataType, plan: ScanPlan, name: str) -> bool:
    """Whether the values of a column are compared by everyone as the table compares them. Of NaN see `Condition`."""
    kinds = (
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_date,
        pa.types.is_boolean,
        pa.types.is_timestamp,
        pa.types.is_floating,
    )
    return bool(kind == plan.schema.field(name).type) and any(is_kind(kind) for is_kind in kinds)
