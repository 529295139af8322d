"""Decodes delete blocks into Arrow columns; the bytes are drawn in `delete_block_layout`.

A block may hold a million deletes, so no step works row by row. Every record begins with the byte 2, the branch of its
key. The decoder first tries all bytes 2 of a chunk at once and keeps the few positions whose bytes parse as a record.
It then follows the records from the start of the list, each beginning where the previous one ends, and so leaves out
positions inside other records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.avro.encode import spans
from pyhudi.format.log.delete_block_layout import (
    BLOCK_VERSION,
    DECIMAL,
    DECIMAL_BYTES,
    LOCAL_DATE,
    MICROSECONDS,
    PREFIX,
    VARINT_BYTES_MAX,
    Bytes,
    Flags,
    Numbers,
    TypeCheck,
    Wrapper,
    is_binary,
    is_integer,
    is_text,
)

ORDERING_FIELDS_MAX: Final = 64
"""The most ordering fields of a table. A larger count is damage."""

_BYTES_PER_STEP: Final = 1 << 22
_PADDING: Final = 16
"""Bytes that may be read behind the end before the end is checked."""

_INTS: Final = (Wrapper.INT, Wrapper.DATE, LOCAL_DATE)
_LONGS: Final = (Wrapper.LONG, Wrapper.TIME_MICROS, Wrapper.TIMESTAMP_MICROS)
_SIZED: Final = (Wrapper.BYTES, Wrapper.STRING, Wrapper.DECIMAL)


def _table(dtype: type, values: dict[Wrapper, Any]) -> npt.NDArray[Any]:
    """A lookup table by branch; branches without a value get 0."""
    table: npt.NDArray[Any] = np.zeros(128, dtype=dtype)
    for wrapper, value in values.items():
        table[wrapper] = value
    return table


_FIXED_BYTES: Final = _table(np.int64, {Wrapper.BOOLEAN: 1, Wrapper.FLOAT: 4, Wrapper.DOUBLE: 8})
_HAS_VARINT: Final = _table(np.bool_, dict.fromkeys((*_INTS, *_LONGS, *_SIZED), True))
_IS_INT: Final = _table(np.bool_, dict.fromkeys(_INTS, True))
_IS_SIZED: Final = _table(np.bool_, dict.fromkeys(_SIZED, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    """The deletes of one block, in the block's order. All arrays have one entry per delete.

    Attributes:
        record_keys: Strings.
        partition_paths: Strings; null where the writer left the path out.
        ordering: One column per ordering field, in the requested types. None if no types were requested: then every
            delete counts by commit time.
        by_commit_time: Marks deletes without an ordering value (bool). Such a delete removes all earlier versions of
            its record, and its entries in `ordering` are null. A delete by several fields can have single nulls among
            its values without being marked.
    """

    record_keys: pa.Array
    partition_paths: pa.Array
    ordering: tuple[pa.Array, ...] | None
    by_commit_time: pa.Array


@dataclass(frozen=True, slots=True)
class _Location:
    """The position of the datum: its log file, and its byte offset in that file."""

    path: str
    offset: int

    def damage(self, message: str, at: int) -> CorruptDataError:
        return CorruptDataError(message, path=self.path, offset=self.offset + at)

    def mismatch(self, at: int, wrapper: str, wanted: object, cause: str | None = None) -> SchemaMismatchError:
        return SchemaMismatchError(
            "the ordering value of a delete does not fit the table's ordering fields",
            path=self.path,
            offset=self.offset + at,
            stored=wrapper,
            wanted=str(wanted),
            cause=cause,
        )


def decode_delete_block(
    content: pa.Buffer, ordering_types: Sequence[pa.DataType], *, path: str, offset: int
) -> DeletedRecords:
    """The deletes in a block's content.

    Cost: about a million deletes with keys of 36 bytes per second and core; memory of about five times the content.

    Args:
        content: The block's content.
        ordering_types: The Arrow types of the table's ordering fields. A stored value of another type is converted
            if the conversion is lossless, as after a change of the column's type. Empty: stored values are ignored.
        path: The log file, for errors.
        offset: The content's offset in it, for errors.

    Raises:
        CorruptDataError: the content does not parse.
        SchemaMismatchError: an ordering value cannot be a value of the table's ordering fields.
        UnsupportedFeatureError: the block has another version of this format, from a release before Hudi 0.15 or after
            1.2.
    """
    location = _Location(path, offset + PREFIX.size)
    size = _check_prefix(content, path, offset)
    data = np.zeros(size + _PADDING, dtype=np.uint8)
    data[:size] = np.frombuffer(content, dtype=np.uint8)[PREFIX.size :]
    records = _listed(data, size, _possible_records(data, size), location)
    try:
        keys = spans(data, records.key_start, records.key_end).cast(pa.string())
        partitions = spans(data, records.partition_start, records.partition_end).cast(pa.string())
    except pa.ArrowInvalid as cause:
        raise location.damage("the text in the delete block is not UTF-8", 0) from cause
    is_null = data[records.key_end] == 0
    if is_null.any():
        partitions = pc.if_else(pa.array(is_null), pa.scalar(None, pa.string()), partitions)
    by_commit_time, ordering = _orderings(data, size, records, ordering_types, location)
    return DeletedRecords(
        record_keys=keys, partition_paths=partitions, ordering=ordering, by_commit_time=pa.array(by_commit_time)
    )


def _check_prefix(content: pa.Buffer, path: str, offset: int) -> int:
    """The datum's size."""
    if content.size < PREFIX.size:
        raise CorruptDataError(
            "the delete block ends before its size field", path=path, offset=offset, size=content.size
        )
    version, size = PREFIX.unpack_from(memoryview(content))
    if version in (1, 2):
        raise UnsupportedFeatureError(
            "the delete block is of a release before Hudi 0.15; compact the table once with JVM Hudi",
            block_version=version,
            path=path,
            offset=offset,
        )
    if version != BLOCK_VERSION:
        raise UnsupportedFeatureError(
            "delete blocks of this version are not supported, only of version 3",
            block_version=version,
            path=path,
            offset=offset,
        )
    if size != content.size - PREFIX.size:
        raise CorruptDataError(
            "the size field of the delete block does not match its content", path=path, offset=offset, size=size
        )
    return int(size)


