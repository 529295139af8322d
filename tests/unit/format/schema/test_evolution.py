"""What a write may change in a table's schema, and how rows are brought to it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import SchemaMismatchError
from pyhudi.format.schema.evolution import Missing, align, match_columns, write_schema
from pyhudi.format.schema.meta_columns import with_meta_columns

UTC = pa.timestamp("us", tz="UTC")
LIST = pa.list_(pa.field("element", pa.int32()))


def required(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


def one(data_type: pa.DataType) -> pa.Schema:
    return pa.schema([("c", data_type)])


def nested_in(place: str, fields: list[pa.Field]) -> pa.DataType:
    inner = pa.struct(fields)
    return {
        "struct": inner,
        "list": pa.list_(pa.field("element", inner)),
        "map": pa.map_(pa.string(), pa.field("value", inner)),
    }[place]


places = pytest.mark.parametrize("place", ["struct", "list", "map"])


# --- write_schema ---


def test_first_write_gives_the_rows_canonical_schema() -> None:
    incoming = with_meta_columns(pa.schema([("a", pa.int16()), required("b", pa.large_string())]))
    assert write_schema(None, incoming) == pa.schema([("a", pa.int32()), required("b", pa.string())])


def test_same_columns_in_another_order_change_nothing() -> None:
    table = with_meta_columns(pa.schema([("a", pa.int32()), ("b", pa.string()), ("t", pa.timestamp("ms", "UTC"))]))
    incoming = pa.schema([("t", UTC), ("B", pa.string_view()), ("a", pa.int8())])
    assert write_schema(table, incoming) == pa.schema([*table][5:])


def test_new_nullable_column_goes_to_the_end() -> None:
    table, incoming = pa.schema([("a", pa.int32())]), pa.schema([("z", pa.float16()), ("a", pa.int32())])
    assert write_schema(table, incoming) == pa.schema([("a", pa.int32()), ("z", pa.float32())])


@places
def test_new_nullable_column_goes_to_the_end_of_its_struct(place: str) -> None:
    a, b = pa.field("a", pa.int32()), pa.field("b", pa.int64())
    table, incoming = one(nested_in(place, [a])), one(nested_in(place, [b, a]))
    assert write_schema(table, incoming) == one(nested_in(place, [a, b]))


@places
def test_new_column_that_is_not_nullable_is_refused(place: str) -> None:
    a, b = pa.field("a", pa.int32()), required("b", pa.int64())
    with pytest.raises(SchemaMismatchError, match=r"b.*nullable"):
        write_schema(pa.schema([a]), pa.schema([a, b]))
    with pytest.raises(SchemaMismatchError, match=r"c\..*b.*nullable"):
        write_schema(one(nested_in(place, [a])), one(nested_in(place, [a, b])))


@places
def test_missing_column_is_refused_unless_it_may_be_filled(place: str) -> None:
    a, b = pa.field("a", pa.int32()), pa.field("b", pa.int64())
    for table, incoming, column in [
        (pa.schema([a, b]), pa.schema([a]), "b"),
        (one(nested_in(place, [a, b])), one(nested_in(place, [a])), "b"),
    ]:
        with pytest.raises(SchemaMismatchError, match=r"hoodie\.write\.set\.null\.for\.missing\.columns") as error:
            write_schema(table, incoming)
        assert error.value.context["column"].endswith(column)
        assert write_schema(table, incoming, missing=Missing.NULL) == table


def test_missing_column_that_may_not_be_null_is_refused_always() -> None:
    table = pa.schema([("a", pa.int32()), required("b", pa.int64())])
    with pytest.raises(SchemaMismatchError, match="'b'"):
        write_schema(table, pa.schema([("a", pa.int32())]), missing=Missing.NULL)


# From, to, as org.apache.hudi.common.schema.HoodieSchemaTypePromotion 1.2.0 allows it.
PROMOTIONS = [
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float32()),
    (pa.int32(), pa.float64()),
    (pa.int64(), pa.float32()),
    (pa.int64(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.int32(), pa.string()),
    (pa.int64(), pa.string()),
    (pa.float32(), pa.string()),
    (pa.float64(), pa.string()),
    (pa.decimal128(9, 2), pa.decimal128(12, 2)),
    (pa.decimal128(9, 2), pa.decimal128(12, 4)),
]


@pytest.mark.parametrize(("narrow", "wide"), PROMOTIONS, ids=str)
@pytest.mark.parametrize("place", ["top", "struct", "list", "map"])
def test_the_wider_of_two_types_is_that_of_the_table(narrow: pa.DataType, wide: pa.DataType, place: str) -> None:
    narrow_schema, wide_schema = (
        one(kind if place == "top" else nested_in(place, [pa.field("x", kind)])) for kind in (narrow, wide)
    )
    assert write_schema(wide_schema, narrow_schema) == wide_schema
    assert write_schema(narrow_schema, wide_schema) == wide_schema


@pytest.mark.parametrize(("table", "rows"), [(pa.string(), pa.binary()), (pa.binary(), pa.string())], ids=str)
def test_text_and_bytes_stay_what_they_are_in_the_table(table: pa.DataType, rows: pa.DataType) -> None:
    assert write_schema(one(table), one(rows)) == one(table)


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (pa.int32(), pa.bool_()),
        (pa.string(), pa.bool_()),
        (pa.string(), pa.date32()),
        (pa.int32(), pa.date32()),
        (pa.int64(), UTC),
        (UTC, pa.timestamp("us")),
        (UTC, pa.date32()),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.decimal128(9, 2), pa.int32()),
        (pa.int32(), LIST),
        (LIST, pa.int32()),
        (pa.struct([("a", pa.int32())]), pa.string()),
        (pa.map_(pa.string(), pa.int32()), LIST),
    ],
    ids=str,
)
def test_types_that_do_not_promote_are_refused_with_both_names(table: pa.DataType, rows: pa.DataType) -> None:
    for first, second in [(table, rows), (rows, table)]:
        with pytest.raises(SchemaMismatchError, match="cast the column") as error:
            write_schema(one(first), one(second))
        assert error.value.context == {"column": "c", "table_type": str(first), "rows_type": str(second)}


@pytest.mark.parametrize(("table", "rows", "merged"), [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)])
def test_column_is_nullable_if_either_side_is(table: int, rows: int, merged: int) -> None:
    def schema(nullable: int) -> pa.Schema:
        element = pa.field("element", pa.int32(), bool(nullable))
        return pa.schema([pa.field("a", pa.list_(element), bool(nullable))])

    assert write_schema(schema(table), schema(rows)) == schema(merged)


def test_column_without_any_value_takes_the_tables_type() -> None:
    table = pa.schema([("a", pa.int32()), ("l", pa.list_(pa.string()))])
    assert write_schema(table, pa.schema([("a", pa.null()), ("l", pa.list_(pa.null()))])) == table


@pytest.mark.parametrize("untyped", [pa.null(), pa.list_(pa.null()), pa.struct([("x", pa.null())])], ids=str)
def test_new_column_without_any_value_is_refused(untyped: pa.DataType) -> None:
    for table in (None, pa.schema([("a", pa.int32())])):
        with pytest.raises(SchemaMismatchError, match="'n"):
            write_schema(table, pa.schema([("a", pa.int32()), ("n", untyped)]))


def test_names_match_exactly_first_and_by_letters_then() -> None:
    assert match_columns(["id", "Name", "x"], ["NAME", "ID", "id"]) == [2, 0, None]
    assert match_columns(["ID", "id"], ["id"]) == [None, 0]


def test_names_that_differ_only_in_case_are_refused_when_both_are_meant() -> None:
    with pytest.raises(SchemaMismatchError, match="letter case"):
        match_columns(["id"], ["ID", "Id"])


# --- align ---


def aligned(array: pa.Array, target: pa.DataType | pa.Field) -> pa.Array:
    """One column aligned as a batch, as a slice of it and in chunks: always the same values."""
    schema = pa.schema([target if isinstance(target, pa.Field) else pa.field("c", target)])
    source = pa.RecordBatch.from_arrays([array], names=["c"])
    result = align(source, schema)
    result.validate(full=True)
    assert result.schema == schema
    cut = len(array) // 2
    chunked = align(pa.Table.from_batches([source.slice(0, cut), source.slice(cut)], source.schema), schema)
    chunked.validate(full=True)
    assert chunked.column(0).to_pylist() == result.column(0).to_pylist()
    return result.column(0)


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None], pa.int8(), pa.int32(), [1, None]),
        ([2**32 - 1], pa.uint32(), pa.int64(), [2**32 - 1]),
        ([2**60 + 1], pa.int64(), pa.float64(), [float(2**60)]),
        ([np.float16(1.5)], pa.float16(), pa.float64(), [1.5]),
        ([-7, None], pa.int64(), pa.string(), ["-7", None]),
        (["a"], pa.string_view(), pa.string(), ["a"]),
        (["é"], pa.string(), pa.binary(), ["é".encode()]),
        ([b"ab"], pa.binary(2), pa.binary(), [b"ab"]),
        ([b"ab"], pa.binary(), pa.binary(2), [b"ab"]),
        ([Decimal("1.50")], pa.decimal128(5, 2), pa.decimal128(9, 2), [Decimal("1.50")]),
        ([Decimal("1.50")], pa.decimal256(5, 2), pa.decimal128(9, 2), [Decimal("1.50")]),
        ([dt.date(2024, 2, 29)], pa.date64(), pa.date32(), [dt.date(2024, 2, 29)]),
        ([1_000], pa.timestamp("ns"), pa.timestamp("us"), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        ([None, None], pa.null(), pa.list_(pa.int32()), [None, None]),
        ([None], pa.null(), pa.map_(pa.string(), pa.int32()), [None]),
        ([[1, None], None, [], [2]], pa.large_list(pa.int8()), pa.list_(pa.int64()), [[1, None], None, [], [2]]),
        ([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2), pa.list_(pa.int64()), [[1, 2], None, [3, 4]]),
        ([[1, 2], None, [3]], pa.list_view(pa.int8()), pa.list_(pa.int64()), [[1, 2], None, [3]]),
        ([["a"], [None]], pa.list_(pa.dictionary(pa.int8(), pa.string())), pa.list_(pa.string()), [["a"], [None]]),
        (
            [[("a", 1)], None, [("b", None), ("c", 3)], []],
            pa.map_(pa.large_string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            [[("a", 1)], None, [("b", None), ("c", 3)], []],
        ),
        (
            [{"a": 1, "B": "x"}, None, {"a": None, "B": None}],
            pa.struct([("a", pa.int32()), ("B", pa.string())]),
            pa.struct([("b", pa.string()), ("new", pa.float64()), ("a", pa.int64())]),
            [{"b": "x", "new": None, "a": 1}, None, {"b": None, "new": None, "a": None}],
        ),
        (
            [[{"a": 1}, None], None, [{"a": 2}]],
            pa.list_(pa.struct([("a", pa.int32())])),
            pa.list_(pa.struct([("a", pa.int32()), ("new", pa.list_(pa.string()))])),
            [[{"a": 1, "new": None}, None], None, [{"a": 2, "new": None}]],
        ),
    ],
    ids=str,
)
def test_values_follow_their_column(
    values: list[Any], source: pa.DataType, target: pa.DataType, expected: list[Any]
) -> None:
    assert aligned(pa.array(values, source), target).to_pylist() == expected


def test_dictionary_with_null_values_is_decoded() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int8()), pa.array(["x", None]))
    assert aligned(array, pa.string()).to_pylist() == ["x", None, None]
    with pytest.raises(SchemaMismatchError):
        aligned(array, required("c", pa.string()))


def test_extension_values_become_their_storage() -> None:
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16)))
    assert aligned(array, pa.binary()).to_pylist() == [b"0123456789abcdef"]


def test_zone_of_a_timestamp_changes_and_its_instant_stays() -> None:
    array = pa.array([1_700_000_000], pa.timestamp("s", "Europe/Berlin"))
    assert aligned(array, UTC).cast(pa.int64()).to_pylist() == [1_700_000_000_000_000]


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([1], pa.timestamp("ns"), pa.timestamp("us")),
        ([1], pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")),
        ([2**62], pa.timestamp("s"), pa.timestamp("us")),
        ([b"\xff"], pa.binary(), pa.string()),
        ([b"abc"], pa.binary(), pa.binary(2)),
        ([1], pa.timestamp("us"), UTC),
        (["1"], pa.string(), pa.int32()),
        ([1], pa.int64(), pa.int32()),
        ([1.5], pa.float64(), pa.float32()),
        ([Decimal("1.5")], pa.decimal128(9, 1), pa.decimal128(5, 1)),
        ([[1]], pa.list_(pa.int64()), LIST),
        ([{"a": "x"}], pa.struct([("a", pa.string())]), pa.struct([("a", pa.int32())])),
        ([1], pa.int32(), LIST),
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused_by_column(
    values: list[Any], source: pa.DataType, target: pa.DataType
) -> None:
    with pytest.raises(SchemaMismatchError) as error:
        aligned(pa.array(values, source), target)
    assert error.value.context["column"].startswith("c")


NOT_NULL_X = pa.struct([required("x", pa.int32())])


@pytest.mark.parametrize(
    ("values", "source", "target"),
    [
        ([1, None], pa.int32(), required("c", pa.int32())),
        ([1, None], pa.int32(), required("c", pa.int64())),
        ([None], pa.null(), required("c", pa.int64())),
        ([[1], [None]], pa.list_(pa.int32()), pa.list_(required("element", pa.int32()))),
        ([[("k", None)]], pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), required("value", pa.int32()))),
        ([{"x": 1}, {"x": None}], pa.struct([("x", pa.int32())]), NOT_NULL_X),
        ([[{"x": None}]], pa.list_(pa.struct([("x", pa.int32())])), pa.list_(NOT_NULL_X)),
    ],
    ids=str,
)
def test_null_where_none_may_be_is_refused(values: list[Any], source: pa.DataType, target: Any) -> None:
    with pytest.raises(SchemaMismatchError, match="null") as error:
        aligned(pa.array(values, source), target)
    assert error.value.context["column"].startswith("c")


def test_null_where_the_rows_own_schema_allows_none_is_refused() -> None:
    fields = list(NOT_NULL_X)
    inner = pa.StructArray.from_arrays([pa.array([1, None], pa.int32())], fields=fields)
    outer = pa.StructArray.from_arrays([inner], fields=[pa.field("s", NOT_NULL_X)])
    with pytest.raises(SchemaMismatchError, match=r"c\.s\.x"):
        aligned(outer, outer.type)


def test_null_under_a_null_parent_is_allowed_in_a_not_null_column() -> None:
    struct = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int32())], fields=[pa.field("x", pa.int32())], mask=pa.array([False, True])
    )
    assert aligned(struct, NOT_NULL_X).to_pylist() == [{"x": 1}, None]
    lists = pa.array([[1], None], pa.list_(pa.int32()))
    assert aligned(lists, pa.list_(required("element", pa.int32()))).to_pylist() == [[1], None]


def test_columns_are_reordered_filled_and_dropped() -> None:
    rows = pa.RecordBatch.from_pydict({"b": ["x", "y"], "extra": [1, 2], "A": [1, 2]})
    schema = pa.schema([("a", pa.int64()), ("new", pa.decimal128(5, 2)), required("b", pa.string())])
    for given_rows in (rows, pa.Table.from_batches([rows])):
        result = align(given_rows, schema)
        assert type(result) is type(given_rows)
        assert result.schema == schema
        assert result.to_pydict() == {"a": [1, 2], "new": [None, None], "b": ["x", "y"]}


def test_missing_column_that_may_not_be_null_is_refused() -> None:
    with pytest.raises(SchemaMismatchError, match="'b'"):
        align(pa.RecordBatch.from_pydict({"a": [1]}), pa.schema([("a", pa.int64()), required("b", pa.string())]))


def test_rows_that_fit_share_their_memory() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1, 2], "l": [["x"], []]})
    result = align(rows, rows.schema)
    for before, after in zip(rows.columns, result.columns, strict=True):
        assert [b and b.address for b in before.buffers()] == [b and b.address for b in after.buffers()]


def test_empty_rows_take_the_schema() -> None:
    schema = pa.schema([("a", pa.string()), ("l", pa.list_(pa.struct([("x", pa.int64())]))), ("new", UTC)])
    source = pa.schema([("a", pa.int32()), ("l", pa.list_(pa.struct([("x", pa.int32())])))])
    for rows in (source.empty_table(), pa.RecordBatch.from_pylist([], source)):
        assert align(rows, schema).schema == schema
        assert align(rows, schema).num_rows == 0


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "n": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
                    "l": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=4)),
                    "m": st.one_of(
                        st.none(), st.lists(st.tuples(st.text("ab", max_size=2), st.booleans()), max_size=3)
                    ),
                }
            ),
        ),
        max_size=12,
    ),
    start=st.integers(0, 5),
)
def test_any_nested_rows_keep_their_values(rows: list[Any], start: int) -> None:
    source = pa.struct([("n", pa.int32()), ("l", pa.large_list(pa.int8())), ("m", pa.map_(pa.string(), pa.bool_()))])
    target = pa.struct(
        [
            ("m", pa.map_(pa.string(), pa.bool_())),
            ("n", pa.int64()),
            ("l", LIST),
            ("new", pa.string()),
        ]
    )
    expected = [row and {"m": row["m"], "n": row["n"], "l": row["l"], "new": None} for row in rows[start:]]
    assert aligned(pa.array(rows, source).slice(start), target).to_pylist() == expected
