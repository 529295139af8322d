"""Reader of HFiles: sorted files of keys and values, for base files of the metadata table and a type of log blocks.

    file    := data blocks | meta blocks | index blocks | file info block | trailer
    block   := 8 bytes magic | int stored size | int size | long previous block | byte checksum type
               | int bytes per checksum | int header and payload | payload | int checksums
    data    := ( int key size | int value size | short row size | row | 0 | 8 bytes time | 4 | value | 0 )*
    trailer := magic | length | protobuf message | zeros | int version, in the last 4096 bytes

There are two writers: the HBase library in Hudi 0.15 and 1.0, with checksums and deep indexes, and JVM Hudi's own
writer since 1.1, with neither. The reader reads whole files from front to back and does not need the index.

https://github.com/apache/hudi/blob/master/hudi-io/hfile_format.md
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.hfile.checksums import crc32_of_chunks, crc32c_of_chunks
from pyhudi.format.hfile.codecs import READABLE_CODECS, HFileCodec, decompress
from pyhudi.format.hfile.layout import (
    BLOCK_HEADER,
    CHECKSUM_BYTES,
    DATA_MAGIC,
    ENTRY_HEADER,
    FILE_INFO_MAGIC,
    FILE_INFO_PREFIX,
    KEY_OVERHEAD,
    KEY_VALUE_VERSION,
    KEY_VALUE_VERSION_WITH_MVCC,
    MAJOR_VERSION,
    MAX_MVCC,
    PUT,
    SCHEMA,
    TRAILER_BYTES,
    TRAILER_MAGIC,
    Checksum,
    TrailerField,
    parse_message,
    parse_varint,
)

CONTENT_BYTES_MAX: Final = (1 << 31) - 1
"""Keys and values of one file, decompressed: what the 32-bit offsets of Arrow's binary arrays can address."""

EXPANSION_MAX: Final = 256
"""How many times its own size a file may hold beyond `UNSUSPICIOUS_BYTES`. Records seldom shrink to a tenth."""
UNSUSPICIOUS_BYTES: Final = 32 * 1024 * 1024
"""What a file may hold however small it is: even bzip2 is done with it in less than a second."""
FILE_INFO_BYTES_MAX: Final = 64 * 1024 * 1024
"""The decompressed file info block: a schema, and some numbers."""

_CHECKSUM_CHUNK_MIN: Final = 512
"""The least bytes per checksum that are believed; every known writer has 16384."""
_ENTRY_OVERHEAD: Final = 8 + KEY_OVERHEAD + 1
"""Bytes of an entry besides row and value: two lengths, the rest of the key, the MVCC number."""
_NO_BLOCKS: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HFile:
    """All entries of an HFile, in the file's order, and what it says about itself.

    Attributes:
        keys: The rows: UTF-8 record keys in ascending order of their bytes, where the writer kept to the format. A key
            may occur more than once.
        values: The value of each key, as long as `keys`, without nulls.
        file_info: Names and values of the file info block.
        schema: The Avro JSON of the values; None where the values are something else, as in a bootstrap index.
        codec: How the blocks were compressed.
    """

    keys: pa.BinaryArray = field(repr=False)
    values: pa.BinaryArray = field(repr=False)
    file_info: Mapping[str, bytes] = field(repr=False)
    schema: str | None = field(repr=False)
    codec: HFileCodec


def read_hfile(data: pa.Buffer | bytes | memoryview, *, path: str, offset: int = 0) -> HFile:
    """Every entry of an HFile, of either dialect.

    Checksums are verified where the writer made them. Without, damage to keys and values can go unseen unless the
    codec has checksums of its own, as gzip does; damage to anything that says how long something is does not.

    Args:
        data: The whole HFile and nothing else.
        path: The file that holds it, for errors.
        offset: Where it begins in that file, for errors.

    Raises:
        CorruptDataError: any damage; names path and the offset of the part that is damaged.
        UnsupportedFeatureError: another version than 3, the codec LZO or an unknown one, encryption, entries with
            transaction numbers, or more than `CONTENT_BYTES_MAX`, or than a file of this size may expand to.

    Cost: two copies of the content: one decompressing, one gathering keys and values; 0.5 µs per entry to find where
    it begins.
    """
    source = _Source(memoryview(data).cast("B"), path, offset)
    trailer = _parse_trailer(source)
    file_info = _parse_file_info(source, trailer)
    keys, values = _read_entries(source, trailer)
    if len(keys) != trailer.entry_count:
        raise source.damage(
            "the HFile does not hold as many entries as it says",
            len(source.data) - TRAILER_BYTES,
            expected=trailer.entry_count,
            found=len(keys),
        )
    try:
        schema = file_info[SCHEMA].decode() if SCHEMA in file_info else None
    except UnicodeDecodeError as error:
        raise source.damage("the schema in the HFile is no UTF-8 text", trailer.file_info_offset) from error
    return HFile(keys=keys, values=values, file_info=MappingProxyType(file_info), schema=schema, codec=trailer.codec)


