"""Avro containers: what real writers make, the exact bytes of ours, and damage of every kind."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.avro import container as avro_container
from pyhudi.format.avro.container import MAGIC, decode_container, encode_container
from pyhudi.format.metadata import avro_schemas

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata"
PATH = "t/.hoodie/timeline/1.commit"
RECORDS = {
    "commit_v9.avro": avro_schemas.COMMIT_METADATA,
    "replacecommit_v9.avro": avro_schemas.REPLACE_COMMIT_METADATA,
    "overwrite_requested.avro": avro_schemas.REQUESTED_REPLACE_METADATA,
    "clustering_requested.avro": avro_schemas.REQUESTED_REPLACE_METADATA,
    "rollback_plan.avro": avro_schemas.ROLLBACK_PLAN,
    "rollback.avro": avro_schemas.ROLLBACK_METADATA,
}

every_golden = pytest.mark.parametrize("name", RECORDS)


def golden(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def container(schema: Any, record: bytes, *, count: bytes = b"\x02", header: dict[str, bytes] | None = None) -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    entries = {"avro.schema": text} if header is None else header
    parts = [MAGIC, number(len(entries))]
    for key, value in entries.items():
        parts += [number(len(key)), key.encode(), number(len(value)), value]
    return b"".join([*parts, b"\x00", b"S" * 16, count, number(len(record)), record, b"S" * 16])


def number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", value)
    return out.getvalue()


def record_of(field_type: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": field_type}]}


def wire_form(schema: Any) -> Any:
    """A schema without what does not change the wire: docs, and the stray defaults inside types of Hudi's files."""
    if isinstance(schema, list):
        return [wire_form(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_container = schema.get("type") in ("array", "map") and "name" not in schema
    dropped = {"doc", "default"} if is_container else {"doc"}
    return {key: wire_form(value) for key, value in schema.items() if key not in dropped}


def header_of(data: bytes) -> dict[str, bytes]:
    metadata: dict[str, bytes] = fastavro.reader(io.BytesIO(data))._header["meta"]
    return metadata


@every_golden
def test_schema_of_ours_is_that_of_real_writers(name: str) -> None:
    assert wire_form(json.loads(header_of(golden(name))["avro.schema"])) == wire_form(RECORDS[name])


@every_golden
def test_container_of_a_real_writer_decodes_as_by_fastavro(name: str) -> None:
    decoded = decode_container(golden(name), path=PATH)
    assert decoded.name == RECORDS[name]["name"]
    assert decoded.values == next(fastavro.reader(io.BytesIO(golden(name))))


@every_golden
def test_container_of_ours_has_the_record_bytes_of_real_writers(name: str) -> None:
    theirs = golden(name)
    ours = encode_container(RECORDS[name], decode_container(theirs, path=PATH).values)
    assert header_of(ours).keys() == header_of(theirs).keys() == {"avro.schema"}
    assert body(ours) == body(theirs)
    assert next(fastavro.reader(io.BytesIO(ours))) == next(fastavro.reader(io.BytesIO(theirs)))


def body(data: bytes) -> bytes:
    """The block of a container without its sync marker."""
    return data[data.index(data[-16:]) + 16 : -16]


@every_golden
def test_container_cut_anywhere_is_refused(name: str) -> None:
    data = golden(name)
    for size in range(len(data)):
        with pytest.raises(CorruptDataError) as caught:
            decode_container(data[:size], path=PATH)
        assert caught.value.context["path"] == PATH


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_container_with_flipped_bytes_gives_a_record_or_a_typed_error(data: st.DataObject) -> None:
    damaged = bytearray(golden(data.draw(st.sampled_from(sorted(RECORDS)))))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    decode_or_typed_error(bytes(damaged))


def test_container_with_any_bit_flipped_gives_a_record_or_a_typed_error() -> None:
    whole = golden("rollback_plan.avro")
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << (position % 8)
        decode_or_typed_error(bytes(damaged))


@given(st.binary(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_a_record_or_a_typed_error(data: bytes) -> None:
    decode_or_typed_error(data)
    decode_or_typed_error(MAGIC + data)
    decode_or_typed_error(container(record_of(["null", {"type": "map", "values": "string"}]), data))


def decode_or_typed_error(data: bytes) -> None:
    with contextlib.suppress(CorruptDataError, UnsupportedFeatureError):
        decode_container(data, path=PATH)


def test_damage_in_the_record_is_reported_with_its_offset() -> None:
    data = container(record_of("string"), number(5) + b"ab")
    with pytest.raises(CorruptDataError, match="record in the Avro file") as caught:
        decode_container(data, path=PATH)
    assert caught.value.context["offset"] == data.index(number(5) + b"ab") + 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (b"PAR1", "not an Avro file"),
        (container(record_of("long"), b"\x02", count=b"\x04"), "2 records"),
        (container(record_of("long"), b"\x02", count=b"\x00"), "0 records"),
        (container(record_of("long"), b"\x02\x02"), "does not fill"),
        (container(record_of("long"), b""), "record in the Avro file"),
        (container(record_of("long"), b"\x02") + b"x", "does not end"),
        (container(record_of("long"), b"\x02")[:-1] + b"T", "does not end"),
        (container(record_of("long"), b"\x02", header={}), "no schema"),
        (container(b"{", b"\x02"), "schema in the Avro file"),
        (container(b"[" * 100_000, b"\x02"), "schema in the Avro file"),
        (container("long", b"\x02"), "schema in the Avro file"),
        (container(record_of("unknown"), b"\x02"), "schema in the Avro file"),
        (MAGIC + b"\xff" * 11, "number in the Avro file"),
        (MAGIC + b"\x01\x02", "truncated"),
    ],
)
def test_damage_is_told_by_its_kind(data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        decode_container(data, path=PATH)


def test_compressed_container_is_refused_by_its_codec() -> None:
    out = io.BytesIO()
    fastavro.writer(out, record_of("long"), [{"x": 1}], codec="deflate")
    with pytest.raises(UnsupportedFeatureError, match="deflate"):
        decode_container(out.getvalue(), path=PATH)


def test_container_with_the_codec_null_is_read() -> None:
    out = io.BytesIO()
    fastavro.writer(out, record_of("long"), [{"x": 1}])
    assert decode_container(out.getvalue(), path=PATH).values == {"x": 1}


def test_container_with_a_header_in_sized_blocks_is_read() -> None:
    whole = container(record_of("long"), b"\x04")
    entry = whole[5 : whole.index(b"\x00" + b"S" * 16)]
    sized = MAGIC + b"\x01" + number(len(entry)) + entry + whole[5 + len(entry) :]
    assert decode_container(sized, path=PATH).values == {"x": 2}


NESTED = record_of("long")
for depth in range(avro_container.SCHEMA_DEPTH_MAX):
    NESTED = {**record_of(NESTED), "name": f"R{depth}"}


@pytest.mark.parametrize(
    ("schema", "record"),
    [
        # With larger numbers each asks for endless work or depth in a few bytes.
        (record_of({"type": "array", "items": "null"}), number(1000) + b"\x00"),
        (record_of({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}), number(1000) + b"\x00"),
        (record_of({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}), number(1000) + b"\x00"),
        (record_of(["null", "R"]), b"\x02" * 50 + b"\x00"),
        (record_of({"type": "array", "items": "R"}), b"\x02" * 50 + b"\x00" * 51),
        (NESTED, b"\x02"),
    ],
    ids=["nulls", "empty_fixed", "empty_records", "recursion", "recursion_in_array", "depth"],
)
def test_schema_that_asks_for_endless_work_is_refused(schema: Any, record: bytes) -> None:
    with pytest.raises(CorruptDataError, match="schema"):
        decode_container(container(schema, record), path=PATH)


@pytest.mark.parametrize("limit", ["CONTAINER_BYTES_MAX", "SCHEMA_BYTES_MAX"])
def test_container_above_a_limit_is_refused(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_container, limit, 5)
    with pytest.raises(CorruptDataError):
        decode_container(container(record_of("long"), b"\x02"), path=PATH)


def test_named_types_are_found_in_their_namespaces() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "y", "type": "long"}]}
    schema = {
        "type": "record",
        "name": "R",
        "namespace": "a.b",
        "fields": [
            {"name": "one", "type": inner},
            {"name": "two", "type": "I"},
            {"name": "three", "type": "a.b.I"},
            {"name": "kind", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "same", "type": ["null", "E"]},
        ],
    }
    decoded = decode_container(container(schema, b"\x02\x04\x06\x02\x02\x00"), path=PATH)
    assert decoded.name == "R"
    assert decoded.values == {"one": {"y": 1}, "two": {"y": 2}, "three": {"y": 3}, "kind": "B", "same": "A"}


def test_same_record_encodes_to_the_same_bytes() -> None:
    values = decode_container(golden("rollback.avro"), path=PATH).values
    assert encode_container(avro_schemas.ROLLBACK_METADATA, values) == encode_container(
        avro_schemas.ROLLBACK_METADATA, dict(values)
    )
