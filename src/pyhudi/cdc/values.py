"""Values of change messages in the types that a table's columns have."""

from __future__ import annotations

import enum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.base64 import decode_base64
from pyhudi.cdc.event_columns import column
from pyhudi.errors import SchemaMismatchError

_DECIMAL_BYTES: Final = 16


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
    is_text = pa.types.is_string(values.type)
    if pa.types.is_decimal(wanted) and is_text and decimals is DecimalMode.PRECISE:
        return _decimals(decode_base64(values), wanted)
    if pa.types.is_binary(wanted) and is_text:
        return decode_base64(values)
    if pa.types.is_date32(wanted) and pa.types.is_integer(values.type):
        return values.cast(pa.int32()).cast(wanted)
    if pa.types.is_integer(values.type) and (pa.types.is_timestamp(wanted) or pa.types.is_time64(wanted)):
        return values.cast(pa.int64()).cast(wanted)
    if pa.types.is_time32(wanted) and pa.types.is_integer(values.type):
        return values.cast(pa.int32()).cast(wanted)
    return values.cast(wanted)


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
