"""Hashes of all texts of an array at once: `String.hashCode` of Java, and xxHash32 of their UTF-8 bytes."""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError

Hashes = npt.NDArray[np.int32]

_BYTES_AT_ONCE: Final = 1 << 20
_P1, _P2, _P3, _P4, _P5 = (np.uint32(p) for p in (2654435761, 2246822519, 3266489917, 668265263, 374761393))
_STRINGS_AT_ONCE = 1 << 16
_Words = npt.NDArray[np.uint32]


class StringBytes(NamedTuple):
    """The UTF-8 bytes of all strings after one another; string n has those from `ends[n]` to `ends[n + 1]`."""

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]


def java_hash(texts: pa.Array | pa.ChunkedArray) -> Hashes:
    """`String.hashCode` of Java for each text: over the 16-bit units of UTF-16, so that an emoji counts as two.

    Args:
        texts: Strings, or their UTF-8 bytes, in any of Arrow's layouts with offsets. The hash of a null is 0.

    Raises:
        CorruptDataError: bytes that are not UTF-8.

    Cost: about 10 ns per character.
    """
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    texts = pc.fill_null(texts.cast(pa.large_binary()), b"")
    if not len(texts):
        return np.empty(0, np.int32)
    bounds = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    hashes = np.empty(len(texts), np.uint32)
    data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    first = 0
    while first < len(texts):
        fitting = int(np.searchsorted(bounds, bounds[first] + _BYTES_AT_ONCE, side="right")) - 1
        last = min(max(fitting, first + 1), len(texts))
        hashes[first:last] = _hashes_of(data[bounds[first] : bounds[last]], bounds[first : last + 1] - bounds[first])
        first = last
    return hashes.view(np.int32)


def _hashes_of(data: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The hashes of texts that stand back to back.

    The hash of units u is the sum of u[k] * 31 ** (end - 1 - k), modulo 2 ** 32. 31 has an inverse there; so the sums
    of u[k] * 31 ** -k up to every place are enough, and the hash is the difference of two, times 31 ** (end - 1).
    """
    units, bounds = _utf16_units(data, bounds)
    powers, inverses = _powers_of_31(len(units) + 1)
    sums = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units * inverses[: len(units)], dtype=np.uint32, out=sums[1:])
    is_empty = bounds[1:] == bounds[:-1]
    found = (sums[bounds[1:]] - sums[bounds[:-1]]) * powers[np.maximum(bounds[1:] - 1, 0)]
    found[is_empty] = 0
    return found


def _utf16_units(
    data: npt.NDArray[np.uint8], bounds: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """The units of UTF-16, and the bounds of the texts among them."""
    if not len(data) or data.max() < 0x80:
        return data.astype(np.uint32), bounds
    try:
        units = data.tobytes().decode("utf-8").encode("utf-16-le")
    except UnicodeDecodeError as error:
        raise CorruptDataError("a key is no UTF-8 text") from error
    # A byte that begins a character of up to three bytes stands for one unit, one of four bytes for two, others none.
    counts = ((data < 0x80) | (data >= 0xC0)).astype(np.int64) + (data >= 0xF0)
    places = np.zeros(len(data) + 1, np.int64)
    np.cumsum(counts, out=places[1:])
    return np.frombuffer(units, "<u2").astype(np.uint32), places[bounds]


def _powers_of_31(count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """31 ** k and 31 ** -k modulo 2 ** 32 for at least so many k."""
    return _power_tables(max(_BYTES_AT_ONCE + 1, 1 << (count - 1).bit_length()))


@functools.lru_cache(maxsize=2)
def _power_tables(count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    bases = np.full((2, count), [[31], [pow(31, -1, 1 << 32)]], np.uint32)
    bases[:, 0] = 1
    powers, inverses = np.cumprod(bases, axis=1, dtype=np.uint32)
    return powers, inverses


def xxhash32(strings: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """The hashes. Cost: one step over all strings for each four bytes of the longest one."""
    text = string_bytes(strings)
    data = np.append(text.data, np.zeros(3, np.uint8))
    found = np.empty(len(text.ends) - 1, np.uint32)
    for first in range(0, len(found), _STRINGS_AT_ONCE):
        last = min(first + _STRINGS_AT_ONCE, len(found))
        found[first:last] = _hashes(data, text.ends[first:last], np.diff(text.ends[first : last + 1]))
    return found


def _hashes(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> _Words:
    """The hashes of strings that start at `starts`; longest first, so that each step takes those that go on."""
    order = np.argsort(-sizes, kind="stable")
    at, left = starts[order], sizes[order].copy()
    with np.errstate(over="ignore"):
        value = _stripes(data, at, left)
        value += sizes[order].astype(np.uint32)
        # `at` and `left` stand behind the stripes of 16 bytes now: up to three words, then up to three bytes are left.
        for _ in range(3):
            on = np.flatnonzero(left >= 4)
            value[on] = _rotated(value[on] + _word(data, at[on]) * _P3, 17) * _P4
            at[on] += 4
            left[on] -= 4
        for _ in range(3):
            on = np.flatnonzero(left >= 1)
            value[on] = _rotated(value[on] + data[at[on]].astype(np.uint32) * _P5, 11) * _P1
            at[on] += 1
            left[on] -= 1
        value = (value ^ (value >> np.uint32(15))) * _P2
        value = (value ^ (value >> np.uint32(13))) * _P3
        value ^= value >> np.uint32(16)
    found = np.empty_like(value)
    found[order] = value
    return found


def _stripes(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], left: npt.NDArray[np.int64]) -> _Words:
    """The state after all whole stripes of 16 bytes; moves `at` and `left` behind them."""
    value = np.full(len(at), _P5, np.uint32)
    long = int(np.count_nonzero(left >= 16))
    lanes = [np.full(long, seed, np.uint32) for seed in (_P1 + _P2, _P2, np.uint32(0), np.uint32(0) - _P1)]
    on = long
    while on:
        for number, lane in enumerate(lanes):
            lane[:on] = _rotated(lane[:on] + _word(data, at[:on] + 4 * number) * _P2, 13) * _P1
        at[:on] += 16
        left[:on] -= 16
        on = int(np.count_nonzero(left[:on] >= 16))
    if long:
        one, two, three, four = (_rotated(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True))
        value[:long] = one + two + three + four
    return value


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> _Words:
    one, two, three, four = (data[at + n].astype(np.uint32) << np.uint32(8 * n) for n in range(4))
    word: _Words = one | two | three | four
    return word


def _rotated(value: _Words, bits: int) -> _Words:
    rotated: _Words = (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
    return rotated


def string_bytes(strings: pa.Array | pa.ChunkedArray) -> StringBytes:
    """The bytes of strings. A null counts as an empty string. Memory: the bytes are copied only for what is chunked."""
    if isinstance(strings, pa.ChunkedArray):
        strings = pa.concat_arrays(strings.chunks) if strings.num_chunks else pa.array([], strings.type)
    if not pa.types.is_large_string(strings.type):
        strings = strings.cast(pa.large_string())
    if len(strings) == 0:
        return StringBytes(np.zeros(0, np.uint8), np.zeros(1, np.int64))
    _, ends_buffer, data_buffer = strings.buffers()
    ends = np.frombuffer(ends_buffer, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    first, last = int(ends[0]), int(ends[-1])
    data = np.frombuffer(data_buffer, np.uint8)[first:last] if last > first else np.zeros(0, np.uint8)
    return StringBytes(data, ends - first)
