"""Few bytes that ask for much: the inputs of `test_bombs`, built without making what they stand for."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from pyhudi.format.avro.container import MAGIC as AVRO_MAGIC
from pyhudi.format.log.blocks import EMPTY_MAP_BYTES, FORMAT_VERSION, FRAME_BYTES, MAGIC, POINTER_BYTES, BlockType

_PIECE = 1 << 20
_SYNC = bytes(16)
_GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def deflated_zeros(size: int) -> bytes:
    """A raw deflate stream of `size` zeros. A piece that refers to nothing before it can be repeated as it is."""
    stream = zlib.compressobj(level=9, wbits=-15)
    piece = stream.compress(bytes(_PIECE)) + stream.flush(zlib.Z_FULL_FLUSH)
    return piece * (size // _PIECE) + stream.flush()


def gzipped_zeros(size: int) -> bytes:
    """The same as a gzip file, but for its checksum."""
    return _GZIP_HEADER + deflated_zeros(size) + struct.pack("<II", 0, size & 0xFFFF_FFFF)


def zigzag(number: int) -> bytes:
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _text(data: bytes) -> bytes:
    return zigzag(len(data)) + data


def avro_file(schema: Any, record: bytes, *, codec: str | None = None) -> bytes:
    """An Avro container with one record; `schema` is JSON text, or what becomes it."""
    header = {"avro.schema": schema if isinstance(schema, bytes) else json.dumps(schema).encode()}
    if codec is not None:
        header["avro.codec"] = codec.encode()
    entries = b"".join(_text(name.encode()) + _text(value) for name, value in header.items())
    return AVRO_MAGIC + zigzag(len(header)) + entries + zigzag(0) + _SYNC + zigzag(1) + _text(record) + _SYNC


def record_of(*types: Any) -> dict[str, Any]:
    """A record schema with a field per type."""
    return {"type": "record", "name": "r", "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(types)]}


def doubling(levels: int) -> dict[str, Any]:
    """A schema of records that hold the previous one twice, the innermost an empty one: 2**levels parts, no bytes."""
    schema: dict[str, Any] = {"type": "record", "name": "r0", "fields": []}
    for level in range(1, levels + 1):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": schema["name"]}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    return schema


def log_block(headers: bytes, content: bytes = b"", *, kind: BlockType = BlockType.AVRO_DATA) -> bytes:
    """A log block whose map of headers is given as it stands in the file."""
    body = struct.pack(">ii", FORMAT_VERSION, kind) + headers + struct.pack(">q", len(content)) + content
    size = len(body) + EMPTY_MAP_BYTES + POINTER_BYTES
    return MAGIC + struct.pack(">q", size) + body + bytes(EMPTY_MAP_BYTES) + struct.pack(">q", size + 6)


def headers(*entries: tuple[int, bytes]) -> bytes:
    return struct.pack(">i", len(entries)) + b"".join(
        struct.pack(">ii", key, len(text)) + text for key, text in entries
    )


def overlapping_blocks(count: int, shared: int) -> bytes:
    """Blocks that begin one after the other, end one after the other, and all have the middle for their header."""
    head, tail = FRAME_BYTES + 12, EMPTY_MAP_BYTES + POINTER_BYTES + len(MAGIC)
    tails = count * head + shared
    ends = [tails + n * tail + EMPTY_MAP_BYTES + POINTER_BYTES for n in range(count)]
    parts = []
    for n, end in enumerate(ends):
        start = n * head
        parts.append(MAGIC + struct.pack(">qii", end - start - 14, FORMAT_VERSION, BlockType.AVRO_DATA))
        parts.append(struct.pack(">iii", 1, 2, tails - start - head - 8))
    parts.append(bytes(shared))
    parts += [
        bytes(EMPTY_MAP_BYTES) + struct.pack(">q", end - n * head - POINTER_BYTES) + MAGIC for n, end in enumerate(ends)
    ]
    return b"".join(parts)
