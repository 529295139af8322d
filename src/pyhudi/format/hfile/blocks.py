"""The parts that HFiles are made of: trailer, blocks, file info, and the entries of a data block.

`pyhudi.format.hfile.reader` draws the layout. Everything is found by its position, through a `Source`, so that a reader
can fetch what it needs of a large file and no more.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.hfile.codecs import READABLE_CODECS, HFileCodec, decompress
from pyhudi.format.hfile.layout import (
    BLOCK_HEADER,
    CHECKSUM_BYTES,
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
"""Keys and values that are read at once, decompressed: what the 32-bit offsets of Arrow's binary arrays can address."""

EXPANSION_MAX: Final = 256
"""How many times its own size a file may hold beyond `UNSUSPICIOUS_BYTES`. Records seldom shrink to a tenth."""
UNSUSPICIOUS_BYTES: Final = 32 * 1024 * 1024
"""What a file may hold however small it is: even bzip2 is done with it in less than a second."""
FILE_INFO_BYTES_MAX: Final = 64 * 1024 * 1024
"""The decompressed file info block: a schema, and some numbers."""

_CHECKSUM_CHUNK_MIN: Final = 512
"""The least bytes per checksum; every known writer has 16384."""
_ENTRY_OVERHEAD: Final = 8 + KEY_OVERHEAD + 1
"""Bytes of an entry besides row and value: two lengths, the rest of the key, the MVCC number."""

KeysAndValues = tuple[pa.BinaryArray, pa.BinaryArray]
_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, least significant bit first."""
_ALL_ONES: Final = 0xFFFFFFFF
_LANES: Final = 128
_WORD_BYTES: Final = 4
_BYTES_AT_ONCE: Final = 4 << 20
"""Limits the size of the working arrays."""
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Source:
    """The bytes of an HFile by their positions in it, and how to complain about a place in them.

    `read` gives the bytes from a position to another, both within `size`. `path` and `offset`: the file that holds the
    HFile, and where the HFile begins in it, for errors.
    """

    read: Callable[[int, int], memoryview]
    size: int
    path: str
    offset: int

    def damage(self, message: str, position: int, **context: object) -> CorruptDataError:
        """The error for damage at a position of the HFile."""
        return CorruptDataError(message, path=self.path, offset=self.offset + position, **context)

    def unsupported(self, message: str, **context: object) -> UnsupportedFeatureError:
        """The error for what this release cannot read."""
        return UnsupportedFeatureError(message, path=self.path, offset=self.offset, **context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """The fields of the trailer that reading needs. Offsets are positions in the HFile."""

    file_info_offset: int
    load_on_open_offset: int
    entry_count: int
    data_index_count: int
    index_levels: int
    first_data_block: int
    last_data_block: int
    codec: HFileCodec


def parse_trailer(source: Source) -> Trailer:
    """The trailer of an HFile."""
    start = source.size - TRAILER_BYTES
    if start < 0 or bytes(source.read(start, start + len(TRAILER_MAGIC))) != TRAILER_MAGIC:
        raise source.damage("this is no HFile, or it is cut off: its trailer is missing", max(start, 0))
    version = int.from_bytes(source.read(source.size - 3, source.size), "big")
    if version != MAJOR_VERSION:
        raise source.unsupported(f"HFiles of version {version} cannot be read, only those of version {MAJOR_VERSION}")
    body = source.read(start + len(TRAILER_MAGIC), source.size - 4)
    try:
        length, position = parse_varint(body, 0)
        fields: dict[int, int | bytes] = dict(parse_message(body, position, length))
        numbers = {number: int(value) for number, value in fields.items() if isinstance(value, int)}
        trailer = Trailer(
            file_info_offset=numbers[TrailerField.FILE_INFO_OFFSET],
            load_on_open_offset=numbers.get(TrailerField.LOAD_ON_OPEN_OFFSET, 0),
            entry_count=numbers[TrailerField.ENTRY_COUNT],
            data_index_count=numbers.get(TrailerField.DATA_BLOCK_COUNT, 0),
            index_levels=numbers.get(TrailerField.INDEX_LEVELS, 1),
            first_data_block=numbers.get(TrailerField.FIRST_DATA_BLOCK, 0),
            last_data_block=numbers.get(TrailerField.LAST_DATA_BLOCK, 0),
            codec=_codec_of(numbers.get(TrailerField.CODEC, HFileCodec.NONE), source),
        )
    except (ValueError, KeyError) as error:
        raise source.damage("the trailer of the HFile is damaged", start, cause=str(error)) from error
    if TrailerField.ENCRYPTION_KEY in fields:
        raise source.unsupported("encrypted HFiles cannot be read")
    return trailer


def _codec_of(number: int, source: Source) -> HFileCodec:
    known = number in READABLE_CODECS
    if not known:
        name = HFileCodec(number).name if number in HFileCodec.__members__.values() else f"number {number}"
        raise source.unsupported(f"HFiles compressed with the codec {name} cannot be read", codec=name)
    return HFileCodec(number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block's header, checked against the bytes that there are. `stored` is the payload as it is in the file."""

    magic: bytes
    position: int
    end: int
    size: int
    checksum: int
    bytes_per_checksum: int
    stored: memoryview
    checksums: memoryview


