"""What is believed of column statistics, of which JVM Hudi writes false ones."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyhudi.format.metadata_table.bounds import valid_bounds
from pyhudi.format.metadata_table.ranges import Range, ranges_batch
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, payload_type
from pyhudi.format.metadata_table.statistics import statistics_payloads
from pyhudi.format.metadata_table.value_types import value_kind
from pyhudi.format.timeline.table_version import table_version

BASE, LOG = "f-0_0-1-1_1.parquet", ".f-0_1.log.1_0-1-1"


def _believed(kind: pa.DataType, low: Any, high: Any, *, file: str = BASE, **more: Any) -> tuple[Any, ...]:
    """Bounds, whether there are no nulls, whether there are only nulls, whether there is no row."""
    now = more.pop("now", kind)
    of_partitions = more.pop("of_partitions", False)
    known = value_kind(kind)
    assert known is not None
    one = Range("c", known, low, high, **{"values": 5, "nulls": 0, **more})
    version = payload_type(table_version(9), COLUMN_STATS_COLUMN)
    payloads = statistics_payloads(ranges_batch({("p", file): [one]}), version, is_tight=False)
    found = valid_bounds(payloads, now, of_partitions=of_partitions)
    flags = (bool(found.no_nulls[0]), bool(found.only_nulls[0]), bool(found.is_empty[0]))
    return (found.low[0].as_py(), found.high[0].as_py(), *flags)


def test_zeros_for_bounds_of_numbers_that_are_not_known_are_not_believed() -> None:
    assert _believed(pa.float64(), 0.0, 0.0)[:2] == (None, None)
    assert _believed(pa.float64(), -0.0, 0.0)[:2] == (0.0, 0.0)
    assert _believed(pa.float64(), 0.0, 0.0, file=LOG)[:2] == (0.0, 0.0)
    assert _believed(pa.float32(), 0.0, 1.5)[:2] == (0.0, 1.5)


def test_a_nan_is_no_bound_but_the_lower_bound_beside_it_is_one() -> None:
    assert _believed(pa.float64(), 1.0, float("nan"), file=LOG)[:2] == (1.0, None)


def test_a_nan_is_written_as_infinity_which_no_cache_of_spark_leaves_out() -> None:
    known = value_kind(pa.float32())
    assert known is not None
    version = payload_type(table_version(9), COLUMN_STATS_COLUMN)
    ranges = [Range("a", known, 1.0, float("nan"), 5, 0), Range("b", known, float("nan"), float("nan"), 5, 0)]
    written = statistics_payloads(ranges_batch({("p", BASE): ranges}), version, is_tight=False)
    bounds = [(one["minValue"]["FloatWrapper"], one["maxValue"]["FloatWrapper"]) for one in written.to_pylist()]
    assert bounds == [({"value": 1.0}, {"value": float("inf")}), ({"value": float("inf")},) * 2]


def test_text_without_bounds_is_null_only_where_no_long_text_can_be_there() -> None:
    nothing = {"values": 5, "nulls": 5}
    assert _believed(pa.string(), None, None, uncompressed_size=40, **nothing)[3]
    assert not _believed(pa.string(), None, None, uncompressed_size=6000, **nothing)[3]
    assert _believed(pa.string(), None, None, file=LOG, **nothing)[3]
    assert _believed(pa.int32(), None, None, uncompressed_size=6000, **nothing)[3]


def test_bounds_of_zero_of_a_file_with_only_nulls_are_not_believed() -> None:
    assert _believed(pa.int32(), 0, 0, nulls=5) == (None, None, False, False, False)


def test_bounds_in_another_order_than_that_of_bytes_are_not_believed() -> None:
    assert _believed(pa.string(), "\U00010000", "\ue000", file=LOG)[:2] == (None, None)
    assert _believed(pa.string(), "\ue000", "\U00010000", file=LOG)[:2] == ("\ue000", "\U00010000")
    assert _believed(pa.string(), "\U00010000", "\ue000")[:2] == ("\U00010000", "\ue000")
    assert _believed(pa.binary(), b"\xff", b"a", file=LOG)[:2] == (None, None)
    assert _believed(pa.binary(), b"a", b"\xff")[:2] == (b"a", b"\xff")


@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.binary()])
def test_bounds_of_partitions_that_may_lack_a_file_are_not_believed(kind: pa.DataType) -> None:
    low = {pa.float64(): 1.0, pa.string(): "a", pa.binary(): b"a"}[kind]
    assert _believed(kind, low, low, of_partitions=True)[:2] == (None, None)
    assert _believed(pa.int64(), 1, 2, of_partitions=True)[:2] == (1, 2)


def test_a_log_with_deletes_alone_has_no_row() -> None:
    assert _believed(pa.int32(), None, None, file=LOG, values=0)[4]
    assert not _believed(pa.int32(), None, None, values=0)[4]


def test_bounds_hold_for_a_wider_type_and_not_for_text() -> None:
    assert _believed(pa.int32(), 9, 10, now=pa.int64())[:2] == (9, 10)
    assert _believed(pa.int64(), 2**53 + 1, 2**53 + 1, now=pa.float64())[:2] == (2.0**53, 2.0**53)
    assert _believed(pa.int32(), 9, 10, now=pa.string())[:2] == (None, None)
    assert _believed(pa.int64(), 2**40, 2**40, now=pa.int32())[:2] == (None, None)
    assert _believed(pa.date32(), 9, 10, now=pa.timestamp("us"))[:2] == (None, None)
