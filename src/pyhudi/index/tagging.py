"""Tagging: which file group, and which row in its base file, holds an incoming record.

One task searches a share of the newest slices: it loads the staged keys of their partitions once, and compares the key
column of each base file with them. Where logs of a slice may hold records that its base file does not, it compares the
keys of the merged slice. Files are only read, so tagging can run at any time.

Cost per file: its key column. Memory: the staged keys of one partition path, at most `KEYS_AT_ONCE` of them, and as
many stored keys.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.index.protocol import KeyScope, SliceToSearch
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.io.exchange import ExchangeFolder, ExchangeWriter, Segment, read_segment
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, read_merged
from pyhudi.merge.pairs import incoming_wins
from pyhudi.merge.versions import ordering_columns
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import MOVED, TAGS_SCHEMA

KEYS_AT_ONCE = 4_000_000
KEY_BATCH_ROWS = 1_000_000
STAGED_BYTES_AT_ONCE = 1 << 30
STORED_BYTES_AT_ONCE = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TagTask:
    """Search some file slices for the staged keys. The fields are those of `Lookup`."""

    storage: StorageSpec
    folder: ExchangeFolder
    slices: tuple[SliceToSearch, ...]
    splits: tuple[StagedSplit, ...]
    merging: MergeSettings
    scope: KeyScope
    ordering_fields: tuple[str, ...]
    keys_repeat: bool
    key_patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TagResult:
    """The tags of some slices as one exchange file, and counts of them.

    `segments`: by the number of the split. `updates_of_slice`: stored rows that meet an incoming one, by the number of
    the slice. `known_rows`: by (number of the split, partition path that the row is staged for), how many staged rows
    are not new records of that partition.
    """

    segments: tuple[tuple[int, Segment], ...]
    updates_of_slice: tuple[tuple[int, int], ...]
    known_rows: tuple[tuple[tuple[int, str], int], ...]


@dataclass(frozen=True, slots=True)
class StagedKeys:
    """Staged keys of one or all partition paths: table of key, partition path, row, ordering; and their split."""

    rows: pa.Table
    split: npt.NDArray[np.int32]

    @property
    def keys(self) -> pa.Array:
        """The record keys as one array."""
        return self.rows.column(RECORD_KEY).combine_chunks()


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Finds staged rows by key. `rows` lists them grouped by key, `starts` where each group begins; None: one each."""

    distinct: pa.Array
    rows: npt.NDArray[np.int64] | None = None
    starts: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, keys: pa.Array, *, keys_repeat: bool) -> KeyIndex:
        """An index of the keys of staged rows."""
        if not keys_repeat:
            return cls(keys)
        encoded = keys.dictionary_encode()
        codes = encoded.indices.to_numpy()
        rows = np.argsort(codes, kind="stable")
        return cls(encoded.dictionary, rows, np.searchsorted(codes[rows], np.arange(len(encoded.dictionary) + 1)))

    def find(self, stored_keys: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The pairs of (index in the stored keys, staged row) with equal keys."""
        at = pc.index_in(stored_keys, value_set=self.distinct)
        found = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
        groups = at.drop_null().to_numpy().astype(np.int64)
        if self.rows is None or self.starts is None:
            return found, groups
        sizes = self.starts[groups + 1] - self.starts[groups]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(found, sizes), self.rows[np.repeat(self.starts[groups], sizes) + within]


def tag_files(context: TaskContext, task: TagTask) -> TagResult:
    """Tag the staged rows that the task's slices hold."""
    storage = open_spec(task.storage)
    found: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    updates: Counter[int] = Counter()
    known: Counter[tuple[int, str]] = Counter()
    for keys, slices in keys_with_slices(task):
        index = KeyIndex.of(keys.keys, keys_repeat=task.keys_repeat)
        for searched, tags, incoming in _tags_in(storage, task, slices, keys, index):
            updates[searched.number] += tags.num_rows
            splits = keys.split[incoming]
            for split in np.unique(splits).tolist():
                of_split = pa.array(splits == split)
                found[split].append(tags.filter(of_split))
                stays = pc.and_not(of_split, tags.column(MOVED))
                paths = keys.rows.column(PARTITION_PATH).take(pa.array(incoming)).filter(stays)
                for count in pc.value_counts(paths).to_pylist():
                    known[split, count["values"]] += count["counts"]
    path = f"{task.folder.path}/tags-{context.write_token}.arrow"
    segments = []
    with ExchangeWriter(open_spec(task.folder.storage), path, TAGS_SCHEMA) as writer:
        for split, batches in sorted(found.items()):
            batch = pa.concat_batches(batches)
            segments.append((split, Segment(path, (writer.write(batch),), batch.num_rows)))
    return TagResult(tuple(segments), tuple(updates.items()), tuple(known.items()))


def keys_with_slices(task: TagTask) -> Iterator[tuple[StagedKeys, tuple[SliceToSearch, ...]]]:
    """The staged keys, a bounded number at a time, each time with the slices of the task that may hold them."""
    if task.scope.is_table_wide:
        for keys in staged_keys(task, None):
            yield keys, task.slices
        return
    by_partition: dict[str, list[SliceToSearch]] = defaultdict(list)
    for searched in task.slices:
        by_partition[searched.partition_path].append(searched)
    for partition_path, slices in by_partition.items():
        for keys in staged_keys(task, partition_path):
            yield keys, tuple(slices)


def staged_keys(task: TagTask, partition_path: str | None) -> Iterator[StagedKeys]:
    """The staged keys of a partition path, or all of them, at most about `KEYS_AT_ONCE` at a time."""
    storage = open_spec(task.folder.storage)
    batches: list[pa.RecordBatch] = []
    splits: list[npt.NDArray[np.int32]] = []
    rows = size = 0
    for number, split in enumerate(task.splits):
        wanted = tuple(p.batch for p in split.partitions if partition_path in (None, p.partition_path))
        for batch in read_segment(storage, Segment(split.keys_path, wanted, 0)) if wanted else ():
            if batches and (rows + batch.num_rows > KEYS_AT_ONCE or size + batch.nbytes > STAGED_BYTES_AT_ONCE):
                yield StagedKeys(pa.Table.from_batches(batches), np.concatenate(splits))
                batches, splits, rows, size = [], [], 0, 0
            batches.append(batch)
            splits.append(np.full(batch.num_rows, number, dtype=np.int32))
            rows += batch.num_rows
            size += batch.nbytes
    if batches:
        yield StagedKeys(pa.Table.from_batches(batches), np.concatenate(splits))


@dataclass(frozen=True, slots=True)
class _StoredKeys:
    """Some stored keys, their slice, and the row of the slice at which they start."""

    searched: SliceToSearch
    start: int
    batch: pa.RecordBatch


def _tags_in(
    storage: Storage, task: TagTask, slices: Iterable[SliceToSearch], keys: StagedKeys, index: KeyIndex
) -> Iterator[tuple[SliceToSearch, pa.RecordBatch, npt.NDArray[np.int64]]]:
    """Tags of slices, batch by batch, each with the indexes of their rows in the staged keys.

    Each search hashes all staged keys. So stored keys of several files are gathered for one search: otherwise each of
    many small files would cost a hashing of all staged keys.
    """
    waiting: list[_StoredKeys] = []
    rows = size = 0
    for stored in _stored_keys_of(storage, task, slices):
        waiting.append(stored)
        rows += stored.batch.num_rows
        size += stored.batch.nbytes
        if rows >= len(index.distinct) or size >= STORED_BYTES_AT_ONCE:
            yield from _matches(task, waiting, keys, index)
            waiting, rows, size = [], 0, 0
    yield from _matches(task, waiting, keys, index)


def _stored_keys_of(storage: Storage, task: TagTask, slices: Iterable[SliceToSearch]) -> Iterator[_StoredKeys]:
    columns = [RECORD_KEY, *(task.ordering_fields if task.scope.is_table_wide else ())]
    for searched in slices:
        start = 0
        for batch in stored_rows(storage, searched.files, task.merging, columns):
            check_stored_keys(batch.column(RECORD_KEY), task.key_patterns)
            yield _StoredKeys(searched, start, batch)
            start += batch.num_rows


def _matches(
    task: TagTask, waiting: Sequence[_StoredKeys], keys: StagedKeys, index: KeyIndex
) -> Iterator[tuple[SliceToSearch, pa.RecordBatch, npt.NDArray[np.int64]]]:
    if not waiting:
        return
    found, incoming = index.find(pa.concat_arrays([stored.batch.column(RECORD_KEY) for stored in waiting]))
    ends = np.cumsum([stored.batch.num_rows for stored in waiting])
    bounds = np.searchsorted(found, [0, *ends])
    for number, stored in enumerate(waiting):
        first, last = bounds[number], bounds[number + 1]
        if first < last:
            at, rows = found[first:last] - (ends[number] - stored.batch.num_rows), incoming[first:last]
            tags = _tags(task, stored.searched, keys, rows, stored.batch.take(pa.array(at)), stored.start + at)
            yield stored.searched, tags, rows


def stored_rows(
    storage: Storage, files: SliceFiles, merging: MergeSettings, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Columns of a slice; of a base file without logs in the order of its rows, as tags name rows by position."""
    if files.base is not None and not files.logs:
        schema = pa.schema([merging.schema.field(name) for name in columns])
        return read_base_rows(storage, files, schema, batch_rows=KEY_BATCH_ROWS)
    return read_merged(storage, files, merging, columns)


def _tags(
    task: TagTask,
    searched: SliceToSearch,
    keys: StagedKeys,
    incoming: npt.NDArray[np.int64],
    stored: pa.RecordBatch,
    positions: npt.NDArray[np.int64],
) -> pa.RecordBatch:
    matched = keys.rows.take(pa.array(incoming))
    moved = np.zeros(len(incoming), dtype=bool)
    if task.scope is KeyScope.TABLE_MOVES:
        moved = pc.not_equal(matched.column(PARTITION_PATH), searched.partition_path).to_numpy()
    if task.ordering_fields and moved.any():
        rules = replace(task.merging.rules.with_base, ordering_fields=task.ordering_fields)
        wins = incoming_wins(ordering_columns(rules, matched), ordering_columns(rules, stored), len(incoming))
        # A late version must not move the record: tagged as an update of the stored row, it loses against it.
        moved = moved & wins
    return pa.RecordBatch.from_arrays(
        [
            matched.column(ROW).combine_chunks(),
            pa.array(np.full(len(incoming), searched.number, dtype=np.int32)),
            pa.array(positions, pa.int64()),
            pa.array(moved),
        ],
        schema=TAGS_SCHEMA,
    )
