"""Staging: the first task of a write over one split of its input.

It computes record keys and partition paths, refuses rows without them, combines the versions of each record, and writes
two exchange files: the rows as the table will store them, and their keys by partition path for the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import ExchangeFolder, ExchangeWriter, open_exchange, remove_exchange
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import InvalidRequestError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.pieces import cuts, one_batch, row_bytes, within_arrays
from pyhudi.format.schema.meta_columns import COMMIT_SEQNO, PARTITION_PATH, RECORD_KEY
from pyhudi.io.log.records import delete_mask
from pyhudi.io.row_groups import RowGroupWriter
from pyhudi.merge.control_columns import DELETED, FRESH
from pyhudi.merge.pairs import newest_versions, record_numbers
from pyhudi.merge.rules import MergeRules, first_versions
from pyhudi.merge.versions import merge_versions
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.tasks.hash_keys import keyed_rows, keyed_schema
from pyhudi.tasks.row_changes import (
    CHANGE,
    NAMED,
    Change,
    ChangeKeys,
    keyed_changes,
    named_records,
    named_upserts,
    of_codes,
    settled,
)

ROW = "#row"
"""The number of a row in its split's rows file, from 0."""
SAMPLE_BYTES: Final = 1 << 20
"""Arrow bytes of the rows that are encoded: as many as a page of a base file has by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """How to stage the splits of one write.

    The name of the `folder` starts the keys of a table that generates them. `schema` is the table's schema without meta
    columns; for a delete, which needs keys only, that of the key columns. `combine` makes one row of the versions of a
    record by the `rules`; with `table_wide_keys` the key alone identifies a record, otherwise key and partition path.
    `needs_ordering`: a row without an ordering value is refused, as JVM Hudi cannot read logs with one. `changes`: the
    rows are changes (`tasks/row_changes.py`), of which one is kept for each record. `by_meta_columns`: the rows name
    stored records by their meta columns, and have no other column of the table. `codec`: that of base files, if the
    bytes of a stored record are to be measured.
    """

    folder: ExchangeFolder
    keys: KeyGenerator
    schema: pa.Schema
    rules: MergeRules
    combine: bool
    table_wide_keys: bool
    needs_ordering: bool = False
    changes: ChangeKeys | None = None
    by_meta_columns: bool = False
    codec: str | None = None


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """The rows of one split that go to one partition path: how many, and their batch in the keys file."""

    partition_path: str
    rows: int
    batch: int


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """The result of staging one split: two exchange files and the counts of the workload profile.

    `record_bytes`: about what a row takes in a base file; 0: it was not measured.
    """

    rows_path: str
    keys_path: str
    rows: int
    bytes: int
    partitions: tuple[StagedPartition, ...]
    record_bytes: float = 0.0


def stage_split(task: StageTask, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> StagedSplit:
    """Stage one split. Memory: a batch, and the keys and ordering values of the split."""
    storage = open_spec(task.folder.storage)
    rows_path = f"{task.folder.path}/rows-{context.write_token}.arrow"
    keys_path = f"{task.folder.path}/keys-{context.write_token}.arrow"
    control = [] if task.changes is None else [CHANGE, NAMED]
    names = [RECORD_KEY, PARTITION_PATH, *task.rules.ordering_fields, *control]
    kept: list[pa.RecordBatch] = []
    staged = _keyed_batches(task, context, batches)
    if task.combine and not task.rules.selects:
        staged = merged_versions(storage, f"{task.folder.path}/raw-{context.write_token}.arrow", task, staged)
    share = 0.0
    with ExchangeWriter(storage, rows_path, staged_schema(task)) as rows:
        for batch in staged:
            if task.needs_ordering:
                _check_ordering(_stored(batch, task), task.rules.ordering_fields)
            stored = batch.drop_columns(control)
            if task.codec is not None and not share and stored.num_rows:
                share = stored_share(stored, task.codec)
            rows.write(stored)
            kept.append(batch.select(names))
    if not kept:
        return StagedSplit(rows_path, keys_path, 0, 0, ())
    table = _one_version_per_record(task, pa.Table.from_batches(kept))
    with ExchangeWriter(storage, keys_path, table.schema) as keys:
        partitions = tuple(_write_grouped(keys, table))
    record_bytes = share * rows.bytes / rows.rows
    return StagedSplit(rows_path, keys_path, table.num_rows, rows.bytes, partitions, record_bytes)


def _stored(batch: pa.RecordBatch, task: StageTask) -> pa.RecordBatch:
    """The rows that may be stored: of changes, those that do more than delete a record."""
    if task.changes is None:
        return batch
    return batch.filter(pa.array(~of_codes(batch.column(CHANGE), Change.DELETE, Change.LEAVE)))


def _check_ordering(batch: pa.RecordBatch, fields: tuple[str, ...]) -> None:
    for name in fields:
        if nulls := batch.column(name).null_count:
            without = batch.filter(pc.is_null(batch.column(name)))
            raise InvalidRequestError(
                f"rows have no value in the ordering column {name!r}, which orders the versions of a record; "
                "fill it, or use merge mode COMMIT_TIME_ORDERING for a new table",
                column=name,
                rows=nulls,
                first_key=without.column(RECORD_KEY)[0].as_py(),
            )


def staged_schema(task: StageTask) -> pa.Schema:
    """The columns of a split's rows file. A combining rule that mixes versions adds control columns."""
    schema = keyed_schema(task.schema)
    return schema if not task.combine or task.rules.selects else schema.append(pa.field(FRESH, pa.bool_()))


