"""Avro object container files with one record, the body of most instant files.

    container := "Obj" 1 | header map {"avro.schema": JSON text} | sync | block
    block     := count 1 | length | record | sync                      numbers are zigzag varints, sync is 16 bytes

This module has its own framing, because JVM Hudi omits the codec in the header, and to detect damage before decoding:
sizes are limited, and the record must fill its block exactly. The writer's schema must not be recursive, describe items
without bytes, or multiply types by nesting, because a few bytes could then cause unlimited work.

https://avro.apache.org/docs/1.11.1/specification/#object-container-files
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError

MAGIC: Final = b"Obj\x01"

CONTAINER_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The size limit of a container: a commit of two million files."""

SCHEMA_BYTES_MAX: Final = 1024 * 1024
"""The length limit of a writer's schema; those of Hudi have less than 10,000 bytes."""

SCHEMA_DEPTH_MAX: Final = 64
"""The nesting limit of types in a writer's schema; those of Hudi nest 12 deep."""

SCHEMA_NODES_MAX: Final = 100_000
"""The limit of types in a writer's schema, counting each use of a named type; those of Hudi have 200."""

_SYNC_BYTES: Final = 16
_HEADER_ENTRIES_MAX: Final = 64
_VARINT_BYTES_MAX: Final = 10
_SCHEMA_KEY: Final = "avro.schema"
_CODEC_KEY: Final = "avro.codec"
_NULL_CODEC: Final = b"null"

_PRIMITIVE_WIDTHS: Final = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}
_DECODER_ERRORS: Final = (
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class AvroRecord:
    """A decoded record: the name of its type without the namespace, and its values by name.

    `notes` are the additional entries of the header.
    """

    name: str
    values: Mapping[str, Any] = field(repr=False)
    notes: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def encode_container(
    schema: Mapping[str, Any], values: Mapping[str, Any], notes: Mapping[str, bytes] | None = None
) -> bytes:
    """Encode one record as a container file, as JVM Hudi does: no codec in the header, one block.

    Fields that are missing in `values` get their defaults. `notes` are stored in the header, where readers ignore them.
    The result is deterministic: the sync marker is a digest of the content.
    """
    return ContainerEncoder(schema, notes).encode(values)


class ContainerEncoder:
    """Encodes many records of one schema, each as a container file. The arguments are those of `encode_container`."""

    def __init__(self, schema: Mapping[str, Any], notes: Mapping[str, bytes] | None = None) -> None:
        schema_text = json.dumps(schema, separators=(",", ":")).encode()
        self._schema = _parsed(schema_text)
        self._digest = hashlib.sha256(schema_text)
        entries = {_SCHEMA_KEY: schema_text, **(notes or {})}
        pairs = (_length_prefixed(key.encode()) + _length_prefixed(value) for key, value in entries.items())
        self._header = b"".join((MAGIC, _varint(len(entries)), *pairs, _varint(0)))

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """A container with one record."""
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._schema, values)
        record = body.getvalue()
        digest = self._digest.copy()
        digest.update(record)
        sync = digest.digest()[:_SYNC_BYTES]
        return b"".join((self._header, sync, _varint(1), _length_prefixed(record), sync))


def decode_container(data: bytes, *, path: str) -> AvroRecord:
    """Decode the record of a container with the writer's schema in it.

    Raises:
        CorruptDataError: the length, sync marker, schema or a value is wrong, there is not exactly one record, or bytes
            are left over. The context has the `offset`, if known.
        UnsupportedFeatureError: the content is compressed, which JVM Hudi never does here.
    """
    if len(data) > CONTAINER_BYTES_MAX:
        raise CorruptDataError("the Avro file is too large", path=path, size=len(data))
    cursor = _Cursor(data, path)
    if cursor.take(len(MAGIC)) != MAGIC:
        raise CorruptDataError("the file is not an Avro file", path=path, offset=0)
    header = cursor.header()
    codec = header.get(_CODEC_KEY, _NULL_CODEC)
    if codec != _NULL_CODEC:
        raise UnsupportedFeatureError("compressed Avro files cannot be read", path=path, codec=codec)
    schema_text = header.get(_SCHEMA_KEY)
    if schema_text is None or len(schema_text) > SCHEMA_BYTES_MAX:
        raise CorruptDataError("the Avro file has no schema that can be read", path=path)
    sync = cursor.take(_SYNC_BYTES)
    if (count := cursor.varint()) != 1:
        raise cursor.damage(f"the Avro file holds {count} records in its first block, not one")
    record = cursor.length_prefixed()
    record_offset = cursor.offset - len(record)
    if cursor.take(_SYNC_BYTES) != sync or cursor.offset != len(data):
        raise cursor.damage("the Avro file does not end where its record does")
    notes = {key: value for key, value in header.items() if key not in {_SCHEMA_KEY, _CODEC_KEY}}
    return replace(decode_record(schema_text, record, path, record_offset), notes=notes)


