"""Ranges of the columns of written files: of base files, with and without statistics, and of rows."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.metadata_table.ranges import ranges_batch
from pyhudi.io.column_ranges import RangesOfRows, ranges_of_footer
from pyhudi.io.row_groups import RowGroupWriter

_NAN = float("nan")


def _written(*groups: list[float | None]) -> tuple[float, float, int, int]:
    """The range of a column that our own writer wrote in row groups: bounds, values, nulls."""
    schema = pa.schema([("x", pa.float64())])
    sink = pa.BufferOutputStream()
    writer = RowGroupWriter(sink, schema, codec="snappy", page_size=1024)
    for values in groups:
        writer.write(pa.table({"x": pa.array(values, pa.float64(), from_pandas=False)}))
    footer = writer.close({})
    (found,) = ranges_of_footer(footer, ["x"], unlisted=writer.unlisted)
    assert not found.is_open
    return found.low, found.high, found.values, found.nulls or 0


def test_a_nan_is_the_greatest_number_and_the_others_keep_their_lower_bound() -> None:
    low, high, values, nulls = _written([1.0, 5.0, None], [-3.0, _NAN, None], [7.0])
    assert (low, values, nulls) == (-3.0, 7, 2)
    assert math.isnan(high)


def test_a_column_of_nan_has_no_lower_bound() -> None:
    low, high, values, nulls = _written([_NAN, None])
    assert math.isnan(low)
    assert math.isnan(high)
    assert (values, nulls) == (2, 1)


def test_row_groups_without_nan_are_bounded_by_their_statistics() -> None:
    assert _written([2.0, 1.0], [None, 9.0]) == (1.0, 9.0, 4, 1)


def test_bounds_that_the_footer_leaves_out_are_the_widest() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"t": ["x" * 5000, "a"], "n": [1, 2]}), sink, write_statistics=["t"])
    ranges = ranges_of_footer(pq.ParquetFile(sink.getvalue()).metadata, ["t", "n", "not there"])
    text, number = ranges_batch({("", "f"): ranges}).to_pylist()
    assert text["low"]["StringWrapper"] == ""
    assert text["high"]["StringWrapper"] > "\U0010ffff"
    assert (text["values"], text["nulls"]) == (2, 0)
    assert (number["low"]["LongWrapper"], number["high"]["LongWrapper"]) == (-(2**63), 2**63 - 1)
    assert (number["values"], number["nulls"]) == (2, 1), "neither none nor all may be taken for null"


def test_the_blocks_of_a_log_have_one_range() -> None:
    ranges = RangesOfRows(["a", "b", "s.x", "list"])
    for low in (5, 1, 3):
        rows = {
            "a": pa.array([low, low + 1], pa.int32()),
            "b": pa.array([None, None], pa.string()),
            "s": [{"x": low}, {"x": None}],
            "list": [[1], [2]],
        }
        ranges.add(pa.table(rows))
    found = {one.column: (one.low, one.high, one.values, one.nulls) for one in ranges.ranges()}
    assert found == {"a": (1, 6, 6, 0), "b": (None, None, 6, 6), "s.x": (1, 5, 6, 3)}
