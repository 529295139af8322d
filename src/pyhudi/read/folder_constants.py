"""Values of partition columns that hold for all rows of a slice, as its folder tells them exactly.

JVM Hudi shows the value of the folder. It is another than that in the file where a record stayed in its folder, by a
global index with `update.partition.path=false`.
"""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from typing import Final

import pyarrow as pa

from pyhudi.format.keys.partition_paths import typed_value
from pyhudi.read.scan import ScanPlan, ScanSlice

_FIRST_DATE: Final = dt.date(1900, 1, 2)
"""Spark moves older dates of files that old versions of it wrote, to a calendar of today."""

Value = str | int | dt.date | None


@lru_cache(maxsize=100_000)
def certain_value(text: str, kind: pa.DataType) -> Value:
    """The value that has this text in a partition path; None if that is not certain."""
    value = typed_value(text, kind)
    plain: Value = None if value is None else value.as_py()
    if isinstance(plain, dt.date):
        return plain if plain.isoformat() == text and plain >= _FIRST_DATE else None
    return plain if str(plain) == text else None


def constants_of(plan: ScanPlan, scan_slice: ScanSlice) -> dict[str, pa.Scalar]:
    """The columns of a slice whose files lack them, or have others, and their values. Null folders tell none."""
    texts = dict(scan_slice.partition_values)
    found = {name: pa.scalar(texts.get(name), pa.string()) for name in plan.path_columns}
    for name in plan.folder_columns:
        text = texts.get(name)
        if name not in found and text is not None:
            kind = plan.schema.field(name).type
            value = certain_value(text, kind)
            if value is not None:
                found[name] = pa.scalar(value, kind)
    return found
