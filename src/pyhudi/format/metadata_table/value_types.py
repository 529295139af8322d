"""The types of values in column statistics: how a bound of a column is wrapped, and what a wrapped bound means.

    column            wrapper in version 2    type number   wrapper in version 1
    boolean           Boolean                  2            the same
    8 to 32 bits      Int                      3            the same
    64 bits           Long                     4            the same
    float, double     Float, Double            5, 6         the same
    string            String                   7            the same
    binary            Bytes                    8            the same
    decimal(p,s)      Bytes, two's complement 10 ("p,s")    Decimal, of 30 digits, 15 of them behind the point
    date              Int, days               12            Date
    timestamp         Long, in its own unit   15 to 20      Long

Version 2 belongs to table version 9. In version 1 the type of a bound is only in the table's schema.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc


class ValueType(enum.IntEnum):
    """The number of a type in a record of column statistics."""

    V1 = 0
    NULL = 1
    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    UUID = 11
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


BOOLEAN, INT, LONG, FLOAT, DOUBLE, BYTES, STRING, DATE, DECIMAL = (
    f"{kind}Wrapper" for kind in ("Boolean", "Int", "Long", "Float", "Double", "Bytes", "String", "Date", "Decimal")
)
_TIMESTAMP_MICROS: Final = "TimestampMicrosWrapper"
V1_DECIMAL: Final = pa.decimal128(30, 15)
"""The type of every decimal in version 1."""
_V1_WHOLE_DIGITS: Final = V1_DECIMAL.precision - V1_DECIMAL.scale
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DECIMAL_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class ValueKind:
    """How the bounds of a column are kept: the number of its type, what the number needs beside it, and the wrapper."""

    type: ValueType
    wrapper: str
    info: str | None = None


_SIMPLE: Final = {
    pa.bool_(): ValueKind(ValueType.BOOLEAN, BOOLEAN),
    pa.int8(): ValueKind(ValueType.INT, INT),
    pa.int16(): ValueKind(ValueType.INT, INT),
    pa.int32(): ValueKind(ValueType.INT, INT),
    pa.int64(): ValueKind(ValueType.LONG, LONG),
    pa.float32(): ValueKind(ValueType.FLOAT, FLOAT),
    pa.float64(): ValueKind(ValueType.DOUBLE, DOUBLE),
    pa.string(): ValueKind(ValueType.STRING, STRING),
    pa.large_string(): ValueKind(ValueType.STRING, STRING),
    pa.binary(): ValueKind(ValueType.BYTES, BYTES),
    pa.large_binary(): ValueKind(ValueType.BYTES, BYTES),
    pa.date32(): ValueKind(ValueType.DATE, INT),
}
_TIMESTAMPS: Final = {
    "ms": (ValueType.TIMESTAMP_MILLIS, ValueType.LOCAL_TIMESTAMP_MILLIS),
    "us": (ValueType.TIMESTAMP_MICROS, ValueType.LOCAL_TIMESTAMP_MICROS),
    "ns": (ValueType.TIMESTAMP_NANOS, ValueType.LOCAL_TIMESTAMP_NANOS),
}


def value_kind(kind: pa.DataType) -> ValueKind | None:
    """How the bounds of a column of this type are kept; None for one that has no statistics, as a nested one."""
    if pa.types.is_dictionary(kind):
        return value_kind(kind.value_type)
    if pa.types.is_decimal(kind):
        if kind.precision > _DECIMAL_DIGITS_MAX or not 0 <= kind.scale <= kind.precision:
            return None
        return ValueKind(ValueType.DECIMAL, BYTES, f"{kind.precision},{kind.scale}")
    if pa.types.is_timestamp(kind):
        types = _TIMESTAMPS.get(kind.unit)
        return None if types is None else ValueKind(types[kind.tz is None], LONG)
    return _SIMPLE.get(kind)


def fits_version_1(kind: pa.DataType) -> bool:
    """Whether version 1 has room for all values of a type: not for long decimals, at which JVM Hudi fails."""
    if pa.types.is_decimal(kind):
        return bool(kind.scale <= V1_DECIMAL.scale and kind.precision - kind.scale <= _V1_WHOLE_DIGITS)
    return value_kind(kind) is not None


def as_version_1(wrapped: pa.StructArray, numbers: pa.Array, infos: pa.Array) -> dict[str, pa.Array]:
    """Bounds of version 2 by the wrappers of version 1."""
    found = {field.name: wrapped.field(number) for number, field in enumerate(wrapped.type)}
    is_date = pc.equal(numbers, int(ValueType.DATE))
    is_decimal = pc.equal(numbers, int(ValueType.DECIMAL))
    days = found[INT]
    found[DATE] = pc.if_else(is_date, days, None)
    found[INT] = pc.if_else(is_date, None, days)
    unscaled = found[BYTES]
    decimals = _decimals(pc.if_else(is_decimal, unscaled, None), infos)
    found[DECIMAL] = decimals.cast(V1_DECIMAL)
    found[BYTES] = pc.if_else(is_decimal, None, unscaled)
    return found


def typed_bounds(wrapped: pa.Array, numbers: pa.Array, infos: pa.Array, kind: pa.DataType) -> pa.Array:
    """Wrapped bounds of a column as values of the type that it has now; null where a bound tells nothing about them.

    A column may have had another type when a bound was written. Bounds of integers hold for wider integers, for
    floating-point numbers and for decimals, those of `float` for `double`. Those of numbers do not hold for text.

    Args:
        wrapped: structs with a field for each wrapper, of which at most one has a value.
        numbers: the numbers of the types; null or `ValueType.V1` in version 1.
        infos: what they need beside them.
        kind: the type of the column, of values that can be compared.
    """
    names = [field.name for field in wrapped.type] if pa.types.is_struct(wrapped.type) else []
    fields = dict(zip(names, wrapped.flatten(), strict=True)) if names else {}
    found = pa.nulls(len(wrapped), kind)
    numbers = pc.fill_null(numbers, int(ValueType.V1))
    for wrapper, wrapped_values in fields.items():
        has_value = pa.types.is_struct(wrapped_values.type) and wrapped_values.type.num_fields > 0
        values = wrapped_values.flatten()[0] if has_value else wrapped_values
        if values.null_count == len(values):
            continue
        for number in pc.unique(numbers.filter(values.is_valid())).to_pylist():
            of_type = pc.if_else(pc.equal(numbers, number), values, None)
            converted = _converted(of_type, wrapper, number, infos, kind)
            if converted is not None:
                found = pc.coalesce(found, converted)
    return found


def _converted(values: pa.Array, wrapper: str, number: int, infos: pa.Array, kind: pa.DataType) -> pa.Array | None:
    source = _SOURCES.get((wrapper, number))
    if source is not None:
        return _cast(source(values, infos, kind), kind)
    if number != ValueType.V1:
        return None
    of_version_1 = _V1_SOURCES.get(wrapper)
    return None if of_version_1 is None else _cast(of_version_1(values, infos, kind), kind)


def _cast(values: pa.Array | None, kind: pa.DataType) -> pa.Array | None:
    """As values of a column's type, rounded as its own values are; None where the type's order is another one."""
    if values is None or not _keeps_order(values.type, kind):
        return None
    try:
        return values.cast(kind, safe=not pa.types.is_floating(kind))
    except pa.ArrowInvalid:
        return None


def _keeps_order(source: pa.DataType, kind: pa.DataType) -> bool:
    types = pa.types
    if source in _INTEGERS:
        return bool(kind in _INTEGERS or types.is_floating(kind) or types.is_decimal(kind))
    if types.is_decimal(source):
        return bool(types.is_decimal(kind) and kind.scale >= source.scale)
    if types.is_timestamp(source):
        return bool(types.is_timestamp(kind) and (source.tz is None) == (kind.tz is None))
    return bool(source == kind or (source, kind) in _WIDER)


_WIDER: Final = (
    (pa.float32(), pa.float64()),
    (pa.string(), pa.large_string()),
    (pa.binary(), pa.large_binary()),
)


_Source = Callable[[pa.Array, pa.Array, pa.DataType], "pa.Array | None"]


def _as(kind: pa.DataType) -> _Source:
    def source(values: pa.Array, infos: pa.Array, of: pa.DataType) -> pa.Array:
        del infos, of
        return values.cast(kind)

    return source


def _unscaled(values: pa.Array, infos: pa.Array, kind: pa.DataType) -> pa.Array | None:
    del kind
    return _decimals(values, infos)


def _long_of_version_1(values: pa.Array, infos: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """In version 1 a long is also a moment in microseconds: of other units nothing is known."""
    del infos
    if pa.types.is_timestamp(kind):
        return values.cast(kind) if kind.unit == "us" else None
    return values


def _same(values: pa.Array, infos: pa.Array, kind: pa.DataType) -> pa.Array:
    del infos, kind
    return values


_UTC: Final = "UTC"
_SOURCES: Final[dict[tuple[str, int], _Source]] = {
    (BOOLEAN, ValueType.BOOLEAN): _same,
    (INT, ValueType.INT): _same,
    (LONG, ValueType.LONG): _same,
    (FLOAT, ValueType.FLOAT): _same,
    (DOUBLE, ValueType.DOUBLE): _same,
    (STRING, ValueType.STRING): _same,
    (BYTES, ValueType.BYTES): _same,
    (BYTES, ValueType.DECIMAL): _unscaled,
    (INT, ValueType.DATE): _as(pa.date32()),
    **{
        (LONG, number): _as(pa.timestamp(unit, zone))
        for unit, numbers in _TIMESTAMPS.items()
        for number, zone in zip(numbers, (_UTC, None), strict=True)
    },
}
_V1_SOURCES: Final[dict[str, _Source]] = {
    **dict.fromkeys((BOOLEAN, INT, FLOAT, DOUBLE, STRING, BYTES, DECIMAL), _same),
    LONG: _long_of_version_1,
    DATE: _as(pa.date32()),
    _TIMESTAMP_MICROS: _long_of_version_1,
}


def _decimals(values: pa.Array, infos: pa.Array) -> pa.Array:
    """Two's complement bytes as decimals; `infos` say "precision,scale". The widest scale holds for all."""
    scales = [int(text.split(",")[1]) for text in pc.unique(infos.filter(values.is_valid())).to_pylist() if text]
    scale = max(scales, default=0)
    numbers = [
        None if value is None or not info else _widened(value, int(info.split(",")[1]), scale)
        for value, info in zip(_bytes_of(values), infos.to_pylist(), strict=True)
    ]
    data = b"".join(bytes(32) if number is None else number.to_bytes(32, "little", signed=True) for number in numbers)
    is_null = pa.array([number is None for number in numbers], pa.bool_())
    validity = pc.invert(is_null).buffers()[1] if numbers else None
    return pa.Array.from_buffers(pa.decimal256(76, scale), len(numbers), [validity, pa.py_buffer(data)])


def _bytes_of(values: pa.Array) -> Iterable[Any]:
    found: list[Any] = values.to_pylist()
    return found


def _widened(value: bytes, scale: int, to: int) -> int:
    return int.from_bytes(value, "big", signed=True) * int(10 ** (to - scale))


def unscaled_bytes(number: int) -> bytes:
    """A whole number as JVM Hudi writes it: the least bytes of two's complement, the highest first."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)
