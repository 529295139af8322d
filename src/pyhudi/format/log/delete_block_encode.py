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
from pyhudi.format.log.delete_block_layout import (
    BLOCK_VERSION,
    CONTENT_BYTES_MAX,
    DECIMAL,
    DECIMAL_BYTES,
    LOCAL_DATE,
    MICROSECONDS,
    PREFIX,
    VARINT_BYTES_MAX,
    Numbers,
    TypeCheck,
    Wrapper,
    is_binary,
    is_integer,
    is_text,
    ranges_of,
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
    pieces: list[Any] = [_varints(np.array([count]))[0].as_py()] if count else []
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
) -> pa.Buffer:
    pieces = [b"\2", *_sized(keys.cast(pa.binary())), b"\2", *_sized(partitions.cast(pa.binary()))]
    if not ordering:
        pieces.append(_branch(Wrapper.INT) + b"\0")
    elif len(ordering) == 1:
        pieces.append(_wrapped(ordering[0], Wrapper.INT if dates_as_ints else Wrapper.DATE))
    else:
        count: bytes = _varints(np.array([len(ordering)]))[0].as_py()
        date = Wrapper.INT if dates_as_ints else LOCAL_DATE
        elements = (_wrapped(column, date) for column in ordering)
        pieces += (_branch(Wrapper.ARRAY) + b"\2" + count, *elements, b"\0")
    joined = _joined(*pieces)
    assert joined.null_count == 0, "no part of a record is null"
    first, last = (joined.buffers()[1][4 * n : 4 * n + 4] for n in (joined.offset, joined.offset + len(joined)))
    begin, end = (int.from_bytes(value.to_pybytes(), "little") for value in (first, last))
    return joined.buffers()[2].slice(begin, end - begin)


def _joined(*pieces: pa.Array | bytes) -> pa.Array:
    """Concatenates the pieces of each row; null where a piece is null."""
    return pc.binary_join_element_wise(*pieces, b"")


def _sized(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Each text's size, and the text."""
    return _varints(pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.int64)), texts


def _branch(wrapper: Wrapper) -> bytes:
    return bytes((2 * wrapper,))


def _wrapped(column: pa.Array, date: Wrapper) -> pa.Array:
    """The wrapped values of an ordering column, with the wrapper `date` for dates. Null is the branch null."""
    encoding = next((row[1:] for row in _WRITTEN_AS if row[0](column.type)), None)
    if encoding is None:
        raise SchemaMismatchError(
            "a column of this type cannot order the versions of records in a log", type=str(column.type)
        )
    wrapper, pieces = encoding
    try:
        # The pieces of null rows are arbitrary; `if_else` below replaces them.
        values = _joined(_branch(date if wrapper is Wrapper.DATE else wrapper), *pieces(column))
    except pa.ArrowInvalid as cause:
        raise SchemaMismatchError(
            "the ordering value of a delete cannot be written to a log", type=str(column.type), cause=str(cause)
        ) from cause
    return pc.if_else(column.is_valid(), values, _branch(Wrapper.NULL))


def _int_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return (_numbers(column.cast(pa.int32())),)


def _long_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return (_numbers(column),)


def _time_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    is_time = pa.types.is_time64(column.type)
    unit = pa.time64(MICROSECONDS) if is_time else pa.timestamp(MICROSECONDS, column.type.tz)
    return (_numbers(column.cast(unit)),)


def _fixed_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return (_fixed(column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column),)


def _sized_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return _sized(column.cast(pa.binary()))


def _decimal_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return _sized(_decimal_bytes(column.cast(DECIMAL)))


_WRITTEN_AS: Final[tuple[tuple[TypeCheck, Wrapper, Callable[[pa.Array], tuple[pa.Array, ...]]], ...]] = (
    (pa.types.is_boolean, Wrapper.BOOLEAN, _fixed_pieces),
    (pa.types.is_int64, Wrapper.LONG, _long_pieces),
    (is_integer, Wrapper.INT, _int_pieces),
    (pa.types.is_float32, Wrapper.FLOAT, _fixed_pieces),
    (pa.types.is_float64, Wrapper.DOUBLE, _fixed_pieces),
    (is_text, Wrapper.STRING, _sized_pieces),
    (is_binary, Wrapper.BYTES, _sized_pieces),
    (pa.types.is_date32, Wrapper.DATE, _int_pieces),
    (pa.types.is_timestamp, Wrapper.LONG, _time_pieces),
    (pa.types.is_time32, Wrapper.INT, _int_pieces),
    (pa.types.is_time64, Wrapper.TIME_MICROS, _time_pieces),
    (pa.types.is_decimal, Wrapper.DECIMAL, _decimal_pieces),
)
"""The wrapper of each column type. Those of the two time-of-day types are pyhudi's choice: JVM Hudi writes none."""


def _numbers(column: pa.Array) -> pa.Array:
    return _varints(pc.fill_null(column.cast(pa.int64()), 0).to_numpy())


def _fixed(column: pa.Array) -> pa.Array:
    """The values' own bytes, little-endian."""
    values = pc.fill_null(column, 0).to_numpy()
    width = values.itemsize
    bounds = np.arange(len(values) + 1, dtype=np.int32) * np.int32(width)
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _varints(values: Numbers) -> pa.Array:
    """Avro's zigzag integers, as binary."""
    values = values.astype(np.int64)
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    digits = np.arange(1, VARINT_BYTES_MAX, dtype=np.uint64) * np.uint64(7)
    length = 1 + np.searchsorted(np.uint64(1) << digits, raw, side="right")
    bounds = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
    data = np.empty(bounds[-1], dtype=np.uint8)
    rows = np.arange(len(values))
    for digit in range(int(length.max(initial=0))):
        rows = rows[length[rows] > digit]
        byte = (raw[rows] >> np.uint64(7 * digit)).astype(np.uint8) & 0x7F
        data[bounds[rows] + digit] = byte | np.where(length[rows] > digit + 1, 0x80, 0).astype(np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(bounds), pa.py_buffer(data)])


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
    return ranges_of(digits.reshape(-1), ends - DECIMAL_BYTES + first, ends)
