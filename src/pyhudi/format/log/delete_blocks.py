"""The content of a delete block: which records are deleted, and at which ordering values.

    content  := int32 block version 3 | int32 size | one Avro datum of HoodieDeleteRecordList     (int32 big-endian)
    datum    := array of (record key: null or string, partition path: null or string, ordering value: null or wrapper)
    wrapper  := a union's branch (see `_Wrapper`) and the value; several ordering fields are an array of wrappers

A block may hold a million deletes, so nothing here works row by row. To encode, the pieces of all records are joined
by Arrow. To decode, where records may begin is found for a chunk of bytes at once: a record begins with the byte 2, the
branch of its key. Few bytes 2 go on like a record, and which of those do is settled by following the records from the
list's start, each beginning where the one before it ends.

Source: `format/logs-and-indexes.md` 1.4, "DELETE block". The bytes of the tests are those of Hudi 1.2.0.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import (
    CorruptDataError,
    InvalidRequestError,
    RecordKeyError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

BLOCK_VERSION: Final = 3
CONTENT_BYTES_MAX: Final = (1 << 31) - 1
"""The size is an int32."""
ORDERING_FIELDS_MAX: Final = 64
"""Of one table; a damaged count must not be believed."""

_PREFIX: Final = struct.Struct(">ii")
_ROWS_PER_STEP: Final = 65_536
_BYTES_PER_STEP: Final = 1 << 22
_VARINT_BYTES_MAX: Final = 10
_PADDING: Final = 16  # bytes that may be read behind the end before it is checked
_DECIMAL: Final = pa.decimal256(76, 15)  # 15 digits are fixed by the wrapper, 76 is room for any column's
_DECIMAL_BYTES: Final = 32
_MICROSECONDS: Final = "us"

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]


class _Wrapper(enum.IntEnum):
    """The branches of the ordering value's union. Inside of an array, ARRAY's number is LOCAL_DATE's."""

    NULL = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12


_LOCAL_DATE: Final = _Wrapper.ARRAY
_INTS: Final = (_Wrapper.INT, _Wrapper.DATE, _LOCAL_DATE)
_LONGS: Final = (_Wrapper.LONG, _Wrapper.TIME_MICROS, _Wrapper.TIMESTAMP_MICROS)
_SIZED: Final = (_Wrapper.BYTES, _Wrapper.STRING, _Wrapper.DECIMAL)


def _table(dtype: type, values: dict[_Wrapper, Any]) -> npt.NDArray[Any]:
    """A value for each branch that a byte can name, 0 for most."""
    table: npt.NDArray[Any] = np.zeros(128, dtype=dtype)
    for wrapper, value in values.items():
        table[wrapper] = value
    return table


