"""Writing Parquet row group by row group, with encodings and statistics chosen per row group.

pyarrow fixes these choices for a whole file. Where a later row group needs others, a second writer continues the file,
and the footers are joined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.format.metadata_table.ranges import Range
from pyhudi.format.parquet.footer import MAGIC, TAIL, with_values
from pyhudi.io.column_ranges import RangesOfRows

DICTIONARY_BYTES_MIN = 1 << 12
"""Arrow bytes of the first row group from which on dictionaries are made: in a smaller one they save nothing, and take
longer to write and to read than its values."""
DICTIONARY_SAMPLE_ROWS = 2_000
DICTIONARY_DISTINCT_MAX = 0.8
"""Share of distinct values in the sample up to which a column is encoded by a dictionary."""
WIDE_VALUE_BYTES = 1 << 20
"""From this average on values are neither put into a dictionary nor into statistics. Arrow gives up a dictionary of
this size, and leaves such bounds out, but not before it has made several copies of the values."""
_SKIP_BYTES = 1 << 20
_GATHERED_BYTES = 1 << 16
"""Smaller pieces of a file are gathered before they are written: Arrow writes a file of a few rows in some forty."""
_NEGATIVE_ZERO = {
    pa.float32(): (pa.int32(), int(np.iinfo(np.int32).min)),
    pa.float64(): (pa.int64(), int(np.iinfo(np.int64).min)),
}
"""The bits of -0.0, as an integer of a type."""


class RowGroupWriter:
    """Writes tables of one schema as the row groups of a Parquet file. The sink stays open.

    Two kinds of floating-point values need care. Statistics leave NaN out, so a reader that sorts NaN above all
    numbers, or searches for values other than a number, would skip it: a column chunk with NaN has no statistics. And
    JVM readers look 0.0 up in dictionaries by its bits, which differ from those of -0.0: a column chunk with -0.0 has
    no dictionary. Chunks of wide values have neither.
    """

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: pa.Schema, *, codec: str, page_size: int) -> None:
        self._sink, self._schema = _SharedSink(sink), schema
        self._codec, self._page_size = codec, page_size
        self._parts: list[pq.ParquetWriter] = []
        self._streams: list[pa.BufferedOutputStream] = []  # of each part
        self._by_dictionary: set[str] = set()
        self._with_nan: set[str] = set()
        self._wide: set[str] = set()
        self._unlisted = RangesOfRows(field.name for field in schema if pa.types.is_floating(field.type))

    def write(self, rows: pa.Table) -> None:
        """Write rows as a row group."""
        with_nan, with_negative_zero = float_pitfalls(rows)
        wide = wide_columns(rows)
        if not self._parts:
            narrow = rows.select([name for name in rows.column_names if name not in wide])
            self._by_dictionary = dictionary_columns(narrow)
        if not self._parts or {*with_nan, *wide} - self._unbounded or with_negative_zero & self._by_dictionary:
            self._with_nan |= with_nan
            self._wide |= wide
            self._by_dictionary -= {*with_negative_zero, *wide}
            self._begin_part()
        if self._with_nan:
            self._unlisted.add(rows.select([name for name in rows.column_names if name in self._with_nan]))
        self._parts[-1].write_table(rows, row_group_size=rows.num_rows)
        self._streams[-1].flush()

    @property
    def _unbounded(self) -> set[str]:
        """Parquet paths of the columns without statistics."""
        return self._with_nan | self._wide

    @property
    def unlisted(self) -> Mapping[str, Range]:
        """The ranges of columns in those row groups that have no statistics of them, by column."""
        return {range_.column: range_ for range_ in self._unlisted.ranges()}

    def close(self, metadata: Mapping[str, str]) -> pq.FileMetaData:
        """Write the footer with these pairs of keys and values, and return it without them."""
        if not self._parts:
            self._begin_part()
        self._streams[-1].flush()  # of a file without row groups, its first bytes
        with self._sink.silent():
            for part, stream in zip(self._parts, self._streams, strict=True):
                part.close()
                stream.flush()
        first, *others = (part.writer.metadata for part in self._parts)
        for footer in others:
            first.append_row_groups(footer)
        plain = pa.BufferOutputStream()
        first.write_metadata_file(plain)
        data = plain.getvalue()[len(MAGIC) : -TAIL.size].to_pybytes()
        self._sink.write(with_values(data, metadata, created_by=first.created_by))
        return first

    def forget(self) -> None:
        """Abandon the file: otherwise finalisers would write gathered pieces and a footer into a closed sink."""
        self._sink.is_silent = True
        for part in self._parts:
            part.is_open = False

    def _begin_part(self) -> None:
        statistics: bool | list[str] = True
        if unbounded := self._unbounded:
            paths = [path for field in self._schema for path, _ in _leaves(pa.array([], field.type), field.name)]
            statistics = [path for path in paths if path not in unbounded]
        stream, begin = (
            pa.BufferedOutputStream(pa.PythonFile(self._sink, mode="w"), _GATHERED_BYTES),
            self._sink.written,
        )
        with self._sink.silent(begin > 0):
            part = pq.ParquetWriter(
                stream,
                self._schema,
                compression=self._codec,
                data_page_size=self._page_size,
                use_dictionary=list(self._by_dictionary),
                write_statistics=statistics,
                store_schema=False,
                write_page_checksum=True,
            )
            if begin:
                # Offsets in a footer are those that the writer's stream has counted: with the bytes of other writers.
                for start in range(len(MAGIC), begin, _SKIP_BYTES):
                    stream.write(bytes(min(_SKIP_BYTES, begin - start)))
                stream.flush()
        self._parts.append(part)
        self._streams.append(stream)


class _SharedSink:
    """A sink that several Parquet writers use in turn; only the first writes the header, and only one the footer."""

    closed = False

    def __init__(self, sink: IO[bytes] | pa.NativeFile) -> None:
        self._sink = sink
        self.is_silent = False
        self.written = 0

    @contextmanager
    def silent(self, is_silent: bool = True) -> Iterator[None]:
        """Discard what is written in the block."""
        self.is_silent = is_silent
        try:
            yield
        finally:
            self.is_silent = False

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if not self.is_silent:
            self._sink.write(data)
            self.written += size
        return size

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Does nothing: the sink has no buffer."""

    def close(self) -> None:
        """Does nothing: the caller owns the sink."""


