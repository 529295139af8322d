"""Delete blocks: the bytes that Hudi 1.2.0 writes, every kind of ordering value, damage."""

from __future__ import annotations

import datetime
import io
import struct
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pyhudi.errors import (
    CorruptDataError,
    InvalidRequestError,
    RecordKeyError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from pyhudi.format.log import delete_block_encode
from pyhudi.format.log.delete_block_decode import DeletedRecords, decode_delete_block
from pyhudi.format.log.delete_block_encode import encode_delete_block

PATH = "p/.f_1.log.1_0-0-0"
OFFSET = 1000

UTC_MICROS = pa.timestamp("us", tz="UTC")
DECIMAL = pa.decimal128(10, 2)


def content_of(datum: bytes, version: int = 3) -> pa.Buffer:
    return pa.py_buffer(struct.pack(">ii", version, len(datum)) + datum)


def decode(content: pa.Buffer | bytes, *types: pa.DataType) -> DeletedRecords:
    content = content if isinstance(content, pa.Buffer) else pa.py_buffer(content)
    return decode_delete_block(content, types, path=PATH, offset=OFFSET)


def encode(keys: Sequence[str], *ordering: pa.Array, partition: str = "p=0") -> bytes:
    partitions = pa.array([partition] * len(keys), pa.string())
    return encode_delete_block(pa.array(keys, pa.string()), partitions, ordering, array_wrapper_allowed=True)


def moments(*seconds: int) -> pa.Array:
    day = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return pa.array([day + datetime.timedelta(seconds=each, microseconds=5) for each in seconds], UTC_MICROS)


def column(kind: pa.DataType, *values: Any) -> pa.Array:
    return pa.array(values, kind)


_SEVERAL = (
    "0402046b31020261180206068a898383e2f58606120ef71e43640fc0000404"
    "0002046b32020261180206068a92fd83e2f58606120e0d529ae9e8600004060000"
)
#: What Hudi 1.2.0 wrote for records k1 and k2 of partition `a` that were upserted with `_hoodie_is_deleted`.
WRITTEN_BY_HUDI: dict[str, tuple[str, tuple[pa.Array, ...]]] = {
    "boolean": ("0402046b31020261020002046b32020261020100", (column(pa.bool_(), False, True),)),
    "int": ("0402046b31020261040402046b32020261040600", (column(pa.int32(), 2, 3),)),
    "long": ("0402046b31020261060402046b32020261060600", (column(pa.int64(), 2, 3),)),
    "long-0": ("0402046b31020261060002046b32020261060600", (column(pa.int64(), 0, 3),)),
    "long-null": ("0402046b310202610002046b32020261060600", (column(pa.int64(), None, 3),)),
    "float": ("0402046b3102026108000020c002046b32020261080000000000", (column(pa.float32(), -2.5, 0),)),
    "double": (
        "0402046b310202610a00000000000004c002046b320202610a000000000000000000",
        (column(pa.float64(), -2.5, 0),),
    ),
    "string": (
        "0402046b310202610e0662c3a902046b320202610e8c01" + "63" * 70 + "00",
        (column(pa.string(), "bé", "c" * 70),),
    ),
    "timestamp": ("0402046b31020261068a898383e2f5860602046b32020261068a92fd83e2f5860600", (moments(1, 2),)),
    "decimal": (
        "0402046b31020261120ef71e43640fc00002046b32020261120e0d529ae9e8600000",
        (column(DECIMAL, Decimal("-2.50"), Decimal("3.75")),),
    ),
    "several": (
        _SEVERAL,
        (moments(1, 2), column(DECIMAL, Decimal("-2.50"), Decimal("3.75")), column(pa.int32(), 2, 3)),
    ),
    "several-dates": (
        "0402046b3102026118020406041898b4020002046b3202026118020406061887390000",
        (
            column(pa.int64(), 2, 3),
            column(pa.date32(), datetime.date(2024, 1, 2), datetime.date(1960, 1, 2)),
        ),
    ),
    "several-bytes": (
        "0402046b3102026118020406040c0479790002046b3202026118020406060c000000",
        (column(pa.int64(), 2, 3), column(pa.binary(), b"yy", b"")),
    ),
    "several-nulls": (
        "0402046b31020261180204000e02620002046b3202026118020400000000",
        (column(pa.int64(), None, None), column(pa.string(), "b", None)),
    ),
    "several-zeros": (
        "0402046b31020261180204040004000002046b32020261180204040604000000",
        (column(pa.int32(), 0, 3), column(pa.int32(), 0, 0)),
    ),
}


@pytest.mark.parametrize(("datum", "ordering"), WRITTEN_BY_HUDI.values(), ids=WRITTEN_BY_HUDI)
def test_block_of_jvm_hudi_is_read_and_written_alike(datum, ordering):
    content = content_of(bytes.fromhex(datum))
    found = decode(content, *(each.type for each in ordering))
    assert found.record_keys.equals(column(pa.string(), "k1", "k2"))
    assert found.partition_paths.equals(column(pa.string(), "a", "a"))
    assert found.ordering == ordering
    assert found.by_commit_time.to_pylist() == [len(ordering) == 1 and not ordering[0][0].is_valid, False]
    assert encode(["k1", "k2"], *ordering, partition="a") == content.to_pybytes()


def test_delete_by_key_of_jvm_hudi_counts_by_commit_time():
    content = bytes.fromhex("000000030000000d") + bytes.fromhex("0202046b300206703d30040000")
    for types in ((), (pa.int64(),), (pa.string(),), (pa.int32(), UTC_MICROS)):
        found = decode(content, *types)
        assert found.record_keys.to_pylist() == ["k0"]
        assert found.partition_paths.to_pylist() == ["p=0"]
        assert found.by_commit_time.to_pylist() == [True]
        nulls = tuple(pa.nulls(1, each) for each in types)
        assert found.ordering == (nulls or None)
    assert encode(["k0"]) == content


def test_int_zero_and_null_count_by_commit_time_among_other_values():
    content = bytearray(encode(["a", "b", "c"], column(pa.int32(), 1, 0, None)))
    found = decode(bytes(content), pa.int32())
    assert found.by_commit_time.to_pylist() == [False, True, True]
    assert found.ordering[0].to_pylist() == [1, None, None]


def test_date_alone_is_wrapped_as_by_hudi_0_15():
    day = datetime.date(2024, 1, 2)
    content = encode(["a"], column(pa.date32(), day))
    assert content[-5:] == bytes.fromhex("1098b40200")
    assert decode(content, pa.date32()).ordering[0].to_pylist() == [day]


def test_date_alone_is_a_number_of_days_where_readers_know_no_date():
    day = datetime.date(2024, 1, 2)
    keys = pa.array(["a"])
    content = encode_delete_block(
        keys, keys, [column(pa.date32(), day)], array_wrapper_allowed=True, dates_as_ints=True
    )
    assert content[-5:] == bytes.fromhex("0498b40200")
    assert decode(content, pa.date32()).ordering[0].to_pylist() == [day]

    both = [column(pa.date32(), day), column(pa.int64(), 7)]
    content = encode_delete_block(keys, keys, both, array_wrapper_allowed=True, dates_as_ints=True)
    assert bytes.fromhex("0498b402") in content
    assert decode(content, pa.date32(), pa.int64()).ordering == tuple(both)


def test_no_ordering_types_leave_stored_values_out():
    found = decode(encode(["a", "b"], column(pa.int64(), 1, 2), column(pa.string(), "x", "y")))
    assert found.ordering is None
    assert found.by_commit_time.to_pylist() == [True, True]
    assert found.record_keys.to_pylist() == ["a", "b"]


def test_no_deletes_at_all():
    content = encode([])
    assert content == bytes.fromhex("000000030000000100")
    found = decode(content, pa.int64(), pa.string())
    assert (len(found.record_keys), len(found.by_commit_time)) == (0, 0)
    assert [each.type for each in found.ordering] == [pa.int64(), pa.string()]


# ----- any values ----------------------------------------------------------------------------------------------------

# The years 1 to 9999, which are those of Python's own datetime: the test looks at values through it.
MICROSECONDS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
ORDERING_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=100),
    pa.large_string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=9),
    pa.date32(): st.dates(),
    UTC_MICROS: MICROSECONDS,
    pa.timestamp("us"): MICROSECONDS,
    pa.time64("us"): st.integers(0, 86_399_999_999),
    pa.time32("ms"): st.integers(0, 86_399_999),
    pa.decimal128(38, 0): st.decimals(-(10**37), 10**37, places=0),
    pa.decimal128(30, 15): st.decimals(-(10**14), 10**14, places=15),
    DECIMAL: st.decimals(-(10**7), 10**7, places=2),
}

