"""The comparison that the golden and interop tests stand on must see every kind of difference, and no other."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows

TABLE = pa.table(
    {
        "id": ["a", "b"],
        "d": pa.array([float("nan"), 0.0]),
        "l": pa.array([[1], None], pa.list_(pa.int32())),
        "m": pa.array([[("x", 1), ("y", 2)], []], pa.map_(pa.string(), pa.int32())),
        "p": pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)),
        "t": pa.array([1, 2], pa.timestamp("us", "UTC")),
    }
)


def with_column(name: str, column: pa.Array) -> pa.Table:
    return TABLE.set_column(TABLE.column_names.index(name), name, column)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(TABLE.take([1, 0]).select(TABLE.column_names[::-1]), id="order of rows and columns"),
        pytest.param(with_column("id", pa.array(["a", "b"]).dictionary_encode()), id="dictionary encoding"),
        pytest.param(with_column("id", pa.array(["a", "b"], pa.large_string())), id="large strings"),
        pytest.param(with_column("l", pa.array([[1], None], pa.large_list(pa.int32()))), id="large lists"),
        pytest.param(with_column("t", pa.array([1000, 2000], pa.timestamp("ns", "UTC"))), id="unit of instants"),
        pytest.param(
            with_column("m", pa.array([[("y", 2), ("x", 1)], []], pa.map_(pa.string(), pa.int32()))), id="order in maps"
        ),
    ],
)
def test_tables_that_mean_the_same_compare_equal(other: pa.Table) -> None:
    assert_same_rows(TABLE, other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(TABLE.slice(1), id="missing row"),
        pytest.param(pa.concat_tables([TABLE, TABLE.slice(0, 1)]), id="row twice"),
        pytest.param(TABLE.drop_columns("l"), id="missing column"),
        pytest.param(TABLE.append_column("new", pa.array([1, 2])), id="column more"),
        pytest.param(with_column("d", pa.array([float("nan"), -0.0])), id="negative zero"),
        pytest.param(with_column("d", pa.array([None, 0.0])), id="null for NaN"),
        pytest.param(with_column("l", pa.array([[1], []], pa.list_(pa.int32()))), id="empty for null"),
        pytest.param(with_column("l", pa.array([[1], None], pa.list_(pa.int64()))), id="type of list elements"),
        pytest.param(with_column("p", pa.array([Decimal("1.10"), None], pa.decimal128(12, 2))), id="decimal precision"),
        pytest.param(with_column("t", pa.array([1, 2], pa.timestamp("us"))), id="instant without zone"),
        pytest.param(with_column("t", pa.array([1, 3], pa.timestamp("us", "UTC"))), id="one microsecond"),
    ],
)
def test_any_other_difference_is_seen(other: pa.Table) -> None:
    with pytest.raises(AssertionError):
        assert_same_rows(TABLE, other)
