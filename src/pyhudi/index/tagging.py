"""Tagging: which file group, and which row in its base file, holds an incoming record.

One task searches a share of the newest slices: it compares the key column of each base file with the staged keys that
reach it (`index/delivery.py`). Where logs of a slice may hold records that its base file does not, it compares the
keys of the merged slice. Files are only read, so tagging can run at any time.

Cost per file: its key column. Memory: the staged keys of one partition path, or of several with few keys, at most
`KEYS_AT_ONCE` of them, and as many stored keys.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import ExchangeFolder, ExchangeWriter, Segment
from pyhudi.engine.protocol import TaskContext
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.index.protocol import KeyScope, SliceToSearch
from pyhudi.index.stored_keys import check_stored_keys
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, read_merged
from pyhudi.merge.pairs import Column, flattened, incoming_wins
from pyhudi.merge.versions import ordering_columns
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import FILE, MOVED, TAGS_SCHEMA

KEYS_AT_ONCE = 4_000_000
KEY_BATCH_ROWS = 1_000_000
KEYS_TOGETHER = 4_096
"""Partition paths are searched together up to so many keys: a search costs as much as comparing some hundred keys."""
STAGED_BYTES_AT_ONCE = 1 << 30
STORED_BYTES_AT_ONCE = 128 << 20
TAGS_AT_ONCE = 2_000_000
TAGS_COUNTED_AT_ONCE = 65_536


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

    def filter(self, mask: pa.Array | pa.ChunkedArray) -> StagedKeys:
        """The keys where the mask is true."""
        return StagedKeys(self.rows.filter(mask), self.split[np.asarray(mask)])


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """Finds rows by key. `rows` lists them grouped by key, `starts` where each group begins; None: one each."""

    distinct: pa.Array
    rows: npt.NDArray[np.int64] | None = None
    starts: npt.NDArray[np.int64] | None = None

    @classmethod
    def of(cls, keys: pa.Array, *, may_repeat: bool) -> KeyIndex:
        """An index of the keys of some rows."""
        if not may_repeat:
            return cls(keys)
        encoded = keys.dictionary_encode()
        if len(encoded.dictionary) == len(keys):
            return cls(keys)
        codes = encoded.indices.to_numpy()
        rows = np.argsort(codes, kind="stable")
        return cls(encoded.dictionary, rows, np.searchsorted(codes[rows], np.arange(len(encoded.dictionary) + 1)))

    def find(self, keys: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The pairs of (index in `keys`, row of this index) with equal keys. Hashes all keys of the index."""
        at = pc.index_in(keys, value_set=self.distinct)
        found = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
        groups = at.drop_null().to_numpy().astype(np.int64)
        if self.rows is None or self.starts is None:
            return found, groups
        sizes = self.starts[groups + 1] - self.starts[groups]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.repeat(found, sizes), self.rows[np.repeat(self.starts[groups], sizes) + within]


KeysOfSlices = Iterator[tuple[StagedKeys, tuple[SliceToSearch, ...]]]
"""Staged keys, a bounded number at a time, each time with the slices of a task that may hold them."""