@dataclass(frozen=True, slots=True)
class _Records:
    """Offsets in the datum where a record is or could be, ascending. Each is int64 of shape `[records]`.

    Where the partition path is null, its start and end are equal.
    """

    start: Numbers
    key_start: Numbers
    key_end: Numbers
    partition_start: Numbers
    partition_end: Numbers
    end: Numbers

    @property
    def ordering(self) -> Numbers:
        """Offsets of the ordering values."""
        return self.partition_end

    def take(self, rows: Flags | Numbers) -> _Records:
        return _Records(*(column[rows] for column in self.columns()))

    def columns(self) -> tuple[Numbers, ...]:
        return (self.start, self.key_start, self.key_end, self.partition_start, self.partition_end, self.end)


def _possible_records(data: Bytes, size: int) -> _Records:
    """Every offset whose bytes parse as a record. A few of them may lie inside other records."""
    found = [_possible_records_from(data, size, np.flatnonzero(chunk) + at) for at, chunk in _branches(data, size)]
    columns = zip(*(records.columns() for records in found), strict=True)
    return _Records(*(np.concatenate(column) for column in columns))


def _branches(data: Bytes, size: int) -> Iterator[tuple[int, Flags]]:
    """Chunks of the datum, with their offsets: a mask of the bytes that can be the branch of a record key."""
    for at in range(0, max(size, 1), _BYTES_PER_STEP):
        yield at, data[at : min(at + _BYTES_PER_STEP, size)] == 2


def _possible_records_from(data: Bytes, size: int, start: Numbers) -> _Records:
    key_start, key_end, is_text = _texts_at(data, size, start + 1)
    # Each step passes only a fraction of the offsets on to the next one.
    is_text &= (data[np.where(is_text, key_end, 0)] & ~np.uint8(2)) == 0
    start, key_start, key_end = start[is_text], key_start[is_text], key_end[is_text]
    partition_start = key_end + 1
    partition_end = partition_start.copy()
    goes_on = np.ones(len(start), dtype=np.bool_)
    named = np.flatnonzero(data[key_end] == 2)
    partition_start[named], partition_end[named], goes_on[named] = _texts_at(data, size, partition_start[named])
    goes_on &= partition_end < size
    records = _Records(start, key_start, key_end, partition_start, partition_end, partition_end).take(goes_on)
    end, is_value = _ordering_ends(data, size, records.ordering)
    columns = (*records.columns()[:-1], end)
    return _Records(*columns).take(is_value)


