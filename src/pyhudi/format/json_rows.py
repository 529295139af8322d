"""Rows as JSON text, in the two forms in which JVM Hudi prints the images of change data.

    from a log      `{"id": "a", "day": 19782, "raw": "a", "money": [0, 110], "note": null}`, as Avro prints records
    from a row      `{"id":"a","day":19782,"raw":"YQ==","money":1.10}`, as Jackson prints maps: without nulls

Dates are days, times of day and timestamps whole numbers of their unit. The one difference is in rows with decimals:
JVM Hudi 1.2.0 prints `{"zero":false}` for every decimal but 0, and its value is lost.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import InternalError
from pyhudi.format.schema.avro_arrow import is_list

_DECIMAL_BYTES: Final = 16
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


class JsonForm(enum.Enum):
    """How a row is printed; the value is the text between two members, and that after a name."""

    OF_LOG = (", ", ": ")
    OF_ROW = (",", ":")

    @property
    def separator(self) -> str:
        """What stands between two members."""
        return self.value[0]

    @property
    def colon(self) -> str:
        """What stands after a name."""
        return self.value[1]


def rows_as_json(rows: pa.StructArray, form: JsonForm) -> pa.StringArray:
    """The JSON text of each row; null for a null. Cost: a few passes over each column."""
    return _texts(rows, form)


def _texts(values: pa.Array, form: JsonForm) -> pa.Array:  # noqa: PLR0911
    """The text of each value; null for null."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _struct_texts(values, form)
    if pa.types.is_map(kind):
        return _map_texts(values, form)
    if is_list(kind):
        return _where_valid(values, _joined(_fill(_texts(_items(values, values.values), form)), values, form, "[", "]"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quoted(escaped(values.cast(pa.string()), is_avro=form is JsonForm.OF_LOG))
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
        as_text = form is JsonForm.OF_LOG
        return _quoted(escaped(latin1_texts(values), is_avro=True) if as_text else base64_texts(values))
    if pa.types.is_decimal(kind):
        return _decimal_texts(values) if form is JsonForm.OF_LOG else values.cast(pa.string())
    if pa.types.is_floating(kind):
        return float_texts(values)
    if pa.types.is_timestamp(kind):
        # Spark has microseconds only.
        in_rows = pa.timestamp("us", kind.tz) if form is JsonForm.OF_ROW else kind
        return values.cast(in_rows).cast(pa.int64()).cast(pa.string())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return values.cast(pa.int32()).cast(pa.string())
    if pa.types.is_time64(kind):
        return values.cast(pa.int64()).cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values.cast(pa.string())
    raise InternalError("a column has no form in JSON", type=str(kind))


def _struct_texts(values: pa.StructArray, form: JsonForm) -> pa.Array:
    members = []
    for field, column in zip(values.type, values.flatten(), strict=True):
        name = f"{json.dumps(field.name, ensure_ascii=False)}{form.colon}"
        members.append(_concat(form.separator, name, _member(_texts(column, form), form)))
    if not members:
        return _where_valid(values, pa.repeat("{}", len(values)))
    # Arrow leaves out rows of which all parts are null where it is told to skip nulls.
    joined = _concat(*(pc.fill_null(member, "") for member in members))
    joined = pc.utf8_slice_codeunits(joined, len(form.separator))
    return _where_valid(values, _concat("{", joined, "}"))


def _map_texts(values: pa.MapArray, form: JsonForm) -> pa.Array:
    keys, items = _items(values, values.keys), _items(values, values.items)
    entries = _concat(
        _quoted(escaped(keys, is_avro=form is JsonForm.OF_LOG)), form.colon, _member(_texts(items, form), form)
    )
    return _where_valid(values, _joined(entries, values, form, "{", "}"))


def _member(texts: pa.Array, form: JsonForm) -> pa.Array:
    """The texts of members of an object: a null stays null where it is left out."""
    return _fill(texts) if form is JsonForm.OF_LOG else texts


def _joined(texts: pa.Array, around: pa.Array, form: JsonForm, begin: str, end: str) -> pa.Array:
    """The texts of the items of each list or map, without nulls, as one text."""
    offsets = _offsets(around)
    counts = np.concatenate([[0], np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False))])
    lists = pa.LargeListArray.from_arrays(pa.array(counts[offsets], pa.int64()), texts.drop_null())
    return _concat(begin, pc.binary_join(lists, form.separator), end)


def _items(around: pa.Array, items: pa.Array) -> pa.Array:
    """What lies between the offsets of a list or map."""
    first, last = around.offsets[0].as_py(), around.offsets[-1].as_py()
    return items.slice(first, last - first)


def _offsets(around: pa.Array) -> npt.NDArray[np.int64]:
    offsets = around.offsets.to_numpy().astype(np.int64)
    return np.asarray(offsets - offsets[0])


def _decimal_texts(values: pa.Array) -> pa.Array:
    """The bytes of a decimal as it is stored: the fewest that hold all its digits, the highest first."""
    size = next(size for size in range(1, _DECIMAL_BYTES + 1) if 2 ** (8 * size - 1) > 10**values.type.precision)
    wide = values.cast(pa.decimal128(values.type.precision, values.type.scale))
    filled = pc.fill_null(wide, pa.scalar(0, wide.type)) if wide.null_count else wide
    start = filled.offset * _DECIMAL_BYTES
    data = np.frombuffer(filled.buffers()[1], np.int8)[start : start + len(filled) * _DECIMAL_BYTES]
    stored = data.reshape(-1, _DECIMAL_BYTES)[:, :size][:, ::-1]
    texts = pa.array(stored.ravel()).cast(pa.string())
    offsets = pa.array(np.arange(len(filled) + 1, dtype=np.int64) * size)
    joined = pc.binary_join(pa.LargeListArray.from_arrays(offsets, texts), ", ")
    return _where_valid(values, _concat("[", joined, "]"))


def _where_valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    texts = texts.cast(pa.string())
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    return _concat('"', texts, '"')


def _fill(texts: pa.Array) -> pa.Array:
    return pc.fill_null(texts, "null") if texts.null_count else texts


def _concat(*parts: str | pa.Array) -> pa.Array:
    texts: Sequence[pa.Array | pa.Scalar] = [pa.scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*(_plain(text) for text in texts), "")


def _plain(text: pa.Array | pa.Scalar) -> pa.Array | pa.Scalar:
    return text.cast(pa.string()) if text.type != pa.string() else text


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
