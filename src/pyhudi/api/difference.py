"""`HudiTable.diff`: the rows that differ between two moments of a table, by record key."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.handle import TableHandle
from pyhudi.api.scan import Scan, scan_of
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.json_rows import JsonForm, rows_as_json
from pyhudi.format.schema.meta_columns import META_COLUMNS, PARTITION_PATH, RECORD_KEY

_KEY = [RECORD_KEY, PARTITION_PATH]
_BEFORE, _AFTER = "row before", "row after"


def difference(handle: TableHandle, begin: str | datetime, end: str | datetime | None) -> pa.Table:
    """The rows that differ between two moments. See `HudiTable.diff`."""
    before, after = (scan_of(handle, None, None, as_of=moment, query_type="snapshot") for moment in (begin, end))
    if not set(_KEY) <= {*before.columns} & {*after.columns} or not handle.state.config.record_key_fields:
        raise UnsupportedFeatureError("rows without stored record keys cannot be compared by key: compare two scans")
    before, after = _without_common_slices(before, after)
    names = [name for name in after.columns if name in before.columns and name not in META_COLUMNS]
    rows_before, rows_after = (_rows(scan, names, after.schema) for scan in (before, after))
    pairs = _pairs(rows_before, rows_after)
    images = [_images(rows, pairs.column(at), names) for rows, at in ((rows_before, _BEFORE), (rows_after, _AFTER))]
    is_new, is_gone = (pc.is_null(pairs.column(at)).combine_chunks() for at in (_BEFORE, _AFTER))
    operation = pc.case_when(pc.make_struct(is_new, is_gone), pa.scalar("i"), pa.scalar("d"), pa.scalar("u"))
    texts = [pc.fill_null(rows_as_json(image, JsonForm.OF_ROW), "") for image in images]
    differs = pc.or_(pc.or_(is_new, is_gone), pc.not_equal(*texts))
    found = pa.table(
        {
            "op": operation,
            "record_key": pairs.column(RECORD_KEY),
            "partition_path": pairs.column(PARTITION_PATH),
            "before": images[0],
            "after": images[1],
        }
    )
    return found.filter(differs).sort_by([("partition_path", "ascending"), ("record_key", "ascending")])


def _without_common_slices(before: Scan, after: Scan) -> tuple[Scan, Scan]:
    """Both scans without the file slices that they share: their rows are the same.

    A log of table version 6 is left in: which of its blocks count depends on the moment, not on its name.
    """
    common = Counter(before._plan.slices) & Counter(after._plan.slices)
    if not before._state.version.has_completion_times:
        common = Counter({file_slice: count for file_slice, count in common.items() if not file_slice.files.logs})
    kept = (
        replace(
            scan,
            _plan=replace(
                scan._plan, slices=tuple(file_slice for file_slice in scan._plan.slices if file_slice not in common)
            ),
        )
        for scan in (before, after)
    )
    first, second = kept
    return first, second


def _rows(scan: Scan, names: list[str], schema: pa.Schema) -> pa.Table:
    """The keys and values of a scan, with the types of `schema`."""
    rows = replace(scan, columns=(*_KEY, *names)).to_arrow()
    return rows.cast(pa.schema([schema.field(name).with_nullable(True) for name in rows.column_names]))


def _pairs(before: pa.Table, after: pa.Table) -> pa.Table:
    """For each key the places of its rows in both tables; null where one does not have it."""
    left, right = (
        rows.select(_KEY).append_column(name, pa.array(np.arange(rows.num_rows)))
        for name, rows in ((_BEFORE, before), (_AFTER, after))
    )
    return left.join(right, _KEY, join_type="full outer").combine_chunks()


def _images(rows: pa.Table, places: pa.ChunkedArray, names: list[str]) -> pa.StructArray:
    """The rows at some places as structs; null for a null."""
    taken = rows.select(names).take(places)
    columns = [column.combine_chunks() for column in taken.columns]
    fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pc.is_null(places).combine_chunks())