@dataclass(frozen=True, slots=True)
class _Source:
    """The bytes of a file, and how to complain about a place in them."""

    data: memoryview
    path: str
    offset: int

    def damage(self, message: str, position: int, **context: object) -> CorruptDataError:
        return CorruptDataError(message, path=self.path, offset=self.offset + position, **context)

    def unsupported(self, message: str, **context: object) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(message, path=self.path, offset=self.offset, **context)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trailer:
    """The fields of the trailer that reading needs. Offsets are positions in the HFile."""

    file_info_offset: int
    entry_count: int
    first_data_block: int
    last_data_block: int
    codec: HFileCodec


def _parse_trailer(source: _Source) -> _Trailer:
    start = len(source.data) - TRAILER_BYTES
    if start < 0 or bytes(source.data[start : start + len(TRAILER_MAGIC)]) != TRAILER_MAGIC:
        raise source.damage("this is no HFile, or it is cut off: its trailer is missing", max(start, 0))
    version = int.from_bytes(source.data[-3:], "big")
    if version != MAJOR_VERSION:
        raise source.unsupported(f"HFiles of version {version} cannot be read, only those of version {MAJOR_VERSION}")
    body = source.data[start + len(TRAILER_MAGIC) : -4]
    try:
        length, position = parse_varint(body, 0)
        fields: dict[int, int | bytes] = dict(parse_message(body, position, length))
        numbers = {number: int(value) for number, value in fields.items() if isinstance(value, int)}
        trailer = _Trailer(
            file_info_offset=numbers[TrailerField.FILE_INFO_OFFSET],
            entry_count=numbers[TrailerField.ENTRY_COUNT],
            first_data_block=numbers.get(TrailerField.FIRST_DATA_BLOCK, 0),
            last_data_block=numbers.get(TrailerField.LAST_DATA_BLOCK, 0),
            codec=_codec_of(numbers.get(TrailerField.CODEC, HFileCodec.NONE), source),
        )
    except (ValueError, KeyError) as error:
        raise source.damage("the trailer of the HFile is damaged", start, cause=str(error)) from error
    if TrailerField.ENCRYPTION_KEY in fields:
        raise source.unsupported("encrypted HFiles cannot be read")
    return trailer


