"""The rows of the base file of a slice, also where a bootstrap left its columns in a file of the source.

Row `i` of a skeleton file and row `i` of its source file are one record. Nothing is filtered on either side, as that
would shift the rows against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.keys.partition_paths import typed_value
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.base_file import (
    READ_BATCH_ROWS,
    OpenedFile,
    batches_of,
    opened_base_file,
    read_batches,
    row_group_ends,
)
from pyhudi.io.slices.files import SliceFiles, SourceFile
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FileInfo, Storage

DIVIDED_FROM_BYTES: Final = 8 * 1024 * 1024
"""The size of a source file from which on its footer is worth a request of its own."""
ROWS_PER_PART: Final = 128 * 1024
"""The rows of a large source file that have row groups of their own in its skeleton, at least."""
_PARTS_MAX: Final = 64
"""Parts of a file at most, as each reads its footer, which grows with the file."""
_META = frozenset(META_COLUMNS)


def read_base_rows(
    storage: Storage,
    files: SliceFiles,
    schema: pa.Schema,
    *,
    batch_rows: int = READ_BATCH_ROWS,
    rows: range | None = None,
    opened: OpenedFile | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of the base file of a slice, which has one, with the columns of `schema` that it has, in its order.

    `rows`: which ones, by `row_ranges`; None for all. `opened`: the base file, if the caller has it open. The types are
    those of the file. Columns that the source has only in the names of its folders have the types of `schema`. Cost:
    the wanted columns; of a skeleton and its source only the one that has wanted columns is opened, and one more
    request for the source. Memory: see `read_batches`.

    Raises:
        CorruptDataError: a file is damaged; or the source is gone, or is not what it was at the bootstrap.
    """
    names = files.names_in_base
    if names is None:
        yield from _stored_rows(storage, files, schema, batch_rows, rows, opened)
        return
    stored = pa.schema([field.with_name(name) for field in schema if (name := names.stored(field.name)) is not None])
    for batch in _stored_rows(storage, files, stored, batch_rows, rows, opened):
        today = names.of_today(batch)
        present = set(today.schema.names)
        yield today.select([name for name in schema.names if name in present])
        del batch, today


