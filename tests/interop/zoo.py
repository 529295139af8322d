"""Every column type that Hudi can hold, with nulls, extremes and nesting."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

_STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])


def zoo(*, shorts: bool = True) -> pa.Table:
    """Four rows: usual values, extremes, empty values, nulls. Keys `k0` to `k3`, ordering column `ts`.

    List elements are never null: no JVM Hudi can rewrite a file that holds such a list. `shorts=False` leaves the
    16-bit column out: no JVM Hudi can read a table to which it bulk-inserted one.
    """
    utc = dt.UTC
    columns = {
        "id": pa.array([f"k{i}" for i in range(4)]),
        "ts": pa.array([1, 2, 3, 4], pa.int64()),
        "flag": pa.array([True, False, False, None]),
        "small": pa.array([1, -(2**15), 0, None], pa.int16()),
        "whole": pa.array([1, -(2**31), 0, None], pa.int32()),
        "long": pa.array([1, 2**63 - 1, -(2**63), None], pa.int64()),
        "single": pa.array([1.5, 3.4028234663852886e38, -0.0, None], pa.float32()),
        "double": pa.array([0.1, float("nan"), float("-inf"), None], pa.float64()),
        "text": pa.array(["a", "Zürich 😀\n\t\0'\"\\", "", None]),
        "raw": pa.array([b"a", bytes(range(256)), b"", None]),
        "day": pa.array([dt.date(2024, 2, 29), dt.date(9999, 12, 31), dt.date(1600, 1, 1), None]),
        "moment": pa.array(
            [
                dt.datetime(2024, 2, 29, 1, 2, 3, 456789, utc),
                dt.datetime(2262, 4, 12, tzinfo=utc),
                dt.datetime(1969, 12, 31, 23, 59, 59, 999999, utc),
                None,
            ],
            pa.timestamp("us", "UTC"),
        ),
        "wide_decimal": pa.array(
            [Decimal("1.00000"), Decimal("-" + "9" * 20 + ".99999"), Decimal("0.00000"), None], pa.decimal128(25, 5)
        ),
        "money": pa.array([Decimal("1.10"), Decimal("-99999999.99"), Decimal("0.00"), None], pa.decimal128(10, 2)),
        "list": pa.array([[1, 2], list(range(50)), [], None], pa.list_(pa.int32())),
        "structs": pa.array(
            [[{"a": 1, "b": "x"}], [{"a": None, "b": None}, {"a": 2, "b": ""}], [], None], pa.list_(_STRUCT)
        ),
        "lists": pa.array([[["a"], []], [["b", "c"]], [], None], pa.list_(pa.list_(pa.string()))),
        "map": pa.array([[("k", 1), ("l", None)], [("", 2)], [], None], pa.map_(pa.string(), pa.int64())),
        "map_of_structs": pa.array(
            [[("k", {"a": 1, "b": "x"})], [("l", None)], [], None], pa.map_(pa.string(), _STRUCT)
        ),
        "nested": pa.array(
            [
                {"a": 1, "deep": {"tags": ["x"], "d": Decimal("1.50000"), "on": dt.date(2020, 1, 1)}},
                {"a": None, "deep": {"tags": [], "d": None, "on": None}},
                {"a": 2, "deep": None},
                None,
            ],
            pa.struct(
                [
                    ("a", pa.int32()),
                    (
                        "deep",
                        pa.struct([("tags", pa.list_(pa.string())), ("d", pa.decimal128(25, 5)), ("on", pa.date32())]),
                    ),
                ]
            ),
        ),
    }
    if not shorts:
        del columns["small"]
    return pa.table(columns)


def new_version(table: pa.Table, row: int) -> pa.Table:
    """One row again, with a greater ordering value."""
    chosen = table.slice(row, 1)
    position = chosen.column_names.index("ts")
    return chosen.set_column(position, "ts", pa.array([100], pa.int64()))


VERSIONS = [
    pytest.param(6, id="v6"),
    pytest.param(8, id="v8"),
    pytest.param(9, id="v9", marks=pytest.mark.quick),
]


STORED_TYPES = {"small": pa.int32()}
"""Avro has no 16-bit integers: what Hudi stores of them, and gives back, are 32-bit ones."""


def stored(table: pa.Table) -> pa.Table:
    """The rows with the types that Hudi keeps."""
    fields = [field.with_type(STORED_TYPES.get(field.name, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def jvm_options(operation: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "zoo",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": operation,
    }
