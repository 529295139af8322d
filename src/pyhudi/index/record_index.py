"""The record index: each key is looked up in the metadata table, at a cost that does not grow with the table.

The staged keys are sent to tasks for the file groups of the index, each of which looks its keys up. The index knows the
file group of a record, not its row: a task that rewrites a base file finds the rows itself
(`UNKNOWN_POSITION`). Only where a record would move to another partition, and ordering values decide whether it does,
are its stored rows read.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import AddressedRows, Engine, Exchange, TaskContext
from pyhudi.errors import CorruptDataError
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.index.protocol import Index, KeyScope, Lookup, Tagged
from pyhudi.index.search import search, to_search
from pyhudi.io.exchange import ExchangeFolder, ExchangeWriter, Segment, read_segment
from pyhudi.merge.pairs import as_mask
from pyhudi.metadata_table.read_checks import warn_of_index
from pyhudi.metadata_table.record_locations import LocationReader, Locations
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
_SPLIT = "#split"
"""The number of the split that a staged key is of."""


@dataclass(frozen=True, slots=True)
class RecordIndex:
    """RECORD_INDEX, GLOBAL_RECORD_LEVEL_INDEX and RECORD_LEVEL_INDEX.

    `locations` reads the index. `fallback` searches files where it is damaged.

    Cost: one exchange of the keys, and the blocks of the index that may hold them; where records would move,
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
        groups, size = len(self.locations.groups), _KEY_BYTES * sum(split.rows for split in lookup.splits)
        how = HowToLookUp(
            storage=lookup.storage,
            folder=lookup.folder,
            locations=self.locations,
            number_of={file_slice.group: number for number, file_slice in enumerate(slices)},
            moves=lookup.scope is KeyScope.TABLE_MOVES,
            contests=bool(lookup.ordering_fields),
        )
        found = engine.exchange(
            Exchange(
                send=functools.partial(send_keys, self.locations),
                senders=[SendKeysTask(lookup.folder, number, split) for number, split in enumerate(lookup.splits)],
                receive=functools.partial(look_up_keys, how),
                receivers=range(groups),
                sizes=[size // max(1, groups)] * groups,
                sent_bytes=size,
                spill=lookup.merging.spill,
                description="look record keys up in the record index",
            )
        )
        return _with_contests(engine, lookup, slices, found)


@dataclass(frozen=True, slots=True)
class SendKeysTask:
    """Send the staged keys of a split to the file groups of the index. `number`: that of the split."""

    folder: ExchangeFolder
    number: int
    split: StagedSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToLookUp:
    """How staged keys are looked up.

    `number_of`: the numbers of slices in tags. `moves`: records move with their partition path; `contests`: unless
    their row is late.
    """

    storage: StorageSpec
    folder: ExchangeFolder
    locations: LocationReader
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


def send_keys(locations: LocationReader, _: TaskContext, task: SendKeysTask) -> Iterator[AddressedRows]:
    """The split's keys, to the file groups of the index that may have them. Memory: the keys of a partition path."""
    storage = open_spec(task.folder.storage)
    for part in task.split.partitions:
        for keys in read_segment(storage, Segment(task.split.keys_path, (part.batch,), part.rows)):
            groups = locations.groups_of(part.partition_path, keys.column(RECORD_KEY)).astype(np.int64)
            may_be_there = np.flatnonzero(groups >= 0)
            if len(may_be_there):
                numbered = keys.append_column(_SPLIT, pa.array(np.full(keys.num_rows, task.number, dtype=np.int64)))
                yield AddressedRows(numbered.take(pa.array(may_be_there)), groups[may_be_there])


def look_up_keys(how: HowToLookUp, context: TaskContext, group: int, incoming: Iterator[pa.RecordBatch]) -> Found:
    """Tag the keys that a file group of the index has. Memory: `KEYS_AT_ONCE` keys, and the tags."""
    storage = open_spec(how.storage)
    tags: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    contested: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    updates: Counter[int] = Counter()
    known: Counter[tuple[int, str]] = Counter()
    contested_slices: set[int] = set()
    for batch in _at_once(incoming):
        all_slices, all_partitions = _slices_of(how, how.locations.find(storage, group, batch.column(RECORD_KEY)))
        for split, rows in _grouped(np.asarray(batch.column(_SPLIT))):
            keys = batch.drop_columns([_SPLIT]).take(pa.array(rows))
            slices, partitions = all_slices[rows], all_partitions.take(pa.array(rows))
            is_known = slices >= 0
            moved = np.zeros(keys.num_rows, dtype=bool)
            if how.moves:
                moved = is_known & ~as_mask(pc.equal(partitions, keys.column(PARTITION_PATH)))
            if how.contests and moved.any():
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
    exchanged = open_spec(how.folder.storage)
    return Found(
        segments=_written(exchanged, f"{how.folder.path}/record-tags-{context.write_token}.arrow", tags),
        updates_of_slice=tuple(updates.items()),
        known_rows=tuple(known.items()),
        contested=tuple(_staged(exchanged, f"{how.folder.path}/contested-{context.write_token}", contested)),
        contested_slices=frozenset(contested_slices),
    )


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


def _at_once(incoming: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The keys in batches of up to `KEYS_AT_ONCE`: the index is read anew for each of them."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in incoming:
        for start in range(0, batch.num_rows, KEYS_AT_ONCE):
            part = batch.slice(start, KEYS_AT_ONCE)
            if rows + part.num_rows > KEYS_AT_ONCE:
                yield pa.concat_batches(waiting)
                waiting, rows = [], 0
            waiting.append(part)
            rows += part.num_rows
    if waiting:
        yield pa.concat_batches(waiting)


def _slices_of(how: HowToLookUp, found: Locations) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The number of the slice of each key, and its partition; -1 for a key that no slice has.

    A group without a slice has been replaced since, so it has no records any more.
    """
    numbers = np.array(
        [how.number_of.get(FileGroupId(partition, file_id), -1) for partition, file_id in found.groups], dtype=np.int64
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


def _grouped(groups: npt.NDArray[np.int64]) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """The places of each number, in their order."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    if len(groups) == 0:
        return
    starts = np.flatnonzero(np.append(True, sorted_groups[1:] != sorted_groups[:-1])).tolist()
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(sorted_groups[start]), order[start:end]
