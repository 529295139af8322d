"""Writes HFiles as JVM Hudi's own writer does since release 1.1: without checksums, with an index of one level.

There is one difference: keys in the index and in the file info are whole HBase keys, not bare row keys. JVM Hudi's own
reader accepts both. The HBase library, and so Hudi 0.15, fails on bare row keys at the first lookup in a block.
`pyhudi.format.hfile.reader` draws the layout.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import InternalError, RecordKeyError, UnsupportedFeatureError
from pyhudi.format.hfile.codecs import WRITABLE_CODECS, HFileCodec, compress
from pyhudi.format.hfile.layout import (
    AVERAGE_KEY_SIZE,
    AVERAGE_VALUE_SIZE,
    BLOCK_HEADER,
    BYTES_PER_CHECKSUM,
    CHECKSUM_BYTES,
    COMPARATOR,
    CREATE_TIME,
    DATA_MAGIC,
    ENTRY_HEADER,
    FILE_INFO_MAGIC,
    FILE_INFO_PREFIX,
    KEY_OVERHEAD,
    KEY_TAIL,
    KEY_VALUE_VERSION,
    KEY_VALUE_VERSION_WITH_MVCC,
    LAST_KEY,
    MAJOR_VERSION,
    MAX_MVCC,
    META_MAGIC,
    ROOT_INDEX_MAGIC,
    ROW_BYTES_MAX,
    SCHEMA,
    TRAILER_BYTES,
    TRAILER_MAGIC,
    Checksum,
    TrailerField,
    format_field,
    format_varint,
)

BLOCK_BYTES: Final = 1 << 20
"""What a data block holds before compression, at least, in the metadata table's files and in log blocks."""

_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})
_INT_MAX: Final = (1 << 31) - 1


def write_hfile(
    keys: pa.Array,
    values: pa.Array,
    *,
    schema: str | None,
    codec: HFileCodec = HFileCodec.GZ,
    created_ms: int = 0,
    file_info: Mapping[str, bytes] = _NOTHING,
    meta_blocks: Mapping[str, bytes] = _NOTHING,
    block_bytes: int = BLOCK_BYTES,
) -> bytes:
    """An HFile of these entries. The same arguments give the same bytes.

    Args:
        keys: Record keys, strings or their UTF-8 bytes, ascending by bytes; a key may occur more than once.
        values: Binary, as long as `keys`: Avro datums of `schema`, if there is one.
        schema: Avro JSON of the values; None for values that carry their own, as in the bootstrap index.
        codec: GZ, as in the metadata table, or NONE, as in the bootstrap index.
        created_ms: Epoch milliseconds that the file info states.
        file_info: More of it; base files have `minRecordKey`, `maxRecordKey` and `bloomFilterTypeCode`.
        meta_blocks: Contents by name; base files have their bloom filter in `bloomFilter`.
        block_bytes: A data block ends when it has become this long, but not between two equal keys.

    Raises:
        RecordKeyError: a key is null, or longer than `ROW_BYTES_MAX` bytes.
        UnsupportedFeatureError: another codec, or equal keys with more than 2 GiB of values.
        InternalError: the keys do not ascend, a value is null or the lengths differ.

    Cost: two copies of the content besides the compressed one.
    """
    pieces: list[pa.Buffer | bytes] = []
    writer = HFileWriter(pieces.append, codec=codec, block_bytes=block_bytes)
    writer.add(keys, values)
    writer.close(schema=schema, created_ms=created_ms, file_info=file_info, meta_blocks=meta_blocks)
    return b"".join(pieces)


