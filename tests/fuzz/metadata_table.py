"""Parsers of the metadata table: its records, keys, and the definitions of indexes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from tests.fuzz import golden, mutations
from tests.fuzz.hostile_avro import any_type, block, damaged_records, datum, hostile_types, record
from tests.fuzz.logs import check_records
from tests.fuzz.target import PATH, Target, joined, require, split, text_of

from pyhudi.format.hfile.reader import read_hfile
from pyhudi.format.metadata_table.index_definitions import (
    IndexDefinition,
    format_index_definitions,
    parse_index_definitions,
)
from pyhudi.format.metadata_table.keys import secondary_keys, split_secondary_keys
from pyhudi.format.metadata_table.records import decode_metadata_records, encode_metadata_records, make_records
from pyhudi.format.metadata_table.schema import PAYLOAD_COLUMNS, arrow_schema, record_schema
from pyhudi.format.timeline.table_version import V6, V8, V9

_PAYLOADS = sorted({*PAYLOAD_COLUMNS.values()})


@cache
def _record_seeds() -> tuple[bytes, ...]:
    """Schemas with one datum each: of JVM Hudi, and made for each table version."""
    rng = Random(5)
    seeds = [_made(rng, json.loads(record_schema(version))) for version in (V6, V8, V9) for _ in range(6)]
    for name in ("v6-files", "v9-files", "v9-record-index-log"):
        hfile = read_hfile((golden.GOLDEN / "hfile" / f"{name}.hfile").read_bytes(), path=PATH)
        seeds += [joined((hfile.schema or "").encode(), b"\0" + value) for value in hfile.values.to_pylist()[:2]]
    return tuple(seeds)


def _made(rng: Random, schema: Any) -> bytes:
    known = {"type": mutations.zigzag(rng.randrange(1, 8))}
    fields = (known.get(field["name"]) or datum(rng, field["type"]) for field in schema["fields"])
    return joined(json.dumps(schema).encode(), bytes([rng.randrange(len(_PAYLOADS))]) + b"".join(fields))


def _made_record(rng: Random, data: bytes, _: bytes) -> bytes:
    """A record of the data's schema, with one column of another type at times."""
    schema = json.loads(text_of(split(data, 2)[0]))
    if rng.random() < 0.3:
        rng.choice(schema["fields"])["type"] = any_type(rng)
    return _made(rng, schema)


def _check_metadata_records(data: bytes) -> None:
    """Records that can be read can be written, and are the same then."""
    schema, rest = split(data, 2)
    payload = _PAYLOADS[(rest or b"\0")[0] % len(_PAYLOADS)]
    keys, values = pa.array([b"a"]), pa.array([rest[1:]], pa.binary())
    found = decode_metadata_records(keys, values, payload, avro_schema=text_of(schema), path=PATH, offset=3)
    found.validate(full=True)
    if found.schema.field(payload).type != arrow_schema(V9).field(payload).type:
        return  # an older schema, or one that damage made
    again = encode_metadata_records(make_records(V9, payload, *found.columns), V9)
    decoded = decode_metadata_records(*again, payload, avro_schema=record_schema(V9), path=PATH, offset=3)
    require(repr(decoded.to_pydict()) == repr(found.to_pydict()), "another record after encoding and decoding")


def _with_unions(rng: Random, _: bytes, __: bytes) -> bytes:
    """Records with unions of several types, some in arrays so long that they are not read by columns."""
    branches: list[Any] = ["null", "int", "string", "boolean", "double", "bytes", record("R", value="long")]
    branches += [{"type": "array", "items": ["null", "string", "R"]}, {"type": "map", "values": "R"}, any_type(rng)]
    branches.append(rng.choice(("int", hostile_types(rng), "long", "float")))
    union = rng.sample(branches, k=rng.choice((2, 3, 5)))
    if "R" in json.dumps(union):
        union = [record("R", value="long"), *(one for one in union if one != record("R", value="long"))]
    schema = record("T", c0="string", c1=union, c2={"type": "array", "items": union})
    count = rng.choice((1, 2, 40))
    rows = [datum(rng, schema) for _ in range(count)]
    if rng.random() < 0.3:
        item, number = datum(rng, union), rng.choice((60, 600))
        rows.append(b"\0" + item + mutations.zigzag(number) + item * number + b"\0")
    return joined(json.dumps(schema).encode(), block(rows))


def _definition_seeds() -> tuple[bytes, ...]:
    made = [
        IndexDefinition(name="column_stats", kind="column_stats", source_columns=("a", "b.c"), version="V2"),
        IndexDefinition(name="secondary_index_x", kind="secondary_index", function="identity", source_columns=("x",)),
        IndexDefinition(name="é", kind="record_index", options={"isPartitioned": "true"}, version="V1"),
    ]
    given = (Path(golden.GOLDEN) / "metadata" / "index_definitions.json").read_bytes()
    return (given, format_index_definitions([]), format_index_definitions(made[:1]), format_index_definitions(made))


def _check_definitions(data: bytes) -> None:
    found = parse_index_definitions(data, path=PATH)
    again = parse_index_definitions(format_index_definitions(found.values()), path=PATH)
    require([*again.values()] == [*{one.name: one for one in found.values()}.values()], "others after writing")


def _check_secondary_keys(data: bytes) -> None:
    keys = pa.array([text_of(data).encode("utf-8", "replace").decode()])
    values, record_keys = split_secondary_keys(keys, path=PATH)
    again = split_secondary_keys(secondary_keys(values, record_keys), path=PATH)
    require(again[0].equals(values) and again[1].equals(record_keys), "another value or key after encoding")


TARGETS = (
    Target(
        name="metadata-records",
        seeds=_record_seeds,
        mutate=mutations.several(
            _made_record,
            _made_record,
            mutations.in_parts(mutations.as_it_is, mutations.binary),
            mutations.in_parts(mutations.json_text, mutations.as_it_is),
        ),
        check=_check_metadata_records,
        share=0.3,
    ),
    Target(
        name="avro-unions",
        seeds=lambda: tuple(_with_unions(Random(number), b"", b"") for number in range(20)),
        mutate=mutations.several(
            _with_unions, damaged_records, mutations.in_parts(mutations.json_text, mutations.binary)
        ),
        check=lambda data: check_records(data, with_unions=True),
        share=0.3,
    ),
    Target(
        name="index-definitions",
        seeds=_definition_seeds,
        mutate=mutations.several(mutations.json_text, mutations.text),
        check=_check_definitions,
        share=0.5,
    ),
    Target(
        name="secondary-keys",
        seeds=lambda: (b"a$k", b"\0$k", b"\\$\\\\$\\\0", "\u00e9$\U0001f600$$".encode()),
        mutate=mutations.binary,
        check=_check_secondary_keys,
        share=0.5,
    ),
)
