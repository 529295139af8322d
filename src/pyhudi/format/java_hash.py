"""`String.hashCode` of Java, for all texts of an array at once."""

from __future__ import annotations

import functools
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError

Hashes = npt.NDArray[np.int32]

_BYTES_AT_ONCE: Final = 1 << 20


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
