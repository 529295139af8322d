"""Writing one bucket: a new base file, or the next version of a file group.

The former version is merged piece by piece: tags name the stored rows by position, so merging needs no key lookup, and
memory is bounded by the bucket's changes and one batch of stored rows.

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
from pyhudi.format.merge_rules import MergeRules
from pyhudi.format.merge_versions import BY_COMMIT_TIME, DELETED, merge_pairs
from pyhudi.format.merging import newest_versions
from pyhudi.format.meta_columns import RECORD_KEY, with_meta_columns
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
from pyhudi.io.log_records import delete_mask
from pyhudi.io.route import DELETE
from pyhudi.io.tags import POSITION
from pyhudi.storage.opening import open_spec
from pyhudi.storage.protocol import Storage


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
                _append(batch, task.target.rules, file)
        return file.close()


def _write_next(context: TaskContext, task: BucketTask, former: FormerVersion, storage: Storage) -> WriteStat:
    """Stream the former version, replacing and removing rows by their position in it; then append the new records."""
    incoming = read_segments(storage, task.segments)
    is_new = pc.equal(incoming.column(POSITION), -1)
    changes = _changes_by_position(incoming.filter(pc.invert(is_new)), task.target.rules)
    positions = changes.column(POSITION).to_numpy()
    with DataFile(
        storage,
        task.target,
        context,
        task.partition_path,
        task.file_id,
        former,
        numbers=SequenceNumbers(task.target.instant_time, context),
        keeps_keys=not pc.any(changes.column(DELETED)).as_py(),
    ) as file:
        start = 0
        for stored in read_batches(storage, former.path, columns=[*COPIED_META_COLUMNS, *task.target.schema.names]):
            first, last = np.searchsorted(positions, [start, start + stored.num_rows])
            part = changes.slice(first, last - first).drop_columns([POSITION])
            _write_merged(stored, part, positions[first:last] - start, task.target, file)
            start += stored.num_rows
        for batch in incoming.filter(is_new).to_batches():
            _append(batch, task.target.rules, file)
        return file.close()


def _changes_by_position(changes: pa.Table, rules: MergeRules) -> pa.RecordBatch:
    """One change per stored row, sorted by position, with the control columns of `merge_versions`.

    Several changes of a row arise only from an input that was not combined.
    """
    ordering = [changes.column(name) for name in rules.ordering_fields if name in changes.column_names]
    changes = changes.take(pa.array(newest_versions([changes.column(POSITION)], ordering))).sort_by(POSITION)
    batches = changes.combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=changes.schema)
    by_key = batch.column(DELETE)
    return (
        batch.drop_columns([DELETE])
        .append_column(DELETED, pc.or_(by_key, delete_mask(batch, rules)))
        .append_column(BY_COMMIT_TIME, by_key)
    )


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
    outcome = merge_pairs(target.rules, _looked_at(stored.take(pa.array(at)), changes, target), changes)
    untouched = np.ones(stored.num_rows, dtype=bool)
    untouched[at[~outcome.stays]] = False
    file.copy(stored.filter(pa.array(untouched)))
    file.forget(int(np.count_nonzero(outcome.deleted)))
    if target.tombstones_since is not None:
        file.bury(changes.filter(pc.and_not(pa.array(outcome.deleted), changes.column(BY_COMMIT_TIME))))
    file.update(outcome.rows)


def _looked_at(met: pa.RecordBatch, changes: pa.RecordBatch, target: WriteTarget) -> pa.RecordBatch:
    """Of stored rows what the rules look at, as the table has it: to choose between versions, ordering values do."""
    names = (RECORD_KEY, *target.rules.ordering_fields) if target.rules.selects else changes.schema.names
    wanted = with_meta_columns(target.schema)
    return align(met, pa.schema([wanted.field(name).with_nullable(True) for name in names if name in wanted.names]))


def _append(new: pa.RecordBatch, rules: MergeRules, file: DataFile) -> None:
    """Write new records but those that their rows delete; these are remembered where they can be."""
    marked = delete_mask(new, rules)
    deletes = pc.or_(new.column(DELETE), marked)
    if pc.any(deletes).as_py():
        file.bury(new.filter(pc.and_not(marked, new.column(DELETE))))
        new = new.filter(pc.invert(deletes))
    file.append(new)
