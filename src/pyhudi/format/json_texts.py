"""Texts of single values in JSON as Java's libraries print them: characters, bytes and floating-point numbers."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_Bytes = npt.NDArray[np.uint8]

_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_SHORT: Final = {0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}
_BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Java prints the numbers between them without an exponent."""


def _escape_tables() -> tuple[_Bytes, _Bytes]:
    lengths, short = np.ones(256, np.uint8), np.zeros(256, np.uint8)
    lengths[:0x20] = 6
    for code, character in _SHORT.items():
        lengths[code], short[code] = 2, ord(character)
    return lengths, short


_LENGTHS, _SHORT_OF = _escape_tables()


def escaped(texts: pa.Array, *, is_avro: bool) -> pa.Array:
    """The texts with what JSON may not hold escaped. Avro also escapes other control and general punctuation marks."""
    data, offsets = _bytes_of(texts)
    sizes = _LENGTHS[data].astype(np.int64)
    codes = data.astype(np.uint16)
    if is_avro:
        _escape_more(data, sizes, codes)
    if (sizes == 1).all():
        return texts
    places = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    out = np.empty(total, np.uint8)
    single, double, long = (np.flatnonzero(sizes == size) for size in (1, 2, 6))
    out[places[single]] = data[single]
    out[places[double]] = ord("\\")
    out[places[double] + 1] = _SHORT_OF[data[double]]
    out[places[long]] = ord("\\")
    out[places[long] + 1] = ord("u")
    for digit in range(4):
        out[places[long] + 2 + digit] = _HEX[(codes[long] >> (12 - 4 * digit)) & 15]
    return _texts_of(texts, np.append(places, total)[offsets], out)


def _escape_more(data: _Bytes, sizes: npt.NDArray[np.int64], codes: npt.NDArray[np.uint16]) -> None:
    """U+007F to U+009F, and U+2000 to U+20FF, in UTF-8."""
    sizes[data == 0x7F] = 6
    two = np.flatnonzero((data[:-1] == 0xC2) & (data[1:] < 0xA0))
    codes[two] = data[two + 1]
    three = np.flatnonzero((data[:-2] == 0xE2) & (data[1:-1] >= 0x80) & (data[1:-1] <= 0x83))
    codes[three] = 0x2000 | (data[three + 1].astype(np.uint16) & 3) << 6 | (data[three + 2] & 0x3F)
    for begin, length in ((two, 2), (three, 3)):
        sizes[begin] = 6
        for follower in range(1, length):
            sizes[begin + follower] = 0


def latin1_texts(values: pa.Array) -> pa.Array:
    """Each byte as the character of its number."""
    data, offsets = _bytes_of(values)
    sizes = np.where(data < 0x80, 1, 2)
    places = np.cumsum(sizes) - sizes
    total = int(sizes.sum())
    out = np.empty(total, np.uint8)
    low, high = np.flatnonzero(sizes == 1), np.flatnonzero(sizes == 2)
    out[places[low]] = data[low]
    out[places[high]] = 0xC0 | data[high] >> 6
    out[places[high] + 1] = 0x80 | data[high] & 0x3F
    return _texts_of(values, np.append(places, total)[offsets], out)


def base64_texts(values: pa.Array) -> pa.Array:
    """The bytes in Base64, padded."""
    data, offsets = _bytes_of(values)
    lengths = np.diff(offsets)
    groups = -(-lengths // 3)
    ends = np.concatenate([[0], np.cumsum(groups)])
    padded = np.zeros(int(ends[-1]) * 3, np.uint8)
    padded[np.arange(len(data)) + np.repeat(ends[:-1] * 3 - offsets[:-1], lengths)] = data
    one, two, three = padded.reshape(-1, 3).astype(np.uint32).T
    bits = one << 16 | two << 8 | three
    out = np.stack([_BASE64[bits >> shift & 63] for shift in (18, 12, 6, 0)], axis=1).ravel()
    for missing in (1, 2):
        short = np.flatnonzero(groups * 3 - lengths >= missing)
        out[ends[short + 1] * 4 - missing] = ord("=")
    return _texts_of(values, ends * 4, out)


def float_texts(values: pa.Array) -> pa.Array:
    """Numbers as Java prints them; those that are none, and infinite ones, in quotation marks.

    The digits are the fewest that tell the number from others. Java before 19 prints a superfluous one now and then.
    """
    texts = values.cast(pa.string())
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    size = np.abs(numbers)
    is_plain = ((size >= _PLAIN_FROM) & (size < _PLAIN_TO)) | (size == 0)
    whole = pc.invert(pc.match_substring(texts, "."))
    plain = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    if is_plain.all():
        return plain
    special = np.where(np.isnan(numbers), '"NaN"', np.where(numbers > 0, '"Infinity"', '"-Infinity"'))
    others = pc.if_else(pa.array(np.isfinite(numbers)), _scientific(texts), pa.array(special, pa.string()))
    chosen = pc.if_else(pa.array(is_plain), plain, others)
    return chosen if not values.null_count else pc.if_else(values.is_valid(), chosen, pa.scalar(None, pa.string()))


def _scientific(texts: pa.Array) -> pa.Array:
    """`12345678.5` and `1.5e-07` as `1.23456785E7` and `1.5E-7`."""
    parts = pc.extract_regex(texts, r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<rest>\d+))?(?:e(?P<power>[-+]?\d+))?$")
    sign, whole, rest, power = (pc.fill_null(part, "") for part in parts.flatten())
    digits = pc.binary_join_element_wise(whole, rest, "")
    significant = pc.utf8_ltrim(digits, "0")
    leading = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    given = pc.replace_substring_regex(pc.if_else(pc.equal(power, ""), "0", power), r"^\+", "").cast(pa.int64())
    exponent = pc.add(given, pc.subtract(pc.subtract(pc.utf8_length(whole), leading), 1)).cast(pa.string())
    significant = pc.utf8_rtrim(significant, "0")
    fraction = pc.utf8_slice_codeunits(significant, 1)
    fraction = pc.if_else(pc.equal(fraction, ""), "0", fraction)
    first = pc.utf8_slice_codeunits(significant, 0, 1)
    return pc.binary_join_element_wise(sign, first, ".", fraction, "E", exponent, "")


def _bytes_of(values: pa.Array) -> tuple[_Bytes, npt.NDArray[np.int64]]:
    """The bytes of text or binary values, and where each begins in them."""
    if values.null_count:
        values = pc.fill_null(values, pa.scalar(b"" if pa.types.is_binary(values.type) else "", values.type))
    _, bounds, data = values.buffers()
    offsets = np.frombuffer(bounds, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    if data is None or len(values) == 0:
        return np.zeros(0, np.uint8), np.zeros(len(values) + 1, np.int64)
    return np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]], offsets - offsets[0]


def _texts_of(values: pa.Array, offsets: npt.NDArray[np.int64], data: _Bytes) -> pa.Array:
    """Texts with these bytes, null where the values are."""
    bounds = pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
    texts = pa.StringArray.from_buffers(len(values), bounds, pa.py_buffer(data))
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))
