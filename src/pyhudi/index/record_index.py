"""The record index: each key is looked up in the metadata table, at a cost that does not grow with the table.

The staged keys are sorted by file group of the index, and one task looks the keys of a file group up. The index knows
the file group of a record, not its row: a task that rewrites a base file finds the rows itself
(`UNKNOWN_POSITION`). Only where a record would move to another partition, and ordering values decide whether it does,
are its stored rows read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.engine.shares import spread
from pyhudi.errors import CorruptDataError
from pyhudi.format.pieces import one_batch
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.index.protocol import Index, KeyScope, Lookup, Tagged
from pyhudi.index.search import search, to_search
from pyhudi.io.exchange import ExchangeWriter, Segment, read_segment
from pyhudi.merge.pairs import as_mask
from pyhudi.metadata_table.record_locations import LocationReader, Locations
from pyhudi.metadata_table.unused_warning import warn_of_index
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.metadata_partitions import RECORD_INDEX
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER
from pyhudi.tasks.route import UNKNOWN_POSITION
from pyhudi.tasks.stage import ROW, StagedPartition, StagedSplit
from pyhudi.tasks.tagged_rows import TAGS_SCHEMA

KEYS_AT_ONCE = 1_000_000
_KEY_BYTES = 200
"""About how much of the index is read for a key."""


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """RECORD_INDEX, GLOBAL_RECORD_LEVEL_INDEX and RECORD_LEVEL_INDEX.

    `locations` reads the index. `fallback` searches files where it is damaged.

    Cost: two rounds of tasks over the keys, and the blocks of the index that may hold them; where records would move,
    and ordering values decide, also the key columns of the file groups that hold them.
    """

    locations: LocationReader
    fallback: Index

    def tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        """See `Index.tag`."""
        if lookup.key_patterns:
            # The forms of keys are checked as files are searched.
            return self.fallback.tag(engine, lookup, slices)
        try:
            return replace(self._tag(engine, lookup, slices), by_record_index=True)
        except CorruptDataError as error:
            if not str(error.context.get("path", "")).startswith(METADATA_TABLE_FOLDER):
                raise
            warn_of_index(open_spec(lookup.storage), RECORD_INDEX, f"{error}; files are searched instead")
            return self.fallback.tag(engine, lookup, slices)

    def _tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        keys = _by_index_group(engine, lookup, self.locations)
        number_of = {file_slice.group: number for number, file_slice in enumerate(slices)}
        shares = spread({group: sum(part.rows for _, part in parts) for group, parts in keys.items()}, len(keys))
        found = engine.map(
            look_up_keys,
            [
                LookUpTask(
                    storage=lookup.storage,
                    folder=lookup.folder,
                    locations=self.locations,
                    keys=tuple((group, keys[group]) for group in share),
                    number_of=number_of,
                    moves=lookup.scope is KeyScope.TABLE_MOVES,
                    contests=bool(lookup.ordering_fields),
                )
                for share in shares
            ],
            size_bytes=_KEY_BYTES * sum(split.rows for split in lookup.splits),
            description="look record keys up in the record index",
        )
        return _with_contests(engine, lookup, slices, found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SortKeysTask:
    """Sort the staged keys of a split by file group of the index."""

    storage: StorageSpec
    folder: str
    split: StagedSplit
    locations: LocationReader


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpTask:
    """Look staged keys up.

    `keys`: by file group of the index, the keys of each split. `number_of`: the numbers of slices in tags. `moves`:
    records move with their partition path; `contests`: unless their row is late.
    """

    storage: StorageSpec
    folder: str
    locations: LocationReader
    keys: tuple[tuple[int, tuple[tuple[int, Segment], ...]], ...]
    number_of: Mapping[FileGroupId, int]
    moves: bool
    contests: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a lookup: see `TagResult`.

    `contested`: by split the rows that would move to another partition, for a comparison with their stored rows, and
    the numbers of the slices that hold these.
    """

    segments: tuple[tuple[int, Segment], ...]
    updates_of_slice: tuple[tuple[int, int], ...]
    known_rows: tuple[tuple[tuple[int, str], int], ...]
    contested: tuple[tuple[int, StagedSplit], ...] = ()
    contested_slices: frozenset[int] = frozenset()


