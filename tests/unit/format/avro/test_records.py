"""Avro blocks to and from Arrow, with fastavro as the judge of what the bytes mean."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.avro import records as avro_records
from pyhudi.format.avro.decode import Source
from pyhudi.format.avro.layout import record_layout
from pyhudi.format.avro.records import decode_avro_records, encode_avro_records
from pyhudi.format.avro.rowwise import read_rowwise
from pyhudi.format.schema.avro_arrow import FIXED_BYTES_MAX, avro_to_arrow

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200), st.integers(-(2**52), 2**52))
TEXT = st.text(max_size=12)
DIGITS_9, DIGITS_38 = st.integers(-(10**9) + 1, 10**9 - 1), st.integers(-(10**38) + 1, 10**38 - 1)


def named(kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"type": kind, "name": name, "namespace": "ns"} | rest


def logical(base: Any, name: str, **rest: Any) -> dict[str, Any]:
    return (base if isinstance(base, dict) else {"type": base}) | {"logicalType": name} | rest


FIXED = named("fixed", "f5", size=5)
MONEY = logical(named("fixed", "money", size=4), "decimal", precision=9, scale=2)
WIDE = logical(named("fixed", "wide", size=16), "decimal", precision=38, scale=10)
PADDED = logical(named("fixed", "padded", size=20), "decimal", precision=9, scale=0)
ENUM = named("enum", "colour", symbols=["RED", "GREEN", "BLUE"])
POINT = named(
    "record",
    "point",
    fields=[{"name": "x", "type": "int"}, {"name": "label", "type": ["null", "string"]}],
)
LINE = named(
    "record",
    "line",
    fields=[{"name": "begin", "type": POINT}, {"name": "end", "type": ["ns.point", "null"]}],
)
POINTS = st.fixed_dictionaries({"x": INT32, "label": st.none() | TEXT})

TYPES: Mapping[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", INT32),
    "long": ("long", INT64),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "string": ("string", TEXT),
    "bytes": ("bytes", st.binary(max_size=20)),
    "fixed": (FIXED, st.binary(min_size=5, max_size=5)),
    "decimal_fixed": (MONEY, DIGITS_9.map(lambda digits: Decimal(digits).scaleb(-2))),
    "decimal_fixed_16": (WIDE, DIGITS_38.map(lambda digits: decimal_of(digits, 10))),
    "decimal_fixed_20": (PADDED, DIGITS_9.map(Decimal)),
    "decimal_bytes": (
        logical("bytes", "decimal", precision=38, scale=3),
        (DIGITS_38 | DIGITS_9 | st.integers(-300, 300)).map(lambda digits: decimal_of(digits, 3)),
    ),
    "date": (logical("int", "date"), st.dates()),
    "time_millis": (logical("int", "time-millis"), st.integers(0, 86_399_999)),
    "time_micros": (logical("long", "time-micros"), st.times()),
    "timestamp_millis": (logical("long", "timestamp-millis"), st.integers(-(2**45), 2**45)),
    "timestamp_micros": (logical("long", "timestamp-micros"), st.datetimes(timezones=st.just(dt.UTC))),
    "local_millis": (logical("long", "local-timestamp-millis"), st.integers(-(2**45), 2**45)),
    "local_micros": (logical("long", "local-timestamp-micros"), st.datetimes()),
    "uuid": (logical("string", "uuid"), st.uuids().map(str)),
    "uuid_fixed": (named("fixed", "uuid16", size=16, logicalType="uuid"), st.binary(min_size=16, max_size=16)),
    "enum": (ENUM, st.sampled_from(["RED", "GREEN", "BLUE"])),
    "record": (POINT, POINTS),
    "record_in_record": (LINE, st.fixed_dictionaries({"begin": POINTS, "end": st.none() | POINTS})),
    "array": ({"type": "array", "items": "long"}, st.lists(INT64, max_size=4)),
    "array_of_nullable": ({"type": "array", "items": ["null", "string"]}, st.lists(st.none() | TEXT, max_size=4)),
    "array_of_arrays": (
        {"type": "array", "items": {"type": "array", "items": ["int", "null"]}},
        st.lists(st.lists(st.none() | INT32, max_size=3), max_size=3),
    ),
    "array_of_records": ({"type": "array", "items": POINT}, st.lists(POINTS, max_size=3)),
    "map": ({"type": "map", "values": ["null", "double"]}, st.dictionaries(TEXT, st.none() | st.just(1.5), max_size=3)),
    "map_of_arrays": (
        {"type": "map", "values": {"type": "array", "items": "string"}},
        st.dictionaries(TEXT, st.lists(TEXT, max_size=2), max_size=3),
    ),
}


def decimal_of(digits: int, scale: int) -> Decimal:
    return Decimal((int(digits < 0), tuple(int(digit) for digit in str(abs(digits))), -scale))


def again(avro: Any) -> Any:
    """The same type once more in a schema: by name, where it has one."""
    if isinstance(avro, dict) and "name" in avro:
        return f"ns.{avro['name']}"
    if isinstance(avro, dict):
        return avro | {part: again(avro[part]) for part in ("items", "values") if part in avro}
    return [again(branch) for branch in avro] if isinstance(avro, list) else avro


def record_schema(fields: Mapping[str, Any]) -> str:
    members = [{"name": name, "type": avro} for name, avro in fields.items()]
    return json.dumps({"type": "record", "name": "r", "fields": members})


def arrow_rows(schema: str, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """The rows as Arrow's own Python code makes them."""
    arrow = avro_to_arrow(schema, source="test")
    return pa.RecordBatch.from_arrays(
        [pa.array([row[field.name] for row in rows], field.type) for field in arrow], schema=arrow
    )