class HFileWriter:
    """Writes an HFile to a sink, some entries at a time. Memory: those entries, and the first key of each block.

    The arguments are those of `write_hfile`, and so are the errors.
    """

    def __init__(
        self, write: Callable[[pa.Buffer | bytes], object], *, codec: HFileCodec, block_bytes: int = BLOCK_BYTES
    ) -> None:
        if codec not in WRITABLE_CODECS:
            raise UnsupportedFeatureError("HFiles are written with the codecs GZ and NONE only", codec=codec.name)
        self._out = _Output(codec, write)
        self._block_bytes = block_bytes
        self._blocks: list[tuple[_Span, bytes]] = []
        self._last: bytes | None = None
        self._row_bytes = self._value_bytes = 0
        self.entry_count = 0

    def add(self, keys: pa.Array, values: pa.Array) -> None:
        """Append entries, in blocks of their own. Their keys are above those that were added before."""
        rows, values = _checked(keys, values)
        if not len(rows):
            return
        if self._last is not None and rows[0].as_py() <= self._last:
            raise InternalError("the keys of an HFile ascend by their bytes")
        self._last = rows[-1].as_py()
        self._blocks += _write_data_blocks(self._out, rows, values, self._block_bytes)
        self.entry_count += len(rows)
        self._row_bytes += pc.sum(pc.binary_length(rows)).as_py()
        self._value_bytes += pc.sum(pc.binary_length(values)).as_py()

    def close(
        self,
        *,
        schema: str | None = None,
        created_ms: int = 0,
        file_info: Mapping[str, bytes] = _NOTHING,
        meta_blocks: Mapping[str, bytes] = _NOTHING,
    ) -> None:
        """Write what follows the entries. The sink stays open."""
        out, data = self._out, self._blocks
        names = sorted(meta_blocks, key=str.encode)
        meta = [(out.block(META_MAGIC, meta_blocks[name]), name.encode()) for name in names]
        load_on_open = out.position
        out.block(ROOT_INDEX_MAGIC, b"".join(_index_entry(span, _whole_key(row)) for span, row in data))
        out.block(ROOT_INDEX_MAGIC, b"".join(_index_entry(span, name) for span, name in meta))
        of_schema = {} if schema is None else {SCHEMA: schema.encode()}
        info = {**of_schema, **self._statistics(created_ms), **file_info}
        file_info_at = out.block(FILE_INFO_MAGIC, _file_info(info))
        first, last = (data[0][0], data[-1][0]) if data else (_Span(0, 0), _Span(0, 0))
        fields: dict[TrailerField, int | bytes] = {
            TrailerField.FILE_INFO_OFFSET: file_info_at.offset,
            TrailerField.LOAD_ON_OPEN_OFFSET: load_on_open,
            TrailerField.UNCOMPRESSED_INDEX_BYTES: out.data_bytes,
            TrailerField.DATA_BLOCK_COUNT: len(data),
            TrailerField.META_BLOCK_COUNT: len(meta),
            TrailerField.ENTRY_COUNT: self.entry_count,
            TrailerField.INDEX_LEVELS: 1,
            TrailerField.FIRST_DATA_BLOCK: first.offset,
            TrailerField.LAST_DATA_BLOCK: last.offset,
            TrailerField.COMPARATOR: COMPARATOR.encode(),
            TrailerField.CODEC: out.codec,
        }
        out.write(_trailer(fields))

    def _statistics(self, created_ms: int) -> dict[str, bytes]:
        count = max(self.entry_count, 1)
        return {
            LAST_KEY: b"" if self._last is None else _whole_key(self._last),
            AVERAGE_KEY_SIZE: struct.pack(">i", self._row_bytes // count),
            AVERAGE_VALUE_SIZE: struct.pack(">i", self._value_bytes // count),
            CREATE_TIME: struct.pack(">q", created_ms),
            KEY_VALUE_VERSION: KEY_VALUE_VERSION_WITH_MVCC,
            MAX_MVCC: bytes(8),
        }


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a block is in the file: what an index entry says. `size` is that of the whole block, in bytes."""

    offset: int
    size: int


@dataclass(slots=True)
class _Output:
    """The file as written so far."""

    codec: HFileCodec
    write: Callable[[pa.Buffer | bytes], object]
    position: int = 0
    data_bytes: int = 0
    """Bytes in data blocks before compression; Hudi's writer states them where HBase states the index's."""

    def block(self, magic: bytes, payload: pa.Buffer | bytes) -> _Span:
        """Appends a block."""
        size = memoryview(payload).nbytes
        stored = compress(self.codec, payload)
        header_and_payload = BLOCK_HEADER.size + memoryview(stored).nbytes
        # There is room for checksums, although there are none.
        checksums = bytes(CHECKSUM_BYTES * -(-header_and_payload // BYTES_PER_CHECKSUM))
        after_header = header_and_payload - BLOCK_HEADER.size + len(checksums)
        if max(size, after_header, header_and_payload) > _INT_MAX:
            raise UnsupportedFeatureError("a block of an HFile holds at most 2 GiB", size=size)
        header = BLOCK_HEADER.pack(magic, after_header, size, -1, Checksum.NONE, BYTES_PER_CHECKSUM, header_and_payload)
        for piece in (header, stored, checksums):
            self.write(piece)
        span = _Span(self.position, BLOCK_HEADER.size + after_header)
        self.position += span.size
        self.data_bytes += size if magic == DATA_MAGIC else 0
        return span


def _checked(keys: pa.Array, values: pa.Array) -> tuple[pa.LargeBinaryArray, pa.LargeBinaryArray]:
    """Rows and values with 64-bit offsets, so that no block can overflow them."""
    if keys.null_count:
        raise RecordKeyError("a record key is null")
    if values.null_count or len(keys) != len(values):
        raise InternalError("every key of an HFile has a value", keys=len(keys), values=len(values))
    rows = _large_binary(keys)
    longest = pc.max(pc.binary_length(rows)).as_py() or 0
    if longest > ROW_BYTES_MAX:
        raise RecordKeyError(f"a key in an HFile has at most {ROW_BYTES_MAX} bytes", size=longest)
    if len(rows) > 1 and not pc.all(pc.less_equal(rows[:-1], rows[1:])).as_py():
        raise InternalError("the keys of an HFile ascend by their bytes")
    return rows, _large_binary(values)


def _large_binary(array: pa.Array) -> pa.LargeBinaryArray:
    is_text = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
    return (array.cast(pa.large_string()) if is_text else array).cast(pa.large_binary())


def _write_data_blocks(
    out: _Output, rows: pa.LargeBinaryArray, values: pa.LargeBinaryArray, block_bytes: int
) -> list[tuple[_Span, bytes]]:
    """Appends all entries; returns where each block is, with its first row."""
    entries, starts = _entries(rows, values)
    written: list[tuple[_Span, bytes]] = []
    first = 0
    for end in _block_ends(rows, starts, block_bytes):
        begin = int(starts[first])
        span = out.block(DATA_MAGIC, entries.slice(begin, int(starts[end]) - begin))
        written.append((span, rows[first].as_py()))
        first = end
    return written


def _entries(rows: pa.LargeBinaryArray, values: pa.LargeBinaryArray) -> tuple[pa.Buffer, npt.NDArray[np.int64]]:
    """All entries back to back, and where each begins, with the end of the last one."""
    header = np.empty(len(rows), dtype=ENTRY_HEADER)
    row_size = pc.binary_length(rows).to_numpy()
    header["row"], header["key"], header["value"] = row_size, row_size + KEY_OVERHEAD, pc.binary_length(values)
    headers = pa.Array.from_buffers(pa.binary(ENTRY_HEADER.itemsize), len(rows), [None, pa.py_buffer(header)])
    constant = {piece: pa.scalar(piece, pa.large_binary()) for piece in (KEY_TAIL, b"\0", b"")}
    joined = pc.binary_join_element_wise(
        headers.cast(pa.large_binary()), rows, constant[KEY_TAIL], values, constant[b"\0"], constant[b""]
    )
    starts = np.frombuffer(joined.buffers()[1], dtype=np.int64)[: len(rows) + 1]
    return joined.buffers()[2], starts


def _block_ends(rows: pa.LargeBinaryArray, starts: npt.NDArray[np.int64], block_bytes: int) -> list[int]:
    """The number of entries up to the end of each block."""
    may_begin = pc.not_equal(rows[1:], rows[:-1]).to_numpy(zero_copy_only=False)
    borders = np.append(np.flatnonzero(may_begin) + 1, len(rows))
    sizes = starts[borders]
    ends: list[int] = []
    begin = 0
    while begin < len(rows):
        wanted = np.searchsorted(sizes, starts[begin] + block_bytes)
        begin = int(borders[min(int(wanted), len(borders) - 1)])
        ends.append(begin)
    return ends


def _whole_key(row: bytes) -> bytes:
    """A key as the HBase library needs it in the index, to compare it with others; Hudi's own reader needs the row."""
    return struct.pack(">h", len(row)) + row + KEY_TAIL


def _index_entry(span: _Span, key: bytes) -> bytes:
    return struct.pack(">qi", span.offset, span.size) + _hadoop_varint(len(key)) + key


def _hadoop_varint(number: int) -> bytes:
    """A number that is not negative as Hadoop's WritableUtils write it."""
    if number <= 127:
        return bytes([number])
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return struct.pack(">b", -112 - len(digits)) + digits


def _file_info(entries: Mapping[str, bytes]) -> bytes:
    message = b"".join(
        format_field(1, format_field(1, name.encode()) + format_field(2, value)) for name, value in entries.items()
    )
    return FILE_INFO_PREFIX + format_varint(len(message)) + message


def _trailer(fields: Mapping[TrailerField, int | bytes]) -> bytes:
    message = b"".join(format_field(number, value) for number, value in fields.items())
    body = TRAILER_MAGIC + format_varint(len(message)) + message
    return body.ljust(TRAILER_BYTES - 4, b"\0") + struct.pack(">i", MAJOR_VERSION)
