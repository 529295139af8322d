"""Text and fractions as the dates and decimals that their column is of since; a value that is none is an error."""

from __future__ import annotations

import datetime as dt
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.schema.evolution import align, align_incoming, is_reread_as, reread

MANY = Context(prec=400)
TYPES = [pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal128(38, 38), pa.decimal128(5, 5), pa.decimal128(20, 10)]


def rounded(value: Decimal, kind: pa.DataType) -> Decimal | None:
    """A decimal with as many digits as the type has, rounded half up; None for one that is too large."""
    result = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, MANY)
    return result if abs(result) < Decimal(1).scaleb(kind.precision - kind.scale) else None


def found(values: pa.Array, kind: pa.DataType) -> Any:
    try:
        return reread(values, kind).to_pylist()[0]
    except pa.ArrowInvalid:
        return None


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(TYPES))
def test_any_double_becomes_its_shortest_text_rounded_half_up(value: float, kind: pa.DataType) -> None:
    assert found(pa.array([value]), kind) == rounded(Decimal(repr(value)), kind)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(TYPES))
def test_any_float_becomes_its_shortest_text_rounded_half_up(value: float, kind: pa.DataType) -> None:
    assert found(pa.array([value], pa.float32()), kind) == rounded(Decimal(str(np.float32(value))), kind)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=30))
@example(Decimal("7.2057594037927920E-14"))  # Arrow's round makes another number of it
def test_any_text_of_a_number_becomes_it(value: Decimal) -> None:
    for kind in TYPES:
        assert found(pa.array([str(value)]), kind) == rounded(value, kind)


@given(st.dates())
def test_any_text_of_a_date_becomes_it(day: dt.date) -> None:
    assert reread(pa.array([day.isoformat(), None]), pa.date32()).to_pylist() == [day, None]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((text, pa.date32()) for text in ("abc", "", "2026-02-30", "2026-1-5", " 2026-01-05", "2026-01-05 10:00:00")),
        *((text, pa.decimal128(10, 2)) for text in ("abc", "", "NaN", " 1", "1 ", "1,5", "0x1", "100000000", "1e9")),
        *((number, pa.decimal128(10, 2)) for number in (float("nan"), float("inf"), -float("inf"), 1e8, 99999999.995)),
    ],
)
def test_value_that_is_none_of_the_type_is_refused_by_column(value: object, kind: pa.DataType) -> None:
    rows = pa.table({"c": pa.array([value])})
    with pytest.raises(SchemaMismatchError, match="'c' has a value that does not fit") as caught:
        align(rows, pa.schema([("c", kind)]))
    assert caught.value.context["table_type"] == str(kind)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array(["1.50"]), TYPES[0]),
        (pa.array(["2026-01-05"]).dictionary_encode(), pa.date32()),
        (pa.array([1.5]), TYPES[0]),
        (pa.array([{"x": "1.50"}]), pa.struct([("x", TYPES[0])])),
        (pa.array([["1.50"]]), pa.list_(TYPES[0])),
        (pa.array([[("k", "1.50")]], pa.map_(pa.string(), pa.string())), pa.map_(pa.string(), TYPES[0])),
    ],
    ids=str,
)
def test_rows_of_a_write_do_not_become_dates_or_decimals(values: pa.Array, kind: pa.DataType) -> None:
    rows, schema = pa.table({"C": values}), pa.schema([("c", kind)])
    assert align(rows, schema).schema == schema
    with pytest.raises(SchemaMismatchError, match="does not promote to it") as caught:
        align_incoming(rows, schema)
    assert caught.value.context["column"].startswith("c")


def test_only_text_and_fractions_are_read_again() -> None:
    kinds = [pa.string(), pa.float32(), pa.float64(), pa.int64(), pa.date32(), pa.binary(), pa.bool_(), TYPES[0]]
    assert [kind for kind in kinds if is_reread_as(kind, pa.date32())] == [pa.string()]
    assert [kind for kind in kinds if is_reread_as(kind, TYPES[1])] == [pa.string(), pa.float32(), pa.float64()]
    assert not any(is_reread_as(kind, other) for kind in kinds for other in (pa.string(), pa.int64(), pa.float64()))
