"""Avro schemas: character equality with Hudi's own (golden_avro.json, by tools/oracle/AvroGolden.java)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.schema.avro_arrow import arrow_to_avro, avro_to_arrow, avro_with_meta_columns, normalise
from pyhudi.format.schema.meta_columns import META_COLUMNS, with_meta_columns, without_meta_columns

GOLDEN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("golden_avro.json").read_text("utf-8"))
SOURCE = ".hoodie/timeline/20260101000000000_20260101000000001.commit"
UTC = pa.timestamp("us", tz="UTC")


def required(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


POINT = pa.struct(
    [
        ("x", pa.int32()),
        ("deep", pa.struct([("price", pa.decimal128(7, 3))])),
        required("label", pa.string()),
    ]
)
# The columns of tools/oracle/AvroGolden.java.
COLUMNS = {
    "flat": pa.schema(
        [
            required("id", pa.string()),
            ("blob", pa.binary()),
            ("small", pa.int32()),
            ("whole", pa.int32()),
            required("large", pa.int64()),
            ("single", pa.float32()),
            ("real", pa.float64()),
            ("flag", pa.bool_()),
            ("day", pa.date32()),
            ("at", UTC),
            ("local", pa.timestamp("us")),
        ]
    ),
    "decimals": pa.schema(
        [
            ("one", pa.decimal128(1, 0)),
            ("two", pa.decimal128(2, 2)),
            ("three", pa.decimal128(3, 1)),
            ("ten", pa.decimal128(10, 2)),
            ("eighteen", pa.decimal128(18, 9)),
            required("twentyfive", pa.decimal128(25, 5)),
            ("most", pa.decimal128(38, 38)),
        ]
    ),
    "nested": pa.schema(
        [
            ("st", POINT),
            required("required", POINT),
            ("longs", pa.list_(pa.int64())),
            required("full", pa.list_(required("element", pa.int64()))),
            ("points", pa.list_(POINT)),
            ("grid", pa.list_(pa.list_(pa.decimal128(4, 1)))),
            ("prices", pa.map_(pa.string(), pa.decimal128(38, 0))),
            ("places", pa.map_(pa.string(), required("value", POINT))),
            ("same", pa.struct([("same", pa.struct([("same", pa.decimal128(5, 0))]))])),
        ]
    ),
    "other_letters": pa.schema([("größe", pa.int32())]),
}

every_golden = pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])


def compact(node: Any) -> str:
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def record(*fields: Any) -> str:
    return compact({"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": list(fields)})


def type_of(avro: Any) -> pa.DataType:
    return avro_to_arrow(record({"name": "c", "type": avro}), source=SOURCE).field("c").type


@every_golden
def test_arrow_schema_gives_the_avro_text_of_hudi(case: dict[str, Any]) -> None:
    assert arrow_to_avro(COLUMNS[case["name"]], table_name=case["table_name"]) == compact(case["avro"])


@every_golden
def test_avro_of_hudi_gives_the_arrow_schema(case: dict[str, Any]) -> None:
    assert avro_to_arrow(compact(case["avro"]), source=SOURCE) == COLUMNS[case["name"]]


@every_golden
def test_meta_columns_are_added_as_hudi_adds_them(case: dict[str, Any]) -> None:
    text = avro_with_meta_columns(compact(case["avro"]))
    assert text == compact(case["with_meta"])
    assert avro_with_meta_columns(text) == text
    assert avro_to_arrow(text, source=SOURCE) == with_meta_columns(COLUMNS[case["name"]])


@every_golden
def test_meta_columns_do_not_enter_the_table_schema(case: dict[str, Any]) -> None:
    schema = with_meta_columns(COLUMNS[case["name"]])
    assert tuple(schema.names[:5]) == META_COLUMNS
    assert arrow_to_avro(schema, table_name=case["table_name"]) == compact(case["avro"])
    assert without_meta_columns(schema) == COLUMNS[case["name"]]


leaves = st.sampled_from(
    [
        *(pa.bool_(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(), pa.date32()),
        *(UTC, pa.timestamp("us"), pa.timestamp("ms"), pa.timestamp("ms", "UTC"), pa.time32("ms"), pa.time64("us")),
        *(pa.binary(16), pa.decimal128(1, 1), pa.decimal128(9, 0), pa.decimal128(38, 12)),
    ]
)


def nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    child = st.builds(pa.field, st.just("element"), inner, st.booleans())
    names = st.lists(st.sampled_from(["a", "b", "fixed", "_x1", "Ünï"]), min_size=1, max_size=3, unique=True)
    return st.one_of(
        st.builds(pa.list_, child),
        st.builds(lambda value: pa.map_(pa.string(), value.with_name("value")), child),
        st.builds(lambda chosen, of: pa.struct([of.with_name(name) for name in chosen]), names, child),
    )


types = st.recursive(leaves, nest, max_leaves=6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(types, st.booleans()), min_size=1, max_size=5))
def test_schema_survives_the_way_through_avro(columns: list[tuple[pa.DataType, bool]]) -> None:
    schema = pa.schema([pa.field(f"c{i}", kind, nullable) for i, (kind, nullable) in enumerate(columns)])
    text = arrow_to_avro(schema, table_name="t")
    assert avro_to_arrow(text, source=SOURCE) == schema
    assert arrow_to_avro(avro_to_arrow(text, source=SOURCE), table_name="t") == text


@pytest.mark.parametrize(
    ("given_type", "canonical"),
    [
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.uint8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.float16(), pa.float32()),
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("s", "Europe/Berlin"), UTC),
        (pa.timestamp("ns", "UTC"), UTC),
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.decimal256(38, 3), pa.decimal128(38, 3)),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.large_list(pa.int8()), pa.list_(pa.field("element", pa.int32()))),
        (pa.list_(pa.field("item", pa.int8(), False), 3), pa.list_(required("element", pa.int32()))),
        (pa.list_view(pa.string_view()), pa.list_(pa.field("element", pa.string()))),
        (pa.map_(pa.large_string(), pa.uint8()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int32())])),
    ],
    ids=str,
)
def test_type_that_spark_lacks_becomes_the_canonical_one(given_type: pa.DataType, canonical: pa.DataType) -> None:
    schema = pa.schema([pa.field("c", given_type, metadata={"k": "v"})], metadata={"pandas": "{}"})
    result = normalise(schema)
    assert result.equals(pa.schema([("c", canonical)]), check_metadata=True)
    assert normalise(result) == result
    millis = pa.types.is_timestamp(given_type) and given_type.unit == "ms"
    if not (millis or pa.types.is_fixed_size_binary(given_type)):  # tables of other writers have these two
        assert avro_to_arrow(arrow_to_avro(schema, table_name="t"), source=SOURCE) == result


def test_list_item_name_becomes_that_of_spark() -> None:
    item = normalise(pa.schema([("c", pa.list_(pa.field("item", pa.int32())))])).field("c").type.value_field
    assert item.name == "element"


@pytest.mark.parametrize(
    "bad",
    [
        pa.uint64(),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.decimal128(5, 6),
        pa.map_(pa.int32(), pa.string()),
        pa.struct([]),
        pa.sparse_union([pa.field("a", pa.int32())]),
        pa.struct([("fine", pa.int32()), ("a", pa.list_(pa.uint64()))]),
    ],
    ids=str,
)
def test_type_without_a_place_in_a_table_is_refused_by_column(bad: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError) as error:
        normalise(pa.schema([("ok", pa.int32()), ("wrong", bad)]))
    assert error.value.context["column"].startswith("wrong")


def test_column_without_a_type_is_refused_in_avro() -> None:
    schema = pa.schema([("c", pa.list_(pa.null()))])
    assert normalise(schema) == schema
    with pytest.raises(SchemaMismatchError, match=r"c\.element"):
        arrow_to_avro(schema, table_name="t")


@pytest.mark.parametrize("name", ["a-b", "a b", "1a", "", "a.b", "a²", "a\n", "€"])
@pytest.mark.parametrize("nested", [False, True], ids=["top", "nested"])
def test_name_that_avro_lacks_is_refused(name: str, nested: bool) -> None:
    field = pa.field(name, pa.int32())
    schema = pa.schema([("outer", pa.list_(pa.struct([field])))] if nested else [field])
    expected = f"outer.element.{name}" if nested else name
    for check in (normalise, lambda bad: arrow_to_avro(bad, table_name="t")):
        with pytest.raises(SchemaMismatchError) as error:
            check(schema)
        assert error.value.context["column"] == expected


@pytest.mark.parametrize("name", ["_HOODIE_commit_time", "_Hoodie_Record_Key"])
def test_name_that_is_a_meta_column_in_other_letters_is_refused(name: str) -> None:
    with pytest.raises(SchemaMismatchError, match="meta column"):
        normalise(pa.schema([("id", pa.int64()), (name, pa.string())]))


@pytest.mark.parametrize("names", [("a", "a"), ("id", "ID"), ("größe", "GRÖSSE".replace("SS", "ß"))])
@pytest.mark.parametrize("nested", [False, True], ids=["top", "nested"])
def test_two_columns_of_one_name_are_refused(names: tuple[str, str], nested: bool) -> None:
    fields = [pa.field(name, pa.int32()) for name in names]
    schema = pa.schema([("outer", pa.struct(fields))] if nested else fields)
    for check in (normalise, lambda bad: arrow_to_avro(bad, table_name="t")):
        with pytest.raises(SchemaMismatchError, match="same name"):
            check(schema)


def test_columns_nested_without_end_are_refused() -> None:
    deep = pa.int32()
    for _ in range(70):
        deep = pa.list_(deep)
    for check in (normalise, lambda bad: arrow_to_avro(bad, table_name="t")):
        with pytest.raises(SchemaMismatchError, match="deeper"):
            check(pa.schema([("c", deep)]))


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, pa.decimal128(9, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, pa.decimal128(9, 0)),
        ({"type": "fixed", "name": "f", "size": 4}, pa.binary(4)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        ({"type": "string", "logicalType": "uuid"}, pa.string()),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms")),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "long", "logicalType": "somebody-elses"}, pa.int64()),
        ({"type": {"type": {"type": "int", "logicalType": "date"}}}, pa.date32()),
        ({"type": "array", "items": "null"}, pa.list_(pa.null())),
        ("null", pa.null()),
    ],
    ids=str,
)
def test_avro_type_of_another_writer_is_read(avro: Any, arrow: pa.DataType) -> None:
    assert type_of(avro) == arrow


@pytest.mark.parametrize(
    ("union", "nullable"), [(["null", "int"], True), (["int", "null"], True), (["int"], False), ("int", False)]
)
def test_union_with_null_in_either_order_is_nullable(union: Any, nullable: bool) -> None:
    schema = avro_to_arrow(record({"name": "c", "type": union}), source=SOURCE)
    assert schema == pa.schema([pa.field("c", pa.int32(), nullable)])


def test_named_type_is_found_by_short_and_by_full_name() -> None:
    fixed = {"type": "fixed", "name": "f", "size": 4}
    schema = avro_to_arrow(
        record({"name": "a", "type": fixed}, {"name": "b", "type": "f"}, {"name": "c", "type": ["null", "hoodie.t.f"]}),
        source=SOURCE,
    )
    assert schema.types == [pa.binary(4)] * 3


def bomb(levels: int) -> str:
    fields = [{"name": "f0", "type": {"type": "record", "name": "r0", "fields": [{"name": "x", "type": "int"}]}}]
    for level in range(1, levels):
        inner = [{"name": f"x{i}", "type": f"r{level - 1}"} for i in range(10)]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"r{level}", "fields": inner}})
    return record(*fields)


def deep(levels: int) -> str:
    inner: Any = "int"
    for _ in range(levels):
        inner = {"type": "array", "items": inner}
    return record({"name": "c", "type": inner})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="cut_off"),
        pytest.param('"int"', id="no_record"),
        pytest.param("[]", id="list"),
        pytest.param("[" * 200_000, id="brackets"),
        pytest.param(" " * ((16 << 20) + 1), id="long"),
        pytest.param(bomb(30), id="bomb"),
        pytest.param(deep(100), id="deep"),
        pytest.param('{"type":"record","name":"r"}', id="no_fields"),
        pytest.param('{"type":"record","fields":[]}', id="no_name"),
        pytest.param(record({"name": "c"}), id="no_type"),
        pytest.param(record({"type": "int"}), id="field_without_name"),
        pytest.param(record("c"), id="field_without_object"),
        pytest.param(record({"name": "c", "type": "int"}, {"name": "c", "type": "int"}), id="same_name_twice"),
        pytest.param(record({"name": "c", "type": "unknown"}), id="unknown_name"),
        pytest.param(record({"name": "c", "type": 7}), id="type_is_a_number"),
        pytest.param(record({"name": "c", "type": {"type": "array"}}), id="array_without_items"),
        pytest.param(record({"name": "c", "type": {"type": "fixed", "name": "f", "size": -1}}), id="negative_size"),
        pytest.param(record({"name": "c", "type": {"type": "bytes", "logicalType": "decimal"}}), id="no_precision"),
        pytest.param(
            record(
                {
                    "name": "c",
                    "type": {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 9},
                }
            ),
            id="decimal_larger_than_its_bytes",
        ),
        pytest.param(
            record(*({"name": n, "type": {"type": "fixed", "name": "f", "size": 1}} for n in "ab")), id="defined_twice"
        ),
    ],
)
def test_damaged_schema_is_refused_with_its_source(text: str) -> None:
    with pytest.raises(CorruptDataError) as error:
        avro_to_arrow(text, source=SOURCE)
    assert error.value.context["path"] == SOURCE


@pytest.mark.parametrize(
    "avro",
    [
        pytest.param(["int", "string"], id="union"),
        pytest.param(["null", "int", "string"], id="nullable_union"),
        pytest.param({"type": "array", "items": ["null", "t_record"]}, id="recursive"),
        pytest.param({"type": "long", "logicalType": "timestamp-nanos"}, id="nanoseconds"),
        pytest.param({"type": "bytes", "logicalType": "decimal", "precision": 39}, id="digits"),
    ],
)
def test_avro_type_without_an_arrow_form_is_refused_by_column(avro: Any) -> None:
    with pytest.raises(UnsupportedFeatureError) as error:
        type_of(avro)
    assert error.value.context["path"] == SOURCE
    assert error.value.context["column"].startswith("c")


def test_meta_columns_of_a_damaged_schema_are_refused() -> None:
    for text in ("{", '"int"', '{"type":"record"}'):
        with pytest.raises(CorruptDataError):
            avro_with_meta_columns(text)


def test_docs_and_defaults_stay_when_meta_columns_are_added() -> None:
    field = {"name": "c", "type": "int", "doc": "a count", "default": 7}
    assert json.loads(avro_with_meta_columns(record(field)))["fields"][5] == field