KEYS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\0\1\2\4\6"), max_size=12)


@st.composite
def deletes(draw: st.DrawFn) -> tuple[list[str], list[str], list[pa.Array]]:
    keys = draw(st.lists(KEYS, max_size=8))
    partitions = draw(st.lists(KEYS, min_size=len(keys), max_size=len(keys)))
    types = draw(st.lists(st.sampled_from(list(ORDERING_VALUES)), max_size=3))
    columns = [
        draw(st.lists(st.none() | ORDERING_VALUES[kind], min_size=len(keys), max_size=len(keys))) for kind in types
    ]
    return keys, partitions, [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]


@settings(max_examples=60, deadline=None)
@given(deletes())
def test_any_deletes_come_back(given_deletes):
    keys, partitions, ordering = given_deletes
    content = encode_delete_block(
        pa.array(keys, pa.string()), pa.array(partitions, pa.string()), ordering, array_wrapper_allowed=True
    )
    found = decode(content, *(each.type for each in ordering))
    assert (found.record_keys.to_pylist(), found.partition_paths.to_pylist()) == (keys, partitions)
    sentinels = [not ordering] * len(keys)
    if len(ordering) == 1:
        sentinels = [value is None or (value == 0 and ordering[0].type.bit_width <= 32) for value in _raw(ordering[0])]
        ordering = [pa.array([None if by else value for by, value in _rows(sentinels, ordering[0])], ordering[0].type)]
    assert found.by_commit_time.to_pylist() == sentinels
    assert found.ordering == (tuple(ordering) or None)