def _codec_of(number: int, source: _Source) -> HFileCodec:
    known = number in READABLE_CODECS
    if not known:
        name = HFileCodec(number).name if number in HFileCodec.__members__.values() else f"number {number}"
        raise source.unsupported(f"HFiles compressed with the codec {name} cannot be read", codec=name)
    return HFileCodec(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """A block's header, checked against the bytes that there are. `stored` is the payload as it is in the file."""

    magic: bytes
    position: int
    end: int
    size: int
    checksum: int
    bytes_per_checksum: int
    stored: memoryview
    checksums: memoryview


def _block_at(source: _Source, position: int) -> _Block:
    """The block that begins at a position; its payload is not touched."""
    limit = len(source.data) - TRAILER_BYTES
    if position > limit - BLOCK_HEADER.size:
        raise source.damage("a block of the HFile lies outside of it", min(position, limit), block=position)
    magic, stored, size, _, checksum, chunk, data_end = BLOCK_HEADER.unpack_from(source.data, position)
    end = position + BLOCK_HEADER.size + stored
    data_end += position
    if stored < 0 or size < 0 or end > limit or not position + BLOCK_HEADER.size <= data_end <= end:
        raise source.damage("a block header of the HFile is damaged", position)
    return _Block(
        magic=magic,
        position=position,
        end=end,
        size=size,
        checksum=checksum,
        bytes_per_checksum=chunk,
        stored=source.data[position + BLOCK_HEADER.size : data_end],
        checksums=source.data[data_end:end],
    )


def _payload_of(block: _Block, source: _Source, codec: HFileCodec) -> memoryview:
    """The decompressed payload of a block whose checksums, if it has any, are right."""
    _verify_checksums(block, source)
    try:
        return decompress(codec, block.stored, block.size)
    except ValueError as error:
        raise source.damage(
            "a block of the HFile does not decompress", block.position, codec=codec.name, cause=str(error)
        ) from error


def _verify_checksums(block: _Block, source: _Source) -> None:
    if block.checksum == Checksum.NONE:
        # Hudi's own writer: what stands in their place is zeros. So one damaged byte does not switch checksums off.
        if any(block.checksums):
            raise source.damage("a block of the HFile has checksums and says that it has none", block.position)
        return
    if block.checksum not in (Checksum.CRC32, Checksum.CRC32C) or block.bytes_per_checksum < _CHECKSUM_CHUNK_MIN:
        raise source.damage("a block header of the HFile is damaged", block.position)
    covered = source.data[block.position : block.end - len(block.checksums)]
    checksums = crc32_of_chunks if block.checksum == Checksum.CRC32 else crc32c_of_chunks
    expected = -(-len(covered) // block.bytes_per_checksum) * CHECKSUM_BYTES
    if len(block.checksums) != expected:
        raise source.damage("a block of the HFile has too few or too many checksums", block.position)
    found = np.frombuffer(block.checksums, dtype=">u4")
    if not np.array_equal(checksums(covered, block.bytes_per_checksum), found):
        raise source.damage("a checksum of the HFile is wrong: the block is damaged", block.position)


def _parse_file_info(source: _Source, trailer: _Trailer) -> dict[str, bytes]:
    block = _block_at(source, trailer.file_info_offset)
    if block.magic != FILE_INFO_MAGIC:
        raise source.damage("the file info block of the HFile is not where the trailer says", block.position)
    if block.size > FILE_INFO_BYTES_MAX:
        raise source.damage("the file info block of the HFile is too large", block.position)
    payload = _payload_of(block, source, trailer.codec)
    if bytes(payload[: len(FILE_INFO_PREFIX)]) != FILE_INFO_PREFIX:
        raise source.damage("the file info block of the HFile is damaged", block.position)
    try:
        length, position = parse_varint(payload, len(FILE_INFO_PREFIX))
        entries = [value for number, value in parse_message(payload, position, length) if number == 1]
        file_info = dict(_name_and_value(entry) for entry in entries)
    except ValueError as error:
        raise source.damage("the file info block of the HFile is damaged", block.position, cause=str(error)) from error
    # Together these two say that every entry ends in one more byte, which is zero.
    has_mvcc = file_info.get(KEY_VALUE_VERSION) == KEY_VALUE_VERSION_WITH_MVCC
    if not has_mvcc or any(file_info.get(MAX_MVCC, b"")):
        raise source.unsupported("HFiles with transaction numbers, or without room for them, cannot be read")
    return file_info


def _name_and_value(entry: int | bytes) -> tuple[str, bytes]:
    if not isinstance(entry, bytes):
        raise ValueError("an entry is no message")  # noqa: TRY004 - about the file, not about an argument
    fields = dict(parse_message(entry, 0, len(entry)))
    name, value = fields.get(1, b""), fields.get(2, b"")
    if not isinstance(name, bytes) or not isinstance(value, bytes):
        raise ValueError("an entry has a number for its name or value")  # noqa: TRY004
    return name.decode("utf-8"), value


def _read_entries(source: _Source, trailer: _Trailer) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    keys: list[pa.BinaryArray] = []
    values: list[pa.BinaryArray] = []
    size = 0
    size_max = min(CONTENT_BYTES_MAX, max(UNSUSPICIOUS_BYTES, len(source.data) * EXPANSION_MAX))
    for block in _data_blocks(source, trailer):
        size += block.size
        if size > size_max:
            raise source.unsupported("the HFile holds more than can be read at once", bytes_max=size_max)
        payload = _payload_of(block, source, trailer.codec)
        block_keys, block_values = _entries_of(payload, source, block.position)
        keys.append(block_keys)
        values.append(block_values)
    if not keys:
        return pa.array([], pa.binary()), pa.array([], pa.binary())
    return pa.concat_arrays(keys), pa.concat_arrays(values)


def _data_blocks(source: _Source, trailer: _Trailer) -> Iterator[_Block]:
    """The data blocks from the first to the last; the leaves of a deep index stand between them and are passed over."""
    if trailer.entry_count == 0 or trailer.first_data_block == _NO_BLOCKS:
        return
    position = trailer.first_data_block
    while position < trailer.last_data_block:
        block = _block_at(source, position)
        if block.magic == DATA_MAGIC:
            yield block
        position = block.end
    if position != trailer.last_data_block or (block := _block_at(source, position)).magic != DATA_MAGIC:
        raise source.damage("the last data block of the HFile is not where the trailer says", position)
    yield block


def _entries_of(payload: memoryview, source: _Source, position: int) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Keys and values of a data block; `position` is the block's."""
    starts = _entry_starts(payload)
    if starts is None:
        raise source.damage("the entries of a data block of the HFile do not fill it", position)
    content = np.frombuffer(payload, dtype=np.uint8)
    if not len(starts):
        return pa.array([], pa.binary()), pa.array([], pa.binary())
    header = content[starts[:, None] + np.arange(ENTRY_HEADER.itemsize)].view(ENTRY_HEADER)[:, 0]
    key_size, value_size = header["key"].astype(np.int64), header["value"].astype(np.int64)
    row_size = header["row"].astype(np.int64)
    row = starts + ENTRY_HEADER.itemsize
    value = starts + 8 + key_size
    is_whole = row_size == key_size - KEY_OVERHEAD
    if not is_whole.all():
        raise source.damage("a key of the HFile is damaged", position, entry=int(np.argmin(is_whole)))
    # What is the same in every entry that Hudi writes: no column family, a put, no transaction number.
    is_plain = (content[row + row_size] == 0) & (content[value - 1] == PUT) & (content[value + value_size] == 0)
    if not is_plain.all():
        raise source.damage("a key of the HFile is damaged", position, entry=int(np.argmin(is_plain)))
    return _gather(payload, row, row + row_size, value, value + value_size)


def _entry_starts(payload: memoryview) -> npt.NDArray[np.int64] | None:
    """Where each entry begins, or None if they do not fill the block to the byte.

    A loop, because an entry's place depends on the lengths in all before it; so it does nothing else.
    """
    starts: list[int] = []
    position, last = 0, len(payload) - _ENTRY_OVERHEAD
    lengths = struct.Struct(">ii").unpack_from
    while position <= last:
        key_size, value_size = lengths(payload, position)
        if key_size < KEY_OVERHEAD or value_size < 0:
            return None
        starts.append(position)
        position += 9 + key_size + value_size
    return np.array(starts, dtype=np.int64) if position == len(payload) else None


def _gather(
    payload: memoryview,
    row: npt.NDArray[np.int64],
    row_end: npt.NDArray[np.int64],
    value: npt.NDArray[np.int64],
    value_end: npt.NDArray[np.int64],
) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Copies rows and values together, without a Python object for any of them.

    The payload is described to Arrow as one array that alternates between row, rest of the key, value and what lies
    between entries; every fourth element of that is a row, or a value.
    """
    bounds = np.empty(4 * len(row) + 1, dtype=np.int32)
    bounds[0:-1:4], bounds[1::4], bounds[2::4], bounds[3::4] = row, row_end, value, value_end
    bounds[-1] = len(payload)
    pieces = pa.BinaryArray.from_buffers(pa.binary(), 4 * len(row), [None, pa.py_buffer(bounds), pa.py_buffer(payload)])
    rows = np.arange(0, 4 * len(row), 4)
    return pieces.take(pa.array(rows)), pieces.take(pa.array(rows + 2))