class TagSink:
    """Gathers tags, and writes them to the exchange file `name` of the folder. A context manager.

    Memory: `TAGS_AT_ONCE` tags, and the partition paths of `TAGS_COUNTED_AT_ONCE`.
    """

    def __init__(self, folder: ExchangeFolder, name: str) -> None:
        self._path = f"{folder.path}/{name}.arrow"
        self._writer = ExchangeWriter(open_spec(folder.storage), self._path, TAGS_SCHEMA)
        self._added: list[tuple[pa.RecordBatch, npt.NDArray[np.int32], pa.Array]] = []
        self._rows_added = 0
        self._waiting: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._rows = 0
        self._written: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._updates: Counter[int] = Counter()
        self._known: Counter[tuple[int, str]] = Counter()

    def __enter__(self) -> TagSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.__exit__(kind, error, trace)
            return
        with self._writer:
            self._count()
            self._write()

    def add(self, tags: pa.RecordBatch, splits: npt.NDArray[np.int32], paths: Column) -> None:
        """Add tags, with the number of the split of each row, and the partition path that it is staged for."""
        self._added.append((tags, splits, flattened(paths)))
        self._rows_added += tags.num_rows
        if self._rows_added >= TAGS_COUNTED_AT_ONCE:
            self._count()
        if self._rows >= TAGS_AT_ONCE:
            self._write()

    def _count(self) -> None:
        """Count what was added, and put it to its splits: many slices have a row each."""
        if not self._added:
            return
        tags = pa.concat_batches([tags for tags, _, _ in self._added])
        splits = np.concatenate([splits for _, splits, _ in self._added])
        paths = pa.concat_arrays([paths for _, _, paths in self._added])
        for number, count in zip(*np.unique(tags.column(FILE), return_counts=True), strict=True):
            self._updates[int(number)] += int(count)
        for split in np.unique(splits).tolist():
            of_split = pa.array(splits == split)
            self._waiting[split].append(tags.filter(of_split))
            for found in pc.value_counts(paths.filter(pc.and_not(of_split, tags.column(MOVED)))).to_pylist():
                self._known[split, found["values"]] += found["counts"]
        self._rows += tags.num_rows
        self._added.clear()
        self._rows_added = 0

    def _write(self) -> None:
        for split, batches in sorted(self._waiting.items()):
            batch = pa.concat_batches(batches)
            self._written[split].append((self._writer.write(batch), batch.num_rows))
        self._waiting.clear()
        self._rows = 0

    def result(self) -> TagResult:
        """All that was added; call it after the file is complete."""
        segments = (
            (split, Segment(self._path, tuple(number for number, _ in parts), sum(rows for _, rows in parts)))
            for split, parts in sorted(self._written.items())
        )
        return TagResult(tuple(segments), tuple(self._updates.items()), tuple(self._known.items()))


def tag_files(context: TaskContext, task: TagTask, staged: KeysOfSlices) -> TagResult:
    """Tag the staged rows that the task's slices hold."""
    with TagSink(task.folder, f"tags-{context.write_token}") as sink:
        for searches in _together(staged):
            keys = _joined([keys for keys, _ in searches])
            numbers = range(len(searches)) if len(searches) > 1 else None
            index = KeyIndex.of(_named([keys.keys for keys, _ in searches], numbers), may_repeat=task.keys_repeat)
            for tags, incoming in _tags_in(task, [slices for _, slices in searches], keys, index):
                if not len(incoming):
                    continue
                sink.add(tags, keys.split[incoming], keys.rows.column(PARTITION_PATH).take(pa.array(incoming)))
    return sink.result()


def _together(staged: KeysOfSlices) -> Iterator[list[tuple[StagedKeys, tuple[SliceToSearch, ...]]]]:
    """The keys and their slices, those of several partition paths with few keys together."""
    waiting: list[tuple[StagedKeys, tuple[SliceToSearch, ...]]] = []
    rows = size = 0
    for keys, slices in staged:
        more, more_bytes = keys.rows.num_rows, keys.rows.get_total_buffer_size()
        if waiting and (rows + more > KEYS_TOGETHER or size + more_bytes > STORED_BYTES_AT_ONCE):
            yield waiting
            waiting, rows, size = [], 0, 0
        waiting.append((keys, slices))
        rows += more
        size += more_bytes
    if waiting:
        yield waiting


def _joined(staged: Sequence[StagedKeys]) -> StagedKeys:
    if len(staged) == 1:
        return staged[0]
    rows = pa.concat_tables([keys.rows for keys in staged]).combine_chunks()
    return StagedKeys(rows, np.concatenate([keys.split for keys in staged]))


def _named(keys: Sequence[pa.Array], searches: Sequence[int] | None) -> pa.Array:
    """Keys as one array, behind the numbers of their searches: keys may be equal in two partitions.

    `searches`: the number for each array; None where there is one search, whose keys stay as they are.
    """
    joined = pa.concat_arrays(keys) if len(keys) > 1 else keys[0]
    if searches is None:
        return joined
    numbers = pa.array(np.repeat(searches, [len(array) for array in keys])).cast(pa.string())
    return pc.binary_join_element_wise(numbers, joined, "/")


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """Some stored keys, their slice, and the row of the slice at which they start."""

    searched: SliceToSearch
    start: int
    batch: pa.RecordBatch