def block_at(source: Source, position: int) -> Block:
    """The block that begins at a position; its payload is not touched."""
    limit = source.size - TRAILER_BYTES
    if position > limit - BLOCK_HEADER.size:
        raise source.damage("a block of the HFile lies outside of it", min(position, limit), block=position)
    header = source.read(position, position + BLOCK_HEADER.size)
    magic, stored, size, _, checksum, chunk, data_end = BLOCK_HEADER.unpack(header)
    end = position + BLOCK_HEADER.size + stored
    data_end += position
    if stored < 0 or size < 0 or end > limit or not position + BLOCK_HEADER.size <= data_end <= end:
        raise source.damage("a block header of the HFile is damaged", position)
    return Block(
        magic=magic,
        position=position,
        end=end,
        size=size,
        checksum=checksum,
        bytes_per_checksum=chunk,
        stored=source.read(position + BLOCK_HEADER.size, data_end),
        checksums=source.read(data_end, end),
    )


def payload_of(block: Block, source: Source, codec: HFileCodec) -> memoryview:
    """The decompressed payload of a block whose checksums, if it has any, are right."""
    _verify_checksums(block, source)
    try:
        return decompress(codec, block.stored, block.size)
    except ValueError as error:
        raise source.damage(
            "a block of the HFile does not decompress", block.position, codec=codec.name, cause=str(error)
        ) from error


def _verify_checksums(block: Block, source: Source) -> None:
    if block.checksum not in tuple(Checksum):
        raise source.damage("a block header of the HFile is damaged", block.position)
    if not any(block.checksums):
        # Zeros are no checksums, whatever the type says: JVM Hudi writes them as NONE, hudi-rs as CRC32C.
        return
    if block.checksum == Checksum.NONE:  # so one damaged byte does not switch checksums off
        raise source.damage("a block of the HFile has checksums and says that it has none", block.position)
    if block.bytes_per_checksum < _CHECKSUM_CHUNK_MIN:
        raise source.damage("a block header of the HFile is damaged", block.position)
    covered = source.read(block.position, block.end - len(block.checksums))
    checksums = crc32_of_chunks if block.checksum == Checksum.CRC32 else crc32c_of_chunks
    expected = -(-len(covered) // block.bytes_per_checksum) * CHECKSUM_BYTES
    if len(block.checksums) != expected:
        raise source.damage("a block of the HFile has too few or too many checksums", block.position)
    found = np.frombuffer(block.checksums, dtype=">u4")
    if not np.array_equal(checksums(covered, block.bytes_per_checksum), found):
        raise source.damage("a checksum of the HFile is wrong: the block is damaged", block.position)


def parse_file_info(source: Source, trailer: Trailer) -> dict[str, bytes]:
    """Names and values of the file info block."""
    block = block_at(source, trailer.file_info_offset)
    if block.magic != FILE_INFO_MAGIC:
        raise source.damage("the file info block of the HFile is not where the trailer says", block.position)
    if block.size > FILE_INFO_BYTES_MAX:
        raise source.damage("the file info block of the HFile is too large", block.position)
    payload = payload_of(block, source, trailer.codec)
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


def entries_of(payload: memoryview, source: Source, position: int) -> KeysAndValues:
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
) -> KeysAndValues:
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


def source_of(data: pa.Buffer | bytes | memoryview, path: str, offset: int = 0) -> Source:
    """The source of an HFile that is in memory."""
    view = memoryview(data).cast("B")
    return Source(lambda start, end: view[start:end], len(view), path, offset)


def schema_of(file_info: dict[str, bytes], source: Source, trailer: Trailer) -> str | None:
    """The Avro JSON of the values; None where the values are something else."""
    try:
        return file_info[SCHEMA].decode() if SCHEMA in file_info else None
    except UnicodeDecodeError as error:
        raise source.damage("the schema in the HFile is no UTF-8 text", trailer.file_info_offset) from error


