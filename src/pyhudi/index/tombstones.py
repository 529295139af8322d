"""Rows of deleted records: staged rows are compared with the tombstones in footers, and with the deletes in logs.

A row whose ordering value is below that of a delete in a footer (`format/tombstones.py`) is not written: it would also
have lost against the row that was deleted. So it is with a delete in a log, unless the row goes to that log, too, and
meets it there. Cost: the footer of each base file of the touched partitions, and with a global or the record index the
logs with deletes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import (
    ExchangeFolder,
    ExchangeWriter,
    FilePart,
    Segment,
    TaskFiles,
    open_exchange,
    read_segment,
)
from pyhudi.engine.protocol import TASKS_PER_CORE, Engine, TaskContext, spread
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.format.tombstones import TOMBSTONES_KEY, decode_tombstones
from pyhudi.index.delivery import KEY_BYTES, search_shares
from pyhudi.index.protocol import Lookup, SliceToSearch, Tagged
from pyhudi.index.search import search
from pyhudi.index.tagging import KeyIndex, KeysOfSlices, StagedKeys, TagTask
from pyhudi.io.base_file import read_footer
from pyhudi.io.log.changes import ordered_deletes
from pyhudi.io.log.records import read_log_versions
from pyhudi.io.slices.files import SliceFiles
from pyhudi.merge.pairs import flattened, incoming_wins
from pyhudi.merge.versions import ordering_columns
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileSlice, slice_files
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import BARRED, FILE, NEW_RECORD, TAGS_SCHEMA

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ReturningTask:
    """Tag the rows of a split that have tags of base files in `of_bases`, and none of a stored record in `stored`."""

    folder: ExchangeFolder
    split: StagedSplit
    of_bases: tuple[Segment, ...]
    stored: tuple[Segment, ...]

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads."""
        yield FilePart(self.split.keys_path)
        for segment in (*self.of_bases, *self.stored):
            yield segment.part


@dataclass(frozen=True, slots=True)
class Returning:
    """The tags of the rows, and how many there are by the number of the slice, and by partition path."""

    segment: Segment
    by_slice: tuple[tuple[int, int], ...]
    by_partition: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SettleTask:
    """Tag the rows of a split that are not written: those in `late` that have no tag of a stored row in `tags`."""

    folder: ExchangeFolder
    split: StagedSplit
    late: tuple[int, ...]
    tags: tuple[Segment, ...]

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads."""
        yield FilePart(self.split.keys_path)
        for segment in self.tags:
            yield segment.part


@dataclass(frozen=True, slots=True)
class Settled:
    """The tags of rows that are not to be written, and how many of each partition path there are."""

    segment: Segment
    rows: tuple[tuple[str, int], ...]


def bar_late_rows(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice], tagged: Tagged) -> Tagged:
    """The tags, and in addition those of rows that are not written because of an earlier delete."""
    reads_logs = lookup.scope.is_table_wide or tagged.by_record_index
    searched = [
        SliceToSearch(
            number,
            slice_files(
                file_slice.base,
                file_slice.logs if reads_logs and file_slice.group in lookup.decided_by_logs else (),
            ),
            file_slice.partition_path,
        )
        for number, file_slice in enumerate(slices)
        if file_slice.base is not None
    ]
    shares = spread(dict.fromkeys(range(len(searched)), 1), engine.parallelism * TASKS_PER_CORE)
    found: dict[int, set[int]] = defaultdict(set)
    for late_rows in search_shares(
        engine,
        lookup,
        [[searched[number] for number in share] for share in shares],
        find_late_rows,
        size_bytes=len(searched) * 500_000,
        description="look for deletes",
    ):
        for split, rows in late_rows:
            found[split].update(rows.tolist())
    if not found:
        return tagged
    tasks = [
        SettleTask(lookup.folder, lookup.splits[n], tuple(sorted(rows)), tagged.segments.get(n, ()))
        for n, rows in sorted(found.items())
    ]
    files, size = TaskFiles(lookup.folder, SettleTask.reads), _key_bytes(task.split for task in tasks)
    settled = engine.map(settle_late_rows, tasks, size_bytes=size, description="keep late rows out", files=files)
    segments, known = dict(tagged.segments), Counter(tagged.known_rows)
    for number, result in zip(sorted(found), settled, strict=True):
        segments[number] = (*segments.get(number, ()), result.segment)
        known.update({(number, path): rows for path, rows in result.rows})
    return replace(tagged, segments=segments, known_rows=known)


def _key_bytes(splits: Iterable[StagedSplit]) -> int:
    return KEY_BYTES * sum(split.rows for split in splits)


def find_late_rows(_: TaskContext, task: TagTask, staged: KeysOfSlices) -> list[tuple[int, _Rows]]:
    """The staged rows, by split, that are below a delete in the footers or the logs of the task's slices."""
    storage = open_spec(task.storage)
    late: dict[int, list[_Rows]] = defaultdict(list)
    for keys, slices in staged:
        index = KeyIndex.of(keys.keys, may_repeat=task.keys_repeat)
        for searched in slices:
            below = _below_deletes(storage, task, searched.files, keys, index)
            for split in np.unique(keys.split[below]).tolist():
                rows = keys.rows.column(ROW).take(pa.array(below[keys.split[below] == split]))
                late[split].append(np.asarray(rows))
    return [(split, np.unique(np.concatenate(rows))) for split, rows in sorted(late.items())]


