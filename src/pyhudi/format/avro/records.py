"""Encoding and decoding of Avro data blocks in log files, to and from Arrow.

    content := int 3 | int count | count x ( int length | Avro datum )             ints are big-endian

The schema is not in the content but in the header of the block. Both directions work on columns, in pieces that fit
into a processor's cache: about 1 µs per row of 20 columns each way on one core (`benchmarks/avro_blocks.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.avro.decode import PADDING, Cursors, RaggedRecordsError, Source, read, skip
from pyhudi.format.avro.encode import encode_data, encode_records
from pyhudi.format.avro.layout import RecordLayout, record_layout
from pyhudi.format.avro.rowwise import read_rowwise

BLOCK_VERSION: Final = 3
"""The version that is written."""

CONTENT_BYTES_MAX: Final = (1 << 31) - 1 - 4 * PADDING
"""The size limit of a block's content, which is also the limit of arrays in Java."""

_VERSIONS_WITH_COUNT: Final = (1, 2, 3)
_HEADER: Final = struct.Struct(">iI")
_LENGTH: Final = struct.Struct(">I")
_ROWS_PER_PIECE: Final = 8192
_BYTES_PER_PIECE: Final = 16 << 20

_Ints: TypeAlias = npt.NDArray[np.int64]


def encode_avro_records(batch: pa.RecordBatch, avro_schema: str) -> bytes:
    """The content of one data block with these rows, in their order.

    Args:
        batch: The columns of the schema in its order, with the types that `schema.avro_to_arrow` gives them.
        avro_schema: The JSON of the record schema, as it goes into the block's header: meta columns included.

    Raises:
        SchemaMismatchError: other columns or types, a null where the schema has none, a value outside an enum, or
            more bytes than a block holds: write fewer rows at once.
        CorruptDataError, UnsupportedFeatureError: as `schema.avro_to_arrow`.
    """
    layout = record_layout(avro_schema)
    parts: list[bytes | memoryview] = [_HEADER.pack(BLOCK_VERSION, batch.num_rows)]
    size = _HEADER.size
    for start in range(0, batch.num_rows, _ROWS_PER_PIECE):
        part = encode_records(layout, batch.slice(start, _ROWS_PER_PIECE))
        parts.append(part)
        size += len(part)
        if size > CONTENT_BYTES_MAX:
            raise SchemaMismatchError("the rows are too many for one Avro block: write fewer at once")
    return b"".join(parts)


def encode_avro_data(batch: pa.RecordBatch, avro_schema: str, *, with_unions: bool = False) -> pa.BinaryArray:
    """The Avro datum of each row.

    Arguments and errors as of `encode_avro_records`; `with_unions` as of `decode_avro_records`.
    """
    layout = record_layout(avro_schema, with_unions=with_unions)
    parts = [
        encode_data(layout, batch.slice(start, _ROWS_PER_PIECE)) for start in range(0, batch.num_rows, _ROWS_PER_PIECE)
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.binary())


def decode_avro_records(
    content: pa.Buffer | bytes,
    avro_schema: str,
    *,
    columns: Sequence[str] | None = None,
    with_unions: bool = False,
    path: str,
    offset: int,
) -> pa.RecordBatch:
    """The records of one data block, in their order.

    Args:
        content: The block's content, from the version on.
        avro_schema: The JSON of the writer's schema, from the block's header.
        columns: Names of the wanted columns of that schema, in the wanted order; None for all of them. What lies
            behind the last wanted one in a record is not read, and damage there not found.
        with_unions: Take unions of several types, see `schema.avro_to_arrow`.
        path: The file, for errors.
        offset: Where the block stands in it, for errors.

    Returns:
        Rows with the types that `schema.avro_to_arrow` gives the schema.

    Raises:
        CorruptDataError: the content or the schema is damaged; `content_offset` in the context is where in the
            content, as far as it is known.
        SchemaMismatchError: the schema has no such column.
        UnsupportedFeatureError: block version 0, or a version or a type that we do not know.
    """
    try:
        layout = record_layout(avro_schema, with_unions=with_unions)
    except (CorruptDataError, UnsupportedFeatureError) as error:
        raise type(error)(error.message, **{**error.context, "path": path, "offset": offset}) from error
    if len(content) > CONTENT_BYTES_MAX:
        raise UnsupportedFeatureError("an Avro block of 2 GiB and more cannot be read", path=path, offset=offset)
    wanted = _Wanted.of(layout, columns, path)
    data = np.frombuffer(content, np.uint8)
    borders = _record_borders(content, path, offset)
    pieces = [_decode_piece(piece, data, layout, wanted) for piece in _pieces(borders, path, offset)]
    return _batch(pieces, wanted, len(borders) - 1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The wanted columns: their numbers among the fields of the schema, and the schema of the result."""

    numbers: tuple[int, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, layout: RecordLayout, columns: Sequence[str] | None, path: str) -> _Wanted:
        names = layout.record.names
        if columns is None:
            return cls(tuple(range(len(names))), layout.schema)
        places = {name: number for number, name in enumerate(names)}
        for name in columns:
            if name not in places:
                raise SchemaMismatchError(f"the Avro block has no column {name!r}", path=path, column=name)
        numbers = tuple(places[name] for name in columns)
        return cls(numbers, pa.schema([layout.schema.field(number) for number in numbers]))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some records of a content: where each begins with its length, and last where the following one would begin."""

    borders: _Ints
    path: str
    offset: int

    def source(self, data: npt.NDArray[np.uint8]) -> tuple[Source, Cursors]:
        """A copy of the records' bytes with padding, and cursors at their first bytes."""
        first, last = int(self.borders[0]), int(self.borders[-1])
        padded = np.zeros(last - first + 2 * PADDING, np.uint8)
        padded[PADDING:-PADDING] = data[first:last]
        source = Source(padded, base=first, path=self.path, offset=self.offset)
        places = self.borders - (first - PADDING)
        return source, Cursors(source, places[:-1] + _LENGTH.size, places[1:])

    def records(self, data: npt.NDArray[np.uint8]) -> list[bytes]:
        """The datum of each record."""
        places: list[int] = self.borders.tolist()
        return [data[a + _LENGTH.size : b].tobytes() for a, b in pairwise(places)]


def decode_avro_data(
    data: pa.BinaryArray,
    avro_schema: str,
    *,
    columns: Sequence[str] | None = None,
    with_unions: bool = False,
    path: str,
    offset: int,
) -> pa.RecordBatch:
    """The record in each of these datums. Arguments, result and errors as of `decode_avro_records`."""
    return decode_avro_records(
        _as_content(data), avro_schema, columns=columns, with_unions=with_unions, path=path, offset=offset
    )


def _as_content(data: pa.BinaryArray) -> pa.Buffer | bytes:
    """Datums as the content of a block. None may be null."""
    count = len(data)
    front = _HEADER.pack(BLOCK_VERSION, count)
    if not count:
        return front
    lengths = np.frombuffer(front + pc.binary_length(data).to_numpy().astype(">i4").tobytes(), dtype=np.uint8)
    # What stands before a datum is its length; before the first one, version and count as well.
    bounds = np.arange(len(front), len(lengths) + 1, _LENGTH.size, dtype=np.int32)
    bounds[0] = 0
    before = pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(lengths)])
    return pc.binary_join_element_wise(before, data, pa.scalar(b"", pa.binary())).buffers()[2]