def _texts_at(data: Bytes, size: int, at: Numbers) -> tuple[Numbers, Numbers, Flags]:
    """Start and end of the texts whose sizes are at these offsets, and a mask of those that end inside the datum."""
    length, start, is_whole = _varints_at(data, at)
    is_whole &= (length >= 0) & (length < size - start)
    return start, np.where(is_whole, start + length, start), is_whole


def _varints_at(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers, Flags]:
    """Avro's zigzag integers at these offsets, their ends, and a mask of those that end within 10 bytes."""
    byte = data[at]
    raw = (byte & 0x7F).astype(np.uint64)
    end = at + 1
    is_whole = np.ones(len(at), dtype=np.bool_)
    longer = np.flatnonzero(byte >= 0x80)
    for digit in range(1, VARINT_BYTES_MAX):
        if len(longer) == 0:
            break
        byte = data[at[longer] + digit]
        raw[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * digit)
        end[longer] += 1
        longer = longer[byte >= 0x80]
    is_whole[longer] = False
    value = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return value, end, is_whole


@dataclass(frozen=True, slots=True)
class _Values:
    """Wrapped values, arrays of shape `[values]`: offset, branch, number if any, start and end of the bytes."""

    at: Numbers
    kind: Bytes
    number: Numbers
    start: Numbers
    end: Numbers

    def take(self, rows: Numbers) -> _Values:
        return _Values(self.at[rows], self.kind[rows], self.number[rows], self.start[rows], self.end[rows])


def _values_at(data: Bytes, size: int, at: Numbers) -> tuple[_Values, Flags]:
    """The wrapped values at these offsets, ARRAY as LOCAL_DATE, and a mask of the valid ones. Others end at 0."""
    branch = data[at]
    kind = branch >> np.uint8(1)
    start = at + 1
    number = np.zeros(len(at), dtype=np.int64)
    end = start + _FIXED_BYTES[kind]
    is_value = ((branch & 1) == 0) & (kind <= LOCAL_DATE)
    counted = np.flatnonzero(_HAS_VARINT[kind])
    number[counted], end[counted], is_whole = _varints_at(data, start[counted])
    is_value[counted] &= is_whole
    is_value &= ~_IS_INT[kind] | (number == number.astype(np.int32))
    sized = _IS_SIZED[kind]
    start = np.where(sized, end, start)
    is_value &= ~sized | ((number >= 0) & (number <= size - start))
    end = np.where(sized & is_value, start + number, end)
    is_value &= (kind != Wrapper.BOOLEAN) | (data[start * is_value] <= 1)
    is_value &= end <= size
    return _Values(at, kind, number, start, np.where(is_value, end, 0)), is_value


def _ordering_ends(data: Bytes, size: int, at: Numbers) -> tuple[Numbers, Flags]:
    """The ends of the ordering values at these offsets, and a mask of the valid ones."""
    end = at.copy()
    is_value = np.zeros(len(at), dtype=np.bool_)
    is_array = data[at] == 2 * Wrapper.ARRAY
    plain = np.flatnonzero(~is_array)
    values, is_value[plain] = _values_at(data, size, at[plain])
    end[plain] = values.end
    arrays = np.flatnonzero(is_array)
    count, element_at, is_counted = _counts_at(data, at[arrays])
    arrays, count, element_at = arrays[is_counted], count[is_counted], element_at[is_counted]
    for n in range(int(count.max(initial=0))):
        more = np.flatnonzero(count > n)
        values, is_element = _values_at(data, size, element_at[more])
        element_at[more] = values.end
        count[more[~is_element]] = -1
    is_value[arrays] = (count >= 0) & (element_at < size) & (data[element_at] == 0)
    end[arrays] = element_at + 1
    return end, is_value


def _counts_at(data: Bytes, at: Numbers) -> tuple[Numbers, Numbers, Flags]:
    """Number of elements of the ARRAY wrappers at these offsets, where these begin, and a mask of the valid arrays.

    Avro allows an array to consist of several blocks. Writers put arrays this short into one block.
    """
    count, element_at, is_whole = _varints_at(data, at + 2)
    return count, element_at, is_whole & (data[at + 1] == 2) & (count >= 1) & (count <= ORDERING_FIELDS_MAX)