def java_decimal_bytes(value: Any, schema: Mapping[str, Any]) -> Any:
    """A decimal in the bytes of Java's `BigInteger.toByteArray`: as few as hold it. fastavro gives -128 one more."""
    if not isinstance(value, Decimal):
        return value
    unscaled = int(value.scaleb(schema["scale"], Context(prec=50)))
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


fastavro.write.LOGICAL_WRITERS["bytes-decimal"] = java_decimal_bytes


def block_of(records: Sequence[bytes], *, version: int = 3) -> bytes:
    parts = [struct.pack(">ii", version, len(records))]
    for record in records:
        parts += [struct.pack(">I", len(record)), record]
    return b"".join(parts)


def fastavro_block(schema: str, rows: Sequence[Mapping[str, Any]]) -> bytes:
    parsed = fastavro.parse_schema(json.loads(schema))
    records = []
    for row in rows:
        record = io.BytesIO()
        fastavro.schemaless_writer(record, parsed, row)
        records.append(record.getvalue())
    return block_of(records)


def decode(content: bytes | pa.Buffer, schema: str, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    return decode_avro_records(content, schema, columns=columns, path="p/.f_1.log.1_0-0-0", offset=77)


@pytest.mark.parametrize("kind", TYPES)
def test_values_of_each_type_become_the_bytes_and_rows_that_other_libraries_make(kind: str) -> None:
    avro, values = TYPES[kind]
    same = again(avro)
    fields = {"a": avro, "b": ["null", same], "c": "long", "d": [same, "null"], "e": [same], "f": ["null", "string"]}
    cells = {"a": values, "b": st.none() | values, "c": INT64, "d": st.none() | values, "e": values}
    schema = record_schema(fields)

    @settings(max_examples=8, deadline=None, database=None)
    @given(st.lists(st.fixed_dictionaries(cells | {"f": st.none() | TEXT}), max_size=5))
    def check(rows: list[dict[str, Any]]) -> None:
        block, batch = fastavro_block(schema, rows), arrow_rows(schema, rows)

        decoded = decode(block, schema)

        decoded.validate(full=True)
        assert decoded.schema == batch.schema
        assert decoded.equals(batch)
        assert decode(block, schema, ["f", "c"]).equals(batch.select(["f", "c"]))
        assert encode_avro_records(batch, schema) == block
        assert encode_avro_records(batch.slice(1), schema) == fastavro_block(schema, rows[1:])

    check()


UTC_NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
SAMPLES: Mapping[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-(2**31), 300),
    "long": (2**62, -5),
    "float": (1.5, -0.0),
    "double": (1e300, 0.1),
    "string": ("größer", "plain"),
    "bytes": (b"\xff\x00", b""),
    "fixed": (b"12345", b"abcde"),
    "decimal_fixed": (Decimal("-9999999.99"), Decimal("0.05")),
    "decimal_fixed_16": (decimal_of(10**38 - 1, 10), decimal_of(-1, 10)),
    "decimal_fixed_20": (Decimal(-7), Decimal(999_999_999)),
    "decimal_bytes": (decimal_of(-(10**37), 3), decimal_of(128, 3)),
    "date": (dt.date(1815, 12, 10), dt.date(2024, 2, 29)),
    "timestamp_micros": (UTC_NOON, dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
    "uuid_fixed": (bytes(16), bytes(range(16))),
    "enum": ("RED", "BLUE"),
    "record": ({"x": 1, "label": None}, {"x": -1, "label": "a"}),
    "array_of_nullable": (["a", None, "ü"], []),
    "array_of_arrays": ([[1, None], [], [2]], [[3]]),
    "array_of_records": ([{"x": 1, "label": "b"}, {"x": 2, "label": None}], []),
    "map": ({"k": 1.5, "": None}, {}),
    "map_of_arrays": ({"k": ["a", "b"], "l": []}, {"m": ["c"]}),
}
MIXED = record_schema(
    {name: ["null", again(TYPES[name][0]) if name == "array_of_records" else TYPES[name][0]] for name in SAMPLES}
)
MIXED_ROWS: Sequence[Mapping[str, Any]] = [
    {name: values[0] for name, values in SAMPLES.items()},
    {name: None if number % 2 else values[1] for number, (name, values) in enumerate(SAMPLES.items())},
    {name: values[1] if number % 2 else None for number, (name, values) in enumerate(SAMPLES.items())},
    dict.fromkeys(SAMPLES),
]
MIXED_BLOCK = fastavro_block(MIXED, MIXED_ROWS)
RAGGED_ROWS = [*MIXED_ROWS, {**MIXED_ROWS[0], "array_of_nullable": ["a"] * 3_000}]
"""One array has so many more items than all others that records are read one by one."""
RAGGED_BLOCK = fastavro_block(MIXED, RAGGED_ROWS)

NUMBERS = record_schema({"n": "long", "text": ["null", "string"]})


def test_numbers_at_every_varint_length_survive_both_ways() -> None:
    borders = [1 << bits for bits in range(63)]
    numbers = [0, *borders, *(number - 1 for number in borders), 2**63 - 1]
    numbers += [-1 - number for number in numbers]
    for some in (numbers, numbers[:1], [2**62, 0], [-(2**63)]):
        rows = [{"n": number, "text": None} for number in some]

        block = encode_avro_records(arrow_rows(NUMBERS, rows), NUMBERS)

        assert block == fastavro_block(NUMBERS, rows)
        assert decode(block, NUMBERS)["n"].to_pylist() == some


def test_more_rows_and_more_bytes_than_a_piece_holds_keep_their_order() -> None:
    rows = [{"n": number, "text": "x" * (number % 20)} for number in range(20_000)]
    rows += [{"n": number, "text": "y" * size} for number, size in enumerate([9 << 20, 9 << 20, 17 << 20, 1])]
    batch = arrow_rows(NUMBERS, rows)

    block = encode_avro_records(batch, NUMBERS)

    assert block == fastavro_block(NUMBERS, rows)
    assert decode(pa.py_buffer(block), NUMBERS).equals(batch)


def test_no_rows_are_a_block_of_its_header_alone() -> None:
    empty = arrow_rows(NUMBERS, [])

    assert encode_avro_records(empty, NUMBERS) == struct.pack(">ii", 3, 0)
    assert decode(struct.pack(">ii", 3, 0), NUMBERS).equals(empty)


def test_columns_come_in_the_order_asked_for_and_may_be_none() -> None:
    block = fastavro_block(NUMBERS, [{"n": 1, "text": "a"}, {"n": 2, "text": None}])

    assert decode(block, NUMBERS, ["text", "n"]).to_pydict() == {"text": ["a", None], "n": [1, 2]}
    assert decode(block, NUMBERS, []).num_rows == 2
    with pytest.raises(SchemaMismatchError, match="no column 'x'"):
        decode(block, NUMBERS, ["x"])


@pytest.mark.parametrize("nothing", ["null", {"type": "null"}], ids=["by name", "as an object"])
def test_null_columns_take_no_bytes_or_that_of_a_branch(nothing: Any) -> None:
    schema = record_schema({"nothing": nothing, "branch": [nothing], "n": "long", "maybe": ["long", nothing]})
    columns = [pa.nulls(2), pa.nulls(2), pa.array([1, -1]), pa.array([None, -1], pa.int64())]
    batch = pa.record_batch(columns, avro_to_arrow(schema, source="test"))
    block = block_of([b"\x00\x02\x02", b"\x00\x01\x00\x01"])

    assert encode_avro_records(batch, schema) == block
    assert decode(block, schema).equals(batch)


@pytest.mark.parametrize("unscaled", [0, -1, 127, 128, -128, -129, -(2**15), 2**63, -(2**63), -(2**119)])
def test_decimals_are_written_in_the_fewest_bytes_and_read_from_more(unscaled: int) -> None:
    schema = record_schema({"a": TYPES["decimal_bytes"][0]})
    batch = arrow_rows(schema, [{"a": decimal_of(unscaled, 3)}])
    fewest = next(size for size in range(1, 17) if -(2 ** (8 * size - 1)) <= unscaled < 2 ** (8 * size - 1))

    for size in (fewest, fewest + 1):
        content = unscaled.to_bytes(size, "big", signed=True)
        block = block_of([bytes([2 * size]) + content])
        assert decode(block, schema).equals(batch)
        assert (encode_avro_records(batch, schema) == block) is (size == fewest)


def test_arrays_in_blocks_with_sizes_are_read() -> None:
    schema = record_schema({"a": {"type": "array", "items": "int"}})
    # count 2; then count -1 with its size in bytes; then the end
    records = [b"\x04\x02\x04\x01\x02\x06\x00", b"\x00", b"\x01\x02\x01\x02\x09\x00"]

    assert decode(block_of(records), schema)["a"].to_pylist() == [[1, 2, 3], [], [-1, -5]]


def test_ragged_records_are_read_one_by_one_to_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    in_columns = decode(MIXED_BLOCK, MIXED)
    ways: list[str] = []
    monkeypatch.setattr(
        avro_records, "read_rowwise", lambda *args, **more: (ways.append("rows"), read_rowwise(*args, **more))[1]
    )

    one_by_one = decode(RAGGED_BLOCK, MIXED)

    assert ways == ["rows"]
    assert one_by_one.slice(0, len(MIXED_ROWS)).equals(in_columns)
    assert one_by_one.equals(arrow_rows(MIXED, RAGGED_ROWS))
    assert decode(RAGGED_BLOCK, MIXED, ["map", "int"]).equals(one_by_one.select(["map", "int"]))


def test_a_single_huge_array_takes_no_round_for_each_item(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    count_rounds = Source.count_rounds

    def counted(source: Source, number: int) -> None:
        nonlocal rounds
        count_rounds(source, number)
        rounds += number

    monkeypatch.setattr(Source, "count_rounds", counted)
    schema = record_schema({"a": {"type": "array", "items": "int"}})
    rows = [{"a": list(range(50_000))}, {"a": [7]}]

    assert decode(fastavro_block(schema, rows), schema)["a"].to_pylist() == [row["a"] for row in rows]
    assert rounds < 3000


# --- what does not fit ------------------------------------------------------------------------------------


def test_rows_that_are_not_those_of_the_schema_are_refused() -> None:
    good = arrow_rows(NUMBERS, [{"n": 1, "text": "a"}])
    for bad in (
        good.select(["text", "n"]),
        good.select(["n"]),
        pa.record_batch({"n": pa.array([1], pa.int32()), "text": pa.array(["a"])}),
        pa.record_batch({"n": pa.array([None], pa.int64()), "text": pa.array(["a"])}),
    ):
        with pytest.raises(SchemaMismatchError):
            encode_avro_records(bad, NUMBERS)


def test_a_value_outside_its_enum_or_decimal_is_refused() -> None:
    enum, money = record_schema({"v": ENUM}), record_schema({"v": MONEY})
    too_large = pa.Array.from_buffers(pa.decimal128(9, 2), 1, [None, pa.py_buffer(np.array([10**9, 0]))])

    with pytest.raises(SchemaMismatchError, match="no symbol"):
        encode_avro_records(pa.record_batch({"v": pa.array(["PINK"])}), enum)
    with pytest.raises(SchemaMismatchError, match="more digits"):
        encode_avro_records(pa.record_batch({"v": too_large}), money)


# --- damage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_older_blocks_with_a_count_read_as_the_newest(version: int) -> None:
    assert decode(block_of([b"\x02\x00"], version=version), NUMBERS).to_pylist() == [{"n": 1, "text": None}]


@pytest.mark.parametrize("version", [0, 4, -1])
def test_an_unknown_block_version_is_refused_by_number(version: int) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"version={version}"):
        decode(block_of([b"\x02\x00"], version=version), NUMBERS)


def test_an_array_whose_items_take_no_bytes_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="take no bytes"):
        decode(block_of([b"\x00"]), record_schema({"a": {"type": "array", "items": "null"}}))