def _below_deletes(storage: Storage, task: TagTask, files: SliceFiles, keys: StagedKeys, index: KeyIndex) -> _Rows:
    """The indexes of staged rows that are below a delete of a slice."""
    types = [keys.rows.schema.field(name).type for name in task.ordering_fields]
    rules = replace(task.merging.rules.with_base, ordering_fields=task.ordering_fields)
    below = [np.zeros(0, dtype=np.int64)]
    for stones in (*_deletes_in_footer(storage, task, files, types), *_deletes_in_logs(storage, task, files)):
        found, incoming = index.find(flattened(stones.column(RECORD_KEY)))
        met, rows = stones.take(pa.array(found)), keys.rows.take(pa.array(incoming))
        wins = incoming_wins(ordering_columns(rules, rows), ordering_columns(rules, met), len(incoming))
        below.append(incoming[~wins])
    return np.unique(np.concatenate(below))


def _deletes_in_footer(
    storage: Storage, task: TagTask, files: SliceFiles, types: Sequence[pa.DataType]
) -> Iterator[pa.Table]:
    """The keys and ordering values of the deletes in the footer of a base file."""
    assert files.base is not None
    text = read_footer(storage, files.base).values.get(TOMBSTONES_KEY)
    for deleted in decode_tombstones(text, types, path=files.base):
        assert deleted.ordering is not None
        stones = pa.table([deleted.record_keys, *deleted.ordering], names=[RECORD_KEY, *task.ordering_fields])
        yield stones.filter(pc.invert(deleted.by_commit_time)).combine_chunks()


def _deletes_in_logs(storage: Storage, task: TagTask, files: SliceFiles) -> Iterator[pa.Table]:
    """The keys and ordering values of the deletes in logs."""
    if not files.logs:
        return
    merging = task.merging
    versions = read_log_versions(
        storage,
        files.logs,
        merging.needed_for([]),
        merging.rules.in_logs,
        blocks=files.judged_by(merging.blocks),
        spill=merging.spill,
        names=files.names,
    )
    deletes = ordered_deletes(merging.rules, versions)
    yield pa.Table.from_batches([deletes]).select([RECORD_KEY, *task.ordering_fields])


