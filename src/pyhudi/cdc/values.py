"""Values of change messages in the types that a table's columns have."""

from __future__ import annotations

import enum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import column
from pyhudi.errors import SchemaMismatchError

_DECIMAL_BYTES: Final = 16
_EXACT_MAX: Final = 2**53
"""Up to this number floating point has every whole number."""
_UNITS_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class DecimalMode(enum.Enum):
    """How Debezium sends decimals, its `decimal.handling.mode`."""

    PRECISE = "precise"
    STRING = "string"
    DOUBLE = "double"


def convert_values(rows: pa.Table, schema: pa.Schema, decimals: DecimalMode) -> pa.Table:
    """The rows with the columns of the schema in its types. Raises `SchemaMismatchError`."""
    for field in schema:
        if field.name not in rows.column_names or rows.schema.field(field.name).type == field.type:
            continue
        stored = rows.schema.field(field.name).type
        try:
            values = _converted(column(rows, field.name, stored), field.type, decimals)
        except (pa.ArrowException, ValueError) as error:
            raise SchemaMismatchError(
                f"a value of column {field.name!r} does not fit its type: {error}",
                column=field.name,
                type=str(field.type),
                sent=str(stored),
            ) from error
        rows = rows.set_column(rows.column_names.index(field.name), pa.field(field.name, field.type), values)
    return rows


def _converted(values: pa.Array, wanted: pa.DataType, decimals: DecimalMode) -> pa.Array:
    sent = values.type
    if pa.types.is_struct(sent) and pa.types.is_struct(wanted):
        return _struct(values, wanted, decimals)
    if pa.types.is_list(sent) and pa.types.is_list(wanted):
        return _list(values, wanted, decimals)
    if pa.types.is_decimal(wanted):
        return _decimal(values, wanted, decimals)
    if pa.types.is_time(wanted):
        return _time(values, wanted)
    if pa.types.is_binary(wanted) and pa.types.is_string(sent):
        return decode_base64(values)
    if pa.types.is_integer(sent) and (pa.types.is_date32(wanted) or pa.types.is_timestamp(wanted)):
        values = values.cast(pa.int32() if pa.types.is_date32(wanted) else pa.int64())
    return values.cast(wanted)


def _struct(values: pa.StructArray, wanted: pa.StructType, decimals: DecimalMode) -> pa.StructArray:
    unknown = [field.name for field in values.type.fields if wanted.get_field_index(field.name) < 0]
    if unknown:
        raise ValueError(f"it has fields that the type lacks: {', '.join(unknown)}")
    children = [
        _converted(values.field(field.name), field.type, decimals)
        if values.type.get_field_index(field.name) >= 0
        else pa.nulls(len(values), field.type)
        for field in wanted.fields
    ]
    return pa.StructArray.from_arrays(children, fields=wanted.fields, mask=values.is_null())


def _list(values: pa.ListArray, wanted: pa.ListType, decimals: DecimalMode) -> pa.ListArray:
    elements = _converted(values.flatten(), wanted.value_type, decimals)
    sizes = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, type=wanted, mask=values.is_null())


