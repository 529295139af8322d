"""How versions of records compare: which rows are one record, and which of its versions is above the others.

Everything here works on whole Arrow columns. Ordering values compare as Java compares them: null is below everything,
`-0.0` below `0.0`, and NaN above all numbers. Text and bytes compare by unsigned bytes, which is Spark's order of
strings; Java's own differs only where characters beyond U+FFFF meet those from U+E000 on.

Source: `format/logs-and-indexes.md` 1.5; mission rows S1-28, S2-43.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import SchemaMismatchError

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Key: TypeAlias = "Mask | Rows"
"""What rows are sorted by."""


_NARROW_OFFSETS_MAX = 2**31 - 1


def newest_versions(identity: Sequence[Column], ordering: Sequence[Column]) -> Rows:
    """Row numbers of one version per record, ascending.

    Rows with equal `identity` columns are versions of one record. The version with the largest `ordering` values stays
    (compared column by column); of equal ones the last in row order, as with no ordering.

    Raises:
        SchemaMismatchError: an ordering column has a type without an order.
    """
    records, count = record_numbers(identity)
    if count == len(records):
        return np.arange(len(records), dtype=np.int64)
    order, starts = grouped(records, count, ordering_keys(ordering))
    return np.sort(order[starts[1:] - 1])


def incoming_wins(incoming: Sequence[Column], stored: Sequence[Column], length: int) -> Mask:
    """For each pair of an incoming and a stored version, whether the incoming one stays.

    `incoming` and `stored` hold the ordering columns of both sides, row by row. Without columns (commit-time ordering)
    the incoming version always stays; with them, unless its values are smaller. Null is below everything.

    Raises:
        SchemaMismatchError: the two sides have types that do not compare.
    """
    wins = np.ones(length, dtype=bool)
    undecided = np.ones(length, dtype=bool)
    both = [stacked(new, old) for new, old in zip(incoming, stored, strict=True)]
    for key in ordering_keys(both):
        new, old = key[:length], key[length:]
        wins[undecided & (new < old)] = False
        undecided &= new == old
    return wins


def record_numbers(identity: Sequence[Column]) -> tuple[Rows, int]:
    """The number of each row's record, in order of first appearance from 0, and how many records there are."""
    numbers, count = _encoded(identity[0])
    for column in identity[1:]:
        part, size = _encoded(column)
        numbers, count = _encoded(pa.array(numbers * max(size, 1) + part))
    return numbers, count


def grouped(records: Rows, count: int, keys: Sequence[Key]) -> tuple[Rows, Rows]:
    """The rows by record, within one by `keys` (the first decides first), equal ones in row order.

    Returns the row numbers, and where each record's rows begin among them, with the end of the last. Costs a sort of
    those rows only whose record has several.
    """
    sizes = np.bincount(records, minlength=count)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    is_single = sizes[records] == 1
    order = np.empty(len(records), dtype=np.int64)
    order[starts[records[is_single]]] = np.flatnonzero(is_single)
    repeated = np.flatnonzero(~is_single)
    by_key = np.lexsort([*(key[repeated] for key in reversed(keys)), records[repeated]])
    order[np.repeat(sizes > 1, sizes)] = repeated[by_key]
    return order, starts


def ordering_keys(columns: Sequence[Column]) -> list[Key]:
    """Arrays of integers that compare, one after the other, as the rows of the ordering columns do.

    Raises:
        SchemaMismatchError: a column has a type without an order.
    """
    keys: list[Key] = []
    for column in columns:
        flat = flattened(column)
        if flat.null_count:
            keys.append(_mask(flat.is_valid()))
        keys.append(_integers(flat))
    return keys


def stacked(upper: Column, lower: Column) -> pa.ChunkedArray:
    """The values of both columns, one below the other, where their types compare: the upper one's is preferred.

    Raises:
        SchemaMismatchError: the types are of different kinds, or a value does not survive the change.
    """
    if pa.types.is_null(upper.type):
        upper = upper.cast(lower.type)
    if lower.type != upper.type:
        upper, lower = _alike(upper, lower)
    chunks = [*_chunks(upper), *_chunks(lower)]
    return pa.chunked_array(chunks, upper.type)