def wide_columns(rows: pa.Table) -> set[str]:
    """Parquet paths of the columns whose values take `WIDE_VALUE_BYTES` on average, at any depth."""
    if rows.get_total_buffer_size() < WIDE_VALUE_BYTES:
        return set()
    return {
        path
        for field, column in zip(rows.schema, rows.columns, strict=True)
        if column.nbytes >= WIDE_VALUE_BYTES * max(1, len(column))
        for chunk in column.chunks
        for path, values in _leaves(chunk, field.name)
        if values.nbytes >= WIDE_VALUE_BYTES * max(1, len(values))
    }


def dictionary_columns(first: pa.Table) -> set[str]:
    """Parquet paths of the columns to encode by a dictionary: those whose values repeat all over the first row group.

    A dictionary of values that do not repeat costs more than writing them, and saves nothing. Values that repeat in
    neighbouring rows only, as in sorted columns, compress well, and better than with a large dictionary. So the sample
    has rows that are far apart.
    """
    if first.nbytes < DICTIONARY_BYTES_MIN:
        return set()
    step = max(1, first.num_rows // DICTIONARY_SAMPLE_ROWS)
    sample = first.take(pa.array(np.arange(0, first.num_rows, step)[:DICTIONARY_SAMPLE_ROWS])) if step > 1 else first
    return {
        path
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if _repeats(column)
        for path, _ in _leaves(pa.array([], field.type), field.name)
    }


def _repeats(column: pa.ChunkedArray) -> bool:
    if pa.types.is_nested(column.type) or pa.types.is_dictionary(column.type):
        return True
    return bool(pc.count_distinct(column).as_py() <= max(16, len(column) * DICTIONARY_DISTINCT_MAX))


def float_pitfalls(rows: pa.Table) -> tuple[set[str], set[str]]:
    """Parquet paths of the columns with NaN, and of those with -0.0, at any depth."""
    with_nan, with_negative_zero = set(), set()
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if not (pa.types.is_floating(field.type) or pa.types.is_nested(field.type)):
            continue
        for path, values in (leaf for chunk in column.chunks for leaf in _leaves(chunk, field.name)):
            zero = _NEGATIVE_ZERO.get(values.type)
            if zero is None:
                continue
            if pc.any(pc.is_nan(values)).as_py():
                with_nan.add(path)
            if pc.any(pc.equal(values.view(zero[0]), zero[1])).as_py():
                with_negative_zero.add(path)
    return with_nan, with_negative_zero


def _leaves(values: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    """The Parquet columns of an Arrow column: path and values, including values below a null."""
    kind = values.type
    if pa.types.is_struct(kind):
        for number, child in enumerate(kind):
            yield from _leaves(values.field(number), f"{path}.{child.name}")
    elif pa.types.is_map(kind):
        yield from _leaves(values.keys, f"{path}.key_value.key")
        yield from _leaves(values.items, f"{path}.key_value.value")
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(values.values, f"{path}.list.element")
    else:
        yield path, values
