"""Conversion of values to the text in record keys and partition paths.

Record keys are strings, whatever the types of their columns, so all writers must make the same text of a value. The row
writer of JVM Hudi's bulk insert prints some types differently; this is the text of its insert and upsert, because
upserts compare keys.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import ConfigError

_DAYS_TO_YEAR_10000: Final = 2932897
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7
"""Java writes magnitudes in [10^-3, 10^7) without an exponent."""

_WITH_EXPONENT: Final = (
    # Of magnitudes [from, to): Arrow's shortest text (`12345678.5`, `0.00012`, `1e+20`) as `1.23456785E7`,
    # `1.2E-4`, `1.0E20`. Arrow writes an exponent below 10^-6 and from 10^10 on.
    (1e7, 1e8, r"^(-?\d)(\d{7})(?:\.(\d+))?$", r"\1.\2\3E7"),
    (1e8, 1e9, r"^(-?\d)(\d{8})(?:\.(\d+))?$", r"\1.\2\3E8"),
    (1e9, 1e10, r"^(-?\d)(\d{9})(?:\.(\d+))?$", r"\1.\2\3E9"),
    (1e-4, 1e-3, r"^(-?)0\.000([1-9])(\d*)$", r"\1\2.\3E-4"),
    (1e-5, 1e-4, r"^(-?)0\.0000([1-9])(\d*)$", r"\1\2.\3E-5"),
    (1e-6, 1e-5, r"^(-?)0\.00000([1-9])(\d*)$", r"\1\2.\3E-6"),
    (1e10, math.inf, r"^(-?\d)\.?(\d*)e\+?(\d+)$", r"\1.\2E\3"),
    (0.0, 1e-6, r"^(-?\d)\.?(\d*)e(-\d+)$", r"\1.\2E\3"),
)

_HEX: Final = np.frombuffer(bytes(range(256)).hex().encode(), dtype=np.uint16)
"""The two hexadecimal digits of each byte, as one number in memory order."""


def value_text(array: pa.Array) -> pa.StringArray:
    """The text of each value, null where the value is null.

    Integers are decimal; booleans `true` and `false`; dates ISO (`2024-01-02`, with a sign before years above
    9999); timestamps their microseconds since the epoch; decimals as Java's `BigDecimal.toString` (`1.50`,
    but `1E-7`); doubles and floats as `toString` of Java 19 and newer, the shortest digits (`1.0E10`, `-0.0`,
    `NaN`), of which older runtimes write a longer form for a few magnitudes above 10^7; bytes as lower-case
    hexadecimal.

    Raises:
        ConfigError: the type has no text form (nested types, intervals, times of day).

    Cost: Arrow kernels only; about 0.1 s for a million integers, nothing for strings, 2 s for doubles with an exponent.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return value_text(array.dictionary).take(array.indices)
    if pa.types.is_floating(kind):
        return _floating_text(array)
    if pa.types.is_date(kind):
        return _date_text(array)
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()).cast(pa.string())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _hex_text(array.cast(pa.binary()))
    if _casts_to_the_same_text(kind):
        return array.cast(pa.string())
    raise ConfigError(
        f"a column of type {kind} cannot be part of a record key or a partition path; choose a column of "
        "numbers, text, dates, timestamps or booleans",
        type=str(kind),
    )


def distinct_values(column: pa.Array) -> pa.DictionaryArray:
    """A column as indices into its distinct values. Null is one of the values; no index is null.

    Raises:
        ConfigError: the type has no text form.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return distinct_values(column.dictionary_decode())
    value_text(column.slice(0, 0))  # refuses the type before Arrow does
    if pa.types.is_string_view(kind) or pa.types.is_float16(kind):
        column = value_text(column)
    return column.dictionary_encode(null_encoding="encode")


def _casts_to_the_same_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )


def _floating_text(array: pa.Array) -> pa.StringArray:
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    text = array.cast(pa.string())
    magnitude = pc.abs(array)
    is_plain = pc.fill_null(pc.or_(_is_between(magnitude, _PLAIN_MIN, _PLAIN_MAX), pc.equal(magnitude, 0)), True)
    has_point = pc.match_substring(text, ".")
    plain = pc.if_else(has_point, text, pc.binary_join_element_wise(text, ".0", ""))
    if is_plain.false_count == 0:
        return plain
    is_other = pc.invert(is_plain)
    return pc.replace_with_mask(plain, is_other, _exponent_text(text.filter(is_other), array.filter(is_other)))


def _exponent_text(text: pa.StringArray, values: pa.Array) -> pa.StringArray:
    """Convert Arrow's text of values that Java writes with an exponent to Java's form."""
    magnitude = pc.abs(values)
    for start, end, pattern, replacement in _WITH_EXPONENT:
        if pc.any(_is_between(magnitude, start, end)).as_py():
            text = pc.replace_substring_regex(text, pattern, replacement)
    text = pc.replace_substring_regex(text, r"(\.\d*?)0*E", r"\1E")
    text = pc.replace_substring(text, ".E", ".0E")
    if not pc.all(pc.is_finite(values)).as_py():
        text = pc.replace_substring(pc.replace_substring(text, "nan", "NaN"), "inf", "Infinity")
    return _with_two_digits(text, values)


def _is_between(values: pa.Array, start: float, end: float) -> pa.BooleanArray:
    """Start included, end not; compared in the type of the values, whose 0.001 is not that of a wider type."""
    at_least = pc.greater_equal(values, pa.scalar(start, values.type))
    return pc.and_(at_least, pc.less(values, pa.scalar(end, values.type)))


def _with_two_digits(text: pa.StringArray, values: pa.Array) -> pa.StringArray:
    """Java prints at least two digits, and the closest two: `4.9E-324`, though `5E-324` would be enough.

    Only next to zero are doubles so far apart that the second digit is not 0, so this affects few values.
    """
    is_single = pa.types.is_float32(values.type)
    is_tiny = pc.less(pc.abs(values), 1e-43 if is_single else 1e-321)
    if not pc.any(is_tiny).as_py():
        return text
    tiny = values.filter(is_tiny).to_pylist()
    found = text.filter(is_tiny).to_pylist()
    as_type = np.float32 if is_single else np.float64
    nearest = [f"{value:.1e}" for value in tiny]
    fixed = [
        two_digits.replace("e", "E") if as_type(two_digits) == value else shortest
        for two_digits, value, shortest in zip(nearest, tiny, found, strict=True)
    ]
    return pc.replace_with_mask(text, is_tiny, pa.array(fixed, pa.string()))


def _date_text(array: pa.Array) -> pa.StringArray:
    days = array.cast(pa.date32())
    text = days.cast(pa.string())
    is_far = pc.greater_equal(days.cast(pa.int32()), _DAYS_TO_YEAR_10000)
    if not pc.any(is_far).as_py():
        return text
    return pc.if_else(is_far, pc.binary_join_element_wise("+", text, ""), text)


def _hex_text(array: pa.BinaryArray) -> pa.StringArray:
    count = len(array)
    if count == 0:
        return pa.array([], pa.string())
    _, offset_bytes, data = array.buffers()
    offsets = np.frombuffer(offset_bytes, np.int32)[array.offset : array.offset + count + 1]
    raw = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    return pa.StringArray.from_buffers(
        count,
        pa.py_buffer(((offsets - offsets[0]) * 2).astype(np.int32)),
        pa.py_buffer(_HEX[raw]),
        array.is_valid().buffers()[1],
        array.null_count,
    )
