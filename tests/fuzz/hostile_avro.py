"""Avro that nobody honest writes: schemas that recurse, explode or lie, and containers and records made with them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.mutations import binary, json_value, varint, zigzag
from tests.fuzz.target import joined, split

Schema = Any
_SYNC = bytes(range(16))
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_LOGICAL = (
    *(("int", "date"), ("int", "time-millis"), ("long", "time-micros"), ("long", "timestamp-millis")),
    *(("long", "timestamp-micros"), ("long", "local-timestamp-micros"), ("long", "local-timestamp-millis")),
    *(("long", "timestamp-nanos"), ("string", "uuid"), ("string", "date"), ("bytes", "decimal"), ("int", "decimal")),
)
_DATUM_BYTES_MAX = 20_000
_DEPTH_MAX = 4


def record(name: str, **fields: Schema) -> Schema:
    """A record schema."""
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


def doubling(leaf: Schema, levels: int) -> Schema:
    """A record of two records of two records…: few characters, and 2^levels leaves."""
    inner: Schema = record(f"L{levels}", a=leaf)
    for level in range(levels - 1, -1, -1):
        inner = record(f"L{level}", a=inner, b=f"L{level + 1}")
    return inner


def nested(kind: Callable[[Schema], Schema], levels: int, leaf: Schema) -> Schema:
    """A type inside of a type inside of a type…"""
    for _ in range(levels):
        leaf = kind(leaf)
    return leaf


def hostile_types(rng: Random) -> Schema:
    """A type that asks for more than it says, or contradicts itself."""
    levels = rng.choice((3, 10, 14, 17, 20, 30, 60))
    size = rng.choice((0, 1, 16, 1 << 20, 1 << 26, (1 << 31) - 1, 1 << 40, -1, "4", 1.5, True))
    return rng.choice(
        (
            lambda: doubling(
                rng.choice(("null", "long", ["null", "long"], {"type": "fixed", "name": "F", "size": 0})), levels
            ),
            lambda: nested(lambda t: {"type": "array", "items": t}, levels * 2, rng.choice(("null", "long"))),
            lambda: nested(lambda t: {"type": "map", "values": t}, levels * 2, "null"),
            lambda: nested(lambda t: {"type": t}, levels * 4, "long"),
            lambda: nested(lambda t: ["null", t], levels, "long"),
            lambda: {"type": "fixed", "name": "F", "size": size},
            lambda: ["null", {"type": "fixed", "name": "F", "size": size}],
            lambda: {
                "type": "fixed",
                "name": "D",
                "size": size,
                "logicalType": "decimal",
                "precision": levels,
                "scale": 2,
            },
            lambda: {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": rng.choice((0, 1, 38, 39, 10**9)),
                "scale": size,
            },
            lambda: record("Self", again=["null", "Self"]),
            lambda: record("Self", again={"type": "array", "items": "Self"}),
            lambda: {"type": "array", "items": doubling("null", levels)},
            lambda: ["null", doubling("long", levels)],
            lambda: {
                "type": "enum",
                "name": "E",
                "symbols": rng.choice(([], ["A", "A"], ["\ud800"], [1], ["a" * 2000], ["A"])),
            },
            lambda: ["null", "int", "string"],
            list,
            lambda: record("Wide", **{f"c{number}": ["null", "long"] for number in range(rng.choice((100, 1000)))}),
            lambda: {"type": "record", "name": rng.choice(("", "a.b", "\ud800", "\0", "1", 5)), "fields": []},
            lambda: {"type": "record", "name": "R", "namespace": rng.choice((5, "", "x.y", None)), "fields": []},
            lambda: "Unknown",
            lambda: {"type": "long", "logicalType": rng.choice(({}, [], 5, "x" * 1000))},
        )
    )()


def any_type(rng: Random, depth: int = 0, names: list[str] | None = None) -> Schema:
    """A type, legal most of the time."""
    names = [] if names is None else names
    if rng.random() < 0.06:
        return hostile_types(rng)
    if names and rng.random() < 0.1:
        return rng.choice(names)
    if depth >= _DEPTH_MAX or rng.random() < 0.4:
        if rng.random() < 0.6:
            return rng.choice(_PRIMITIVES)
        base, logical = rng.choice(_LOGICAL)
        return {
            "type": base,
            "logicalType": logical,
            "precision": rng.choice((1, 10, 18, 38)),
            "scale": rng.choice((0, 1, 9)),
        }
    name = f"n{len(names)}"
    match rng.randrange(6):
        case 0:
            inner = any_type(rng, depth + 1, names)
            return [inner, "null"] if rng.random() < 0.3 else ["null", inner]
        case 1:
            return {"type": "array", "items": any_type(rng, depth + 1, names)}
        case 2:
            return {"type": "map", "values": any_type(rng, depth + 1, names)}
        case 3:
            names.append(name)
            return {"type": "enum", "name": name, "symbols": ["A", "B", "\u00e4"]}
        case 4:
            names.append(name)
            size = rng.choice((1, 4, 16, 17))
            decimal = {"logicalType": "decimal", "precision": 2 * size, "scale": 1} if rng.random() < 0.5 else {}
            return {"type": "fixed", "name": name, "size": size, **decimal}
    fields = {f"f{number}": any_type(rng, depth + 1, names) for number in range(rng.randrange(4))}
    names.append(name)
    return record(name, **fields)


def any_record(rng: Random, name: str = "T") -> Schema:
    """The schema of a record, legal most of the time."""
    names: list[str] = []
    return record(name, **{f"c{number}": any_type(rng, 0, names) for number in range(rng.choice((0, 1, 2, 3, 5)))})


def datum(rng: Random, schema: Schema) -> bytes:
    """Bytes of a value of the schema, cut off where it gets too long; any bytes where the schema makes no sense."""
    try:
        return _Writer(rng).write(schema)[:_DATUM_BYTES_MAX]
    except (KeyError, TypeError, AttributeError, RecursionError):
        return rng.randbytes(8)


class _Writer:
    """Writes values of one schema; remembers its named types."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._named: dict[str, Schema] = {}
        self._left = 3000

    def write(self, schema: Schema) -> bytes:
        rng = self._rng
        self._left -= 1
        if self._left < 0:
            return b""
        if isinstance(schema, list):
            branch = rng.randrange(len(schema)) if schema else 0
            return zigzag(branch) + (self.write(schema[branch]) if schema else b"")
        kind = schema.get("type") if isinstance(schema, dict) else schema
        match kind:
            case "null":
                return b""
            case "boolean":
                return rng.choice((b"\0", b"\1"))
            case "int" | "long":
                wide = 31 if kind == "int" else 63
                return zigzag(rng.choice((0, 1, -1, 64, rng.getrandbits(wide), -rng.getrandbits(wide))))
            case "float":
                return rng.randbytes(4)
            case "double":
                return rng.randbytes(8)
            case "bytes" | "string":
                content = rng.choice((b"", b"a", b"key", "\u00e9".encode(), rng.randbytes(3), b"long" * 30))
                return zigzag(len(content)) + content
            case "record":
                self._named[str(schema.get("name"))] = schema
                fields = schema.get("fields")
                return b"".join(self.write(field["type"]) for field in (fields if isinstance(fields, list) else ()))
            case "enum":
                self._named[str(schema.get("name"))] = schema
                return zigzag(rng.randrange(max(1, len(schema.get("symbols", ())))))
            case "fixed":
                self._named[str(schema.get("name"))] = schema
                size = schema.get("size")
                return rng.randbytes(min(size, 64) if isinstance(size, int) and size > 0 else 0)
            case "array" | "map":
                return self._items(schema)
            case str():
                return self.write(self._named[kind]) if kind in self._named else b""
        return self.write(kind) if kind is not None else b""

    def _items(self, schema: Schema) -> bytes:
        rng, blocks = self._rng, []
        for _ in range(rng.choice((0, 1, 1, 2))):
            count = rng.choice((1, 2, 3))
            items = b"".join(
                self.write(schema["items"]) if schema["type"] == "array" else b"\x02k" + self.write(schema["values"])
                for _ in range(count)
            )
            blocks.append(zigzag(count) if rng.random() < 0.7 else zigzag(-count) + zigzag(len(items)))
            blocks.append(items)
        return b"".join([*blocks, b"\0"])