_FIXED_BYTES: Final = _table(np.int64, {_Wrapper.BOOLEAN: 1, _Wrapper.FLOAT: 4, _Wrapper.DOUBLE: 8})
_HAS_VARINT: Final = _table(np.bool_, dict.fromkeys((*_INTS, *_LONGS, *_SIZED), True))
_IS_INT: Final = _table(np.bool_, dict.fromkeys(_INTS, True))
_IS_SIZED: Final = _table(np.bool_, dict.fromkeys(_SIZED, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    """The deletes of one block in its order; all arrays have one entry per delete.

    `record_keys` and `partition_paths` are strings; a path is null where the writer did not say it. `ordering` has a
    column per ordering field of the table, in the types asked for, or is None where none were asked for: every delete
    then counts by commit time. `by_commit_time` (bool) marks the deletes without an ordering value, which delete
    whatever came before them; their entries in `ordering` are null. A delete by several fields can have nulls among
    its values without being one of those.
    """

    record_keys: pa.Array
    partition_paths: pa.Array
    ordering: tuple[pa.Array, ...] | None
    by_commit_time: pa.Array


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the datum is: its log file, and its offset in it in bytes."""

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


# ----- decoding ------------------------------------------------------------------------------------------------------


def decode_delete_block(
    content: pa.Buffer, ordering_types: Sequence[pa.DataType], *, path: str, offset: int
) -> DeletedRecords:
    """The deletes in a block's content.

    Cost: about a million deletes with keys of 36 bytes per second and core; memory of about five times the content.

    Args:
        content: The block's content.
        ordering_types: The Arrow types of the table's ordering fields. A stored value of another kind is converted
            where nothing is lost, as after a change of the column's type. Empty: stored values are ignored.
        path: The log file, for errors.
        offset: The content's offset in it, for errors.

    Raises:
        CorruptDataError: the content does not parse.
        SchemaMismatchError: an ordering value cannot be a value of the table's ordering fields.
        UnsupportedFeatureError: the block was written by a release before Hudi 0.15 or after 1.2, in another version
            of this format.
    """
    place = _Place(path, offset + _PREFIX.size)
    size = _check_prefix(content, path, offset)
    data = np.zeros(size + _PADDING, dtype=np.uint8)
    data[:size] = np.frombuffer(content, dtype=np.uint8)[_PREFIX.size :]
    records = _listed(data, size, _possible_records(data, size), place)
    try:
        keys = _slices(data, records.key_start, records.key_end).cast(pa.string())
        partitions = _slices(data, records.partition_start, records.partition_end).cast(pa.string())
    except pa.ArrowInvalid as cause:
        raise place.damage("a delete block's text is not UTF-8", 0) from cause
    is_null = data[records.key_end] == 0
    if is_null.any():
        partitions = pc.if_else(pa.array(is_null), pa.scalar(None, pa.string()), partitions)
    by_commit_time, ordering = _orderings(data, size, records, ordering_types, place)
    return DeletedRecords(
        record_keys=keys, partition_paths=partitions, ordering=ordering, by_commit_time=pa.array(by_commit_time)
    )


def _check_prefix(content: pa.Buffer, path: str, offset: int) -> int:
    """The datum's size."""
    if content.size < _PREFIX.size:
        raise CorruptDataError("a delete block's content ends too early", path=path, offset=offset, size=content.size)
    version, size = _PREFIX.unpack_from(memoryview(content))
    if version in (1, 2):
        raise UnsupportedFeatureError(
            "the log has deletes as Java objects, from before Hudi 0.15; let Hudi compact the table once",
            block_version=version,
            path=path,
            offset=offset,
        )
    if version != BLOCK_VERSION:
        raise UnsupportedFeatureError(
            "delete blocks of this version are not supported", block_version=version, path=path, offset=offset
        )
    if size != content.size - _PREFIX.size:
        raise CorruptDataError("a delete block's size is not that of its content", path=path, offset=offset, size=size)
    return int(size)


@dataclass(frozen=True, slots=True)
class _Records:
    """Places in the datum where a record is, or could be, ascending. int64 of shape `[records]`, all of them.

    Where the partition path is null, its start and end are those of an empty text.
    """

    start: _Numbers
    key_start: _Numbers
    key_end: _Numbers
    partition_start: _Numbers
    partition_end: _Numbers
    end: _Numbers

    @property
    def ordering(self) -> _Numbers:
        """Where the ordering value begins."""
        return self.partition_end

    def take(self, rows: _Flags | _Numbers) -> _Records:
        return _Records(*(column[rows] for column in self.columns()))

    def columns(self) -> tuple[_Numbers, ...]:
        return (self.start, self.key_start, self.key_end, self.partition_start, self.partition_end, self.end)


def _possible_records(data: _Bytes, size: int) -> _Records:
    """Every place whose bytes parse as a record; a few of them may lie inside of other records."""
    found = [_possible_records_from(data, size, np.flatnonzero(chunk) + at) for at, chunk in _branches(data, size)]
    columns = zip(*(records.columns() for records in found), strict=True)
    return _Records(*(np.concatenate(column) for column in columns))


def _branches(data: _Bytes, size: int) -> Iterator[tuple[int, _Flags]]:
    """Chunks of the datum's bytes, with their offsets: which may be the branch "string" of a record key."""
    for at in range(0, max(size, 1), _BYTES_PER_STEP):
        yield at, data[at : min(at + _BYTES_PER_STEP, size)] == 2


def _possible_records_from(data: _Bytes, size: int, start: _Numbers) -> _Records:
    key_start, key_end, is_text = _texts_at(data, size, start + 1)
    # Each step leaves a fraction of the places to the next one.
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


def _texts_at(data: _Bytes, size: int, at: _Numbers) -> tuple[_Numbers, _Numbers, _Flags]:
    """Start and end of the texts whose sizes are at these places, and which are texts with something behind them."""
    length, start, is_whole = _varints_at(data, at)
    is_whole &= (length >= 0) & (length < size - start)
    return start, np.where(is_whole, start + length, start), is_whole


def _varints_at(data: _Bytes, at: _Numbers) -> tuple[_Numbers, _Numbers, _Flags]:
    """Avro's zigzag integers at these places, where they end, and which of them do."""
    byte = data[at]
    raw = (byte & 0x7F).astype(np.uint64)
    end = at + 1
    is_whole = np.ones(len(at), dtype=np.bool_)
    longer = np.flatnonzero(byte >= 0x80)
    for place in range(1, _VARINT_BYTES_MAX):
        if len(longer) == 0:
            break
        byte = data[at[longer] + place]
        raw[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * place)
        end[longer] += 1
        longer = longer[byte >= 0x80]
    is_whole[longer] = False
    value = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
    return value, end, is_whole


@dataclass(frozen=True, slots=True)
class _Values:
    """Wrapped values, arrays of shape `[values]`.

    Where each stands, its branch, the number of those that have one, and where its bytes begin and end.
    """

    at: _Numbers
    kind: _Bytes
    number: _Numbers
    start: _Numbers
    end: _Numbers

    def take(self, rows: _Numbers) -> _Values:
        return _Values(self.at[rows], self.kind[rows], self.number[rows], self.start[rows], self.end[rows])


def _values_at(data: _Bytes, size: int, at: _Numbers) -> tuple[_Values, _Flags]:
    """The wrapped values at these places, ARRAY as LOCAL_DATE, and which of them are values.

    The end of one that is no value is 0.
    """
    branch = data[at]
    kind = branch >> np.uint8(1)
    start = at + 1
    number = np.zeros(len(at), dtype=np.int64)
    end = start + _FIXED_BYTES[kind]
    is_value = ((branch & 1) == 0) & (kind <= _LOCAL_DATE)
    counted = np.flatnonzero(_HAS_VARINT[kind])
    number[counted], end[counted], is_whole = _varints_at(data, start[counted])
    is_value[counted] &= is_whole
    is_value &= ~_IS_INT[kind] | (number == number.astype(np.int32))
    sized = _IS_SIZED[kind]
    start = np.where(sized, end, start)
    is_value &= ~sized | ((number >= 0) & (number <= size - start))
    end = np.where(sized & is_value, start + number, end)
    is_value &= (kind != _Wrapper.BOOLEAN) | (data[start * is_value] <= 1)
    is_value &= end <= size
    return _Values(at, kind, number, start, np.where(is_value, end, 0)), is_value


def _ordering_ends(data: _Bytes, size: int, at: _Numbers) -> tuple[_Numbers, _Flags]:
    """Where the ordering values at these places end, and which of them are values."""
    end = at.copy()
    is_value = np.zeros(len(at), dtype=np.bool_)
    is_array = data[at] == 2 * _Wrapper.ARRAY
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


def _counts_at(data: _Bytes, at: _Numbers) -> tuple[_Numbers, _Numbers, _Flags]:
    """How many elements the ARRAY wrappers at these places have, where those begin, and which are arrays.

    An Avro array may be cut into blocks of elements; one so short is written as one block.
    """
    count, element_at, is_whole = _varints_at(data, at + 2)
    return count, element_at, is_whole & (data[at + 1] == 2) & (count >= 1) & (count <= ORDERING_FIELDS_MAX)


def _listed(data: _Bytes, size: int, possible: _Records, place: _Place) -> _Records:
    """The records that the list really has: those that are reached from its start."""
    # A run is a row of places that each begin where the one before ends. With rare bad luck there is more than one.
    last_of_run = np.append(np.flatnonzero(possible.start[1:] != possible.end[:-1]), len(possible.start) - 1)
    rows: list[_Numbers] = []
    at = 0
    while True:
        count, at = _one_varint(data, size, at, place)
        if count == 0:
            break
        if count < 0:  # then the block's size in bytes follows
            count, (_, at) = -count, _one_varint(data, size, at, place)
        while count:
            first = int(np.searchsorted(possible.start, at))
            if first == len(possible.start) or possible.start[first] != at:
                raise place.damage("a delete block has something that is no delete", at)
            last = min(first + count - 1, int(last_of_run[np.searchsorted(last_of_run, first)]))
            rows.append(np.arange(first, last + 1))
            count -= last + 1 - first
            at = int(possible.end[last])
    if at != size:
        raise place.damage("a delete block goes on after its last delete", at)
    return possible.take(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64))


def _one_varint(data: _Bytes, size: int, at: int, place: _Place) -> tuple[int, int]:
    value, end, is_whole = _varints_at(data, np.array([min(at, size)]))
    if not is_whole[0] or end[0] > size:
        raise place.damage("a delete block's list of deletes has no end", at)
    return int(value[0]), int(end[0])


def _orderings(
    data: _Bytes, size: int, records: _Records, types: Sequence[pa.DataType], place: _Place
) -> tuple[_Flags, tuple[pa.Array, ...] | None]:
    """Which deletes count by commit time, and the columns of ordering values."""
    if not types:
        return np.ones(len(records.start), dtype=np.bool_), None
    at = records.ordering
    values, _ = _values_at(data, size, at)
    by_commit_time = (values.kind == _Wrapper.NULL) | ((values.kind == _Wrapper.INT) & (values.number == 0))
    ordered = np.flatnonzero(~by_commit_time)
    at = at[ordered]
    is_wrong = (values.kind[ordered] == _Wrapper.ARRAY) != (len(types) > 1)
    if len(types) > 1:
        count, element_at, _ = _counts_at(data, at)
        is_wrong |= count != len(types)
    if is_wrong.any():
        wrong = int(np.argmax(is_wrong))
        stored = _Wrapper(values.kind[ordered[wrong]]).name
        raise place.mismatch(int(at[wrong]), stored, [str(each) for each in types])
    columns = []
    for wanted in types:
        if len(types) > 1:
            values, _ = _values_at(data, size, element_at)
            element_at = values.end
        else:
            values = values.take(ordered)
        columns.append(_spread(_column(data, values, wanted, place), by_commit_time))
    return by_commit_time, tuple(columns)


def _spread(column: pa.Array, is_null: _Flags) -> pa.Array:
    """The column with nulls put between its values."""
    if not is_null.any():
        return column
    rows = np.cumsum(~is_null) - 1
    return column.take(pa.array(rows, mask=is_null))


def _column(data: _Bytes, values: _Values, wanted: pa.DataType, place: _Place) -> pa.Array:
    """The values in one type, whatever they are wrapped in."""
    parts: list[pa.Array] = [pa.nulls(0, wanted)]
    rows: list[_Numbers] = []
    for kind in np.flatnonzero(np.bincount(values.kind)):
        rows.append(np.flatnonzero(values.kind == kind))
        parts.append(_converted(data, values.take(rows[-1]), _Wrapper(int(kind)), wanted, place))
    column = pa.concat_arrays(parts)
    return column if len(rows) < 2 else column.take(pa.array(np.argsort(np.concatenate(rows))))


def _is_integer(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(wanted))


def _is_text(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_string(wanted) or pa.types.is_large_string(wanted))


def _is_bytes(wanted: pa.DataType) -> bool:
    return bool(pa.types.is_binary(wanted) or pa.types.is_large_binary(wanted))


_TypeCheck = Callable[[pa.DataType], bool]

_READABLE_AS: Final[dict[_Wrapper, tuple[_TypeCheck, ...]]] = {
    _Wrapper.BOOLEAN: (pa.types.is_boolean,),
    _Wrapper.INT: (_is_integer, pa.types.is_floating, pa.types.is_time32, pa.types.is_date32),
    _Wrapper.LONG: (_is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_time64),
    _Wrapper.FLOAT: (pa.types.is_floating,),
    _Wrapper.DOUBLE: (pa.types.is_float64,),
    _Wrapper.BYTES: (_is_bytes, _is_text),
    _Wrapper.STRING: (_is_text, _is_bytes),
    _Wrapper.DATE: (pa.types.is_date32,),
    _Wrapper.DECIMAL: (pa.types.is_decimal,),
    _Wrapper.TIME_MICROS: (pa.types.is_time64,),
    _Wrapper.TIMESTAMP_MICROS: (pa.types.is_timestamp,),
    _LOCAL_DATE: (pa.types.is_date32,),
}
"""Which columns a wrapper's value can be of: the column's own kind, and what Avro lets a column become."""


def _converted(data: _Bytes, values: _Values, wrapper: _Wrapper, wanted: pa.DataType, place: _Place) -> pa.Array:
    """Values of one wrapper in the wanted type."""
    if wrapper is _Wrapper.NULL:
        return pa.nulls(len(values.kind), wanted)
    at = int(values.at[0])
    if not any(check(wanted) for check in _READABLE_AS[wrapper]):
        raise place.mismatch(at, wrapper.name, wanted)
    try:
        stored = _STORED[wrapper](data, values)
        if wrapper in _LONGS:
            stored = _microseconds(stored, wanted)
        # An integer column that became a floating one is rounded in base files, too.
        return stored.cast(wanted, safe=not pa.types.is_floating(wanted))
    except pa.ArrowInvalid as cause:
        raise place.mismatch(at, wrapper.name, wanted, str(cause)) from cause


def _microseconds(longs: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Times are stored in microseconds, whatever the unit of the column."""
    if pa.types.is_timestamp(wanted):
        return longs.cast(pa.timestamp(_MICROSECONDS, wanted.tz))
    return longs.cast(pa.time64(_MICROSECONDS)) if pa.types.is_time64(wanted) else longs


def _booleans(data: _Bytes, values: _Values) -> pa.Array:
    return pa.array(data[values.start] == 1)


def _int32s(_: _Bytes, values: _Values) -> pa.Array:
    return pa.array(values.number.astype(np.int32))


def _int64s(_: _Bytes, values: _Values) -> pa.Array:
    return pa.array(values.number)


def _floats(data: _Bytes, values: _Values) -> pa.Array:
    return pa.array(_gather(data, values.start, 4).view("<f4").reshape(-1))


def _doubles(data: _Bytes, values: _Values) -> pa.Array:
    return pa.array(_gather(data, values.start, 8).view("<f8").reshape(-1))


def _binaries(data: _Bytes, values: _Values) -> pa.Array:
    return _slices(data, values.start, values.end)


def _gather(data: _Bytes, start: _Numbers, width: int) -> _Bytes:
    """`width` bytes from each place, of shape `[places, width]`."""
    return np.ascontiguousarray(data[start[:, np.newaxis] + np.arange(width)])


def _decimals(data: _Bytes, values: _Values) -> pa.Array:
    """From big-endian two's complement of any length to Arrow's 32 bytes, little-endian."""
    length = values.end - values.start
    if not ((length >= 1) & (length <= _DECIMAL_BYTES)).all():
        raise pa.ArrowInvalid("a decimal of no byte, or of more than 32")
    sign = np.where(data[values.start] >= 0x80, 0xFF, 0).astype(np.uint8)
    digits = np.repeat(sign[:, np.newaxis], _DECIMAL_BYTES, axis=1)
    for n in range(int(length.max())):
        rows = np.flatnonzero(length > n)
        digits[rows, n] = data[values.end[rows] - 1 - n]
    return pa.Array.from_buffers(_DECIMAL, len(length), [None, pa.py_buffer(digits)])


_STORED: Final[dict[_Wrapper, Callable[[_Bytes, _Values], pa.Array]]] = {
    _Wrapper.BOOLEAN: _booleans,
    _Wrapper.INT: _int32s,
    _Wrapper.LONG: _int64s,
    _Wrapper.FLOAT: _floats,
    _Wrapper.DOUBLE: _doubles,
    _Wrapper.BYTES: _binaries,
    _Wrapper.STRING: _binaries,
    _Wrapper.DATE: _int32s,
    _Wrapper.DECIMAL: _decimals,
    _Wrapper.TIME_MICROS: _int64s,
    _Wrapper.TIMESTAMP_MICROS: _int64s,
    _LOCAL_DATE: _int32s,
}
"""From a wrapper's bytes to values in a type that casts to any column that it may be of."""


def _slices(data: _Bytes, start: _Numbers, end: _Numbers) -> pa.Array:
    """The bytes between places that ascend and do not overlap.

    One array over all of `data` whose entries are the wanted ranges and the gaps between them in turn: Arrow then
    copies the wanted ones.
    """
    offsets = np.column_stack((start, end)).astype(np.int32).reshape(-1)
    if len(offsets) == 0:
        return pa.array([], pa.binary())
    entries = len(offsets) - 1
    ranges = pa.Array.from_buffers(pa.binary(), entries, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return ranges.take(pa.array(np.arange(0, entries, 2)))


# ----- encoding ------------------------------------------------------------------------------------------------------


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
        ordering: A column per ordering field. A null in a single one, and 0 in a single one of at most 32 bits, make
            a delete by commit time: Hudi's format has no other way to say it. Without a column all deletes are that.
        array_wrapper_allowed: Whether several ordering fields can be written. Only readers since Hudi 1.1 (tables of
            version 9) understand them.
        dates_as_ints: Write dates as the number of days since 1970. 1.0.2 and 1.2.0 fail at comparing dates in wrappers
            of their own with those of rows; 0.15.0 writes them so.

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
        raise RecordKeyError("a record without a key cannot be deleted", count=record_keys.null_count)
    if len(ordering) > 1 and not array_wrapper_allowed:
        raise UnsupportedFeatureError("deletes by several ordering fields need a table of version 9")
    count = len(record_keys)
    pieces: list[Any] = [_varints(np.array([count]))[0].as_py()] if count else []
    for at in range(0, count, _ROWS_PER_STEP):
        step = slice(at, at + _ROWS_PER_STEP)
        values = [each[step] for each in ordering]
        pieces.append(_encoded_records(record_keys[step], partition_paths[step], values, dates_as_ints))
    pieces.append(b"\0")
    size = sum(len(memoryview(piece)) for piece in pieces)
    if size > CONTENT_BYTES_MAX - _PREFIX.size:
        raise InvalidRequestError("a delete block is too large; write several", size=size, records=count)
    return b"".join((_PREFIX.pack(BLOCK_VERSION, size), *pieces))


def _encoded_records(
    keys: pa.Array, partitions: pa.Array, ordering: Sequence[pa.Array], dates_as_ints: bool
) -> pa.Buffer:
    pieces = [b"\2", *_sized(keys.cast(pa.binary())), b"\2", *_sized(partitions.cast(pa.binary()))]
    if not ordering:
        pieces.append(_branch(_Wrapper.INT) + b"\0")
    elif len(ordering) == 1:
        pieces.append(_wrapped(ordering[0], _Wrapper.INT if dates_as_ints else _Wrapper.DATE))
    else:
        count: bytes = _varints(np.array([len(ordering)]))[0].as_py()
        date = _Wrapper.INT if dates_as_ints else _LOCAL_DATE
        elements = (_wrapped(column, date) for column in ordering)
        pieces += (_branch(_Wrapper.ARRAY) + b"\2" + count, *elements, b"\0")
    joined = _joined(*pieces)
    assert joined.null_count == 0, "a record of which something is null"
    first, last = (joined.buffers()[1][4 * n : 4 * n + 4] for n in (joined.offset, joined.offset + len(joined)))
    begin, end = (int.from_bytes(each.to_pybytes(), "little") for each in (first, last))
    return joined.buffers()[2].slice(begin, end - begin)


def _joined(*pieces: pa.Array | bytes) -> pa.Array:
    """The pieces of each row one after the other; null where one of them is."""
    return pc.binary_join_element_wise(*pieces, b"")


def _sized(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Each text's size, and the text."""
    return _varints(pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.int64)), texts


def _branch(wrapper: _Wrapper) -> bytes:
    return bytes((2 * wrapper,))


def _wrapped(column: pa.Array, date: _Wrapper) -> pa.Array:
    """The wrapped values of an ordering column as Hudi wraps them, `date` for dates. Null is the branch null."""
    encoding = next((row[1:] for row in _WRITTEN_AS if row[0](column.type)), None)
    if encoding is None:
        raise SchemaMismatchError(
            "a column of this type cannot order the versions of records in a log", type=str(column.type)
        )
    wrapper, pieces = encoding
    try:
        # Rows that are null may have anything in their pieces.
        values = _joined(_branch(date if wrapper is _Wrapper.DATE else wrapper), *pieces(column))
    except pa.ArrowInvalid as cause:
        raise SchemaMismatchError(
            "the ordering value of a delete cannot be written to a log", type=str(column.type), cause=str(cause)
        ) from cause
    return pc.if_else(column.is_valid(), values, _branch(_Wrapper.NULL))


def _int_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return (_numbers(column.cast(pa.int32())),)


def _long_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return (_numbers(column),)


def _time_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    is_time = pa.types.is_time64(column.type)
    unit = pa.time64(_MICROSECONDS) if is_time else pa.timestamp(_MICROSECONDS, column.type.tz)
    return (_numbers(column.cast(unit)),)


def _fixed_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return (_fixed(column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column),)


def _sized_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return _sized(column.cast(pa.binary()))


def _decimal_pieces(column: pa.Array) -> tuple[pa.Array, ...]:
    return _sized(_decimal_bytes(column.cast(_DECIMAL)))


_WRITTEN_AS: Final[tuple[tuple[_TypeCheck, _Wrapper, Callable[[pa.Array], tuple[pa.Array, ...]]], ...]] = (
    (pa.types.is_boolean, _Wrapper.BOOLEAN, _fixed_pieces),
    (pa.types.is_int64, _Wrapper.LONG, _long_pieces),
    (_is_integer, _Wrapper.INT, _int_pieces),
    (pa.types.is_float32, _Wrapper.FLOAT, _fixed_pieces),
    (pa.types.is_float64, _Wrapper.DOUBLE, _fixed_pieces),
    (_is_text, _Wrapper.STRING, _sized_pieces),
    (_is_bytes, _Wrapper.BYTES, _sized_pieces),
    (pa.types.is_date32, _Wrapper.DATE, _int_pieces),
    (pa.types.is_timestamp, _Wrapper.LONG, _time_pieces),
    (pa.types.is_time32, _Wrapper.INT, _int_pieces),
    (pa.types.is_time64, _Wrapper.TIME_MICROS, _time_pieces),
    (pa.types.is_decimal, _Wrapper.DECIMAL, _decimal_pieces),
)
"""How each type of ordering column is wrapped. The two of times of day are our choice: no Hudi writes them."""


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


def _varints(values: _Numbers) -> pa.Array:
    """Avro's zigzag integers, as binary."""
    values = values.astype(np.int64)
    raw = ((values << 1) ^ (values >> 63)).view(np.uint64)
    digits = np.arange(1, _VARINT_BYTES_MAX, dtype=np.uint64) * np.uint64(7)
    length = 1 + np.searchsorted(np.uint64(1) << digits, raw, side="right")
    bounds = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
    data = np.empty(bounds[-1], dtype=np.uint8)
    rows = np.arange(len(values))
    for place in range(int(length.max(initial=0))):
        rows = rows[length[rows] > place]
        byte = (raw[rows] >> np.uint64(7 * place)).astype(np.uint8) & 0x7F
        data[bounds[rows] + place] = byte | np.where(length[rows] > place + 1, 0x80, 0).astype(np.uint8)
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def _decimal_bytes(column: pa.Array) -> pa.Array:
    """From Arrow's 32 bytes, little-endian, to big-endian two's complement of the least length."""
    stored = np.frombuffer(column.buffers()[1], dtype=np.uint8)[column.offset * _DECIMAL_BYTES :]
    digits = np.ascontiguousarray(stored[: len(column) * _DECIMAL_BYTES].reshape(-1, _DECIMAL_BYTES)[:, ::-1])
    sign = np.where(digits[:, 0] >= 0x80, 0xFF, 0).astype(np.uint8)
    is_digit = digits != sign[:, np.newaxis]
    first = np.where(is_digit.any(axis=1), is_digit.argmax(axis=1), _DECIMAL_BYTES - 1)
    # The first bit must say the sign.
    lead = digits[np.arange(len(digits)), first]
    first -= (lead ^ sign) >= 0x80
    ends = (np.arange(len(digits)) + 1) * _DECIMAL_BYTES
    return _slices(digits.reshape(-1), ends - _DECIMAL_BYTES + first, ends)