def sort_keys(context: TaskContext, task: SortKeysTask) -> tuple[tuple[int, Segment], ...]:
    """Write an exchange file of the split's keys, a batch for each file group of the index. Memory: the keys."""
    storage = open_spec(task.storage)
    numbers = tuple(part.batch for part in task.split.partitions)
    batches = list(read_segment(storage, Segment(task.split.keys_path, numbers, task.split.rows)))
    groups = np.concatenate(
        [
            task.locations.groups_of(part.partition_path, batch.column(RECORD_KEY))
            for part, batch in zip(task.split.partitions, batches, strict=True)
        ]
    )
    keys = one_batch(pa.Table.from_batches(batches))
    path = f"{task.folder}/index-keys-{context.write_token}.arrow"
    found = []
    with ExchangeWriter(storage, path, keys.schema) as writer:
        for group, rows in _grouped(groups):
            if group >= 0:
                found.append((group, Segment(path, (writer.write(keys.take(pa.array(rows))),), len(rows))))
    return tuple(found)


def look_up_keys(context: TaskContext, task: LookUpTask) -> Found:
    """Tag the keys that the index has. Memory: `KEYS_AT_ONCE` keys, and the tags."""
    storage = open_spec(task.storage)
    tags: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    contested: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    updates: Counter[int] = Counter()
    known: Counter[tuple[int, str]] = Counter()
    contested_slices: set[int] = set()
    for group, parts in task.keys:
        for split, keys in _keys_at_once(storage, parts):
            slices, partitions = _slices_of(task, task.locations.find(storage, group, keys.column(RECORD_KEY)))
            is_known = slices >= 0
            moved = np.zeros(keys.num_rows, dtype=bool)
            if task.moves:
                moved = is_known & ~as_mask(pc.equal(partitions, keys.column(PARTITION_PATH)))
            if task.contests and moved.any():
                contested[split].append(keys.filter(pa.array(moved)))
                contested_slices.update(np.unique(slices[moved]).tolist())
                is_known, moved = is_known & ~moved, np.zeros_like(moved)
            at = np.flatnonzero(is_known)
            tags[split].append(_tags(keys, at, slices, moved))
            for number, count in zip(*np.unique(slices[at], return_counts=True), strict=True):
                updates[int(number)] += int(count)
            stays = keys.column(PARTITION_PATH).filter(pa.array(is_known & ~moved))
            for entry in pc.value_counts(stays).to_pylist():
                known[split, entry["values"]] += entry["counts"]
    return Found(
        segments=_written(storage, f"{task.folder}/record-tags-{context.write_token}.arrow", tags),
        updates_of_slice=tuple(updates.items()),
        known_rows=tuple(known.items()),
        contested=tuple(_staged(storage, f"{task.folder}/contested-{context.write_token}", contested)),
        contested_slices=frozenset(contested_slices),
    )


def _by_index_group(
    engine: Engine, lookup: Lookup, locations: LocationReader
) -> dict[int, tuple[tuple[int, Segment], ...]]:
    """The staged keys of each file group of the index, with the numbers of their splits."""
    tasks = [
        SortKeysTask(storage=lookup.storage, folder=lookup.folder, split=split, locations=locations)
        for split in lookup.splits
    ]
    size = _KEY_BYTES * sum(split.rows for split in lookup.splits)
    found: dict[int, list[tuple[int, Segment]]] = defaultdict(list)
    for number, result in enumerate(engine.map(sort_keys, tasks, size_bytes=size, description="sort record keys")):
        for group, segment in result:
            found[group].append((number, segment))
    return {group: tuple(parts) for group, parts in sorted(found.items())}


