"""Footers of Parquet files, as far as writing base files, and copying column chunks between them, needs them.

    file := "PAR1" | column chunks | footer | int32 size of the footer | "PAR1"          little-endian

The footer says of each column chunk where in the file its pages are. A chunk's pages do not depend on their place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyhudi.errors import CorruptDataError, InternalError, UnsupportedFeatureError
from pyhudi.format.parquet.thrift import (
    BINARY,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    Field,
    Items,
    Struct,
    decode_struct,
    encode_struct,
)

MAGIC: Final = b"PAR1"
TAIL: Final = struct.Struct("<i4s")
"""Behind the footer: its size, and the magic bytes."""

# Fields of FileMetaData, SchemaElement, RowGroup, ColumnChunk and ColumnMetaData.
_VERSION, _SCHEMA, _ROWS, _ROW_GROUPS, _KEY_VALUES, _CREATED_BY, _ORDERS = 1, 2, 3, 4, 5, 6, 7
_ENCRYPTION, _SIGNING_KEY = 8, 9
_ELEMENT_TYPE, _ELEMENT_REPETITION, _ELEMENT_NAME = 1, 3, 4
_BYTE_ARRAY, _OPTIONAL = 6, 1
_GROUP_CHUNKS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_CHUNK_FILE, _CHUNK_OFFSET, _CHUNK_META = 1, 2, 3
_CHUNK_INDEXES = (4, 5, 6, 7)
_CHUNK_ENCRYPTION = (8, 9)
_META_PATH, _META_UNCOMPRESSED, _META_COMPRESSED = 3, 6, 7
_META_DATA_PAGE, _META_INDEX_PAGE, _META_DICTIONARY_PAGE = 9, 10, 11
_META_BLOOM = (14, 15)
_ORDINAL_MAX: Final = 2**15 - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pages of one column in one row group: where they are in the file, and what the footer says of them."""

    column: tuple[str, ...]
    start: int
    size: int
    fields: Struct

    @property
    def end(self) -> int:
        """Where the next byte is."""
        return self.start + self.size

    def moved_to(self, start: int) -> Chunk:
        """The chunk with its pages at another offset, without page indexes and Bloom filters, which do not move."""
        by = start - self.start
        meta: Struct = {
            number: field for number, field in self.fields[_CHUNK_META][1].items() if number not in _META_BLOOM
        }
        for number in (_META_DATA_PAGE, _META_INDEX_PAGE, _META_DICTIONARY_PAGE):
            if number in meta and meta[number][1] > 0:
                meta[number] = (I64, meta[number][1] + by)
        fields = {number: field for number, field in self.fields.items() if number not in _CHUNK_INDEXES}
        fields |= {_CHUNK_OFFSET: (I64, start), _CHUNK_META: (STRUCT, meta)}
        return replace(self, start=start, fields=fields)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: its rows, and the chunks of all columns in the order of the schema."""

    rows: int
    chunks: tuple[Chunk, ...]
    fields: Struct

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The paths of its columns."""
        return tuple(chunk.column for chunk in self.chunks)

    def encoded(self, chunks: Sequence[Chunk], ordinal: int) -> bytes:
        """What a footer says of it if its chunks are these."""
        sizes = [
            sum(chunk.fields[_CHUNK_META][1][number][1] for chunk in chunks)
            for number in (_META_UNCOMPRESSED, _META_COMPRESSED)
        ]
        fields = self.fields | {
            _GROUP_CHUNKS: (LIST, Items(STRUCT, tuple(chunk.fields for chunk in chunks))),
            _GROUP_BYTES: (I64, sizes[0]),
            _GROUP_OFFSET: (I64, min(chunk.start for chunk in chunks)),
            _GROUP_COMPRESSED: (I64, sizes[1]),
            _GROUP_ORDINAL: (I16, ordinal),
        }
        if ordinal > _ORDINAL_MAX:
            del fields[_GROUP_ORDINAL]
        return encode_struct(fields)


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file whose column chunks can be copied. `row_groups`: those that have rows."""

    rows: int
    row_groups: tuple[RowGroup, ...]
    values: dict[str, str]
    fields: Struct

    @property
    def kind(self) -> bytes:
        """Equal for files whose row groups can stand in one file: they have the same schema, writer and sort orders."""
        root, *elements = self.fields[_SCHEMA][1].values
        nameless = {number: field for number, field in root.items() if number != _ELEMENT_NAME}
        kept = {number: self.fields[number] for number in (_VERSION, _CREATED_BY, _ORDERS) if number in self.fields}
        return encode_struct(kept | {_SCHEMA: (LIST, Items(STRUCT, (nameless, *elements)))})

    def is_nullable_text(self, name: str) -> bool:
        """Whether a column of this name is there once, at any depth, and has nullable values of variable length."""
        found = [
            value for value in self.fields[_SCHEMA][1].values if value.get(_ELEMENT_NAME) == (BINARY, name.encode())
        ]
        expected = {_ELEMENT_TYPE: (I32, _BYTE_ARRAY), _ELEMENT_REPETITION: (I32, _OPTIONAL)}
        return len(found) == 1 and expected.items() <= found[0].items()

    def joined(self, row_groups: Iterable[bytes], rows: int, values: Mapping[str, str]) -> bytes:
        """The footer of a file of the same kind with other row groups, and its tail."""
        data = encode_struct(
            self.fields
            | {
                _ROWS: (I64, rows),
                _ROW_GROUPS: (LIST, Items(STRUCT, tuple(row_groups))),
                _KEY_VALUES: _pairs_field(values),
            }
        )
        return data + TAIL.pack(len(data), MAGIC)


def with_values(data: bytes, values: Mapping[str, str], *, created_by: str) -> bytes:
    """Put key-value pairs into a footer that Arrow wrote without any, and add the tail: the bytes of Arrow with them.

    Arrow copies each text of a footer several times, and a Bloom filter has 400 kB. `created_by`: what the footer says.
    Raises `InternalError` where the footer does not have that text in its place.
    """
    # Their place is between the row groups and the name of the writer, the last text of a footer. A field is encoded by
    # the step from the one before it.
    pairs, writer = _KEY_VALUES - _ROW_GROUPS, _CREATED_BY - _ROW_GROUPS
    written_by = (BINARY, created_by.encode())
    before, found, after = data.rpartition(encode_struct({writer: written_by})[:-1])
    if not found:
        raise InternalError("a footer does not name its writer behind its row groups", created_by=created_by)
    described = {pairs: _pairs_field(values)} if values else {}
    inserted = encode_struct(described | {writer: written_by})[:-1]
    size = len(before) + len(inserted) + len(after)
    return b"".join((before, inserted, after, TAIL.pack(size, MAGIC)))


def _pairs_field(values: Mapping[str, str]) -> Field:
    pairs = tuple({1: (BINARY, key.encode()), 2: (BINARY, value.encode())} for key, value in values.items())
    return LIST, Items(STRUCT, pairs)


def footer_size(tail: bytes, file_size: int, *, path: str) -> int:
    """The size of the footer in front of the tail of a file.

    Raises:
        CorruptDataError: the tail is not that of a Parquet file of this size.
        UnsupportedFeatureError: the footer is encrypted.
    """
    if len(tail) != TAIL.size:
        raise _damaged(path, "it is too short")
    size, magic = TAIL.unpack(tail)
    if magic == b"PARE":
        raise UnsupportedFeatureError("encrypted base files cannot be copied", path=path)
    if magic != MAGIC or not 0 < size <= file_size - TAIL.size - len(MAGIC):
        raise _damaged(path, "its end is not that of a Parquet file")
    return int(size)


def has_encrypted_columns(data: bytes, *, path: str) -> bool:
    """Whether a plain footer, without its signature, is that of a file with encrypted columns."""
    return _ENCRYPTION in decode_struct(data, path=path)


def parse_footer(data: bytes, file_size: int, *, path: str) -> Footer:
    """The footer in these bytes, the last ones but for the tail of a file of this size.

    Raises:
        CorruptDataError: they are no footer, or one of which chunks lie outside of the file; names `path`.
        UnsupportedFeatureError: the file is encrypted, or parts of it are in other files.
    """
    fields = decode_struct(data, path=path)
    if _ENCRYPTION in fields or _SIGNING_KEY in fields:
        raise UnsupportedFeatureError("encrypted base files cannot be copied", path=path)
    schema = _structs(fields, _SCHEMA, path)
    _get(fields, _VERSION, I32, path)
    end = file_size - TAIL.size - len(data)
    # Of groups without rows, writers do not always say where their chunks are.
    with_rows = (group for group in _structs(fields, _ROW_GROUPS, path) if _get(group, _GROUP_ROWS, I64, path) != 0)
    groups = tuple(_row_group(group, end, path) for group in with_rows)
    if any(group.columns != groups[0].columns for group in groups):
        raise _damaged(path, "its row groups have different columns")
    rows = _get(fields, _ROWS, I64, path)
    if not schema or rows < 0 or sum(group.rows for group in groups) != rows:
        raise _damaged(path, "its row groups do not have as many rows as it says")
    pairs = _structs(fields, _KEY_VALUES, path) if _KEY_VALUES in fields else ()
    return Footer(rows, groups, dict(_pairs(pairs, path)), fields)


def _row_group(fields: Struct, end: int, path: str) -> RowGroup:
    rows = _get(fields, _GROUP_ROWS, I64, path)
    chunks = tuple(_chunk(chunk, end, path) for chunk in _structs(fields, _GROUP_CHUNKS, path))
    if rows < 0 or not chunks:
        raise _damaged(path, "a row group has no columns, or fewer than no rows")
    return RowGroup(rows, chunks, fields)


def _chunk(fields: Struct, end: int, path: str) -> Chunk:
    if _CHUNK_FILE in fields or any(number in fields for number in _CHUNK_ENCRYPTION):
        raise UnsupportedFeatureError("base files that are encrypted, or parts of others, cannot be copied", path=path)
    meta = _get(fields, _CHUNK_META, STRUCT, path)
    column = _get(meta, _META_PATH, LIST, path)
    if column.kind != BINARY:
        raise _damaged(path, "a column has no name")
    start = _get(meta, _META_DATA_PAGE, I64, path)
    for number in (_META_INDEX_PAGE, _META_DICTIONARY_PAGE):
        # Old writers put 0 where there is no such page.
        if number in meta and (page := _get(meta, number, I64, path)) > 0:
            start = min(start, page)
    size = _get(meta, _META_COMPRESSED, I64, path)
    if _get(meta, _META_UNCOMPRESSED, I64, path) < 0:
        raise _damaged(path, "a column chunk has fewer than no bytes")
    if not len(MAGIC) <= start <= start + size <= end:
        raise _damaged(path, "a column chunk lies outside of the file")
    return Chunk(tuple(_text(name, path) for name in column.values), start, size, fields)


def _pairs(pairs: Iterable[Struct], path: str) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        value = _get(pair, 2, BINARY, path) if 2 in pair else b""
        yield _text(_get(pair, 1, BINARY, path), path), _text(value, path)


def _structs(fields: Struct, number: int, path: str) -> tuple[Struct, ...]:
    items = _get(fields, number, LIST, path)
    if items.kind != STRUCT and items.values:
        raise _damaged(path, f"the field {number} is no list of structures")
    values: tuple[Struct, ...] = items.values
    return values


def _get(fields: Struct, number: int, kind: int, path: str) -> Any:
    found, value = fields.get(number, (0, None))
    if found != kind:
        raise _damaged(path, f"the field {number} is missing, or of another kind")
    return value


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _damaged(path, "a text in it is not UTF-8") from error


def _damaged(path: str, cause: str) -> CorruptDataError:
    return CorruptDataError("the footer of this base file is damaged", path=path, cause=cause)