def settle_late_rows(context: TaskContext, task: SettleTask) -> Settled:
    """Tag the late rows without a stored version; those with one are merged with it, and lose."""
    storage = open_spec(task.folder.storage)
    met = [np.asarray(batch.column(ROW)) for segment in task.tags for batch in read_segment(storage, segment)]
    late = np.setdiff1d(np.array(task.late, dtype=np.int64), np.concatenate([np.zeros(0, np.int64), *met]))
    counts = []
    with open_exchange(storage, task.split.keys_path) as reader:
        for partition in task.split.partitions:
            rows = np.asarray(reader.get_batch(partition.batch).column(ROW))
            if among := int(np.isin(rows, late).sum()):
                counts.append((partition.partition_path, among))
    path = f"{task.folder.path}/late-{context.write_token}.arrow"
    count = len(late)
    tags = {
        ROW: pa.array(late),
        FILE: pa.array(np.full(count, BARRED, dtype=np.int32)),
    }
    others = [pa.array(np.full(count, -1, dtype=np.int64)), pa.array(np.zeros(count, dtype=bool))]
    with ExchangeWriter(storage, path, TAGS_SCHEMA) as writer:
        batch = pa.RecordBatch.from_arrays([*tags.values(), *others], schema=TAGS_SCHEMA)
        segment = Segment(path, (writer.write(batch),), count)
    return Settled(segment, tuple(counts))


def tag_returning_rows(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice], tagged: Tagged) -> Tagged:
    """The tags, and in addition those of rows whose records logs have deleted from the base file that has them.

    Cost: the key columns of the base files of `lookup.decided_by_logs`; two rounds of tasks. Nothing without any.
    """
    searched = [
        SliceToSearch(number, slice_files(file_slice.base, ()), file_slice.partition_path)
        for number, file_slice in enumerate(slices)
    ]
    numbers = [
        number
        for number, file_slice in enumerate(slices)
        if file_slice.base is not None and file_slice.group in lookup.decided_by_logs
    ]
    if not numbers:
        return tagged
    of_bases = search(engine, replace(lookup, folder=lookup.folder.within("bases")), slices, searched, numbers)
    tasks = [
        ReturningTask(lookup.folder, lookup.splits[n], found, tagged.segments.get(n, ()))
        for n, found in sorted(of_bases.segments.items())
    ]
    segments, updates, known = dict(tagged.segments), Counter(tagged.updates), Counter(tagged.known_rows)
    results = engine.map(
        tag_returning,
        tasks,
        size_bytes=_key_bytes(task.split for task in tasks),
        description="tag deleted records that come back",
        files=TaskFiles(lookup.folder, ReturningTask.reads),
    )
    for number, result in zip(sorted(of_bases.segments), results, strict=True):
        segments[number] = (*segments.get(number, ()), result.segment)
        updates.update({slices[at]: rows for at, rows in result.by_slice})
        known.update({(number, path): rows for path, rows in result.by_partition})
    return replace(tagged, segments=segments, updates=updates, known_rows=known)


def tag_returning(context: TaskContext, task: ReturningTask) -> Returning:
    """Tag the rows of a split; each record comes back in one group. Memory: the tags of the split."""
    storage = open_spec(task.folder.storage)
    of_bases = pa.Table.from_batches(
        (batch for segment in task.of_bases for batch in read_segment(storage, segment)), TAGS_SCHEMA
    )
    stored = [np.asarray(batch.column(ROW)) for segment in task.stored for batch in read_segment(storage, segment)]
    rows, first = np.unique(np.asarray(of_bases.column(ROW)), return_index=True)
    returns = ~np.isin(rows, np.concatenate([np.zeros(0, np.int64), *stored]))
    rows, files = rows[returns], np.asarray(of_bases.column(FILE))[first[returns]]
    with open_exchange(storage, task.split.keys_path) as reader:
        by_partition = [
            (partition.partition_path, int(np.isin(reader.get_batch(partition.batch).column(ROW), rows).sum()))
            for partition in task.split.partitions
        ]
    count = len(rows)
    tags = [
        pa.array(rows),
        pa.array(files.astype(np.int32)),
        pa.array(np.full(count, NEW_RECORD, dtype=np.int64)),
        pa.array(np.zeros(count, dtype=bool)),
    ]
    path = f"{task.folder.path}/returning-{context.write_token}.arrow"
    with ExchangeWriter(storage, path, TAGS_SCHEMA) as writer:
        segment = Segment(path, (writer.write(pa.RecordBatch.from_arrays(tags, schema=TAGS_SCHEMA)),), count)
    numbers, counts = np.unique(files, return_counts=True)
    return Returning(segment, tuple(zip(numbers.tolist(), counts.tolist(), strict=True)), tuple(by_partition))