def _raw(ordering: pa.Array) -> list[Any]:
    """Values with 0 where an int of at most 32 bits is 0, and nowhere else."""
    if pa.types.is_time32(ordering.type):
        return ordering.cast(pa.int32()).to_pylist()
    if pa.types.is_integer(ordering.type) and not pa.types.is_int64(ordering.type):
        return ordering.to_pylist()
    return [None if value is None else 1 for value in ordering.to_pylist()]


def _rows(flags: list[bool], values: pa.Array) -> zip[tuple[bool, Any]]:
    return zip(flags, values.to_pylist(), strict=True)


_BRANCHES = ["boolean", "int", "long", "float", "double", "bytes", "string", "int", "bytes", "long", "long"]


def _wrapper(n: int, kind: str, inside: str = "") -> dict[str, Any]:
    return {"type": "record", "name": f"W{inside}{n}", "fields": [{"name": "value", "type": kind}]}


def reference_schema() -> Any:
    plain = ["null", *(_wrapper(n + 1, kind) for n, kind in enumerate(_BRANCHES))]
    inner = ["null", *(f"W{n + 1}" for n in range(len(_BRANCHES))), _wrapper(12, "int", "inside")]
    values = {"name": "wrappedValues", "type": ["null", {"type": "array", "items": inner}]}
    ordering = [*plain, {"type": "record", "name": "W12", "fields": [values]}]
    fields = [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": ordering},
    ]
    record = {"type": "record", "name": "HoodieDeleteRecord", "fields": fields}
    listed = [{"name": "deleteRecordList", "type": {"type": "array", "items": record}}]
    return fastavro.parse_schema({"type": "record", "name": "HoodieDeleteRecordList", "fields": listed})


REFERENCE = reference_schema()


