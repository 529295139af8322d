"""Staging: the first task of a write over one split of its input.

It computes record keys and partition paths, refuses rows that have none, keeps one version of each record, and leaves
two exchange files: the rows as the table will store them, and their keys grouped by partition path for the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.keys import KeyGenerator
from pyhudi.format.merging import newest_versions
from pyhudi.format.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.io.exchange import ExchangeWriter
from pyhudi.io.keyed import keyed_rows, keyed_schema
from pyhudi.storage.opening import open_spec
from pyhudi.storage.protocol import StorageSpec

ROW = "__row"
"""The number of a row in its split's rows file, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """How to stage the splits of one write.

    `row_id` starts the keys of a table that generates them. `schema` is the table's schema without meta columns; for a
    delete, which needs keys only, that of the columns they come from. `combine` keeps one version per record; with
    `table_wide_keys` a record is its key alone, else key and partition path.
    """

    storage: StorageSpec
    folder: str
    row_id: str
    keys: KeyGenerator
    schema: pa.Schema
    ordering_fields: tuple[str, ...]
    combine: bool
    table_wide_keys: bool


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """The rows of one split that go to one partition path: how many, and their batch in the keys file."""

    partition_path: str
    rows: int
    batch: int


@dataclass(frozen=True, slots=True)
class StagedSplit:
    """What staging one split left: two exchange files and the counts of the workload profile."""

    rows_path: str
    keys_path: str
    rows: int
    bytes: int
    partitions: tuple[StagedPartition, ...]


def stage_split(task: StageTask, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> StagedSplit:
    """Stage one split. Memory: a batch, and the keys and ordering values of the split."""
    storage = open_spec(task.storage)
    rows_path = f"{task.folder}/rows-{context.write_token}.arrow"
    keys_path = f"{task.folder}/keys-{context.write_token}.arrow"
    names = [RECORD_KEY, PARTITION_PATH, *task.ordering_fields]
    kept: list[pa.RecordBatch] = []
    with ExchangeWriter(storage, rows_path, keyed_schema(task.schema)) as rows:
        for batch in batches:
            if batch.num_rows:
                staged = keyed_rows(task.keys, task.schema, task.row_id, context, batch, rows.rows)
                rows.write(staged)
                kept.append(staged.select(names))
    if not kept:
        return StagedSplit(rows_path, keys_path, 0, 0, ())
    table = _one_version_per_record(task, pa.Table.from_batches(kept))
    with ExchangeWriter(storage, keys_path, table.schema) as keys:
        partitions = tuple(_write_grouped(keys, table))
    return StagedSplit(rows_path, keys_path, table.num_rows, rows.bytes, partitions)


def _one_version_per_record(task: StageTask, table: pa.Table) -> pa.Table:
    """Record key, partition path and ordering values of the rows that stay, with their numbers in the rows file."""
    table = table.append_column(ROW, pa.array(np.arange(table.num_rows, dtype=np.int64)))
    if not task.combine:
        return table
    identity = [table.column(RECORD_KEY)]
    if not task.table_wide_keys:
        identity.append(table.column(PARTITION_PATH))
    newest = newest_versions(identity, [table.column(name) for name in task.ordering_fields])
    return table if len(newest) == table.num_rows else table.take(pa.array(newest))


def _write_grouped(writer: ExchangeWriter, table: pa.Table) -> Iterator[StagedPartition]:
    """One batch per partition path; rows keep their order within it."""
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
