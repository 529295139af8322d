"""Writing one bucket: a new base file, or the next version of a file group.

The former version is merged piece by piece: tags name the stored rows by position, so merging needs no key lookup, and
memory is bounded by the bucket's changes and one row group.

Source: mission rows S1-28, S2-39 (flow F1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.evolution import align
from pyhudi.format.merging import incoming_wins, newest_versions
from pyhudi.io.base_file import read_batches
from pyhudi.io.data_file import (
    COPIED_META_COLUMNS,
    DataFile,
    FormerVersion,
    SequenceNumbers,
    WriteTarget,
    ensure_partition,
)
from pyhudi.io.exchange import Segment, read_segment, read_segments
from pyhudi.io.route import DELETE
from pyhudi.io.tags import POSITION
from pyhudi.storage.opening import open_spec
from pyhudi.storage.protocol import Storage

IS_DELETED = "_hoodie_is_deleted"
"""A boolean column by which a row of the input asks for the deletion of its record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTask:
    """Write one base file: its file group, the version before it if any, and where its rows lie."""

    target: WriteTarget
    partition_path: str
    file_id: str
    former: FormerVersion | None
    segments: tuple[Segment, ...]


def write_bucket(context: TaskContext, task: BucketTask) -> WriteStat:
    """Write the bucket's base file and say what is in it. A new file streams its rows."""
    storage = open_spec(task.target.storage)
    if task.former is None:
        ensure_partition(storage, task.partition_path, task.target.instant_time)
        return _write_first(context, task, storage)
    return _write_next(context, task, task.former, storage)


def _write_first(context: TaskContext, task: BucketTask, storage: Storage) -> WriteStat:
    numbers = SequenceNumbers(task.target.instant_time, context)
    with DataFile(storage, task.target, context, task.partition_path, task.file_id, None, numbers=numbers) as file:
        for segment in task.segments:
            for batch in read_segment(storage, segment):
                file.append(_live(batch))
        return file.close()


def _write_next(context: TaskContext, task: BucketTask, former: FormerVersion, storage: Storage) -> WriteStat:
    """Stream the former version, replacing and removing rows by their position in it; then append the new records."""
    incoming = read_segments(storage, task.segments)
    is_new = pc.equal(incoming.column(POSITION), -1)
    changes = _changes_by_position(incoming.filter(pc.invert(is_new)), task.target.ordering_fields)
    positions = _numbers(changes.column(POSITION))
    keeps_keys = not _deletes(changes).any()
    columns = [*COPIED_META_COLUMNS, *task.target.schema.names]
    with DataFile(
        storage,
        task.target,
        context,
        task.partition_path,
        task.file_id,
        former,
        numbers=SequenceNumbers(task.target.instant_time, context),
        keeps_keys=keeps_keys,
    ) as file:
        start = 0
        for stored in read_batches(storage, former.path, columns=columns):
            first, last = np.searchsorted(positions, [start, start + stored.num_rows])
            part = changes.slice(first, last - first)
            _write_merged(stored, part, positions[first:last] - start, task.target, file)
            start += stored.num_rows
        for batch in incoming.filter(is_new).to_batches():
            file.append(_live(batch))
        return file.close()


def _changes_by_position(changes: pa.Table, ordering_fields: tuple[str, ...]) -> pa.RecordBatch:
    """One change per stored row, sorted by position; several arise only from an input that was not combined."""
    ordering = [changes.column(name) for name in ordering_fields if name in changes.column_names]
    changes = changes.take(pa.array(newest_versions([changes.column(POSITION)], ordering))).sort_by(POSITION)
    batches = changes.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=changes.schema)


def _write_merged(
    stored: pa.RecordBatch,
    changes: pa.RecordBatch,
    at: npt.NDArray[np.int64],
    target: WriteTarget,
    file: DataFile,
) -> None:
    """One piece of the former version with the changes to it; updated rows follow the untouched ones of the piece."""
    if len(at) == 0:
        file.copy(stored)
        return
    wins = _wins(stored, changes, at, target)
    untouched = np.ones(stored.num_rows, dtype=bool)
    untouched[at[wins]] = False
    file.copy(stored.filter(pa.array(untouched)))
    deletes = _deletes(changes)
    file.forget(int(np.count_nonzero(wins & deletes)))
    file.update(changes.filter(pa.array(wins & ~deletes)))


def _wins(
    stored: pa.RecordBatch, changes: pa.RecordBatch, at: npt.NDArray[np.int64], target: WriteTarget
) -> npt.NDArray[np.bool_]:
    """Which changes take effect: by event time those that are not older than the stored row; a delete by key always."""
    fields = list(target.ordering_fields)
    if not fields or not set(fields) <= set(stored.schema.names) & set(changes.schema.names):
        return np.ones(len(at), dtype=bool)
    ordering = pa.schema([target.schema.field(name) for name in fields])
    met = align(stored.select(fields).take(pa.array(at)), ordering)
    return _flags(changes.column(DELETE)) | incoming_wins(changes.select(fields).columns, met.columns, len(at))


def _deletes(changes: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    deletes = _flags(changes.column(DELETE))
    if IS_DELETED in changes.schema.names:
        deletes = deletes | _flags(pc.fill_null(changes.column(IS_DELETED), False))
    return deletes


def _live(new: pa.RecordBatch) -> pa.RecordBatch:
    """New records without those that are deleted in the same batch."""
    deletes = _deletes(new)
    return new.filter(pa.array(~deletes)) if deletes.any() else new


def _flags(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False))