def _with_contests(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice], found: Sequence[Found]) -> Tagged:
    """The tags of all tasks, and those of contested rows, whose stored rows are searched for."""
    segments: dict[int, list[Segment]] = defaultdict(list)
    updates: Counter[FileSlice] = Counter()
    known: Counter[tuple[int, str]] = Counter()
    for one in found:
        for split, segment in one.segments:
            segments[split].append(segment)
        updates.update({slices[number]: rows for number, rows in one.updates_of_slice})
        known.update(dict(one.known_rows))
    contested = [part for one in found for part in one.contested]
    if contested:
        searched = [to_search(lookup, number, file_slice) for number, file_slice in enumerate(slices)]
        held_by = {number for one in found for number in one.contested_slices}
        part_of_lookup = replace(lookup, splits=tuple(split for _, split in contested))
        weights = {number: slices[number].size for number in held_by}
        settled = search(engine, part_of_lookup, slices, searched, weights)
        for number, parts in settled.segments.items():
            segments[contested[number][0]].extend(parts)
        updates.update(settled.updates)
        for (number, path), rows in settled.known_rows.items():
            known[contested[number][0], path] += rows
    return Tagged(tuple(slices), {split: tuple(parts) for split, parts in segments.items()}, updates, known)


def _keys_at_once(storage: Storage, parts: Sequence[tuple[int, Segment]]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for split, segment in parts:
        for batch in read_segment(storage, segment):
            for start in range(0, batch.num_rows, KEYS_AT_ONCE):
                yield split, batch.slice(start, KEYS_AT_ONCE)


def _slices_of(task: LookUpTask, found: Locations) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The number of the slice of each key, and its partition; -1 for a key that no slice has.

    A group without a slice has been replaced since, so it has no records any more.
    """
    numbers = np.array(
        [task.number_of.get(FileGroupId(partition, file_id), -1) for partition, file_id in found.groups], dtype=np.int64
    )
    paths = pa.array([partition for partition, _ in found.groups], pa.string())
    is_found = found.number >= 0
    slices = np.full(len(found.number), -1, dtype=np.int64)
    slices[is_found] = numbers[found.number[is_found]]
    return slices, paths.take(pa.array(found.number, mask=~is_found))


def _tags(
    keys: pa.RecordBatch, at: npt.NDArray[np.int64], slices: npt.NDArray[np.int64], moved: npt.NDArray[np.bool_]
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            keys.column(ROW).take(pa.array(at)),
            pa.array(slices[at].astype(np.int32)),
            pa.array(np.full(len(at), UNKNOWN_POSITION, dtype=np.int64)),
            pa.array(moved[at]),
        ],
        schema=TAGS_SCHEMA,
    )


def _written(
    storage: Storage, path: str, tags: Mapping[int, Sequence[pa.RecordBatch]]
) -> tuple[tuple[int, Segment], ...]:
    segments = []
    with ExchangeWriter(storage, path, TAGS_SCHEMA) as writer:
        for split, batches in sorted(tags.items()):
            batch = pa.concat_batches(batches)
            if batch.num_rows:
                segments.append((split, Segment(path, (writer.write(batch),), batch.num_rows)))
    return tuple(segments)


def _staged(
    storage: Storage, path: str, contested: Mapping[int, Sequence[pa.RecordBatch]]
) -> Iterator[tuple[int, StagedSplit]]:
    """The contested rows in the form of staged splits, one for each split that they are of."""
    for split, batches in sorted(contested.items()):
        rows = pa.concat_batches(batches)
        keys_path = f"{path}-{split}.arrow"
        with ExchangeWriter(storage, keys_path, rows.schema) as writer:
            partitions = []
            for name in pc.unique(rows.column(PARTITION_PATH)).to_pylist():
                part = rows.filter(pc.equal(rows.column(PARTITION_PATH), name))
                partitions.append(StagedPartition(name, part.num_rows, writer.write(part)))
        yield split, StagedSplit("", keys_path, rows.num_rows, rows.nbytes, tuple(partitions))


def _grouped(groups: npt.NDArray[np.int32]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The places of each number, in their order."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    if len(groups) == 0:
        return
    starts = np.flatnonzero(np.append(True, sorted_groups[1:] != sorted_groups[:-1])).tolist()
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(sorted_groups[start]), order[start:end]