def _tags_in(
    task: TagTask, searches: Sequence[Iterable[SliceToSearch]], keys: StagedKeys, index: KeyIndex
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int64]]]:
    """Tags of the slices of each search, a portion at a time, with the indexes of their rows in the staged keys.

    Each search hashes all staged keys. So stored keys of several files are gathered for one search: otherwise each of
    many small files would cost a hashing of all staged keys.
    """
    waiting: list[StoredKeys] = []
    of_search: list[int] = []
    rows = size = 0
    enough = max(len(index.distinct), KEYS_TOGETHER)
    for number, slices in enumerate(searches):
        for stored in stored_keys_of(task, slices):
            is_other = bool(waiting) and stored.batch.schema != waiting[-1].batch.schema
            if rows >= enough or size >= STORED_BYTES_AT_ONCE or is_other:
                yield _matches(task, waiting, of_search if len(searches) > 1 else None, keys, index)
                waiting, of_search, rows, size = [], [], 0, 0
            waiting.append(stored)
            of_search.append(number)
            rows += stored.batch.num_rows
            size += stored.batch.nbytes
    if waiting:
        yield _matches(task, waiting, of_search if len(searches) > 1 else None, keys, index)


def stored_keys_of(task: TagTask, slices: Iterable[SliceToSearch]) -> Iterator[StoredKeys]:
    """The keys of slices, and the ordering values that are compared; batch by batch."""
    storage = open_spec(task.storage)
    columns = [RECORD_KEY, *(task.ordering_fields if task.scope.is_table_wide else ())]
    for searched in slices:
        start = 0
        for batch in stored_rows(storage, searched.files, task.merging, columns):
            check_stored_keys(batch.column(RECORD_KEY), task.key_patterns)
            yield StoredKeys(searched, start, batch)
            start += batch.num_rows


def _matches(
    task: TagTask, waiting: Sequence[StoredKeys], of_search: Sequence[int] | None, keys: StagedKeys, index: KeyIndex
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
    """The tags of staged keys that these stored ones meet, and the indexes of their rows in the staged keys."""
    found, incoming = index.find(_named([stored.batch.column(RECORD_KEY) for stored in waiting], of_search))
    ends = np.cumsum([stored.batch.num_rows for stored in waiting])
    at = np.searchsorted(ends, found, side="right")
    numbers = np.array([stored.searched.number for stored in waiting], dtype=np.int32)
    starts = np.array([stored.start + stored.batch.num_rows for stored in waiting]) - ends
    paths = pa.array([stored.searched.partition_path for stored in waiting], pa.string()).take(pa.array(at))
    met = pa.Table.from_batches([stored.batch for stored in waiting]).take(pa.array(found))
    tags = tags_of(task, keys.rows.take(pa.array(incoming)), met, numbers[at], starts[at] + found, paths)
    return tags, incoming


def stored_rows(
    storage: Storage, files: SliceFiles, merging: MergeSettings, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Columns of a slice; of a base file without logs in the order of its rows, as tags name rows by position."""
    if files.base is not None and not files.logs:
        schema = pa.schema([merging.schema.field(name) for name in columns])
        return read_base_rows(storage, files, schema, batch_rows=KEY_BATCH_ROWS)
    return read_merged(storage, files, merging, columns)


def tags_of(
    how: TagTask,
    incoming: pa.Table,
    stored: pa.RecordBatch | pa.Table,
    slices: npt.NDArray[np.int32],
    positions: npt.NDArray[np.int64],
    paths: pa.Array | pa.Scalar,
) -> pa.RecordBatch:
    """The tags of incoming rows that each meet a stored one, of a slice and its partition path, at a position in it."""
    moved = np.zeros(len(slices), dtype=bool)
    if how.scope is KeyScope.TABLE_MOVES:
        moved = np.asarray(pc.not_equal(incoming.column(PARTITION_PATH), paths))
    if how.ordering_fields and moved.any():
        rules = replace(how.merging.rules.with_base, ordering_fields=how.ordering_fields)
        wins = incoming_wins(ordering_columns(rules, incoming), ordering_columns(rules, stored), len(slices))
        # A late version must not move the record: tagged as an update of the stored row, it loses against it.
        moved = moved & wins
    columns = [
        incoming.column(ROW).combine_chunks(),
        pa.array(slices),
        pa.array(positions, pa.int64()),
        pa.array(moved),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=TAGS_SCHEMA)
