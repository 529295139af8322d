"""Log blocks: encoding and decoding the frames of a log file.

A log file is a sequence of blocks, without header or trailer. All integers are big-endian.

    block := magic "#HUDI#" | int64 block size | int32 format version | int32 block type | map of headers
             | int64 content size | content | map of footers | int64 reverse pointer
    map   := int32 entries | entries x (int32 key | int32 size | UTF-8 text)

The block size counts all bytes after itself, the reverse pointer all bytes before itself. There is no checksum, so
damage inside a content or the text of a header is not detected here.

https://hudi.apache.org/learn/tech-specs-1point0#log-file-format
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from pyhudi.errors import CorruptDataError, InvalidRequestError, UnsupportedFeatureError

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
"""The log format of all releases since Hudi 0.4."""
HEADERS_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size limit of all headers or all footers. The largest are the schema and the positions of the records."""
HEADERS_MAX: Final = 256
"""The limit of headers or footers in a block. Hudi 1.2 has nine; newer releases may have more."""

_FRAME: Final = struct.Struct(">6sqii")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">ii")
_LONG: Final = struct.Struct(">q")

FRAME_BYTES: Final = _FRAME.size
"""The fields before the headers."""
POINTER_BYTES: Final = _LONG.size
EMPTY_MAP_BYTES: Final = _COUNT.size
_UNCOUNTED_BYTES: Final = len(MAGIC) + _LONG.size
_INSTANT_CHARACTERS_MAX: Final = 32
_BLOCK_BYTES_MIN: Final = FRAME_BYTES + EMPTY_MAP_BYTES + _LONG.size + EMPTY_MAP_BYTES + POINTER_BYTES
_ROLLBACK: Final = "0"

_Content = TypeVar("_Content", bytes, memoryview, pa.Buffer)

ReadRange = Callable[[int, int], memoryview]
"""`read(start, length)`: bytes of the log file; fewer only at the end of the file."""


class BlockType(enum.IntEnum):
    """The type of a block; the value is its number on disk."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6

    @property
    def has_rows(self) -> bool:
        """Whether the content is rows of the schema in the headers."""
        return self >= BlockType.AVRO_DATA


class BlockHeader(enum.IntEnum):
    """The headers of a block; the value is the key on disk."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


_KNOWN_HEADERS: Final = {header.value: header for header in BlockHeader}
_KNOWN_TYPES: Final = {kind.value: kind for kind in BlockType}


