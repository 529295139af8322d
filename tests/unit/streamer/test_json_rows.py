"""JSON objects as Arrow."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pyhudi.errors import SchemaMismatchError
from pyhudi.streamer.sources.apart import UnreadableError
from pyhudi.streamer.sources.json_rows import joined, lines_of, rows_of_json, with_fractions


def values(*objects: Any) -> pa.BinaryArray:
    return pa.array([one if isinstance(one, bytes) else json.dumps(one).encode() for one in objects], pa.binary())


def test_text_that_looks_like_a_time_stays_text():
    found = rows_of_json(values({"at": "2020-01-01T00:00:00Z", "in": {"at": "2020-01-01"}}), None, None)
    assert found.to_pylist() == [{"at": "2020-01-01T00:00:00Z", "in": {"at": "2020-01-01"}}]


def test_text_becomes_a_time_where_the_table_has_one():
    stored = pa.schema([("at", pa.timestamp("us", "UTC"))])
    assert rows_of_json(values({"at": "2020-01-01T00:00:00Z", "x": 1}), None, stored).schema.field("at").type == (
        pa.timestamp("us", "UTC")
    )


def test_column_without_a_value_is_left_to_the_table():
    found = rows_of_json(values({"a": 1, "n": None, "l": [], "s": {"x": None, "y": 2}, "e": {}}), None, None)
    assert found.to_pylist() == [{"a": 1, "s": {"y": 2}}]


def test_nulls_of_a_column_keep_their_places_where_a_part_of_it_is_left_out():
    found = rows_of_json(values({"s": {"x": None, "y": 1}}, {"s": None}, {"s": {"y": 2}}), None, None)
    assert found.to_pylist() == [{"s": {"y": 1}}, {"s": None}, {"s": {"y": 2}}]
    found = rows_of_json(values({"l": [{"x": None, "y": 1}]}, {"l": None}, {"l": [{"y": 2}, {"y": 3}]}), None, None)
    assert found.to_pylist() == [{"l": [{"y": 1}]}, {"l": None}, {"l": [{"y": 2}, {"y": 3}]}]


def test_fraction_in_a_column_of_whole_numbers_is_left_to_the_write():
    found = rows_of_json(values({"a": 1.5}), None, pa.schema([("a", pa.int64())]))
    assert found.schema.field("a").type == pa.float64()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"{", "not a JSON object"),
        (b"", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"a": 1}{"a": 2}', "not JSON"),
        (b'{"a": \xff}', "not UTF-8"),
        (b'{"a": 1,}', "not JSON"),
    ],
)
def test_text_that_is_no_object_is_found_by_its_row(bad: bytes, reason: str):
    with pytest.raises(UnreadableError, match=reason) as raised:
        rows_of_json(values({"a": 1}, {"a": 2}, bad, {"a": 3}), None, None)
    assert raised.value.row == 2


def test_value_that_the_wanted_type_does_not_take_is_found_by_its_row():
    with pytest.raises(UnreadableError) as raised:
        rows_of_json(values({"a": 1}, {"a": "x"}), pa.schema([("a", pa.int64())]), None)
    assert raised.value.row == 1


def test_field_of_two_types_is_found_by_its_row():
    with pytest.raises(UnreadableError, match="changed from number") as raised:
        rows_of_json(values({"a": 1}, {"a": 2}, {"a": {"b": 1}}), None, None)
    assert raised.value.row == 2


def test_values_with_line_ends_are_one_row_each():
    assert rows_of_json(values(b'{\n "a":\n 1}\n', b' {"a": 2}'), None, None).to_pylist() == [{"a": 1}, {"a": 2}]


def test_many_megabytes_are_read_in_pieces():
    text = "x" * 1_000_000
    found = rows_of_json(values(*({"id": number, "text": text} for number in range(150))), None, None)
    assert found["id"].to_pylist() == list(range(150))


def test_types_that_do_not_fit_in_two_pieces_are_refused():
    text = "x" * 1_000_000
    rows = [{"a": 1 if number < 67 else {"b": 1}, "text": text} for number in range(130)]
    with pytest.raises(SchemaMismatchError, match="several types"):
        rows_of_json(values(*rows), None, None)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.text(max_size=5),
    lambda inner: st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3),
    max_leaves=6,
)


@hypothesis_settings(deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=2), _VALUES, min_size=1, max_size=4))
def test_object_comes_back_but_for_what_has_no_type(row: dict[str, Any]):
    def typed(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kept = {name: typed(inner) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner is not None} or None

    expected = typed(row)
    if expected is None:
        with pytest.raises(UnreadableError, match="no field"):
            rows_of_json(values(row), None, None)
    else:
        assert rows_of_json(values(row), None, None).to_pylist() == [expected]


def test_lines_of_a_file_come_whole():
    data = b"\n".join(b"x" * 1000 for _ in range(1000))
    assert b"\n".join(lines_of(io.BytesIO(data))) == data


LARGE = 2**64 - 1


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([LARGE, LARGE - 1, 3], pa.decimal128(20, 0)),
        ([-LARGE, None, 2**53 + 1], pa.decimal128(20, 0)),
        ([10**37 + 1, 1, 2], pa.decimal128(38, 0)),
        ([{"n": LARGE}, {"n": LARGE - 1}, None], pa.struct([("n", pa.decimal128(20, 0))])),
        ([[LARGE], [], [1, LARGE - 1]], pa.list_(pa.decimal128(20, 0))),
        ([2**63 - 1, -(2**63), 0], pa.int64()),
        ([1e20, 1.5, 2.0], pa.float64()),
    ],
    ids=["unsigned", "negative", "38 digits", "in a struct", "in a list", "of 64 bits", "floating point"],
)
def test_whole_numbers_beyond_64_bits_keep_their_digits(column: list[Any], kind: pa.DataType):
    found = rows_of_json(values(*({"id": number, "n": value} for number, value in enumerate(column))), None, None)
    assert found.schema == pa.schema([("id", pa.int64()), ("n", kind)])
    assert found["n"].to_pylist() == column


def test_large_whole_numbers_and_fractions_of_two_tables_are_the_floating_point_of_one():
    chance = random.Random(5)
    large = [chance.randrange(2**63, 10 ** chance.randrange(20, 38)) for _ in range(300)]
    first = [{"x": x, "of": {"x": x}, "all": [x]} for x in large] + [{"x": None, "of": None, "all": None}]
    second = [{"x": 0.5, "of": {"x": 0.5}, "all": [0.5, None]}]
    pieces = [rows_of_json(values(*some), None, None) for some in (first, second)]
    assert pa.types.is_decimal(pieces[0].schema.field("x").type)
    whole = rows_of_json(values(*first, *second), None, None)
    assert joined(pieces, None).equals(whole)
    assert with_fractions(pieces[0].slice(3), whole.schema).to_pylist() == whole.slice(3, len(first) - 3).to_pylist()


def test_column_of_whole_numbers_and_fractions_is_one_of_floating_point():
    found = rows_of_json(values({"n": LARGE, "f": 1e20}, {"n": 0.5, "f": 2.5, "at": "2026-11-22"}), None, None)
    assert found.schema == pa.schema([("n", pa.float64()), ("f", pa.float64()), ("at", pa.string())])