# ----- containers -----------------------------------------------------------------------------------------------------


def container(schema: bytes, content: bytes, *, count: int = 1, codec: bytes | None = None) -> bytes:
    """A container file around a schema and a record, whatever these are."""
    header = {b"avro.schema": schema} | ({} if codec is None else {b"avro.codec": codec})
    entries = b"".join(_sized(key) + _sized(value) for key, value in header.items())
    return b"".join((b"Obj\x01", zigzag(len(header)), entries, b"\0", _SYNC, zigzag(count), _sized(content), _SYNC))


def damaged_container(rng: Random, data: bytes, other: bytes) -> bytes:
    """A container in which only the framing, only the schema, or only the record is wrong."""
    found, donor = taken_apart(data), taken_apart(other)
    if found is None or rng.random() < 0.3:
        return binary(rng, data, other)
    schema, content = found
    other_schema, other_content = donor or found
    match rng.randrange(6):
        case 0 | 1:
            return container(schema, binary(rng, content, other_content))
        case 2:
            changed = json_value(rng, json.loads(schema), json.loads(other_schema))
            return container(json.dumps(changed).encode(), content)
        case 3:
            made = any_record(rng, str(json.loads(schema).get("name")))
            return container(json.dumps(made).encode(), datum(rng, made))
        case 4:
            return container(
                schema, content, count=rng.choice((0, 2, -1, 1 << 40)), codec=rng.choice((None, b"deflate", b"\xff"))
            )
    # A field that real writers have, of a type that they do not give it.
    made = json.loads(schema)
    rng.choice(made["fields"])["type"] = any_type(rng)
    return container(json.dumps(made).encode(), datum(rng, made))


