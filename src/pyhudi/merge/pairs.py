"""Comparison of record versions: which rows belong to one record, and which version is above the others.

All functions work on whole Arrow columns. Ordering values compare as in Java: null is below all values, `-0.0` below
`0.0`, and NaN above all numbers. Text and bytes compare by unsigned bytes, as Spark compares strings. Java's string
order differs only between characters beyond U+FFFF and those from U+E000 on.
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
"""One sort key of rows."""


_NARROW_OFFSETS_MAX = 2**31 - 1


def newest_versions(identity: Sequence[Column], ordering: Sequence[Column]) -> Rows:
    """Row numbers of one version per record, ascending.

    Rows with equal `identity` columns are versions of one record. The version with the largest `ordering` values wins,
    compared column by column. Of versions with equal values, or without ordering columns, the last row wins.

    Raises:
        SchemaMismatchError: an ordering column has a type without an order.
    """
    records, count = record_numbers(identity)
    if count == len(records):
        return np.arange(len(records), dtype=np.int64)
    order, starts = grouped(records, count, ordering_keys(ordering))
    return np.sort(order[starts[1:] - 1])


def incoming_wins(incoming: Sequence[Column], stored: Sequence[Column], length: int) -> Mask:
    """For each pair of an incoming and a stored version, whether the incoming version wins.

    `incoming` and `stored` are the ordering columns of both sides, row by row. Without columns (commit-time ordering)
    the incoming version always wins; with columns, it wins unless its values are smaller. Null is below all values.

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
    """A record number for each row, from 0 in order of first appearance, and the number of records."""
    numbers, count = _encoded(identity[0])
    for column in identity[1:]:
        part, size = _encoded(column)
        numbers, count = _encoded(pa.array(numbers * max(size, 1) + part))
    return numbers, count


def grouped(records: Rows, count: int, keys: Sequence[Key]) -> tuple[Rows, Rows]:
    """Sort rows by record, then by `keys` (the first is the major key), then by row number.

    Returns the sorted row numbers, and the offsets at which the rows of each record begin, with the end of the last
    record. Cost: a sort of the rows of records with several rows.
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
    """Integer arrays that order rows as the ordering columns do; the first array is the major key.

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
    """Concatenate both columns, in a common type. The type of the upper column is preferred.

    Raises:
        SchemaMismatchError: the types do not compare, or a value cannot be converted.
    """
    if pa.types.is_null(upper.type):
        upper = upper.cast(lower.type)
    if lower.type != upper.type:
        upper, lower = _alike(upper, lower)
    chunks = [*_chunks(upper), *_chunks(lower)]
    return pa.chunked_array(chunks, upper.type)


def choose(condition: Mask, if_true: Column, if_false: Column) -> Column:
    """Row by row, the value of one of two columns of the same length and type. Types may be nested."""
    if condition.all():
        return if_true
    if not condition.any():
        return if_false
    length = len(condition)
    rows = np.arange(length, dtype=np.int64) + np.where(condition, 0, length)
    return pa.chunked_array([*_chunks(if_true), *_chunks(if_false)], if_true.type).take(pa.array(rows))


def flattened(column: Column) -> pa.Array:
    """The column as one array, with its dictionary decoded."""
    array = _joined(column)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _joined(column: Column) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    kind = column.type
    if column.nbytes > _NARROW_OFFSETS_MAX and (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        # Text of more than 2 GiB needs 64-bit offsets.
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
    """A value number for each row, in order of first appearance, and the number of values. Null counts as a value."""
    encoded = _joined(column)
    if pa.types.is_dictionary(encoded.type):
        # The dictionary may hold unused or repeated values, so it is encoded, too.
        values = encoded.dictionary.dictionary_encode(null_encoding="encode").indices
        encoded = values.take(encoded.indices)
    encoded = encoded.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _integers(array: pa.Array) -> Rows:
    """Numbers that compare as the values do; nulls get an arbitrary number."""
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
    """IEEE 754 bits, inverted for negative numbers, so that they compare as in `Double.compare`."""
    floats = (array.fill_null(0.0) if array.null_count else array).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(floats), np.nan, floats).view(np.int64)
    return np.asarray(np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits))


def _ranks(array: pa.Array) -> Rows:
    """The rank of each value among the sorted distinct values."""
    try:
        encoded = array.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as cause:
        raise SchemaMismatchError(
            "a column of this type has no order; choose another ordering field", type=str(array.type)
        ) from cause
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    indices = encoded.indices
    indices = indices.fill_null(0) if indices.null_count else indices
    rows = indices.to_numpy(zero_copy_only=False)
    return ranks[rows] if len(ranks) else np.zeros(len(array), dtype=np.int64)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind)) and not pa.types.is_interval(kind)


def _alike(upper: Column, lower: Column) -> tuple[Column, Column]:
    """Both columns in a common type that loses nothing: that of the upper column, or else that of the lower."""
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
        "the ordering values of two versions have types that do not compare; write the column with one type",
        type=str(upper.type),
        other=str(lower.type),
    )


def _decoded(column: Column) -> Column:
    return flattened(column) if pa.types.is_dictionary(column.type) else column


def _kind(kind: pa.DataType) -> str:
    """The kind of a type. Only types of one kind compare."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "instant"
    return "date" if pa.types.is_date(kind) else str(kind)
