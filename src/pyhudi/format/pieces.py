"""Cutting rows into pieces of limited memory: the bytes of each row, and where to cut.

A row may take one byte or 100 MB, so a number of rows is not a memory limit. In addition, Arrow's arrays of text and
lists are limited to 2 GiB, so code that joins arrays or takes rows from them must work piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedFeatureError

PIECE_BYTES: Final = 64 << 20
"""The size limit of a piece; a single row may be larger."""

ARRAY_BYTES_MAX: Final = 2**31 - 1
"""What an array of text, bytes or lists holds in Arrow."""
Sizes = npt.NDArray[np.int64]


def row_bytes(rows: pa.RecordBatch | pa.Table) -> Sizes:
    """The approximate bytes of each row in Arrow, counting dictionary values at full length."""
    sizes = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        if isinstance(column, pa.ChunkedArray):
            parts = [_sizes(chunk) for chunk in column.chunks]
            sizes += np.concatenate(parts) if parts else 0
        else:
            sizes += _sizes(column)
    return sizes


def cuts(sizes: Sizes, limit: int = PIECE_BYTES) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows of up to `limit` bytes each, or of a single row."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield start, end
        start = end


def runs(values: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of equal values."""
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], len(values) > 0)) + 1
    return pairwise([0, *ends.tolist()])


def meetings(at: Sizes, sizes: Sizes, rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut rows together with changes to them: ranges of rows, and of the changes that apply to them.

    Change `i` takes `sizes[i]` bytes and applies to row `at[i]`, in ascending order. The changes of a piece take up to
    `PIECE_BYTES`, or are a single change.
    """
    begin = 0
    for low, high in cuts(sizes) if len(at) else [(0, 0)]:
        end = int(at[high]) if high < len(at) else rows
        yield begin, end, low, high
        begin = end


def is_one_piece(rows: pa.RecordBatch | pa.Table, limit: int = PIECE_BYTES) -> bool:
    """Whether all rows together take up to `limit` bytes, also when they are copied. Looks at no row."""
    return rows.nbytes <= limit and not any(_may_grow(field.type) for field in rows.schema)


def in_pieces(batch: pa.RecordBatch, limit: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, in pieces of up to `limit` bytes that share its memory."""
    if is_one_piece(batch, limit):
        yield batch
        return
    for start, end in cuts(row_bytes(batch), limit):
        yield batch.slice(start, end - start)


def one_batch(rows: pa.Table) -> pa.RecordBatch:
    """The rows of a table as one batch.

    Raises:
        UnsupportedFeatureError: one column exceeds the size limit of an Arrow array.
    """
    if any(_has_offsets(column.type) and column.nbytes > ARRAY_BYTES_MAX for column in rows.columns):
        raise _too_large(rows)
    try:
        batches = rows.combine_chunks().to_batches()
    except pa.ArrowInvalid as cause:
        raise _too_large(rows) from cause
    if len(batches) > 1:
        raise _too_large(rows)
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def take_rows(table: pa.Table, numbers: Sizes) -> pa.RecordBatch:
    """Take rows of a table by their numbers, in this order, without joining the table's chunks.

    Raises:
        UnsupportedFeatureError: one column of these rows exceeds the size limit of an Arrow array.
    """
    batches = table.to_batches()
    if len(batches) == 1:
        return _rows_of(batches[0], numbers)
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    pieces: list[pa.RecordBatch] = []
    start = 0
    for batch in batches:
        first, last = np.searchsorted(ordered, [start, start + batch.num_rows])
        if first < last:
            pieces.append(_rows_of(batch, ordered[first:last] - start))
        start += batch.num_rows
    taken = pieces[0] if len(pieces) == 1 else one_batch(pa.Table.from_batches(pieces, table.schema))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return taken if np.array_equal(place, np.arange(len(order))) else taken.take(pa.array(place))


def _rows_of(batch: pa.RecordBatch, numbers: Sizes) -> pa.RecordBatch:
    """Rows by their numbers, in this order. A run of rows shares the memory of the batch."""
    first, count = int(numbers[0]) if len(numbers) else 0, len(numbers)
    is_run = bool(np.all(numbers == np.arange(first, first + count)))
    return batch.slice(first, count) if is_run else batch.take(pa.array(numbers))


def reordered(table: pa.Table, numbers: Sizes) -> pa.Table:
    """Rows of a table by their numbers, in this order. Unlike those of `take_rows`, they may exceed an Arrow array.

    Raises:
        UnsupportedFeatureError: one row exceeds the size limit of an Arrow array.
    """
    # To take from a column Arrow joins its chunks.
    if not any(_has_offsets(column.type) and column.nbytes > ARRAY_BYTES_MAX for column in table.columns):
        return table.take(pa.array(numbers))
    sizes = row_bytes(table)[numbers]
    return pa.Table.from_batches([take_rows(table, numbers[low:high]) for low, high in cuts(sizes)], table.schema)


@contextmanager
def within_arrays(rows: pa.Table) -> Iterator[None]:
    """Explain failures of Arrow that are due to its size limit of arrays.

    Raises:
        UnsupportedFeatureError: Arrow failed, and the rows exceed the limit.
    """
    try:
        yield
    except pa.ArrowInvalid as cause:
        if rows.nbytes <= ARRAY_BYTES_MAX:
            raise
        raise _too_large(rows) from cause


def _too_large(rows: pa.Table) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        "one column of the rows that must be in memory together takes more than 2 GiB: write fewer rows at a time, "
        "or make file groups smaller (hoodie.parquet.max.file.size)",
        rows=rows.num_rows,
        bytes=rows.nbytes,
    )


def _has_offsets(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_nested(kind))


def _may_grow(kind: pa.DataType) -> bool:
    """Whether values take more memory when copied: dictionaries, and views of shared bytes."""
    if pa.types.is_dictionary(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        return _may_grow(kind.storage_type)
    return kind.num_fields > 0 and any(_may_grow(kind.field(number).type) for number in range(kind.num_fields))


def _sizes(array: pa.Array) -> Sizes:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        sizes = _sizes(array.storage)
    elif pa.types.is_dictionary(kind):
        sizes = np.append(_sizes(array.dictionary), 0)[_numbers(pc.fill_null(array.indices.cast(pa.int64()), -1))]
    elif pa.types.is_struct(kind):
        sizes = sum((_sizes(array.field(number)) for number in range(kind.num_fields)), _each(array, 1))
    elif pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes = _sizes_of_lists(array)
    elif pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        words = np.frombuffer(array.buffers()[1], dtype=np.int32).reshape(-1, 4)
        lengths = words[array.offset : array.offset + len(array), 0]
        sizes = 16 + np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0).astype(np.int64)
    elif _has_lengths(kind):
        lengths = pc.binary_length(array)
        sizes = 4 + _numbers(lengths.fill_null(0) if array.null_count else lengths)
    else:
        sizes = _each(array, -(-array.nbytes // max(1, len(array))))
    return sizes


def _numbers(array: pa.Array) -> Sizes:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.int64)


def _has_lengths(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _sizes_of_lists(array: pa.Array) -> Sizes:
    offsets = _numbers(array.offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    if pa.types.is_map(array.type):
        # The children of a sliced map are those of the whole map.
        elements = _sizes(array.keys.slice(first, last - first)) + _sizes(array.items.slice(first, last - first))
    else:
        elements = _sizes(array.values.slice(first, last - first))
    ends = np.append(np.zeros(1, dtype=np.int64), np.cumsum(elements))
    return 4 + np.diff(ends[offsets - first])


def _each(array: pa.Array, size: int) -> Sizes:
    return np.full(len(array), size, dtype=np.int64)
