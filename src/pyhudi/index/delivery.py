"""Staged keys on their way to the tasks that search file slices.

A few keys are read by each task from the files of the staging: every task opens those of all splits. On other machines
more of them are sent (`Engine.exchange`): each split is read once, and a key goes to the tasks whose slices are of its
partition.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import ExchangeFiles, ExchangeFolder, FilePart, TaskFiles, open_exchange
from pyhudi.engine.protocol import AddressedRows, Engine, Exchange, TaskContext
from pyhudi.format.schema.meta_columns import PARTITION_PATH
from pyhudi.index.protocol import Lookup, SliceToSearch
from pyhudi.index.tagging import KEYS_AT_ONCE, STAGED_BYTES_AT_ONCE, KeysOfSlices, StagedKeys, TagTask
from pyhudi.storage.open import open_spec
from pyhudi.tasks.stage import StagedSplit

R = TypeVar("R")
Search = Callable[[TaskContext, TagTask, KeysOfSlices], R]
_Place = tuple[int, str, int]
"""The number of a split, its keys file, and the number of a batch in it."""

READ_KEYS_MAX = 4_000_000
"""How many staged keys tasks on other machines together read from the files of the staging: more are sent."""
KEY_BYTES = 64
"""About what a staged key takes, with what is sent beside it."""
SPLIT = "#split"
"""The number of the split that a sent key is of."""


def tag_task(lookup: Lookup, slices: Sequence[SliceToSearch], splits: Sequence[StagedSplit] = ()) -> TagTask:
    """The task that searches some slices, for the keys of some splits or for those that it is sent."""
    return TagTask(
        storage=lookup.storage,
        folder=lookup.folder,
        slices=tuple(slices),
        splits=tuple(splits),
        merging=lookup.merging,
        scope=lookup.scope,
        ordering_fields=lookup.ordering_fields,
        keys_repeat=lookup.keys_repeat,
        key_patterns=lookup.key_patterns,
    )


def search_shares(
    engine: Engine,
    lookup: Lookup,
    shares: Sequence[Sequence[SliceToSearch]],
    run: Search[R],
    *,
    size_bytes: int,
    description: str,
) -> list[R]:
    """Run a function over shares of slices and the staged keys that these may hold. Returns the results in their order.

    A share that no key may be in may have no result. `size_bytes`: about what all of them read of slices.

    Cost: a round of tasks, which each open the keys files of all splits; or an exchange of the keys.
    """
    keys = keys_read(lookup, shares)
    if engine.on_one_machine or keys <= READ_KEYS_MAX:
        return engine.map(
            functools.partial(_run_reading, run),
            [tag_task(lookup, share, lookup.splits) for share in shares],
            size_bytes=size_bytes + KEY_BYTES * sum(split.rows for split in lookup.splits),
            description=description,
            files=TaskFiles(lookup.folder, keys_of_slices),
        )
    table_wide = lookup.scope.is_table_wide
    wanted: dict[str | None, set[int]] = defaultdict(set)
    for number, share in enumerate(shares):
        for searched in share:
            wanted[None if table_wide else searched.partition_path].add(number)
    return engine.exchange(
        Exchange(
            send=functools.partial(send_to_shares, {path: tuple(sorted(to)) for path, to in wanted.items()}),
            senders=[SendKeysTask(lookup.folder, number, split) for number, split in enumerate(lookup.splits)],
            receive=functools.partial(_run_sent, run),
            receivers=[tag_task(lookup, share) for share in shares],
            sizes=[(size_bytes + keys * KEY_BYTES) // len(shares)] * len(shares),
            sent_bytes=keys * KEY_BYTES,
            spill=lookup.merging.spill,
            description=description,
            files=TaskFiles(lookup.folder, SendKeysTask.reads),
        )
    )


def keys_read(lookup: Lookup, shares: Iterable[Iterable[SliceToSearch]]) -> int:
    """How many staged keys tasks over these shares search for, a key counted once for each task."""
    if lookup.scope.is_table_wide:
        return sum(split.rows for split in lookup.splits) * sum(1 for share in shares)
    staged = staged_rows(lookup)
    return sum(staged[path] for share in shares for path in {searched.partition_path for searched in share})


def staged_rows(lookup: Lookup) -> Mapping[str, int]:
    """How many rows are staged for each partition path."""
    counts: Counter[str] = Counter()
    for split in lookup.splits:
        for partition in split.partitions:
            counts[partition.partition_path] += partition.rows
    return counts


@dataclass(frozen=True, slots=True)
class SendKeysTask:
    """Send the staged keys of a split. `number`: that of the split."""

    folder: ExchangeFolder
    number: int
    split: StagedSplit

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads."""
        yield FilePart(self.split.keys_path)

    def partitions(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The partition paths of the split, each with its keys. Memory: the keys of one of them."""
        with open_exchange(open_spec(self.folder.storage), self.split.keys_path) as reader:
            for part in self.split.partitions:
                yield part.partition_path, reader.get_batch(part.batch)

    def numbered(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Keys of the split with its number, as they are sent."""
        return keys.append_column(SPLIT, pa.array(np.full(keys.num_rows, self.number, dtype=np.int32)))


def send_to_shares(
    wanted: Mapping[str | None, tuple[int, ...]], _: TaskContext, task: SendKeysTask
) -> Iterator[AddressedRows]:
    """The keys of a split, to all shares that have slices of their partition (None: of any)."""
    for path, keys in task.partitions():
        for share in wanted.get(None, wanted.get(path, ())):
            yield AddressedRows(task.numbered(keys), np.full(keys.num_rows, share, dtype=np.int64))


def _run_reading(run: Search[R], context: TaskContext, task: TagTask) -> R:
    return run(context, task, read_keys(task))


def _run_sent(run: Search[R], context: TaskContext, task: TagTask, incoming: Iterator[pa.RecordBatch]) -> R:
    return run(context, task, _sent_keys(task, incoming))


def read_keys(task: TagTask) -> KeysOfSlices:
    """The keys of the task's splits with its slices."""
    by_partition = _by_partition(task)
    places = _places(task.splits, by_partition.keys())
    with ExchangeFiles(open_spec(task.folder.storage)) as files:
        for path, slices in by_partition.items():
            for keys in in_portions(_batches(files, places[path]), KEYS_AT_ONCE):
                yield keys, slices


def keys_of_slices(task: TagTask) -> Iterator[FilePart]:
    """The parts of exchange files that `read_keys` reads."""
    return _parts(_places(task.splits, _by_partition(task).keys()))


def keys_of_splits(task: TagTask) -> Iterator[FilePart]:
    """The parts of exchange files that `staged_keys` reads."""
    return _parts(_places(task.splits, (None,)))


def _parts(places: Mapping[str | None, Iterable[_Place]]) -> Iterator[FilePart]:
    batches: dict[str, list[int]] = defaultdict(list)
    for _, path, number in chain.from_iterable(places.values()):
        batches[path].append(number)
    return (FilePart(path, tuple(numbers)) for path, numbers in batches.items())


def _sent_keys(task: TagTask, incoming: Iterator[pa.RecordBatch]) -> KeysOfSlices:
    """The keys that the task was sent, with its slices."""
    by_partition = _by_partition(task)
    for keys in in_portions(map(numbered_apart, incoming), KEYS_AT_ONCE):
        if None in by_partition:
            yield keys, by_partition[None]
            continue
        for path in pc.unique(keys.rows.column(PARTITION_PATH)).to_pylist():
            yield keys.filter(pc.equal(keys.rows.column(PARTITION_PATH), path)), by_partition[path]


def _by_partition(task: TagTask) -> dict[str | None, tuple[SliceToSearch, ...]]:
    """The slices of the task by the partition path that their keys are staged for; None: for any."""
    by_partition: dict[str | None, list[SliceToSearch]] = defaultdict(list)
    for searched in task.slices:
        by_partition[None if task.scope.is_table_wide else searched.partition_path].append(searched)
    return {path: tuple(slices) for path, slices in by_partition.items()}


def staged_keys(task: TagTask) -> Iterator[StagedKeys]:
    """All keys of the task's splits, at most about `KEYS_AT_ONCE` at a time."""
    with ExchangeFiles(open_spec(task.folder.storage)) as files:
        yield from in_portions(_batches(files, _places(task.splits, (None,))[None]), KEYS_AT_ONCE)


def _places(splits: Sequence[StagedSplit], wanted: Collection[str | None]) -> Mapping[str | None, list[_Place]]:
    """Where the keys of the wanted partition paths are, by path; all of them by `None` if that is wanted."""
    places: dict[str | None, list[_Place]] = defaultdict(list)
    for number, split in enumerate(splits):
        for part in split.partitions:
            path = None if None in wanted else part.partition_path
            if path in wanted:
                places[path].append((number, split.keys_path, part.batch))
    return places


def _batches(files: ExchangeFiles, places: Iterable[_Place]) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    """The keys at these places, each batch with the split of each key."""
    for split, path, number in places:
        batch = files.batch(path, number)
        yield batch, np.full(batch.num_rows, split, dtype=np.int32)


def numbered_apart(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
    """Keys that were sent, and the number of the split of each."""
    return batch.drop_columns([SPLIT]), np.asarray(batch.column(SPLIT))


def in_portions(
    batches: Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int32]]], keys_at_once: int
) -> Iterator[StagedKeys]:
    """The keys, each batch with the splits of its rows, at most so many at a time."""
    waiting: list[pa.RecordBatch] = []
    splits: list[npt.NDArray[np.int32]] = []
    rows = size = 0
    for batch, of_splits in (part for staged in batches for part in _cut(*staged, keys_at_once)):
        if waiting and (rows + batch.num_rows > keys_at_once or size + batch.nbytes > STAGED_BYTES_AT_ONCE):
            yield StagedKeys(pa.Table.from_batches(waiting), np.concatenate(splits))
            waiting, splits, rows, size = [], [], 0, 0
        waiting.append(batch)
        splits.append(of_splits)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield StagedKeys(pa.Table.from_batches(waiting), np.concatenate(splits))


def _cut(
    batch: pa.RecordBatch, splits: npt.NDArray[np.int32], rows: int
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows), splits[start : start + rows]


def gathered(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The batches, joined to some of at least so many rows; the last one may have fewer."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield pa.concat_batches(waiting)
            waiting, count = [], 0
    if waiting:
        yield pa.concat_batches(waiting)
