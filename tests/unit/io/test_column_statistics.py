"""Statistics of a base file, from footers of pyarrow's and of our own writer."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import CorruptDataError
from pyhudi.io.column_statistics import ColumnStatistics, matching, read_statistics
from pyhudi.io.row_groups import RowGroupWriter
from pyhudi.storage.memory import MemoryStorage


def statistics_of(rows: pa.Table, *, row_group_size: int = 2) -> dict[str, ColumnStatistics]:
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=row_group_size, store_schema=False)
    storage = MemoryStorage()
    storage.put_if_absent("f.parquet", sink.getvalue())
    found = read_statistics(storage, "f.parquet")
    assert found.rows == rows.num_rows
    return {one.column: one for one in found.columns}


VALUES = {
    "flag": (pa.array([True, None, False]), "false", "true"),
    "number": (pa.array([10, None, -9], pa.int32()), "-9", "10"),
    "double": (pa.array([1.5, None, 1e300]), "1.5", "1e+300"),
    "decimal": (pa.array([Decimal("100.00"), None, Decimal("-3.50")], pa.decimal128(30, 2)), "-3.50", "100.00"),
    "tiny": (pa.array([Decimal("0.0000001"), None, Decimal("1")], pa.decimal128(10, 7)), "0.0000001", "1.0000000"),
    "text": (pa.array(["b", None, "ü"]), "b", "ü"),
    "bytes": (pa.array([b"\xff", None, b"\x00a"]), "0061", "ff"),
    "date": (pa.array([dt.date(2020, 1, 2), None, dt.date(1969, 12, 31)]), "1969-12-31", "2020-01-02"),
    "instant": (
        pa.array([1, None, 1_500_000], pa.timestamp("us", "UTC")),
        "1970-01-01T00:00:00.000001+00:00",
        "1970-01-01T00:00:01.500000+00:00",
    ),
    "time": (pa.array([1, None, 2], pa.timestamp("us")), "1970-01-01T00:00:00.000001", "1970-01-01T00:00:00.000002"),
}


@pytest.mark.parametrize("name", VALUES)
def test_bounds_are_those_of_all_row_groups_as_text(name: str) -> None:
    array, low, high = VALUES[name]
    found = statistics_of(pa.table({name: array}))[name]
    assert (found.nulls, found.low, found.high) == (1, low, high)
    assert found.size > 0


def test_row_groups_of_nulls_do_not_hide_the_bounds_of_others() -> None:
    found = statistics_of(pa.table({"n": pa.array([None, None, 5, 7], pa.int64())}))["n"]
    assert (found.nulls, found.low, found.high) == (2, "5", "7")
    assert statistics_of(pa.table({"n": pa.nulls(4, pa.int64())}))["n"] == ColumnStatistics(
        "n", 4, None, None, pytest.approx(0, abs=1000)
    )


def test_one_row_group_without_bounds_leaves_the_file_without() -> None:
    sink, storage = io.BytesIO(), MemoryStorage()
    schema = pa.schema([("f", pa.float64())])
    writer = RowGroupWriter(sink, schema, codec="none", page_size=1 << 20)
    writer.write(pa.table({"f": [1.0, 2.0]}))
    writer.write(pa.table({"f": [float("nan"), 5.0]}))
    writer.close({})
    storage.put_if_absent("f.parquet", sink.getvalue())
    (found,) = read_statistics(storage, "f.parquet").columns
    assert (found.nulls, found.low, found.high) == (None, None, None)


def test_times_that_python_cannot_hold_are_no_bounds() -> None:
    found = statistics_of(pa.table({"t": pa.array([2**62], pa.timestamp("us"))}))["t"]
    assert (found.nulls, found.low, found.high) == (0, None, None)


def test_columns_are_found_by_name_and_by_path() -> None:
    storage, sink = MemoryStorage(), io.BytesIO()
    rows = pa.table({"point": [{"x": 1, "y": 2}], "points": [3], "tags": [["a", None]]})
    pq.write_table(rows, sink, store_schema=False)
    storage.put_if_absent("f.parquet", sink.getvalue())
    statistics = read_statistics(storage, "f.parquet")

    def found(*wanted: str) -> list[str]:
        return [one.column for one in matching(statistics, wanted)]

    assert found("point") == ["point.x", "point.y"]
    assert found("point.y", "tags") == ["point.y", "tags.list.element"]
    assert found("points") == ["points"]
    assert found("poin", "point.z") == []


def test_file_without_a_footer_is_named() -> None:
    storage = MemoryStorage()
    storage.put_if_absent("f.parquet", b"PAR1 no footer")
    with pytest.raises(CorruptDataError) as caught:
        read_statistics(storage, "f.parquet")
    assert caught.value.context["path"] == "f.parquet"