def choose(condition: Mask, if_true: Column, if_false: Column) -> Column:
    """Row by row, the value of the one or the other column; both have one length and one type, nested or not."""
    if condition.all():
        return if_true
    if not condition.any():
        return if_false
    length = len(condition)
    rows = np.arange(length, dtype=np.int64) + np.where(condition, 0, length)
    return pa.chunked_array([*_chunks(if_true), *_chunks(if_false)], if_true.type).take(pa.array(rows))


def flattened(column: Column) -> pa.Array:
    """The column as one array, its dictionary decoded."""
    array = _joined(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _joined(column: Column) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    kind = column.type
    if column.nbytes > _NARROW_OFFSETS_MAX and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        # More text than this needs wide offsets.
        column = column.cast(pa.large_string() if pa.types.is_string(kind) else pa.large_binary())
    return column.combine_chunks()


def as_mask(column: Column) -> Mask:
    """A boolean column as numpy's; null is false."""
    return _mask(flattened(column.fill_null(False) if column.null_count else column))


def _mask(array: pa.Array) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)


def _chunks(column: Column) -> list[pa.Array]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _encoded(column: Column) -> tuple[Rows, int]:
    """The number of each row's value, in order of first appearance, and how many values there are; null is one."""
    encoded = _joined(column)
    if pa.types.is_dictionary(encoded.type):
        # The dictionary may hold values that no row has, or twice: only its own encoding counts.
        values = encoded.dictionary.dictionary_encode(null_encoding="encode").indices
        encoded = values.take(encoded.indices)
    encoded = encoded.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _integers(array: pa.Array) -> Rows:
    """Numbers that compare as the values do; any number where there is none."""
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), dtype=np.int64)
    if pa.types.is_floating(kind):
        return _float_integers(array.cast(pa.float64()))
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    if (pa.types.is_integer(array.type) and kind != pa.uint64()) or pa.types.is_boolean(kind) or _is_time(kind):
        numbers = array.cast(pa.int64())
        numbers = numbers.fill_null(0) if numbers.null_count else numbers
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.int64)
    return _ranks(array)


def _float_integers(array: pa.Array) -> Rows:
    """The bits of IEEE 754, those of negative numbers turned, so that they compare as `Double.compare` does."""
    floats = (array.fill_null(0.0) if array.null_count else array).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
    return np.asarray(np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits))


def _ranks(array: pa.Array) -> Rows:
    """The place of each value among the sorted distinct ones."""
    try:
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as cause:
        raise SchemaMismatchError(
            "a column of this type has no order; name another ordering field", type=str(array.type)
        ) from cause
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    places = encoded.indices
    places = places.fill_null(0) if places.null_count else places
    rows = places.to_numpy(zero_copy_only=False)
    return ranks[rows] if len(ranks) else np.zeros(len(array), dtype=np.int64)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def _alike(upper: Column, lower: Column) -> tuple[Column, Column]:
    """Both columns with one type that loses nothing: the upper one's, else the lower one's."""
    upper, lower = (_decoded(column) for column in (upper, lower))
    if upper.type == lower.type:
        return upper, lower
    if pa.types.is_null(lower.type) or _kind(upper.type) == _kind(lower.type):
        for first, second in ((lower, upper), (upper, lower)):
            try:
                changed = first.cast(second.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
            return (upper, changed) if first is lower else (changed, lower)
    raise SchemaMismatchError(
        "the ordering values of two versions have types that do not compare; write them with one type",
        type=str(upper.type),
        other=str(lower.type),
    )


def _decoded(column: Column) -> Column:
    return flattened(column) if pa.types.is_dictionary(column.type) else column


def _kind(kind: pa.DataType) -> str:
    """Types of one kind compare; those of different kinds would only by a guess at what was meant."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "instant"
    return "date" if pa.types.is_date(kind) else str(kind)