class Gathered:
    """Entries of several data blocks, as long as they are not suspiciously many."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._left = min(CONTENT_BYTES_MAX, max(UNSUSPICIOUS_BYTES, source.size * EXPANSION_MAX))
        self._parts: list[KeysAndValues] = []

    def read(self, block: Block, codec: HFileCodec) -> KeysAndValues:
        """The entries of a data block, which count as read.

        Raises:
            UnsupportedFeatureError: they are more than can be read at once.
        """
        self._left -= block.size
        if self._left < 0:
            raise self._source.unsupported("the HFile holds more than can be read at once")
        return entries_of(payload_of(block, self._source, codec), self._source, block.position)

    def add(self, entries: KeysAndValues) -> None:
        """Keep these entries."""
        self._parts.append(entries)

    def entries(self) -> KeysAndValues:
        """All that were kept, in order."""
        if not self._parts:
            return pa.array([], pa.binary()), pa.array([], pa.binary())
        keys, values = zip(*self._parts, strict=True)
        return pa.concat_arrays(keys), pa.concat_arrays(values)


def crc32_of_chunks(data: memoryview, chunk_bytes: int) -> Words:
    """The CRC-32 of each `chunk_bytes` of the data; the last chunk may be shorter."""
    starts = range(0, len(data), chunk_bytes)
    return np.array([zlib.crc32(data[start : start + chunk_bytes]) for start in starts], dtype=np.uint32)


def crc32c_of_chunks(data: memoryview, chunk_bytes: int) -> Words:
    """The CRC-32C of each `chunk_bytes` of the data; the last chunk may be shorter.

    Cost: 5 to 10 ms per MiB, and 0.2 ms for the shortest data. Chunks of less than 512 bytes cost more memory than
    they have bytes.
    """
    content = np.frombuffer(data, dtype=np.uint8)
    whole = len(content) // chunk_bytes
    chunks = content[: whole * chunk_bytes].reshape(whole, chunk_bytes)
    rows_at_once = max(1, _BYTES_AT_ONCE // chunk_bytes)
    parts = [_crc32c_of_rows(chunks[start : start + rows_at_once]) for start in range(0, whole, rows_at_once)]
    if rest := len(content) % chunk_bytes:
        parts.append(_crc32c_of_rows(content[-rest:].reshape(1, -1)))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)


def _crc32c_of_rows(rows: npt.NDArray[np.uint8]) -> Words:
    """The CRC-32C of every row of a matrix of bytes."""
    count, length = rows.shape
    lane_bytes = -(-length // (_LANES * _WORD_BYTES)) * _WORD_BYTES
    # Zeros in front change nothing as long as the register is zero; its start value is mixed in at the end.
    padded = np.zeros((count, _LANES * lane_bytes), dtype=np.uint8)
    padded[:, padded.shape[1] - length :] = rows
    registers = _lane_registers(padded.view("<u4").reshape(count * _LANES, -1)).reshape(count, _LANES)
    distance = lane_bytes
    while registers.shape[1] > 1:
        registers = _moved_on(registers[:, 0::2], distance) ^ registers[:, 1::2]
        distance *= 2
    start = _moved_on(np.array([_ALL_ONES], dtype=np.uint32), length)
    return registers[:, 0] ^ start ^ np.uint32(_ALL_ONES)


def _lane_registers(lanes: Words) -> Words:
    """The register after each lane, begun at zero: one step per word for all lanes together."""
    tables = _word_tables()
    registers = np.zeros(len(lanes), dtype=np.uint32)
    for word in np.ascontiguousarray(lanes.T):
        registers = _through(tables, registers ^ word)
    return registers


def _moved_on(registers: Words, zero_bytes: int) -> Words:
    """The registers after that many more zero bytes."""
    return _through(_tables_of_distance(zero_bytes), registers)


def _through(tables: Words, values: Words) -> Words:
    """A linear map of 32-bit words, given as one table per byte of the word."""
    low = tables[0][values & 0xFF] ^ tables[1][(values >> 8) & 0xFF]
    high = tables[2][(values >> 16) & 0xFF] ^ tables[3][values >> 24]
    mapped: Words = low ^ high
    return mapped


@functools.cache
def _byte_table() -> Words:
    """The register after one byte."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


def _after_zero_byte(registers: Words) -> Words:
    moved: Words = _byte_table()[registers & 0xFF] ^ (registers >> 8)
    return moved


@functools.cache
def _word_tables() -> Words:
    """How a register changes over four zero bytes."""
    tables = np.arange(256, dtype=np.uint32) << (np.arange(4, dtype=np.uint32) * 8)[:, None]
    for _ in range(_WORD_BYTES):
        tables = _after_zero_byte(tables)
    return tables


@functools.lru_cache(maxsize=256)
def _tables_of_distance(zero_bytes: int) -> Words:
    """How a register changes over a number of zero bytes: found by halving."""
    if zero_bytes == 0:
        return np.arange(256, dtype=np.uint32) << (np.arange(4, dtype=np.uint32) * 8)[:, None]
    if zero_bytes % 2:
        return _after_zero_byte(_tables_of_distance(zero_bytes - 1))
    half = _tables_of_distance(zero_bytes // 2)
    return _through(half, half)
