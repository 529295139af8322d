"""Appending to a file group: data blocks with new versions of records, then delete blocks with the deleted keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.markers import Marker
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.log.records import delete_mask
from pyhudi.merge.control_columns import FRESH
from pyhudi.merge.pairs import newest_versions
from pyhudi.storage.open import open_spec
from pyhudi.tasks.data_file import SequenceNumbers, WriteTarget, ensure_partition
from pyhudi.tasks.log_writer import LogSettings, LogWriter, SliceToAppend
from pyhudi.tasks.route import DELETE
from pyhudi.tasks.surviving_rows import with_values_of_path
from pyhudi.tasks.tagged_rows import NEW_RECORD, POSITION

DELETES_PER_BLOCK = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTask:
    """Append rows to one slice.

    `keys_repeat`: the batch was not combined. `starts_group`: the slice has no file yet, nor has its partition perhaps.
    `columns`: the rows of stored records are partial updates with these columns.
    """

    target: WriteTarget
    logs: LogSettings
    to: SliceToAppend
    keys_repeat: bool
    starts_group: bool = False
    columns: tuple[str, ...] | None = None

    def first_markers(self, context: TaskContext) -> list[Marker]:
        """The marker of the first log that it writes."""
        return [Marker(self.to.log_path(self.to.first_version, context), self.to.marker)]


def append_rows(context: TaskContext, task: AppendTask, incoming: Iterator[pa.RecordBatch]) -> list[WriteStat]:
    """Write the `incoming` changes (`routed_rows`), of which there are some. Returns the stat of each log file.

    Memory: one block, and the keys of the deletes.
    """
    storage = open_spec(task.target.storage)
    numbers = SequenceNumbers(task.target.instant_time, context)
    if task.starts_group:
        ensure_partition(storage, task.to.partition_path, task.target.instant_time)
    deleted: list[pa.RecordBatch] = []
    pending: list[pa.RecordBatch] = []
    size = 0
    with LogWriter(storage, task.target, task.logs, task.to, context) as writer:
        for batch in _staying(_newest(incoming, task), task):
            deletes = pc.or_(batch.column(DELETE), delete_mask(batch, task.target.rules))
            deleted.append(batch.filter(deletes).select(_delete_columns(batch, task)))
            live = batch.filter(pc.invert(deletes)) if pc.any(deletes).as_py() else batch
            if live.num_rows == 0:  # for a delete by keys: its rows have keys only
                continue
            _forget_before(writer, live)
            pending.append(live)
            size += live.nbytes
            if size >= task.logs.rows_size:
                _write_rows(writer, pending, task, numbers)
                pending, size = [], 0
        if pending:
            _write_rows(writer, pending, task, numbers)
        _write_deletes(writer, deleted, task)
        return writer.close()


def _newest(incoming: Iterator[pa.RecordBatch], task: AppendTask) -> Iterator[pa.RecordBatch]:
    """The rows, of which one is left for each record. Memory: all rows, if the keys repeat."""
    if not task.keys_repeat:
        yield from incoming
        return
    rows = pa.Table.from_batches(list(incoming))
    ordering = [rows.column(name) for name in task.target.rules.ordering_fields if name in rows.column_names]
    newest = newest_versions([rows.column(RECORD_KEY)], ordering)
    start = 0
    for batch in rows.to_batches():
        first, last = np.searchsorted(newest, [start, start + batch.num_rows])
        yield batch.take(pa.array(newest[first:last] - start))
        start += batch.num_rows


def _staying(batches: Iterator[pa.RecordBatch], task: AppendTask) -> Iterator[pa.RecordBatch]:
    keys = task.target.stays_by
    return batches if keys is None else (with_values_of_path(rows, task.to.partition_path, keys) for rows in batches)


def _delete_columns(batch: pa.RecordBatch, task: AppendTask) -> list[str]:
    """Key and ordering values of the deletes; a delete by key has no ordering values."""
    ordering = [name for name in task.target.rules.ordering_fields if name in batch.schema.names]
    return [RECORD_KEY, DELETE, *ordering]


def _forget_before(writer: LogWriter, live: pa.RecordBatch) -> None:
    """A row after a delete of its record in the same batch starts a new record: the delete is written first."""
    if FRESH in live.schema.names:
        fresh = live.filter(live.column(FRESH))
        writer.write_deletes(fresh.column(RECORD_KEY), [], counted=False)


def _write_deletes(writer: LogWriter, batches: list[pa.RecordBatch], task: AppendTask) -> None:
    """Write deletes; those by key go into separate blocks, as they have no ordering values."""
    if not batches:
        return
    deletes = pa.concat_batches(batches)
    fields = [name for name in task.target.rules.ordering_fields if name in deletes.schema.names]
    by_key = deletes.column(DELETE)
    for chosen, ordering_fields in ((by_key, []), (pc.invert(by_key), fields)):
        rows = deletes.filter(chosen)
        for start in range(0, rows.num_rows, DELETES_PER_BLOCK):
            part = rows.slice(start, DELETES_PER_BLOCK)
            ordering = [part.column(name) for name in ordering_fields]
            writer.write_deletes(part.column(RECORD_KEY), ordering)


def _write_rows(writer: LogWriter, pending: list[pa.RecordBatch], task: AppendTask, numbers: SequenceNumbers) -> None:
    """Write rows as a data block; partial updates and new records need one each."""
    is_new = [pc.equal(batch.column(POSITION), NEW_RECORD) for batch in pending]
    inserts = sum(pc.sum(mask).as_py() for mask in is_new)
    if task.columns is None:
        writer.write_rows(_stored(pending, task, numbers), inserts=inserts)
        return
    new = [batch.filter(mask) for batch, mask in zip(pending, is_new, strict=True)]
    if inserts:
        writer.write_rows(_stored(new, task, numbers), inserts=inserts)
    stored = [batch.filter(pc.invert(mask)) for batch, mask in zip(pending, is_new, strict=True)]
    if any(batch.num_rows for batch in stored):
        writer.write_rows(_stored(stored, task, numbers), task.columns)


def _stored(pending: list[pa.RecordBatch], task: AppendTask, numbers: SequenceNumbers) -> pa.RecordBatch:
    """The rows in the form of data files; `_hoodie_file_name` is the id of the file group, as in JVM Hudi."""
    rows = pending[0] if len(pending) == 1 else pa.concat_batches(pending)
    count, target = rows.num_rows, task.target
    meta = [
        pa.repeat(target.instant_time, count),
        numbers.take(count),
        rows.column(RECORD_KEY),
        pa.repeat(task.to.partition_path, count),
        pa.repeat(task.to.file_id, count),
    ]
    columns = [*meta, *rows.select(target.schema.names).columns]
    return pa.RecordBatch.from_arrays(columns, schema=target.whole_schema)
