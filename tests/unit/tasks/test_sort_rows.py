"""Sorting by runs: any rows, any columns, whatever fits into memory."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError
from pyhudi.tasks import sort_rows
from pyhudi.tasks.sort_rows import SortOrder, check_sort_columns, sorted_rows

SCHEMA = pa.schema([("a", pa.float64()), ("b", pa.string()), ("n", pa.int64())])
FLOATS = st.none() | st.sampled_from([math.nan, -0.0, 0.0, -1.5, math.inf, -math.inf]) | st.floats(width=32)
ROWS = st.lists(st.tuples(FLOATS, st.none() | st.text("ab", max_size=2)), max_size=60)


@pytest.fixture(autouse=True)
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_rows, "RUN_BYTES", 400)
    monkeypatch.setattr(sort_rows, "HEAD_BYTES", 60)


def rank(value: Any) -> tuple[int, Any]:
    """Nulls first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def ordered(batches: list[pa.RecordBatch], *columns: str) -> list[dict[str, Any]]:
    found = sorted_rows(iter(batches), SortOrder(columns), stored_bytes=1, spill_folder=None)
    return [row for batch in found for row in batch.to_pylist()]


@settings(max_examples=60, deadline=None)
@given(batches=st.lists(ROWS, max_size=6), columns=st.sampled_from([("a",), ("b",), ("a", "b"), ("b", "a", "n")]))
def test_rows_of_many_runs_come_in_order_and_are_all_there(batches: list[Any], columns: tuple[str, ...]) -> None:
    numbered = [
        pa.RecordBatch.from_pylist([{"a": a, "b": b, "n": 100 * m + n} for n, (a, b) in enumerate(batch)], SCHEMA)
        for m, batch in enumerate(batches)
    ]

    found = ordered(numbered, *columns)

    ranks = [[rank(row[name]) for name in columns] for row in found]
    assert ranks == sorted(ranks)
    given_rows = [row for batch in numbered for row in batch.to_pylist()]
    assert sorted(map(repr, found)) == sorted(map(repr, given_rows))


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        pytest.param(pa.int32(), [None, -5, 0, 7], id="integers"),
        pytest.param(pa.bool_(), [None, False, True], id="booleans"),
        pytest.param(pa.decimal128(10, 2), [None, Decimal("-1.00"), Decimal("1.00"), Decimal("100.00")], id="decimals"),
        pytest.param(pa.date32(), [None, date(1969, 1, 1), date(2024, 1, 1)], id="dates"),
        pytest.param(pa.binary(), [None, b"", b"\x00", b"\xff"], id="bytes"),
        pytest.param(pa.string(), [None, "", "B", "a", "ä"], id="texts"),
        pytest.param(pa.float32(), [None, -math.inf, -1.5, 0.0, 2.0, math.nan], id="floats"),
    ],
)
def test_every_type_is_sorted_by_value_with_nulls_first(kind: pa.DataType, values: list[Any]) -> None:
    backwards = [pa.RecordBatch.from_arrays([pa.array([value], kind)], ["v"]) for value in reversed(values)]
    assert repr([row["v"] for row in ordered(backwards * 9, "v")]) == repr([v for v in values for _ in range(9)])


def test_a_field_of_a_struct_sorts_its_rows() -> None:
    kind = pa.struct([("city", pa.string())])
    batch = pa.RecordBatch.from_arrays([pa.array([{"city": "b"}, None, {"city": "a"}], kind)], ["at"])
    assert ordered([batch], "at.city") == [{"at": None}, {"at": {"city": "a"}}, {"at": {"city": "b"}}]


@pytest.mark.parametrize("name", ["nothing", "at.nothing", "b.city", "at", "tags"])
def test_column_that_has_no_order_is_refused(name: str) -> None:
    nested = [("at", pa.struct([("city", pa.string())])), ("tags", pa.list_(pa.string()))]
    with pytest.raises(ConfigError, match=name):
        check_sort_columns(pa.schema([*SCHEMA, *nested]), SortOrder((name,)))


def test_mistyped_column_is_told_the_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fare'"):
        check_sort_columns(pa.schema([("fare", pa.int64())]), SortOrder(("fair",)))