def _stored_rows(
    storage: Storage,
    files: SliceFiles,
    schema: pa.Schema,
    batch_rows: int,
    rows: range | None,
    opened: OpenedFile | None,
) -> Iterator[pa.RecordBatch]:
    """The rows under the names of the file."""
    base = files.base
    assert base is not None

    def read(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if opened is not None:
            return batches_of(opened, base, columns=columns, batch_rows=batch_rows, rows=rows)
        return read_batches(storage, base, columns=columns, batch_rows=batch_rows, rows=rows)

    if files.source is None:
        yield from read(schema.names)
        return
    meta = [name for name in schema.names if name in META_COLUMNS]
    others = pa.schema([field for field in schema if field.name not in META_COLUMNS])
    if not len(others):
        yield from read(meta)
        return
    source = read_source_rows(files.source, base, others, batch_rows=batch_rows, rows=rows)
    if not meta:
        yield from source
        return
    for left, right in _side_by_side(read(meta), source, base, files.source):
        names = [*left.schema.names, *right.schema.names]
        present = set(names)
        yield pa.RecordBatch.from_arrays([*left.columns, *right.columns], names=names).select(
            [name for name in schema.names if name in present]
        )


def read_source_rows(
    source: SourceFile,
    base: str,
    schema: pa.Schema,
    *,
    batch_rows: int = READ_BATCH_ROWS,
    rows: range | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a file of the source; otherwise like `read_base_rows`. `base`: its skeleton, for errors."""
    with _opened_source(source, base) as storage:
        for batch in read_batches(storage, source.path, columns=schema.names, batch_rows=batch_rows, rows=rows):
            yield _with_path_values(batch, source, schema)


def parts_of_source(source: SourceFile, base: str, rows_min: int) -> tuple[range, ...]:
    """The rows of a file of the source in parts of whole row groups, a bounded number of them.

    Cost: its footer. Raises: as `read_base_rows`.
    """
    with _opened_source(source, base) as storage, opened_base_file(storage, source.path) as (_, parquet):
        return _parts(row_group_ends(parquet.metadata), rows_min)


def row_ranges(storage: Storage, files: SliceFiles, columns: Sequence[str], rows_min: int) -> tuple[range, ...]:
    """The rows of the base file of a slice in parts, which can be read alone: where a row group of each side ends.

    A part has at least `rows_min` rows, but for the last one, and their number is bounded. None if the sides differ,
    which a read of all rows says. `columns`: those that are to be read. Cost: the footer of the skeleton and of its
    source, as far as they have such columns. Raises: as `read_base_rows`.
    """
    base, source = files.base, files.source
    assert base is not None
    ends: list[set[int]] = []
    if source is None or not _META.isdisjoint(columns):
        with opened_base_file(storage, base) as (_, parquet):
            ends.append(set(row_group_ends(parquet.metadata)))
    if source is not None and not _META.issuperset(columns):
        with _opened_source(source, base) as of_source, opened_base_file(of_source, source.path) as (_, parquet):
            ends.append(set(row_group_ends(parquet.metadata)))
    common = sorted(set.intersection(*ends))
    if any(max(side, default=0) != max(common, default=0) for side in ends):
        return ()
    return _parts(common, rows_min)


def _parts(ends: Sequence[int], rows_min: int) -> tuple[range, ...]:
    parts, begin = list[range](), 0
    enough = max(rows_min, -(-ends[-1] // _PARTS_MAX)) if ends else rows_min
    for end in ends:
        if end - begin >= enough or (end == ends[-1] and end > begin):
            parts.append(range(begin, end))
            begin = end
    return tuple(parts)


@contextmanager
def _opened_source(source: SourceFile, base: str) -> Iterator[Storage]:
    """The store of a file of the source, which is as it was."""
    storage = open_spec(source.storage)
    try:
        check_source(source, base, storage.info(source.path))
        yield storage
    except NotFoundError as error:
        raise _changed(source, base, None) from error


def check_source(source: SourceFile, base: str, info: FileInfo | None) -> None:
    """Raise `CorruptDataError` if the file of a skeleton is not as it was at the bootstrap; None: it is gone."""
    if info is None or not is_unchanged(source, info):
        raise _changed(source, base, info)


def is_unchanged(source: SourceFile, info: FileInfo) -> bool:
    """Whether a file of the source has the size and the time of modification that it had at the bootstrap.

    Object stores tell some times in whole seconds: then seconds are compared.
    """
    before, now = source.modified_ms, info.modified_ms
    if not (before % 1000 and now % 1000):
        before, now = before // 1000, now // 1000
    return info.size == source.size and (before == now or not source.modified_ms)


def _with_path_values(batch: pa.RecordBatch, source: SourceFile, schema: pa.Schema) -> pa.RecordBatch:
    for name, text in source.path_values:
        if name in schema.names and name not in batch.schema.names:
            kind = schema.field(name).type
            value = None if text is None else typed_value(text, kind)
            if text is not None and value is None:
                raise CorruptDataError(
                    "the name of the folder of a bootstrapped file is no value of its column",
                    path=source.uri,
                    column=name,
                    type=str(kind),
                )
            values = pa.nulls(batch.num_rows, kind) if value is None else pa.repeat(value, batch.num_rows)
            batch = batch.append_column(pa.field(name, kind), values)
    return batch


def _side_by_side(
    skeleton: Iterator[pa.RecordBatch], source: Iterator[pa.RecordBatch], base: str, named: SourceFile
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """The same rows of both, a piece at a time."""
    left, right = next(skeleton, None), next(source, None)
    while left is not None and right is not None:
        count = min(left.num_rows, right.num_rows)
        yield left.slice(0, count), right.slice(0, count)
        left = _rest(left, count, skeleton)
        right = _rest(right, count, source)
    if left is not None or right is not None:
        raise CorruptDataError(
            "a bootstrapped file and its skeleton have different numbers of rows: the file was changed since the "
            "bootstrap; put the previous file back, or bootstrap the table again",
            path=base,
            source=named.uri,
        )


def _rest(batch: pa.RecordBatch, taken: int, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return batch.slice(taken) if taken < batch.num_rows else next(batches, None)


def _changed(source: SourceFile, base: str, info: FileInfo | None) -> CorruptDataError:
    state = "is gone" if info is None else "was changed since the bootstrap"
    return CorruptDataError(
        f"the file with the columns of a bootstrapped base file {state}; put the previous file back, with its time of "
        "modification, or bootstrap the table again. Other file groups can still be read",
        path=base,
        source=source.uri,
        expected=(source.size, source.modified_ms),
        found=None if info is None else (info.size, info.modified_ms),
    )