def reference_bytes(records: list[tuple[str, str | None, Any]]) -> bytes:
    """The datum as an independent library writes it."""
    sink = io.BytesIO()
    rows = [dict(zip(("recordKey", "partitionPath", "orderingVal"), record, strict=True)) for record in records]
    fastavro.schemaless_writer(sink, REFERENCE, {"deleteRecordList": rows})
    return sink.getvalue()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(KEYS, st.none() | KEYS, st.none() | st.integers(-300, 300) | st.sampled_from([0x0202, 2, 1, -1])),
        max_size=20,
    )
)
# A record whose bytes hold another one: key, partition path and value of the inner one begin inside of the outer key.
@example([("\2\2k\2\2p\6\4", "\2\2k\2\2p\6\4", 2), ("\2\2", None, 257), ("a", "\2\0\2\0\0\2\0\2", 1)])
def test_block_of_another_avro_writer_is_read(records):
    datum = reference_bytes(
        [(key, path, None if value is None else ("W3", {"value": value})) for key, path, value in records]
    )
    found = decode(content_of(datum), pa.int64())
    columns = (found.record_keys, found.partition_paths, found.ordering[0])
    assert list(zip(*(each.to_pylist() for each in columns), strict=True)) == records


@settings(max_examples=40, deadline=None)
@given(deletes())
def test_block_is_read_by_another_avro_reader(given_deletes):
    keys, partitions, ordering = given_deletes
    content = encode_delete_block(
        pa.array(keys, pa.string()), pa.array(partitions, pa.string()), ordering, array_wrapper_allowed=True
    )
    source = io.BytesIO(content[8:])
    rows = fastavro.schemaless_reader(source, REFERENCE, None)["deleteRecordList"]
    assert source.read() == b""
    assert [row["recordKey"] for row in rows] == keys
    assert [row["partitionPath"] for row in rows] == partitions
    for n, column in enumerate(ordering):
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_string(column.type):
            wrapped = [row["orderingVal"] for row in rows]
            if len(ordering) > 1:
                wrapped = [each["wrappedValues"][n] for each in wrapped]
            assert [each and each["value"] for each in wrapped] == column.to_pylist()


def test_list_in_several_blocks_is_read():
    record = "0204{}02026106{}"
    first, second, third = (bytes.fromhex(record.format(f"6b3{n}", f"0{2 * n}")) for n in (1, 2, 3))
    # A negative count is followed by the block's size in bytes.
    datum = bytes([2]) + first + bytes([3, 2 * len(second + third)]) + second + third + bytes([0])
    found = decode(content_of(bytes([2]) + first + bytes([1, 2 * len(second)]) + second + bytes([0])), pa.int64())
    assert found.record_keys.to_pylist() == ["k1", "k2"]
    found = decode(content_of(datum), pa.int64())
    assert found.record_keys.to_pylist() == ["k1", "k2", "k3"]
    assert found.ordering[0].to_pylist() == [1, 2, 3]


def test_many_deletes_come_back_across_steps():
    count = 140_000
    keys = pa.array([f"key-{n:030}" for n in range(count)])
    ordering = [pa.array(range(-900, count - 900), pa.int64()), pa.array(range(count), pa.int32())]
    everything = pa.record_batch([keys, keys, *ordering], ["k", "p", "a", "b"]).slice(500)
    content = encode_delete_block(*everything.columns[:2], everything.columns[2:], array_wrapper_allowed=True)
    assert everything.num_rows > 2 * 65_536  # so many are encoded in a step
    assert len(content) > 2 * (4 << 20)  # so many bytes are decoded in a step
    found = decode(content, pa.int64(), pa.int32())
    assert [found.record_keys, found.partition_paths, *found.ordering] == everything.columns


