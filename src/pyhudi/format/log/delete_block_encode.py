"""Encodes delete blocks from Arrow columns; the bytes are drawn in `delete_block_layout`.

A block may hold a million deletes, so no step works row by row: Arrow joins the pieces of all records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import InvalidRequestError, RecordKeyError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.avro.encode import constant, data_of, joined, pieces_of, spans, varints
from pyhudi.format.avro.layout import Kind, Layout
from pyhudi.format.log.delete_block_layout import (
    BLOCK_VERSION,
    CONTENT_BYTES_MAX,
    DECIMAL,
    DECIMAL_BYTES,
    LOCAL_DATE,
    MICROSECONDS,
    PREFIX,
    TypeCheck,
    Wrapper,
    is_binary,
    is_integer,
    is_text,
)

_ROWS_PER_STEP: Final = 65_536


def encode_delete_block(
    record_keys: pa.Array,
    partition_paths: pa.Array,
    ordering: Sequence[pa.Array],
    *,
    array_wrapper_allowed: bool,
    dates_as_ints: bool = False,
) -> bytes:
    """The content of a block that deletes these records.

    Cost: about two million deletes with keys of 36 bytes per second and core.

    Args:
        record_keys: Strings, none null.
        partition_paths: Strings, none null.
        ordering: One column per ordering field. With a single field, null makes a delete by commit time, and so does 0
            in a column of at most 32 bits: the format has no other encoding for it. Without columns, all deletes count
            by commit time.
        array_wrapper_allowed: Whether several ordering fields can be written. Only readers since Hudi 1.1 (tables of
            version 9) decode them.
        dates_as_ints: Write dates as the number of days since 1970. Hudi 1.0.2 and 1.2.0 fail to compare a date in a
            DATE wrapper with the date of a row; 0.15.0 writes DATE wrappers.

    Raises:
        RecordKeyError: a record key is null.
        SchemaMismatchError: values of an ordering column cannot be written: a nested type, or a decimal with more than
            15 fractional digits.
        InvalidRequestError: the content would take more than `CONTENT_BYTES_MAX` bytes; write several blocks.
        UnsupportedFeatureError: several ordering fields where they are not allowed.
    """
    assert len(partition_paths) == len(record_keys), "one partition path per record"
    assert all(len(column) == len(record_keys) for column in ordering), "one ordering value per record"
    assert partition_paths.null_count == 0, "every record has a partition path"
    if record_keys.null_count:
        raise RecordKeyError("a delete needs a record key, but some are null", count=record_keys.null_count)
    if len(ordering) > 1 and not array_wrapper_allowed:
        raise UnsupportedFeatureError("several ordering fields in deletes need table version 9")
    count = len(record_keys)
    pieces: list[Any] = [varints(np.array([count]), b"")[0].as_py()] if count else []
    for at in range(0, count, _ROWS_PER_STEP):
        step = slice(at, at + _ROWS_PER_STEP)
        values = [values[step] for values in ordering]
        pieces.append(_encoded_records(record_keys[step], partition_paths[step], values, dates_as_ints))
    pieces.append(b"\0")
    size = sum(len(memoryview(piece)) for piece in pieces)
    if size > CONTENT_BYTES_MAX - PREFIX.size:
        raise InvalidRequestError(
            "the deletes do not fit into one delete block; write several blocks", size=size, records=count
        )
    return b"".join((PREFIX.pack(BLOCK_VERSION, size), *pieces))


def _encoded_records(
    keys: pa.Array, partitions: pa.Array, ordering: Sequence[pa.Array], dates_as_ints: bool
) -> memoryview:
    pieces = [*pieces_of(_TEXT, keys), *pieces_of(_TEXT, partitions)]
    if not ordering:
        pieces.append(constant(bytes((2 * Wrapper.INT, 0)), len(keys)))
    elif len(ordering) == 1:
        pieces += _wrapped(ordering[0], Wrapper.INT if dates_as_ints else Wrapper.DATE)
    else:
        count: bytes = varints(np.array([len(ordering)]), bytes((2 * Wrapper.ARRAY, 2)))[0].as_py()
        date = Wrapper.INT if dates_as_ints else LOCAL_DATE
        elements = [piece for column in ordering for piece in _wrapped(column, date)]
        pieces += [constant(count, len(keys)), *elements, constant(b"\0", len(keys))]
    return data_of(joined(pieces))


_TEXT: Final = Layout(kind=Kind.TEXT, arrow=pa.string(), null_branch=0, value_branch=1)


def _wrapped(column: pa.Array, date: Wrapper) -> list[pa.Array]:
    """The pieces of an ordering column, with the wrapper `date` for dates. Null is the branch null."""
    encoding = next((row[1:] for row in _WRITTEN_AS if row[0](column.type)), None)
    if encoding is None:
        raise SchemaMismatchError(
            "a column of this type cannot order the versions of records in a log", type=str(column.type)
        )
    wrapper, kind, stored = encoding
    try:
        values = stored(column)
    except pa.ArrowInvalid as cause:
        raise SchemaMismatchError(
            "the ordering value of a delete cannot be written to a log", type=str(column.type), cause=str(cause)
        ) from cause
    size = values.type.bit_width // 8 if kind is Kind.FLOATING else 0
    branch = date if wrapper is Wrapper.DATE else wrapper
    layout = Layout(kind=kind, arrow=values.type, size=size, null_branch=Wrapper.NULL, value_branch=branch)
    return pieces_of(layout, values)


def _as_it_is(column: pa.Array) -> pa.Array:
    return column


def _int32s(column: pa.Array) -> pa.Array:
    return column.cast(pa.int32())


def _microseconds(column: pa.Array) -> pa.Array:
    is_time = pa.types.is_time64(column.type)
    return column.cast(pa.time64(MICROSECONDS) if is_time else pa.timestamp(MICROSECONDS, column.type.tz))


_WRITTEN_AS: Final[tuple[tuple[TypeCheck, Wrapper, Kind, Callable[[pa.Array], pa.Array]], ...]] = (
    (pa.types.is_boolean, Wrapper.BOOLEAN, Kind.BOOLEAN, _as_it_is),
    (pa.types.is_int64, Wrapper.LONG, Kind.LONG, _as_it_is),
    (is_integer, Wrapper.INT, Kind.INT, _int32s),
    (pa.types.is_float32, Wrapper.FLOAT, Kind.FLOATING, _as_it_is),
    (pa.types.is_float64, Wrapper.DOUBLE, Kind.FLOATING, _as_it_is),
    (is_text, Wrapper.STRING, Kind.TEXT, _as_it_is),
    (is_binary, Wrapper.BYTES, Kind.BYTES, _as_it_is),
    (pa.types.is_date32, Wrapper.DATE, Kind.INT, _as_it_is),
    (pa.types.is_timestamp, Wrapper.LONG, Kind.LONG, _microseconds),
    (pa.types.is_time32, Wrapper.INT, Kind.INT, _as_it_is),
    (pa.types.is_time64, Wrapper.TIME_MICROS, Kind.LONG, _microseconds),
    (pa.types.is_decimal, Wrapper.DECIMAL, Kind.BYTES, lambda column: _decimal_bytes(column.cast(DECIMAL))),
)
"""The wrapper of each column type, the encoding of its value, and the column as this takes it.

The wrappers of the two time-of-day types are pyhudi's choice: JVM Hudi writes none.
"""


def _decimal_bytes(column: pa.Array) -> pa.Array:
    """Converts Arrow's 32 bytes, little-endian, to the shortest big-endian two's complement."""
    stored = np.frombuffer(column.buffers()[1], dtype=np.uint8)[column.offset * DECIMAL_BYTES :]
    digits = np.ascontiguousarray(stored[: len(column) * DECIMAL_BYTES].reshape(-1, DECIMAL_BYTES)[:, ::-1])
    sign = np.where(digits[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    is_digit = digits != sign[:, np.newaxis]
    first = np.where(is_digit.any(axis=1), is_digit.argmax(axis=1), DECIMAL_BYTES - 1)
    # The first bit must be the sign.
    lead = digits[np.arange(len(digits)), first]
    first -= (lead ^ sign) >= 0x80
    ends = (np.arange(len(digits)) + 1) * DECIMAL_BYTES
    data = spans(digits.reshape(-1), ends - DECIMAL_BYTES + first, ends)
    return pc.if_else(column.is_valid(), data, pa.scalar(None, pa.binary()))