def _record_borders(content: pa.Buffer | bytes, path: str, offset: int) -> _Ints:
    """Where each record begins with its length, and last where the content ends."""

    def damage(message: str, content_offset: int) -> CorruptDataError:
        return CorruptDataError(message, path=path, offset=offset, content_offset=content_offset)

    if len(content) < _HEADER.size:
        raise damage("an Avro block ends before its first record", len(content))
    version, count = _HEADER.unpack_from(content)
    if version not in _VERSIONS_WITH_COUNT:
        raise UnsupportedFeatureError(
            "an Avro block of this version cannot be read", path=path, offset=offset, version=version
        )
    if count > (len(content) - _HEADER.size) // _LENGTH.size:
        raise damage("an Avro block has fewer records than it says", 4)
    borders = [position := _HEADER.size]
    # The one loop over rows: a record's length says where the next one is. It takes a tenth of the time.
    add, length_at = borders.append, _LENGTH.unpack_from
    try:
        for _ in range(count):
            position += length_at(content, position)[0] + 4
            add(position)
    except struct.error:
        position = len(content) + 1
    if position > len(content):
        raise damage("the records of an Avro block are more or longer than it is", min(borders[-1], len(content)))
    if position < len(content):
        raise damage("the records do not fill their Avro block", position)
    return np.array(borders, np.int64)


def _pieces(borders: _Ints, path: str, offset: int) -> Iterator[_Piece]:
    """The records in groups of bounded number and, but for a single large one, of bounded size."""
    start, count = 0, len(borders) - 1
    while start < count:
        fitting = int(np.searchsorted(borders, borders[start] + _BYTES_PER_PIECE, side="right")) - 1
        stop = min(max(fitting, start + 1), start + _ROWS_PER_PIECE, count)
        yield _Piece(borders[start : stop + 1], path, offset)
        start = stop


def _decode_piece(
    piece: _Piece, data: npt.NDArray[np.uint8], layout: RecordLayout, wanted: _Wanted
) -> dict[int, pa.Array]:
    """The wanted columns by their number in the schema."""
    source, cursors = piece.source(data)
    fields = layout.record.children
    arrays: dict[int, pa.Array] = {}
    try:
        for number in range(max(wanted.numbers, default=-1) + 1):
            source.column = layout.record.names[number]
            if number in wanted.numbers:
                arrays[number] = read(fields[number], cursors)
            else:
                skip(fields[number], cursors)
    except RaggedRecordsError:
        rows = read_rowwise(layout.record, piece.records(data), path=piece.path, offset=piece.offset)
        return dict(enumerate(rows))
    if len(arrays) == len(fields):
        cursors.require(cursors.position == cursors.end, "it is longer than its values")
    return arrays


def _batch(pieces: Sequence[dict[int, pa.Array]], wanted: _Wanted, num_rows: int) -> pa.RecordBatch:
    if not wanted.numbers:
        return pa.RecordBatch.from_struct_array(pa.nulls(num_rows, pa.struct([])))
    if not pieces:
        return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in wanted.schema], schema=wanted.schema)
    columns = [pa.concat_arrays([piece[number] for piece in pieces]) for number in wanted.numbers]
    return pa.RecordBatch.from_arrays(columns, schema=wanted.schema)