# ----- values of another kind than the column ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "wanted", "values"),
    [
        (column(pa.int32(), 7, -1), pa.int64(), [7, -1]),
        (column(pa.int64(), 7, -1), pa.int32(), [7, -1]),
        (column(pa.int32(), 7, -1), pa.float64(), [7.0, -1.0]),
        (column(pa.int64(), 2**40 + 1, -1), pa.float32(), [2.0**40, -1.0]),
        (column(pa.float32(), 1.5, -1), pa.float64(), [1.5, -1.0]),
        (column(pa.string(), "é", ""), pa.binary(), ["é".encode(), b""]),
        (column(pa.binary(), b"a", b""), pa.string(), ["a", ""]),
        (column(DECIMAL, Decimal("1.50"), Decimal("-2")), pa.decimal128(20, 1), [Decimal("1.5"), Decimal("-2.0")]),
        (
            column(pa.timestamp("us"), 5_000, -1_000),
            pa.timestamp("ms"),
            [datetime.timedelta(0, 0, 5000), datetime.timedelta(0, 0, -1000)],
        ),
    ],
    ids=str,
)
def test_value_of_a_related_kind_becomes_the_column_s(stored, wanted, values):
    found = decode(encode(["a", "b"], stored), wanted).ordering[0]
    if pa.types.is_timestamp(wanted):
        values = [datetime.datetime(1970, 1, 1) + each for each in values]
    assert (found.type, found.to_pylist()) == (wanted, values)


def test_kinds_may_change_from_delete_to_delete():
    narrow, wide = encode(["a", "b"], column(pa.int32(), 1, 2)), encode(["c", "d"], column(pa.int64(), 3, None))
    halves = [narrow[9:-1], wide[9:-1]]
    found = decode(content_of(bytes([8]) + halves[1] + halves[0] + bytes([0])), pa.int64())
    assert found.record_keys.to_pylist() == ["c", "d", "a", "b"]
    assert found.ordering[0].to_pylist() == [3, None, 1, 2]
    assert found.by_commit_time.to_pylist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ([column(pa.int64(), 2**40)], [pa.int32()]),
        ([column(pa.string(), "a")], [pa.int32()]),
        ([column(pa.int32(), 5)], [pa.string()]),
        ([column(pa.float64(), 1.5)], [pa.float32()]),
        ([column(pa.binary(), b"\xff")], [pa.string()]),
        ([column(DECIMAL, Decimal("1.25"))], [pa.decimal128(10, 1)]),
        ([column(pa.date32(), datetime.date(2024, 1, 1))], [UTC_MICROS]),
        ([column(pa.int64(), 5)], [pa.list_(pa.int64())]),
        ([column(pa.int64(), 5)], [pa.int64(), pa.int64()]),
        ([column(pa.int64(), 5), column(pa.int64(), 5)], [pa.int64()]),
        ([column(pa.int64(), 5), column(pa.int64(), 5)], [pa.int64()] * 3),
        ([column(pa.int64(), 5), column(pa.string(), "a")], [pa.int64(), pa.int64()]),
    ],
    ids=lambda value: ",".join(str(one.type if isinstance(one, pa.Array) else one) for one in value),
)
def test_value_that_cannot_be_of_the_column_is_refused_with_its_place(stored, wanted):
    with pytest.raises(SchemaMismatchError) as caught:
        decode(encode(["k"], *stored), *wanted)
    assert caught.value.context["path"] == PATH
    # Behind the two int32, the count, "k" and "p=0"; in an array, behind its own beginning or some element.
    assert OFFSET + 8 + 1 + 3 + 5 <= caught.value.context["offset"] <= OFFSET + 8 + 1 + 3 + 5 + 5


# ----- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2, 4, -1])
def test_block_of_another_version_is_refused(version):
    with pytest.raises(UnsupportedFeatureError) as caught:
        decode(content_of(b"\0", version))
    assert caught.value.context == {"block_version": version, "path": PATH, "offset": OFFSET}


RECORD = bytes.fromhex("02046b31020261")

