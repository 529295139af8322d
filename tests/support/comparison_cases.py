"""Conditions over a table with nulls and NaN, and the ids of the rows that they find, in Arrow and in Spark."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

NOON = dt.datetime(2024, 1, 31, 12)
IN_UTC = NOON.replace(tzinfo=dt.UTC)
DAY = NOON.date()
HOUR, WEEK = dt.timedelta(hours=1), dt.timedelta(days=7)

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "city": pa.array(["oslo", "rome", None, "oslo"]),
        "ts": pa.array([1, 1, 1, 1], pa.int64()),
        "n": pa.array([1, 2, None, 3], pa.int32()),
        "f": pa.array([0.1, math.nan, None, -0.0]),
        "g": pa.array([0.1, math.nan, None, -0.0], pa.float32()),
        "price": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("-0.10")], pa.decimal128(10, 2)),
        "flag": pa.array([True, False, None, True]),
        "day": pa.array([DAY, DAY + WEEK, None, DAY - WEEK]),
        "at": pa.array([IN_UTC, IN_UTC + HOUR, None, IN_UTC - HOUR], pa.timestamp("us", "UTC")),
        "local": pa.array([NOON, NOON + HOUR, None, NOON - HOUR], pa.timestamp("us")),
        "raw": pa.array([b"a", b"b", None, b"\0c"]),
    }
)

#: By column: a value, and the ids of rows with a smaller, the same and a larger one.
ORDERED: dict[str, tuple[Any, list[int], list[int], list[int]]] = {
    "city": ("oslo", [], [1, 4], [2]),
    "n": (2, [1], [2], [4]),
    "f": (0.1, [4], [1], []),
    "g": (0.1, [4], [1], []),
    "price": (Decimal("1.50"), [4], [1], [2]),
    "day": (DAY, [4], [1], [2]),
    "at": (IN_UTC, [4], [1], [2]),
    "local": (NOON, [4], [1], [2]),
    "raw": (b"a", [4], [1], [2]),
}
WITH_VALUE = [1, 2, 4]


def _ordered(column: str) -> list[tuple[Any, list[int]]]:
    value, less, same, more = ORDERED[column]
    other = sorted(set(WITH_VALUE) - set(same))
    return [
        ([(column, "=", value)], same),
        ([(column, "==", value)], same),
        ([(column, "!=", value)], other),
        ([(column, "<", value)], less),
        ([(column, "<=", value)], sorted(less + same)),
        ([(column, ">", value)], more),
        ([(column, ">=", value)], sorted(more + same)),
        ([(column, "in", [value])], same),
        ([(column, "not in", (value,))], other),
        ([(column, "in", [])], []),
        ([(column, "not in", [])], WITH_VALUE),
    ]


CASES: list[tuple[Any, list[int]]] = [
    *(case for column in ORDERED for case in _ordered(column)),
    ([("flag", "==", True)], [1, 4]),
    ([("flag", "!=", True)], [2]),
    ([("flag", "not in", [False])], [1, 4]),
    ([("f", "in", [math.nan, 0.0])], [2, 4]),
    ([("f", "not in", [math.nan])], [1, 4]),
    ([("f", "==", 0)], [4]),
    ([("g", "in", [0.0, 5.0])], [4]),
    ([("f", ">=", 0.0)], [1, 4]),
    ([("price", "==", 2)], [2]),
    ([("price", "<", 2)], [1, 4]),
    ([("price", "in", [2, 7])], [2]),
    ([("price", "not in", [2])], [1, 4]),
    ([("f", "in", [0.0, *map(float, range(1, 20))])], [4]),
    ([("city", "not in", ["rome"]), ("n", ">", 1)], [4]),
    ((("city", "==", "rome"),), [2]),
    ([[("city", "==", "rome")], [("n", "==", 1), ("flag", "==", True)]], [1, 2]),
]

REFUSED: list[Any] = [
    [("city", "==", None)],
    [("city", "!=", None)],
    [("city", "in", ["oslo", None])],
    [("city", "not in", [None])],
    [("f", "==", math.nan)],
    [("f", ">", math.nan)],
    [("city", "in", "oslo")],
    [("city", "~", "oslo")],
    [("city", "==")],
    [("nowhere", "==", 1)],
    [("n", "==", "1")],
    [("n", "in", ["1"])],
    [("city", "==", 1)],
    [("at", "==", NOON)],
    [("at", "in", [NOON])],
    [("local", "in", [IN_UTC])],
    [("day", "==", NOON)],
    [("at", "==", DAY)],
    [],
    [[]],
    ["city"],
]
