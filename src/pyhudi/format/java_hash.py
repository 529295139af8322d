"""`String.hashCode` of Java, for all strings of an array at once.

It goes over the UTF-16 code units of a string: the hash so far times 31, plus the unit, modulo 2^32.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.format.string_bytes import StringBytes, string_bytes

_STRINGS_AT_ONCE = 1 << 16
"""Strings that are hashed together: what is held of them fits into a processor's cache."""


def java_hash(strings: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint32]:
    """The hash codes as unsigned 32-bit numbers; `.view(np.int32)` has Java's sign. That of a null is 0, as Java's.

    Cost: one step over all strings for each code unit of the longest one.
    """
    text = string_bytes(strings)
    units: npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
    units, ends = _utf16(text) if text.data.size and text.data.max() >= 0x80 else text
    found = np.empty(len(ends) - 1, np.uint32)
    for first in range(0, len(found), _STRINGS_AT_ONCE):
        last = min(first + _STRINGS_AT_ONCE, len(found))
        found[first:last] = _hashes(units, ends[first:last], np.diff(ends[first : last + 1]))
    return found


def _hashes(
    units: npt.NDArray[np.uint8] | npt.NDArray[np.uint16], starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """The hashes of strings that start at `starts`; longest first, so that each step takes those that go on."""
    order = np.argsort(-sizes, kind="stable")
    value: npt.NDArray[np.uint32] = np.zeros(len(order), np.uint32)
    at = starts[order]
    going_on = np.searchsorted(-sizes[order], -np.arange(int(sizes.max(initial=0))), side="left")
    for step, on in enumerate(going_on.tolist()):
        value[:on] = value[:on] * np.uint32(31) + units[at[:on] + step].astype(np.uint32)
    found = np.empty_like(value)
    found[order] = value
    return found


def _utf16(text: StringBytes) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.int64]]:
    """The UTF-16 code units of all strings, and where each string ends."""
    lead = np.flatnonzero((text.data & 0xC0) != 0x80)
    padded = np.append(text.data, np.zeros(3, np.uint8)).astype(np.uint32)
    byte, second, third, fourth = (padded[lead + n] for n in range(4))
    two, three, four = second & 0x3F, third & 0x3F, fourth & 0x3F
    points = np.select(
        [byte < 0x80, byte < 0xE0, byte < 0xF0],
        [byte, (byte & 0x1F) << 6 | two, (byte & 0x0F) << 12 | two << 6 | three],
        (byte & 0x07) << 18 | two << 12 | three << 6 | four,
    )
    is_pair = points >= 0x10000
    counts = np.where(is_pair, 2, 1)
    first = np.cumsum(counts) - counts
    units = np.zeros(int(counts.sum()), np.uint16)
    units[first] = np.where(is_pair, 0xD800 + ((points - 0x10000) >> 10), points)
    units[first[is_pair] + 1] = 0xDC00 + (points[is_pair] & 0x3FF)
    of_byte = np.zeros(len(text.data) + 1, np.int64)
    of_byte[lead + 1] = counts
    return units, np.cumsum(of_byte)[text.ends]
