"""Writing one base file: a new base file, or the next version of a file group.

The previous version is merged piece by piece: tags name the stored rows by position, so merging needs no key lookup,
and memory is bounded by the changes of the file and one batch of stored rows.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.format.file_names import file_id
from pyhudi.format.markers import Marker
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.pieces import is_one_piece, meetings, reordered, row_bytes, take_rows
from pyhudi.format.schema.evolution import align, match_columns
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.base_file import opened_base_file
from pyhudi.io.log.records import delete_mask, gather
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.merge.control_columns import BY_COMMIT_TIME, DELETED
from pyhudi.merge.pairs import as_mask, newest_versions
from pyhudi.merge.rules import MergeRules
from pyhudi.merge.versions import merge_pairs
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.tasks.data_file import (
    COPIED_META_COLUMNS,
    DataFile,
    DataFileSpec,
    PreviousVersion,
    SequenceNumbers,
    WriteTarget,
    ensure_partition,
)
from pyhudi.tasks.route import DELETE, UNKNOWN_POSITION
from pyhudi.tasks.surviving_rows import with_values_of_path
from pyhudi.tasks.tagged_rows import POSITION


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFileTask:
    """Write the base file of one group: its id, and its previous version if any.

    `spill`: when the rows of an existing group are spilled.
    """

    target: WriteTarget
    partition_path: str
    file_id: str
    previous: PreviousVersion | None
    spill: SpillSettings = field(default_factory=SpillSettings)

    @property
    def starts_group(self) -> bool:
        """Whether there is no previous version."""
        return self.previous is None

    def first_markers(self, context: TaskContext) -> list[Marker]:
        """The markers of the first file that it writes."""
        return DataFileSpec(
            target=self.target,
            context=context,
            partition_path=self.partition_path,
            file_id=self.file_id,
            previous=self.previous,
        ).markers


def write_base_file(context: TaskContext, task: BaseFileTask, incoming: Iterator[pa.RecordBatch]) -> list[WriteStat]:
    """Write the base file with the `incoming` rows (`routed_rows`), of which there are some, and return its stats.

    New rows are streamed into files that end at the maximum size, and begin further file groups where the plan
    underestimated rows. Memory: a piece of the rows, a piece of the previous version, and the rows up to the limit of
    `spill`.
    """
    storage = open_spec(task.target.storage)
    numbers = SequenceNumbers(task.target.instant_time, context)
    if task.previous is None:
        ensure_partition(storage, task.partition_path, task.target.instant_time)
        return list(_write_new_groups(context, task, storage, numbers, _NewRows(incoming), task.file_id))
    return list(_write_next(context, task, task.previous, storage, numbers, _gathered(task, incoming)))


@dataclass(slots=True)
class _NewRows:
    """New rows on their way into files, and those of a batch that the last file had no room for."""

    batches: Iterator[pa.RecordBatch]
    waiting: pa.RecordBatch | None = None

    def fill(self, file: DataFile, rules: MergeRules) -> None:
        """Append rows until the file is full, or there are no more: then none is waiting."""
        if self.waiting is None:
            self.waiting = _next_live(self.batches, rules, file)
        while self.waiting is not None and not file.is_full():
            written = file.append_fitting(self.waiting)
            left = self.waiting.slice(written)
            self.waiting = left if left.num_rows else _next_live(self.batches, rules, file)


def _write_new_groups(
    context: TaskContext, task: BaseFileTask, storage: Storage, numbers: SequenceNumbers, rows: _NewRows, first_id: str
) -> Iterator[WriteStat]:
    """Write new file groups of at most the maximum file size; the ids of later ones count up from the first one."""
    uuid_text, _, first = first_id.rpartition("-")
    for number in itertools.count(int(first)):
        group = file_id(uuid_text, number)
        spec = DataFileSpec(target=task.target, context=context, partition_path=task.partition_path, file_id=group)
        with DataFile(storage, spec, numbers) as file:
            rows.fill(file, task.target.rules)
            yield file.close()
        if rows.waiting is None:
            return


def _next_live(staged: Iterator[pa.RecordBatch], rules: MergeRules, file: DataFile) -> pa.RecordBatch | None:
    """The next rows to write; None if there are no more."""
    for batch in staged:
        rows = _live(batch, rules, file)
        if rows.num_rows:
            return rows
    return None


def _write_next(
    context: TaskContext,
    task: BaseFileTask,
    previous: PreviousVersion,
    storage: Storage,
    numbers: SequenceNumbers,
    gathered: pa.Table,
) -> Iterator[WriteStat]:
    """Stream the previous version, replace and remove rows by their position in it, then append the new records.

    Those that it has no room for begin new file groups.
    """
    incoming = _with_positions(storage, previous, gathered)
    rules = task.target.rules
    changes = _changes_by_position(incoming, rules)
    new_keys = int(np.count_nonzero(incoming.column(POSITION).to_numpy() == -1))
    batches = incoming.to_batches() if new_keys else []
    new_rows = _NewRows(batch.filter(pc.equal(batch.column(POSITION), -1)) for batch in batches)
    with (
        opened_base_file(storage, previous.path) as opened,
        DataFile(
            storage,
            DataFileSpec(
                target=task.target,
                context=context,
                partition_path=task.partition_path,
                file_id=task.file_id,
                previous=previous,
                keeps_keys=not changes.deleted.any(),
                new_keys=new_keys,
                previous_footer=opened[1],
            ),
            numbers,
        ) as file,
    ):
        start = 0
        for stored in read_base_rows(storage, previous.files, _copied(task.target), opened=opened):
            for rows, first, last in changes.meeting(start, stored):
                part = _with_control(take_rows(incoming, changes.number[first:last]), changes.deleted[first:last])
                _write_merged(rows, part, changes.position[first:last] - start, task.target, file)
                start += rows.num_rows
                del rows, part  # before the next ones are read: a row may take 100 MB
            del stored
        new_rows.fill(file, rules)
        yield file.close()
    if new_rows.waiting is not None:
        # The same in each attempt of the task, as the ids that a plan gives.
        name = f"{task.partition_path}/{task.file_id} {task.target.instant_time}"
        first_id = file_id(str(uuid.uuid5(uuid.NAMESPACE_URL, name)), 0)
        yield from _write_new_groups(context, task, storage, numbers, new_rows, first_id)


def _copied(target: WriteTarget) -> pa.Schema:
    """The columns of the previous version that the next one takes over."""
    whole = target.whole_schema
    return pa.schema([whole.field(name) for name in (*COPIED_META_COLUMNS, *target.schema.names)])


def _gathered(task: BaseFileTask, batches: Iterator[pa.RecordBatch]) -> pa.Table:
    if (keys := task.target.stays_by) is not None:
        batches = (with_values_of_path(rows, task.partition_path, keys) for rows in batches)
    first = next(batches)
    return gather(itertools.chain([first], batches), first.schema, task.spill)


def _with_positions(storage: Storage, previous: PreviousVersion, incoming: pa.Table) -> pa.Table:
    """The rows with the positions of their stored versions, for rows that were not tagged: of a bucket index.

    A row is repeated for each stored row of its key; there are several only where inserts did not look keys up. Cost:
    the key column of the previous version, if there are such rows. Memory: their keys.
    """
    positions = incoming.column(POSITION).to_numpy()
    unknown = np.flatnonzero(positions == UNKNOWN_POSITION)
    if len(unknown) == 0:
        return incoming
    keys = incoming.column(RECORD_KEY).take(pa.array(unknown))
    searched = keys.unique()
    key, row, start = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    for batch in read_base_rows(storage, previous.files, pa.schema([(RECORD_KEY, pa.string())])):
        at = pc.index_in(batch.column(RECORD_KEY), value_set=searched)
        key.append(at.drop_null().to_numpy().astype(np.int64))
        row.append(start + np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False)))
        start += batch.num_rows
    met = np.concatenate(key)
    stored = np.concatenate(row)[np.argsort(met, kind="stable")]
    counts = np.bincount(met, minlength=len(searched))
    first = np.cumsum(counts) - counts
    number = pc.index_in(keys, value_set=searched).to_numpy().astype(np.int64)
    times = np.ones(len(positions), np.int64)
    times[unknown] = np.maximum(counts[number], 1)
    group = np.full(len(positions), -1, np.int64)
    group[unknown] = number
    again = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    positions, group = np.repeat(positions, times), np.repeat(group, times)
    looked_up = np.flatnonzero(group >= 0)
    places = np.append(stored, -1)
    at_first = np.where(counts[group[looked_up]] > 0, first[group[looked_up]] + again[looked_up], len(stored))
    positions[looked_up] = places[at_first]
    rows = incoming if len(positions) == len(times) else reordered(incoming, np.repeat(np.arange(len(times)), times))
    place = rows.schema.get_field_index(POSITION)
    return rows.set_column(place, rows.schema.field(place), pa.array(positions))


@dataclass(frozen=True, slots=True)
class _Changes:
    """One change per stored row, sorted by its `position`: the `number` of the incoming row, and its `bytes`.

    `deleted`: the stored row is removed. The bytes are 0 where all changes are one piece.
    """

    position: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    deleted: npt.NDArray[np.bool_]
    bytes: npt.NDArray[np.int64]

    def meeting(self, start: int, stored: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int, int]]:
        """Pieces of stored rows that begin at position `start`, and the ranges of their changes.

        The changes of one piece take a bounded number of bytes.
        """
        first, last = np.searchsorted(self.position, [start, start + stored.num_rows]).tolist()
        at, sizes = self.position[first:last] - start, self.bytes[first:last]
        for begin, end, low, high in meetings(at, sizes, stored.num_rows):
            yield stored.slice(begin, end - begin), first + low, first + high


def _changes_by_position(incoming: pa.Table, rules: MergeRules) -> _Changes:
    """The newest change of each stored row; there are several only if the input was not combined."""
    positions = incoming.column(POSITION).to_numpy()
    known = np.flatnonzero(positions >= 0)
    number = known[np.argsort(positions[known], kind="stable")]
    if np.any(positions[number[1:]] == positions[number[:-1]]):
        names = [name for name in rules.ordering_fields if name in incoming.column_names]
        changes = reordered(incoming.select([POSITION, *names]), number)
        number = number[newest_versions([changes.column(POSITION)], [changes.column(name) for name in names])]
    deleted = [pc.or_(batch.column(DELETE), delete_mask(batch, rules)) for batch in incoming.to_batches()]
    return _Changes(
        positions[number],
        number,
        as_mask(pa.chunked_array(deleted, pa.bool_()))[number],
        np.zeros(len(number), np.int64) if is_one_piece(incoming) else row_bytes(incoming)[number],
    )


def _with_control(changes: pa.RecordBatch, deleted: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The changes with the control columns of `merge_versions`."""
    fields = [field for field in changes.schema if field.name not in (DELETE, POSITION)]
    columns = [*(changes.column(field.name) for field in fields), pa.array(deleted), changes.column(DELETE)]
    schema = pa.schema([*fields, (DELETED, pa.bool_()), (BY_COMMIT_TIME, pa.bool_())])
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _write_merged(
    stored: pa.RecordBatch,
    changes: pa.RecordBatch,
    at: npt.NDArray[np.int64],
    target: WriteTarget,
    file: DataFile,
) -> None:
    """Write one piece of the previous version with its changes; updated rows follow the unchanged ones of the piece."""
    if len(at) == 0:
        file.copy(stored)
        return
    outcome = merge_pairs(target.rules, _met_rows(stored, at, changes, target), changes)
    untouched = np.ones(stored.num_rows, dtype=bool)
    untouched[at[~outcome.stays]] = False
    file.copy(stored.filter(pa.array(untouched)))
    kept = previous = None
    if file.logs_changes:
        met = stored.take(pa.array(at))
        kept = met.filter(pa.array(~outcome.stays & ~outcome.deleted))
        previous = met.filter(pa.array(outcome.deleted))
    file.forget(int(np.count_nonzero(outcome.deleted)), previous)
    if target.tombstones_since is not None:
        file.bury(changes.filter(pc.and_not(pa.array(outcome.deleted), changes.column(BY_COMMIT_TIME))))
    file.update(outcome.rows, kept)


def _met_rows(
    stored: pa.RecordBatch, at: npt.NDArray[np.int64], changes: pa.RecordBatch, target: WriteTarget
) -> pa.RecordBatch:
    """The columns of met rows that the rules need; to select a version, the ordering values are enough."""
    names = (RECORD_KEY, *target.rules.ordering_fields) if target.rules.selects else changes.schema.names
    whole = target.whole_schema
    present = set(whole.names)
    schema = pa.schema([whole.field(name).with_nullable(True) for name in names if name in present])
    columns = [index for index in match_columns(schema.names, stored.schema.names) if index is not None]
    return align(stored.select(columns).take(pa.array(at)), schema)


def _live(new: pa.RecordBatch, rules: MergeRules, file: DataFile) -> pa.RecordBatch:
    """New records without those that their rows delete; the deletes go into the footer if it keeps deletes."""
    marked = delete_mask(new, rules)
    deletes = pc.or_(new.column(DELETE), marked)
    if not pc.any(deletes).as_py():
        return new
    file.bury(new.filter(pc.and_not(marked, new.column(DELETE))))
    return new.filter(pc.invert(deletes))