def taken_apart(data: bytes) -> tuple[bytes, bytes] | None:
    """Schema and record of an undamaged container."""
    start = data.find(b"\x16avro.schema")
    if not data.startswith(b"Obj\x01") or start < 0:
        return None
    schema, _ = _sized_at(data, start + 12)
    sync = data[-16:]
    body = data.find(sync) + 16
    content, _ = _sized_at(data, body + 1)
    return (schema, content) if _is_record(schema) else None


def _is_record(schema: bytes) -> bool:
    """Whether there are fields to damage."""
    try:
        fields = json.loads(schema)["fields"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(fields, list) and bool(fields) and all(isinstance(field, dict) for field in fields)


def _sized(data: bytes) -> bytes:
    return zigzag(len(data)) + data


def _sized_at(data: bytes, at: int) -> tuple[bytes, int]:
    number = shift = 0
    while at < len(data):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    end = at + (number >> 1)
    return data[at:end], end


# ----- blocks ---------------------------------------------------------------------------------------------------------


def block(datums: list[bytes], *, version: int = 3) -> bytes:
    """The content of an Avro data block of these records."""
    return struct.pack(">ii", version, len(datums)) + b"".join(struct.pack(">i", len(one)) + one for one in datums)


def made_records(rng: Random, _: bytes, __: bytes) -> bytes:
    """A schema that was made up, and a block of records of it."""
    schema = any_record(rng)
    count = rng.choice((1, 2, 5, 300)) if rng.random() < 0.9 else 3000
    one = datum(rng, schema)
    datums = [datum(rng, schema) for _ in range(count)] if count < 10 else [one] * count
    return joined(json.dumps(schema).encode(), block(datums))


def all_null(rng: Random, _: bytes, __: bytes) -> bytes:
    """A block whose rows take a byte each, and much more than that as columns."""
    schema = record("T", c0=["null", hostile_types(rng)])
    return joined(json.dumps(schema).encode(), block([b"\0"] * rng.choice((1, 100, 9000))))


def damaged_records(rng: Random, data: bytes, _: bytes) -> bytes:
    """A block of undamaged length fields, one of whose records is damaged."""
    schema, content = split(data, 2)
    datums: list[bytes] = []
    at = 8
    while at + 4 <= len(content):
        (size,) = struct.unpack_from(">I", content, at)
        datums.append(content[at + 4 : at + 4 + size])
        at += 4 + size
    if datums:
        number = rng.randrange(len(datums))
        datums[number] = binary(rng, datums[number], datums[0])
    return joined(schema, block(datums))


def long_arrays(rng: Random, _: bytes, __: bytes) -> bytes:
    """Records with so many items that they are not read by columns."""
    item: Schema = rng.choice(
        ("boolean", "long", ["null", "string"], {"type": "map", "values": "null"}, any_type(rng, 2))
    )
    schema = record("T", c0={"type": "array", "items": item}, c1="long")
    count = rng.choice((60, 500, 3000))
    one = datum(rng, item)
    ragged = zigzag(count) + one * count + b"\0" + zigzag(7)
    return joined(json.dumps(schema).encode(), block([ragged[:40_000], b"\0\2"]))


def overlong(number: int, size: int) -> bytes:
    """A varint with more bytes than it needs."""
    encoded = varint(number)
    return encoded[:-1] + bytes([encoded[-1] | 0x80]) + b"\x80" * (size - len(encoded) - 1) + b"\0"