@dataclass(frozen=True, slots=True)
class LogBlock:
    """The position and headers of a block in a log file.

    `offset` and `size` are those of the whole block, in bytes; `content_offset` also counts from the start of the file.
    A block of type CORRUPT is a range of the file that is not a valid block. It has no headers, and its content is the
    whole range; `claimed_instant` is the write that its first bytes name, if they do.
    """

    kind: BlockType
    offset: int
    size: int
    headers: Mapping[BlockHeader, str]
    content_offset: int
    content_size: int
    claimed_instant: str | None = None

    @property
    def end(self) -> int:
        """The offset after the block."""
        return self.offset + self.size

    @property
    def instant_time(self) -> str:
        """The write that the block belongs to.

        Raises:
            CorruptDataError: the block is CORRUPT, so its write is unknown.
        """
        if BlockHeader.INSTANT_TIME not in self.headers:
            raise CorruptDataError("the write of a damaged log block is unknown", offset=self.offset)
        return self.headers[BlockHeader.INSTANT_TIME]

    @property
    def target_instant_time(self) -> str | None:
        """The write whose blocks a rollback block rolls back; None in other blocks."""
        return self.headers.get(BlockHeader.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str | None:
        """The schema of the block's rows, as Avro JSON. Every block with rows has one."""
        return self.headers.get(BlockHeader.SCHEMA)

    @property
    def compacted_instants(self) -> tuple[str, ...]:
        """The writes whose blocks this block replaces; empty except in the output of a log compaction."""
        text = self.headers.get(BlockHeader.COMPACTED_BLOCK_TIMES, "")
        return tuple(instant.strip() for instant in text.split(",") if instant.strip())

    @property
    def is_partial(self) -> bool:
        """Whether the rows only have some columns of the table, and the other columns stay unchanged."""
        return self.headers.get(BlockHeader.IS_PARTIAL, "").lower() == "true"


def encoded_size(headers: Mapping[BlockHeader, str], content_size: int) -> int:
    """The size of the block that `encode_block` makes of these headers and `content_size` bytes of content."""
    return _BLOCK_BYTES_MIN + sum(_ENTRY.size + len(text.encode()) for text in headers.values()) + content_size


def encode_block(
    kind: BlockType, headers: Mapping[BlockHeader, str], content: _Content, *, needs_headers: bool = True
) -> tuple[bytes, _Content, bytes]:
    """Encode a block as three pieces to be written in order; the content is not copied.

    `needs_headers`: as for `parse_block`.

    Raises:
        InvalidRequestError: a required header of this block type is missing, or the headers exceed `HEADERS_BYTES_MAX`.
    """
    assert kind is not BlockType.CORRUPT, "damage is found, not written"
    missing = _missing_header(kind, headers) if needs_headers else None
    if missing is not None:
        raise InvalidRequestError("a log block of this type needs this header", kind=kind.name, header=missing.name)
    content_size = content.size if isinstance(content, pa.Buffer) else memoryview(content).nbytes
    size = encoded_size(headers, content_size)
    if size - content_size > HEADERS_BYTES_MAX:
        raise InvalidRequestError("the headers of a log block are too large", kind=kind.name, size=size - content_size)
    pieces = [_FRAME.pack(MAGIC, size - _UNCOUNTED_BYTES, FORMAT_VERSION, kind), _COUNT.pack(len(headers))]
    for header, text in headers.items():
        data = text.encode()
        pieces += (_ENTRY.pack(header, len(data)), data)
    pieces.append(_LONG.pack(content_size))
    return b"".join(pieces), content, _COUNT.pack(0) + _LONG.pack(size - POINTER_BYTES)


def rollback_block(instant: str, target: str) -> bytes:
    """A whole command block: the rollback `instant` rolls back the blocks that `target` wrote to this file slice.

    Only tables of version 6 get such blocks; in later versions a rollback deletes log files.
    """
    headers = {
        BlockHeader.TARGET_INSTANT_TIME: target,
        BlockHeader.COMMAND_BLOCK_TYPE: _ROLLBACK,
        BlockHeader.INSTANT_TIME: instant,
    }
    return b"".join(encode_block(BlockType.COMMAND, headers, b""))


def parse_block(read: ReadRange, offset: int, file_size: int, *, path: str, needs_headers: bool = True) -> LogBlock:
    """Parse and check the block at `offset`, without reading its content.

    Reads the begin of the block, then its end, then its headers, so `read` should cache the last two ranges.
    `needs_headers`: whether the headers of data files are required. Blocks of the archived timeline only have a schema.

    Raises:
        CorruptDataError: there is no complete block at this offset.
        UnsupportedFeatureError: the block is complete, but has an unknown format, type or command.
    """
    block_size, version, type_number = _parse_frame(read, offset, file_size, path)
    end = offset + _UNCOUNTED_BYTES + block_size
    _check_end(read, offset, end, file_size, path)
    if version != FORMAT_VERSION:
        raise UnsupportedFeatureError("this log format is not supported", version=version, path=path, offset=offset)
    kind = _KNOWN_TYPES.get(type_number)
    if kind is None:
        raise UnsupportedFeatureError(
            "log blocks of this type are not supported", type=type_number, path=path, offset=offset
        )
    limit = end - POINTER_BYTES
    values, at = _parse_map(read, offset + FRAME_BYTES, limit - _LONG.size, path)
    (content_size,) = _LONG.unpack(read(at, _LONG.size))
    content_offset = at + _LONG.size
    if not 0 <= content_size <= limit - EMPTY_MAP_BYTES - content_offset:
        raise CorruptDataError("the content of a log block exceeds the block", path=path, offset=at, size=content_size)
    _, footers_end = _parse_map(read, content_offset + content_size, limit, path)
    if footers_end != limit:
        raise CorruptDataError("a log block has bytes after its footers", path=path, offset=footers_end)
    headers = _known_headers(values, path, offset)
    if needs_headers and kind is not BlockType.CORRUPT:
        _check_headers(kind, headers, path, offset)
    return LogBlock(kind, offset, end - offset, headers, content_offset, content_size)


def corrupt_block(offset: int, end: int, claimed_instant: str | None = None) -> LogBlock:
    """A CORRUPT block for a range of a log file."""
    return LogBlock(BlockType.CORRUPT, offset, end - offset, {}, offset, end - offset, claimed_instant)


def claimed_instant(read: ReadRange, offset: int, file_size: int) -> str | None:
    """The write that the begin of an incomplete block names, which tells who left it; None where it names none."""
    at = offset + FRAME_BYTES
    if file_size < at + _COUNT.size or bytes(read(offset, len(MAGIC))) != MAGIC:
        return None
    (count,) = _COUNT.unpack(read(at, _COUNT.size))
    at += _COUNT.size
    for _ in range(min(count, HEADERS_MAX)):
        if file_size < at + _ENTRY.size:
            return None
        key, size = _ENTRY.unpack(read(at, _ENTRY.size))
        at += _ENTRY.size
        if size < 0 or file_size < at + size:
            return None
        if key == BlockHeader.INSTANT_TIME:
            text = bytes(read(at, min(size, _INSTANT_CHARACTERS_MAX)))
            return text.decode() if text.isdigit() else None
        at += size
    return None


def _parse_frame(read: ReadRange, offset: int, file_size: int, path: str) -> tuple[int, int, int]:
    """Block size, format version and block type."""
    if file_size - offset < _BLOCK_BYTES_MIN:
        raise CorruptDataError("the log file ends inside a block", path=path, offset=offset)
    magic, block_size, version, type_number = _FRAME.unpack(read(offset, FRAME_BYTES))
    if magic != MAGIC:
        raise CorruptDataError("no log block begins here", path=path, offset=offset)
    if not _BLOCK_BYTES_MIN <= _UNCOUNTED_BYTES + block_size <= file_size - offset:
        raise CorruptDataError(
            "a log block is larger than the file, or smaller than any block", path=path, offset=offset, size=block_size
        )
    return block_size, version, type_number


def _check_end(read: ReadRange, offset: int, end: int, file_size: int, path: str) -> None:
    """Check the reverse pointer, and that the file ends after it or another block begins."""
    tail = read(end - EMPTY_MAP_BYTES - POINTER_BYTES, EMPTY_MAP_BYTES + POINTER_BYTES + len(MAGIC))
    (pointer,) = _LONG.unpack_from(tail, EMPTY_MAP_BYTES)
    if pointer != end - offset - POINTER_BYTES:
        raise CorruptDataError("a log block's reverse pointer misses its start", path=path, offset=offset)
    # As in JVM Hudi, fewer bytes than a magic count as the end of the file: a torn write does not damage this block.
    if file_size - end >= len(MAGIC) and bytes(tail[EMPTY_MAP_BYTES + POINTER_BYTES :]) != MAGIC:
        raise CorruptDataError("the bytes after a log block are not a log block", path=path, offset=offset)


def _parse_map(read: ReadRange, start: int, limit: int, path: str) -> tuple[dict[int, bytes], int]:
    """The entries of a map that ends before `limit`, and its end."""

    def take(fixed: struct.Struct, at: int) -> tuple[int, ...]:
        if at + fixed.size > limit:
            raise CorruptDataError("a log block's headers do not fit into it", path=path, offset=at)
        return fixed.unpack(read(at, fixed.size))

    (count,) = take(_COUNT, start)
    if not 0 <= count <= HEADERS_MAX:
        raise CorruptDataError("a log block has an impossible number of headers", path=path, offset=start, count=count)
    values: dict[int, bytes] = {}
    at = start + _COUNT.size
    for _ in range(count):
        key, size = take(_ENTRY, at)
        text_at, at = at + _ENTRY.size, at + _ENTRY.size + size
        if size < 0 or at > limit or at - start > HEADERS_BYTES_MAX:
            raise CorruptDataError("a log block's header has an impossible size", path=path, offset=text_at, size=size)
        if key in values:
            raise CorruptDataError("a log block has the same header twice", path=path, offset=text_at, key=key)
        values[key] = bytes(read(text_at, size))
    return values, at


def _known_headers(values: Mapping[int, bytes], path: str, offset: int) -> dict[BlockHeader, str]:
    try:
        return {_KNOWN_HEADERS[key]: data.decode() for key, data in values.items() if key in _KNOWN_HEADERS}
    except UnicodeDecodeError as cause:
        raise CorruptDataError("a log block's header is not UTF-8 text", path=path, offset=offset) from cause


def _check_headers(kind: BlockType, headers: Mapping[BlockHeader, str], path: str, offset: int) -> None:
    missing = _missing_header(kind, headers)
    if missing is not None:
        raise CorruptDataError("a log block lacks a header", header=missing.name, path=path, offset=offset)
    command = headers.get(BlockHeader.COMMAND_BLOCK_TYPE)
    if kind is BlockType.COMMAND and command != _ROLLBACK:
        raise UnsupportedFeatureError(
            "log blocks with this command are not supported", command=command, path=path, offset=offset
        )


def _missing_header(kind: BlockType, headers: Mapping[BlockHeader, str]) -> BlockHeader | None:
    """A required header that is missing, or None."""
    needed = [BlockHeader.INSTANT_TIME]
    if kind is BlockType.COMMAND:
        needed += [BlockHeader.TARGET_INSTANT_TIME, BlockHeader.COMMAND_BLOCK_TYPE]
    elif kind.has_rows:
        needed += [BlockHeader.SCHEMA]
    return next((header for header in needed if not headers.get(header)), None)