def _keyed_batches(
    task: StageTask, context: TaskContext, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    first_row = 0
    for batch in batches:
        if batch.num_rows:
            if task.by_meta_columns:
                yield named_records(batch)
            elif task.changes is not None:
                by_names = task.changes.by_meta_columns
                changes = named_upserts(batch, table_wide_keys=task.table_wide_keys) if by_names else batch
                yield keyed_changes(task.keys, task.schema, task.folder.name, context, changes, first_row, task.changes)
            else:
                rows = keyed_rows(task.keys, task.schema, task.folder.name, context, batch, first_row)
                yield first_versions(task.rules.merger, rows)
            first_row += batch.num_rows


def merged_versions(
    storage: Storage, path: str, task: StageTask, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of a split with one row per record, by a rule that mixes versions; in `staged_schema`.

    The rows pass through a file at `path`. Memory: the keys of the split, and the rows of records with several
    versions.
    """
    with ExchangeWriter(storage, path, keyed_schema(task.schema)) as raw:
        keys = [batch.select([RECORD_KEY, PARTITION_PATH]) for batch in batches if raw.write(batch) >= 0]
    if not keys:
        return
    identity = [RECORD_KEY] if task.table_wide_keys else [RECORD_KEY, PARTITION_PATH]
    records, count = record_numbers([pa.Table.from_batches(keys).column(name) for name in identity])
    repeated = np.bincount(records, minlength=count)[records] > 1
    several: list[pa.RecordBatch] = []
    start = 0
    with open_exchange(storage, path) as reader:
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            again = pa.array(repeated[start : start + batch.num_rows])
            start += batch.num_rows
            several.append(batch.filter(again))
            single = batch.filter(pc.invert(again))
            yield single.append_column(FRESH, pa.repeat(False, single.num_rows))
    remove_exchange(storage, path)
    versions = pa.Table.from_batches(several)
    if versions.num_rows:
        yield from _merged(task, versions, identity).to_batches()


def _merged(task: StageTask, versions: pa.Table, identity: list[str]) -> pa.Table:
    deleted = [delete_mask(batch, task.rules) for batch in versions.to_batches()]
    marked = versions.append_column(DELETED, pa.chunked_array(deleted, pa.bool_()))
    with within_arrays(versions):
        merged = merge_versions(task.rules, marked, identity)
    schema = staged_schema(task)
    return merged.select(schema.names).cast(schema)


def _one_version_per_record(task: StageTask, table: pa.Table) -> pa.Table:
    """Record key, partition path and ordering values of the rows that are kept, with their numbers in the rows file."""
    table = table.append_column(ROW, pa.array(np.arange(table.num_rows, dtype=np.int64)))
    identity = [RECORD_KEY] if task.table_wide_keys else [RECORD_KEY, PARTITION_PATH]
    if task.changes is not None:
        fields = task.rules.ordering_fields if task.rules.selects else ()
        with within_arrays(table):
            return settled(table, identity, fields, task.changes)
    if not task.combine or not task.rules.selects:
        return table
    ordering = [table.column(name) for name in task.rules.ordering_fields]
    newest = newest_versions([table.column(name) for name in identity], ordering)
    with within_arrays(table):
        return table if len(newest) == table.num_rows else table.take(pa.array(newest))


def _write_grouped(writer: ExchangeWriter, table: pa.Table) -> Iterator[StagedPartition]:
    """One batch per partition path; rows keep their order within it."""
    table = pa.Table.from_batches([one_batch(table)])
    paths = table.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    codes = paths.indices.to_numpy()
    if len(paths.dictionary) > 1:
        order = np.argsort(codes, kind="stable")
        table, codes = table.take(pa.array(order)), codes[order]
    for code, path in enumerate(paths.dictionary.to_pylist()):
        start, end = np.searchsorted(codes, [code, code + 1])
        (batch,) = table.slice(start, end - start).combine_chunks().to_batches()
        yield StagedPartition(path, batch.num_rows, writer.write(batch))


def partition_paths_in(keys: KeyGenerator, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> tuple[str, ...]:
    """The distinct partition paths of a split's rows."""
    del context
    found: set[str] = set()
    for batch in batches:
        if batch.num_rows:
            found.update(keys.partition_paths(batch).dictionary_decode().unique().to_pylist())
    return tuple(sorted(found))


def stored_share(rows: pa.RecordBatch, codec: str) -> float:
    """Stored bytes of a row, as a share of its Arrow bytes. `rows`: keyed ones, at least one.

    What all rows of a file share, as its footer and the columns with one value, is not counted. Cost: the encoding of
    the first rows, up to `SAMPLE_BYTES`, or of the first row.
    """
    _, count = next(cuts(row_bytes(rows.slice(0, SAMPLE_BYTES // 8)), SAMPLE_BYTES))
    sample = rows.slice(0, count)
    numbers = pa.array(np.arange(count)).cast(pa.string())
    stored = sample.drop_columns([PARTITION_PATH]).append_column(COMMIT_SEQNO, numbers)
    sink = pa.BufferOutputStream()
    writer = RowGroupWriter(sink, stored.schema, codec=codec, page_size=SAMPLE_BYTES)
    writer.write(pa.Table.from_batches([stored]))
    footer = writer.close({})
    group = footer.row_group(0)
    size = sum(group.column(number).total_compressed_size for number in range(group.num_columns))
    return float(size / max(1, sample.nbytes))