def _time(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Times of a day, of numbers in the unit of the type, or of texts, which Debezium sends in UTC."""
    if pa.types.is_string(values.type):
        times = pc.replace_substring_regex(values, "Z$", "")
        return pc.binary_join_element_wise("1970-01-01", times, " ").cast(pa.timestamp("us")).cast(wanted)
    if pa.types.is_integer(values.type):
        day = _UNITS_PER_SECOND[wanted.unit] * 86_400
        if pc.any(pc.or_(pc.less(values, 0), pc.greater_equal(values, day))).as_py():
            raise ValueError("a time of a day is below 0, or of 24 hours or more")
        return values.cast(pa.int32() if pa.types.is_time32(wanted) else pa.int64()).cast(wanted)
    return values.cast(wanted)


def _decimal(values: pa.Array, wanted: pa.Decimal128Type, decimals: DecimalMode) -> pa.Array:
    if pa.types.is_string(values.type) and decimals is DecimalMode.PRECISE:
        return _decimals(decode_base64(values), wanted)
    if pa.types.is_struct(values.type) and {field.name for field in values.type.fields} == {"scale", "value"}:
        return _decimals_of_own_scales(values, wanted)
    if pa.types.is_floating(values.type) and decimals is not DecimalMode.DOUBLE:
        found = values.cast(wanted)
        largest = pc.max(pc.abs(values)).as_py() or 0
        if largest * 10.0**wanted.scale > _EXACT_MAX or not found.cast(pa.string()).cast(values.type).equals(values):
            raise ValueError("a decimal came as a floating point number, which does not keep its digits")
        return found
    return values.cast(wanted)


def _decimals_of_own_scales(values: pa.StructArray, wanted: pa.Decimal128Type) -> pa.Array:
    """Decimals of Debezium's VariableScaleDecimal, which it sends of `numeric` without a scale. One step per scale."""
    scales, octets = values.field("scale"), values.field("value")
    if pa.types.is_string(octets.type):
        octets = decode_base64(octets)
    found = pa.nulls(len(values), wanted)
    for scale in pc.unique(scales.filter(values.is_valid())).drop_null().to_pylist():
        is_of_scale = pc.and_(values.is_valid(), pc.fill_null(pc.equal(scales, scale), False))
        part = _decimals(octets.filter(is_of_scale), pa.decimal128(38, scale)).cast(wanted)
        found = pc.replace_with_mask(found, is_of_scale, part)
    return found


def _decimals(octets: pa.BinaryArray, wanted: pa.Decimal128Type) -> pa.Array:
    """Decimals of their unscaled values, which are two's complement with the highest byte first."""
    is_known = octets.is_valid()
    octets = pc.fill_null(octets, b"\0")
    offsets = np.frombuffer(octets.buffers()[1], np.int32)[octets.offset :][: len(octets) + 1].astype(np.int64)
    sizes = np.diff(offsets)
    if len(sizes) and (sizes.min() < 1 or sizes.max() > _DECIMAL_BYTES):
        raise ValueError("a decimal has no digits, or more than 38")
    data = np.frombuffer(octets.buffers()[2], np.uint8) if len(sizes) else np.array([], np.uint8)
    sign = np.where(data[offsets[:-1]] & 0x80, 0xFF, 0).astype(np.uint8) if len(sizes) else np.array([], np.uint8)
    # From the lowest byte on, as Arrow has them; what a shorter number lacks is its sign.
    places = offsets[1:, None] - 1 - np.arange(_DECIMAL_BYTES)
    is_inside = np.arange(_DECIMAL_BYTES) < sizes[:, None]
    matrix = np.where(is_inside, data[np.where(is_inside, places, 0)] if len(sizes) else 0, sign[:, None])
    buffer = pa.py_buffer(np.ascontiguousarray(matrix, np.uint8))
    found = pa.Array.from_buffers(pa.decimal128(38, wanted.scale), len(sizes), [None, buffer])
    return pc.if_else(is_known, found, None).cast(wanted)


_PAD: Final = ord("=")
_BAD: Final = 255


def _alphabet() -> npt.NDArray[np.uint8]:
    table = np.full(256, _BAD, np.uint8)
    letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    table[np.frombuffer(letters, np.uint8)] = np.arange(64, dtype=np.uint8)
    table[_PAD] = 0
    return table


_VALUES: Final = _alphabet()


def decode_base64(texts: pa.StringArray) -> pa.BinaryArray:
    """The bytes that texts in base64, with padding, stand for. Raises `ValueError` for a text that is none."""
    texts = texts.cast(pa.large_string())
    is_known = texts.is_valid()
    texts = pc.fill_null(texts, "")
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
    data = texts.buffers()[2]
    letters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.array([], np.uint8)
    lengths = np.diff(offsets)
    if (lengths % 4).any():
        raise ValueError("a text is no base64: its length is no multiple of 4")
    ends = offsets[1:] - offsets[0]
    pads = np.zeros(len(lengths), np.int64)
    filled = np.flatnonzero(lengths)
    pads[filled] = (letters[ends[filled] - 1] == _PAD).astype(np.int64)
    pads[filled] += (letters[ends[filled] - 2] == _PAD) & (pads[filled] == 1)
    numbers = _VALUES[letters]
    if (numbers == _BAD).any() or int((letters == _PAD).sum()) != int(pads.sum()):
        raise ValueError("a text is no base64")
    quads = numbers.reshape(-1, 4).astype(np.uint32)
    whole = (quads[:, 0] << 18) | (quads[:, 1] << 12) | (quads[:, 2] << 6) | quads[:, 3]
    octets = np.stack([whole >> 16, whole >> 8, whole], axis=1).astype(np.uint8).reshape(-1)
    sizes = lengths // 4 * 3 - pads
    kept = np.ones(len(octets), bool)
    octet_ends = np.cumsum(lengths // 4 * 3)
    for count in (1, 2):
        kept[octet_ends[pads >= count] - count] = False
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    found = pa.Array.from_buffers(
        pa.large_binary(), len(sizes), [None, pa.py_buffer(bounds), pa.py_buffer(octets[kept])]
    )
    return pc.if_else(is_known, found, None).cast(pa.binary())