def decode_record(schema_text: bytes, record: bytes, path: str, offset: int) -> AvroRecord:
    """A record without a container, by its writer's schema. `offset`: where it begins, for messages.

    Raises `CorruptDataError` as `decode_container`.
    """
    try:
        schema = _checked(schema_text)
    except (*_DECODER_ERRORS, SchemaParseException, RecursionError) as error:
        raise CorruptDataError("the schema in the Avro file is damaged", path=path, cause=str(error)[:200]) from error
    source = io.BytesIO(record)
    try:
        values = fastavro.schemaless_reader(source, schema, None)
    except _DECODER_ERRORS as error:
        raise CorruptDataError(
            "the record in the Avro file is damaged", path=path, offset=offset + source.tell(), cause=repr(error)[:200]
        ) from error
    if source.tell() != len(record):
        raise CorruptDataError("the record does not fill its Avro block", path=path, offset=offset + source.tell())
    return AvroRecord(schema["name"].rpartition(".")[2], values)


@cache
def _parsed(schema_text: bytes) -> Any:
    """One of our own schemas, prepared for fastavro."""
    return fastavro.parse_schema(json.loads(schema_text))


@lru_cache(maxsize=64)
def _checked(schema_text: bytes) -> dict[str, Any]:
    """A writer's schema, prepared for fastavro; the files of a table share very few of them."""
    schema = json.loads(schema_text.decode())
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("it is not that of a record")
    _SchemaCheck().width(schema, namespace="", depth=0)
    parsed = fastavro.parse_schema(schema)
    assert isinstance(parsed, dict)
    return parsed


class _SchemaCheck:
    """Makes sure that decoding with a schema does work in proportion to the bytes, at a bounded depth."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[int, int]] = {}
        self._nodes = 0

    def width(self, schema: Any, *, namespace: str, depth: int) -> int:
        """The fewest bytes that a value takes.

        Raises:
            ValueError: items without bytes in an array, a type inside itself, an unknown type, nesting too deep, or too
                many types.
        """
        if depth > SCHEMA_DEPTH_MAX:
            raise ValueError("its types are nested too deep")
        self._count(1)
        if isinstance(schema, str):
            return self._width_of_name(schema, namespace)
        if isinstance(schema, list):
            for branch in schema:
                self.width(branch, namespace=namespace, depth=depth + 1)
            return 1
        kind = schema["type"]
        if kind == "array":
            if self.width(schema["items"], namespace=namespace, depth=depth + 1) == 0:
                raise ValueError("the items of an array take no bytes")
            return 1
        if kind == "map":
            self.width(schema["values"], namespace=namespace, depth=depth + 1)
            return 1
        if kind in ("record", "enum", "fixed"):
            return self._width_of_named(schema, kind, namespace, depth)
        return self.width(kind, namespace=namespace, depth=depth + 1)

    def _width_of_name(self, name: str, namespace: str) -> int:
        if name in _PRIMITIVE_WIDTHS:
            return _PRIMITIVE_WIDTHS[name]
        known = self._named.get(_full_name(name, namespace))
        if known is None:
            raise ValueError("a type is unknown, or inside itself")
        width, nodes = known
        self._count(nodes)
        return width

    def _width_of_named(self, schema: Mapping[str, Any], kind: str, namespace: str, depth: int) -> int:
        name, before = _full_name(schema["name"], schema.get("namespace", namespace)), self._nodes
        if kind == "record":
            inner = name.rpartition(".")[0]
            width = sum(self.width(item["type"], namespace=inner, depth=depth + 1) for item in schema["fields"])
        else:
            width = 1 if kind == "enum" else _fixed_size(schema["size"])
        # Known only from here on: a type that names itself inside is refused.
        self._named[name] = width, self._nodes - before
        return width

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > SCHEMA_NODES_MAX:
            raise ValueError("it has too many types")


class _Cursor:
    """Reads the framing of a container; every length is checked against the bytes that there are."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data, self._path = data, path
        self.offset = 0

    def damage(self, message: str) -> CorruptDataError:
        """The error for damage at this place."""
        return CorruptDataError(message, path=self._path, offset=self.offset)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if not 0 <= size <= len(self._data) - self.offset:
            raise self.damage("the Avro file is truncated or damaged")
        start = self.offset
        self.offset += size
        return self._data[start : self.offset]

    def varint(self) -> int:
        """A zigzag number of 64 bits at most."""
        number = 0
        for position in range(_VARINT_BYTES_MAX):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << (7 * position)
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise self.damage("a number in the Avro file is damaged")

    def length_prefixed(self) -> bytes:
        """Bytes behind their length."""
        return self.take(self.varint())

    def header(self) -> dict[str, bytes]:
        """The metadata map of the header, in any of the forms that Avro has for a map."""
        entries: dict[str, bytes] = {}
        while (count := self.varint()) != 0:
            if count < 0:
                self.varint()  # the size in bytes of this part of the map
            for _ in range(min(abs(count), _HEADER_ENTRIES_MAX + 1)):
                key = self.length_prefixed()
                entries[key.decode("latin-1")] = self.length_prefixed()
                if len(entries) > _HEADER_ENTRIES_MAX:
                    raise self.damage("the header of the Avro file is damaged")
        return entries


def _fixed_size(size: object) -> int:
    if not isinstance(size, int) or size < 0:
        raise ValueError("a fixed type has no usable size")
    return size


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _varint(number: int) -> bytes:
    """A number that is not negative as zigzag varint."""
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _length_prefixed(data: bytes) -> bytes:
    return _varint(len(data)) + data
