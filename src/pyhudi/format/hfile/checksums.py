"""Checksums of HFile blocks: CRC-32 and CRC-32C over the chunks of a block.

CRC-32 is in the standard library. CRC-32C is computed with numpy: a chunk is cut into lanes that are processed in
parallel, one 32-bit word of every lane at a time, and the results of the lanes are combined in pairs. This works
because the CRC is linear: the register after two pieces is that of the first piece, advanced over as many zero bytes as
the second piece has, xor that of the second piece.

https://www.rfc-editor.org/rfc/rfc3720#section-12.1 defines CRC-32C (Castagnoli).
"""

from __future__ import annotations

import functools
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt

_POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli's, least significant bit first."""
_ALL_ONES: Final = 0xFFFFFFFF
_LANES: Final = 128
_WORD_BYTES: Final = 4
_BYTES_AT_ONCE: Final = 4 << 20
"""Limits the size of the working arrays."""

Words = npt.NDArray[np.uint32]


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