ARRAY = {"type": "array", "items": "long"}
DECIMAL_5 = logical("bytes", "decimal", precision=5)
DAMAGED: Mapping[str, tuple[Any, bytes, bytes]] = {
    # the type, a good datum, a damaged one
    "union_branch": (["null", "long"], b"\x00", b"\x04\x02"),
    "branch_of_alone": (["long"], b"\x00\x00", b"\x02\x02"),
    "boolean": ("boolean", b"\x01", b"\x02"),
    "int_of_33_bits": ("int", b"\x00", b"\x80\x80\x80\x80\x10"),
    "varint_of_65_bits": ("long", b"\x00", b"\xff" * 9 + b"\x02"),
    "endless_varint": ("long", b"\x00", b"\xff" * 30),
    "varint_past_the_end": ("long", b"\x00", b"\x80"),
    "fixed_past_the_end": (FIXED, bytes(5), b"1234"),
    "double_past_the_end": ("double", bytes(8), b"1234567"),
    "negative_length": ("string", b"\x00", b"\x01abc"),
    "length_past_the_end": ("bytes", b"\x00", b"\x08abc"),
    "length_of_63_bits": ("bytes", b"\x00", b"\xfe" + b"\xff" * 8 + b"\x01"),
    "not_utf8": ("string", b"\x00", b"\x04\xc3\x28"),
    "half_a_letter": ("string", b"\x00", b"\x02\xc3"),
    "enum_symbol": (ENUM, b"\x00", b"\x06"),
    "negative_symbol": (ENUM, b"\x00", b"\x01"),
    "decimal_digits": (MONEY, bytes(4), b"\x7f\xff\xff\xff"),
    "decimal_extension": (PADDED, bytes(20), b"\x01" + b"\x00" * 19),
    "decimal_without_bytes": (DECIMAL_5, b"\x02\x00", b"\x00"),
    "decimal_of_17_bytes": (DECIMAL_5, b"\x02\x00", b"\x22" + b"\x00" * 17),
    "array_count": (ARRAY, b"\x00", b"\x08\x02\x02"),
    "array_count_least": (ARRAY, b"\x00", b"\xff" * 9 + b"\x01\x00"),
    "array_count_huge": (ARRAY, b"\x00", b"\xfe" + b"\xff" * 8 + b"\x01\x02\x00"),
    "array_without_end": (ARRAY, b"\x00", b"\x02\x02"),
    "bytes_left_over": ("long", b"\x00", b"\x02\x02"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_value_is_an_error_with_its_place(case: str) -> None:
    avro, good, damaged = DAMAGED[case]
    schema = record_schema({"v": avro})
    block = block_of([good, damaged, good, good])

    assert decode(block_of([good, good]), schema).num_rows == 2
    with pytest.raises(CorruptDataError) as caught:
        decode(block, schema)

    assert caught.value.context["path"] == "p/.f_1.log.1_0-0-0"
    assert caught.value.context["offset"] == 77
    assert 8 <= caught.value.context["content_offset"] <= len(block)
    assert caught.value.context["column"] == "v"


LENIENT_ONE_BY_ONE = {"boolean", "varint_of_65_bits", "decimal_of_17_bytes"}
"""What fastavro takes for true, for a number without its last bit, and for a decimal with zeros in front."""


@pytest.mark.parametrize("case", [case for case in DAMAGED if case not in LENIENT_ONE_BY_ONE])
def test_a_damaged_value_read_one_by_one_is_an_error_with_its_place(case: str) -> None:
    avro, good, damaged = DAMAGED[case]
    layout = record_layout(record_schema({"v": avro})).record

    assert len(read_rowwise(layout, [good, good], path="p", offset=77)[0]) == 2
    with pytest.raises(CorruptDataError) as caught:
        read_rowwise(layout, [good, damaged, good], path="p", offset=77)

    assert caught.value.context["offset"] == 77


@pytest.mark.parametrize(
    ("avro", "datum"),
    [("long", b"\x80"), ("string", b"\x06ab"), (FIXED, b"1234"), (named("fixed", "huge", size=FIXED_BYTES_MAX), b"1")],
)
def test_a_value_that_leaves_its_record_is_found_though_others_follow(avro: Any, datum: bytes) -> None:
    schema = record_schema({"v": avro, "other": "long"})
    block = block_of([datum, bytes(40)])

    for columns in (["v"], ["other"]):
        with pytest.raises(CorruptDataError, match=r"does not end inside it|a length is wrong"):
            decode(block, schema, columns)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\x00\x00\x03\x00\x00\x00",
        struct.pack(">ii", 3, 1),
        struct.pack(">ii", 3, -1),
        struct.pack(">ii", 3, 2**31 - 1) + bytes(100),
        block_of([b"\x02\x00"])[:-1],
        block_of([b"\x02\x00"]) + b"\x00",
        struct.pack(">iiI", 3, 1, 2**32 - 1) + b"\x02\x00",
        struct.pack(">iii", 3, 2, -4) + bytes(8),
    ],
)
def test_damaged_framing_is_an_error_with_its_place(content: bytes) -> None:
    with pytest.raises(CorruptDataError) as caught:
        decode(content, NUMBERS)

    assert caught.value.context["offset"] == 77
    assert 0 <= caught.value.context["content_offset"] <= len(content)