def _listed(data: Bytes, size: int, possible: _Records, location: _Location) -> _Records:
    """The records of the list: the possible ones that are reached from the start of the list."""
    # A run is a sequence of possible records that each begin where the previous one ends. Nearly always there is one.
    last_of_run = np.append(np.flatnonzero(possible.start[1:] != possible.end[:-1]), len(possible.start) - 1)
    rows: list[Numbers] = []
    at = 0
    while True:
        count, at = _one_varint(data, size, at, location)
        if count == 0:
            break
        if count < 0:  # then the block's size in bytes follows
            count, (_, at) = -count, _one_varint(data, size, at, location)
        while count:
            first = int(np.searchsorted(possible.start, at))
            if first == len(possible.start) or possible.start[first] != at:
                raise location.damage("the delete block holds bytes that are not a delete", at)
            last = min(first + count - 1, int(last_of_run[np.searchsorted(last_of_run, first)]))
            rows.append(np.arange(first, last + 1))
            count -= last + 1 - first
            at = int(possible.end[last])
    if at != size:
        raise location.damage("the delete block continues after its last delete", at)
    return possible.take(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64))


def _one_varint(data: Bytes, size: int, at: int, location: _Location) -> tuple[int, int]:
    value, end, is_whole = _varints_at(data, np.array([min(at, size)]))
    if not is_whole[0] or end[0] > size:
        raise location.damage("the list of deletes in the delete block has no end", at)
    return int(value[0]), int(end[0])


def _orderings(
    data: Bytes, size: int, records: _Records, types: Sequence[pa.DataType], location: _Location
) -> tuple[Flags, tuple[pa.Array, ...] | None]:
    """A mask of the deletes that count by commit time, and the columns of ordering values."""
    if not types:
        return np.ones(len(records.start), dtype=np.bool_), None
    at = records.ordering
    values, _ = _values_at(data, size, at)
    by_commit_time = (values.kind == Wrapper.NULL) | ((values.kind == Wrapper.INT) & (values.number == 0))
    ordered = np.flatnonzero(~by_commit_time)
    at = at[ordered]
    is_wrong = (values.kind[ordered] == Wrapper.ARRAY) != (len(types) > 1)
    if len(types) > 1:
        count, element_at, _ = _counts_at(data, at)
        is_wrong |= count != len(types)
    if is_wrong.any():
        wrong = int(np.argmax(is_wrong))
        stored = Wrapper(values.kind[ordered[wrong]]).name
        raise location.mismatch(int(at[wrong]), stored, [str(data_type) for data_type in types])
    columns = []
    for wanted in types:
        if len(types) > 1:
            values, _ = _values_at(data, size, element_at)
            element_at = values.end
        else:
            values = values.take(ordered)
        columns.append(_spread(_column(data, values, wanted, location), by_commit_time))
    return by_commit_time, tuple(columns)


def _spread(column: pa.Array, is_null: Flags) -> pa.Array:
    """The column with nulls inserted where `is_null`."""
    if not is_null.any():
        return column
    rows = np.cumsum(~is_null) - 1
    return column.take(pa.array(rows, mask=is_null))


def _column(data: Bytes, values: _Values, wanted: pa.DataType, location: _Location) -> pa.Array:
    """The values in one type. Rows may have different wrappers."""
    parts: list[pa.Array] = [pa.nulls(0, wanted)]
    rows: list[Numbers] = []
    for kind in np.flatnonzero(np.bincount(values.kind)):
        rows.append(np.flatnonzero(values.kind == kind))
        parts.append(_converted(data, values.take(rows[-1]), Wrapper(int(kind)), wanted, location))
    column = pa.concat_arrays(parts)
    return column if len(rows) < 2 else column.take(pa.array(np.argsort(np.concatenate(rows))))