DAMAGED = {
    "nothing": b"",
    "bytes-after-the-list": b"\0\0",
    "bytes-after-the-last-delete": b"\2" + RECORD + b"\6\4\0\0",
    "list-without-end": b"\2" + RECORD + b"\6\4",
    "list-longer-than-the-block": b"\4" + RECORD + b"\6\4" + b"\0",
    "list-shorter-than-the-block": b"\2" + RECORD + b"\6\4" + RECORD + b"\6\4" + b"\0",
    "count-without-end": b"\xff" * 12,
    "key-null": b"\2\0\2\2a\6\4\0",
    "key-negative": b"\2\2\3k1\2\2a\6\4\0",
    "key-too-long": b"\2\2\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1k1\2\2a\6\4\0",
    "key-not-utf8": b"\2\2\4\xff\xff\2\2a\6\4\0",
    "path-of-no-branch": b"\2\2\4k1\4\2a\6\4\0",
    "value-of-no-branch": b"\2" + RECORD + b"\x1a\4\0",
    "value-of-odd-branch": b"\2" + RECORD + b"\5\4\0",
    "boolean-of-two": b"\2" + RECORD + b"\2\2\0",
    "int-too-large": b"\2" + RECORD + b"\4\xff\xff\xff\xff\xff\1\0",
    "double-cut": b"\2" + RECORD + b"\x0a\0\0\0\0",
    "string-too-long": b"\2" + RECORD + b"\x0e\x08ab\0",
    "array-null": b"\2" + RECORD + b"\x18\0\0",
    "array-empty": b"\2" + RECORD + b"\x18\2\0\0",
    "array-without-end": b"\2" + RECORD + b"\x18\2\2\6\4\2\0",
    "array-of-too-many": b"\2" + RECORD + b"\x18\2\x82\1" + b"\6\4" * 65 + b"\0\0",
}


@pytest.mark.parametrize("datum", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("types", [(), (pa.int64(),)], ids=["by-commit-time", "by-value"])
def test_damaged_list_is_refused_with_its_place(datum, types):
    with pytest.raises(CorruptDataError) as caught:
        decode(content_of(datum), *types)
    assert caught.value.context["path"] == PATH
    assert OFFSET + 8 <= caught.value.context["offset"] <= OFFSET + 8 + len(datum)


def test_content_of_another_size_is_refused():
    content = encode(["a"])
    for damaged in (content[:-1], content + b"\0", content[:7], b""):
        with pytest.raises(CorruptDataError):
            decode(damaged)


def test_damage_of_any_byte_gives_deletes_or_a_typed_error():
    ordering = moments(1, 2), column(DECIMAL, Decimal("-2.50"), None), column(pa.string(), "é", None)
    content = encode(["k1", "\2"], *ordering)
    for place in range(len(content)):
        for flip in (1, 2, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[place] ^= flip
            with suppress(CorruptDataError, SchemaMismatchError, UnsupportedFeatureError):
                found = decode(bytes(damaged), *(each.type for each in ordering))
                assert len(found.record_keys) == len(found.by_commit_time) == len(found.ordering[2])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=6) | st.sampled_from([RECORD, b"\6\4", b"\x18\2\4", b"\0", b"\2"]), max_size=12))
def test_any_bytes_give_deletes_or_a_typed_error(pieces):
    with suppress(CorruptDataError, SchemaMismatchError):
        decode(content_of(b"".join(pieces)), pa.int64())


def test_record_without_key_is_refused():
    keys, partitions = pa.array(["a", None]), pa.array(["", ""])
    with pytest.raises(RecordKeyError):
        encode_delete_block(keys, partitions, [], array_wrapper_allowed=False)


def test_several_ordering_fields_are_refused_where_readers_do_not_know_them():
    keys, ordering = pa.array(["a"]), [pa.array([1]), pa.array([2])]
    with pytest.raises(UnsupportedFeatureError):
        encode_delete_block(keys, keys, ordering, array_wrapper_allowed=False)


@pytest.mark.parametrize(
    "ordering",
    [
        column(pa.decimal128(30, 16), Decimal("0.0000000000000001")),
        column(pa.list_(pa.int64()), [1]),
        column(pa.timestamp("ns"), 1),
    ],
    ids=str,
)
def test_ordering_value_that_no_wrapper_holds_is_refused(ordering):
    with pytest.raises(SchemaMismatchError) as caught:
        encode(["a"], ordering)
    assert caught.value.context["type"] == str(ordering.type)


def test_block_that_is_too_large_is_refused(monkeypatch):
    content = encode(["a", "b"])
    monkeypatch.setattr(delete_block_encode, "CONTENT_BYTES_MAX", len(content))
    assert encode(["a", "b"]) == content
    monkeypatch.setattr(delete_block_encode, "CONTENT_BYTES_MAX", len(content) - 1)
    with pytest.raises(InvalidRequestError):
        encode(["a", "b"])