def test_a_damaged_schema_is_an_error_with_path_and_offset() -> None:
    enums = [record_schema({"v": named("enum", "e", symbols=symbols)}) for symbols in (3, [], [1], ["x" * 2000])]
    for schema in ("{", '"int"', *enums):
        with pytest.raises(CorruptDataError) as caught:
            decode(block_of([]), schema)

        assert caught.value.context["path"] == "p/.f_1.log.1_0-0-0"
        assert caught.value.context["offset"] == 77


@pytest.mark.parametrize("block", [MIXED_BLOCK, RAGGED_BLOCK], ids=["in_columns", "one_by_one"])
def test_any_damage_gives_an_error_or_rows(block: bytes) -> None:
    places = st.integers(0, len(MIXED_BLOCK) - 1)

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(places, st.integers(0, 255)), max_size=4), st.just(len(block)) | places)
    def check(changes: list[tuple[int, int]], end: int) -> None:
        content = bytearray(block)
        for place, value in changes:
            content[place] = value
        try:
            decoded = decode(bytes(content[:end]), MIXED)
        except (CorruptDataError, UnsupportedFeatureError):
            return

        decoded.validate(full=True)

    check()


def test_a_wrong_byte_anywhere_in_a_block_gives_an_error_or_rows() -> None:
    places = range(0, len(MIXED_BLOCK), 3)
    found = 0
    for place in places:
        content = bytearray(MIXED_BLOCK)
        content[place] ^= 0xFF
        try:
            decode(bytes(content), MIXED).validate(full=True)
        except (CorruptDataError, UnsupportedFeatureError):
            found += 1

    assert found > len(places) // 3