_READABLE_AS: Final[dict[Wrapper, tuple[TypeCheck, ...]]] = {
    Wrapper.BOOLEAN: (pa.types.is_boolean,),
    Wrapper.INT: (is_integer, pa.types.is_floating, pa.types.is_time32, pa.types.is_date32),
    Wrapper.LONG: (is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_time64),
    Wrapper.FLOAT: (pa.types.is_floating,),
    Wrapper.DOUBLE: (pa.types.is_float64,),
    Wrapper.BYTES: (is_binary, is_text),
    Wrapper.STRING: (is_text, is_binary),
    Wrapper.DATE: (pa.types.is_date32,),
    Wrapper.DECIMAL: (pa.types.is_decimal,),
    Wrapper.TIME_MICROS: (pa.types.is_time64,),
    Wrapper.TIMESTAMP_MICROS: (pa.types.is_timestamp,),
    LOCAL_DATE: (pa.types.is_date32,),
}
"""The column types that a wrapper's value is converted to: its own, and those that Avro promotes it to."""


def _converted(data: Bytes, values: _Values, wrapper: Wrapper, wanted: pa.DataType, location: _Location) -> pa.Array:
    """Values of one wrapper in the wanted type."""
    if wrapper is Wrapper.NULL:
        return pa.nulls(len(values.kind), wanted)
    at = int(values.at[0])
    if not any(check(wanted) for check in _READABLE_AS[wrapper]):
        raise location.mismatch(at, wrapper.name, wanted)
    try:
        stored = _STORED[wrapper](data, values)
        if wrapper in _LONGS:
            stored = _microseconds(stored, wanted)
        # Base files also round an integer column that became a floating one.
        return stored.cast(wanted, safe=not pa.types.is_floating(wanted))
    except pa.ArrowInvalid as cause:
        raise location.mismatch(at, wrapper.name, wanted, str(cause)) from cause


def _microseconds(longs: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Times are stored in microseconds, whatever the unit of the column."""
    if pa.types.is_timestamp(wanted):
        return longs.cast(pa.timestamp(MICROSECONDS, wanted.tz))
    return longs.cast(pa.time64(MICROSECONDS)) if pa.types.is_time64(wanted) else longs


def _booleans(data: Bytes, values: _Values) -> pa.Array:
    return pa.array(data[values.start] == 1)


def _int32s(_: Bytes, values: _Values) -> pa.Array:
    return pa.array(values.number.astype(np.int32))


def _int64s(_: Bytes, values: _Values) -> pa.Array:
    return pa.array(values.number)


def _floats(data: Bytes, values: _Values) -> pa.Array:
    return pa.array(_gather(data, values.start, 4).view("<f4").reshape(-1))


def _doubles(data: Bytes, values: _Values) -> pa.Array:
    return pa.array(_gather(data, values.start, 8).view("<f8").reshape(-1))


def _binaries(data: Bytes, values: _Values) -> pa.Array:
    return spans(data, values.start, values.end)


def _gather(data: Bytes, start: Numbers, width: int) -> Bytes:
    """`width` bytes from each offset, of shape `[offsets, width]`."""
    return np.ascontiguousarray(data[start[:, np.newaxis] + np.arange(width)])


def _decimals(data: Bytes, values: _Values) -> pa.Array:
    """Converts big-endian two's complement of any length to Arrow's 32 bytes, little-endian."""
    length = values.end - values.start
    if not ((length >= 1) & (length <= DECIMAL_BYTES)).all():
        raise pa.ArrowInvalid("a decimal has no bytes, or more than 32")
    sign = np.where(data[values.start] >= 0x80, 0xFF, 0).astype(np.uint8)
    digits = np.repeat(sign[:, np.newaxis], DECIMAL_BYTES, axis=1)
    for n in range(int(length.max())):
        rows = np.flatnonzero(length > n)
        digits[rows, n] = data[values.end[rows] - 1 - n]
    return pa.Array.from_buffers(DECIMAL, len(length), [None, pa.py_buffer(digits)])


_STORED: Final[dict[Wrapper, Callable[[Bytes, _Values], pa.Array]]] = {
    Wrapper.BOOLEAN: _booleans,
    Wrapper.INT: _int32s,
    Wrapper.LONG: _int64s,
    Wrapper.FLOAT: _floats,
    Wrapper.DOUBLE: _doubles,
    Wrapper.BYTES: _binaries,
    Wrapper.STRING: _binaries,
    Wrapper.DATE: _int32s,
    Wrapper.DECIMAL: _decimals,
    Wrapper.TIME_MICROS: _int64s,
    Wrapper.TIMESTAMP_MICROS: _int64s,
    LOCAL_DATE: _int32s,
}
"""Reads the values of a wrapper, in a type that casts to every column type of `_READABLE_AS`."""
