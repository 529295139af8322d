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

from pyhudi.engine.exchange_files import ExchangeFolder, ExchangeWriter, Segment, TaskFiles
from pyhudi.engine.protocol import AddressedRows, Engine, Exchange, TaskContext
from pyhudi.errors import CorruptDataError
from pyhudi.format.pieces import one_batch, runs
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.index.delivery import SendKeysTask, in_portions, numbered_apart
from pyhudi.index.protocol import Index, KeyScope, Lookup, Tagged
from pyhudi.index.search import joined, search, to_search
from pyhudi.index.tagging import TagResult, TagSink
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
                files=TaskFiles(lookup.folder, SendKeysTask.reads),
            )
        )
        return _with_contests(engine, lookup, slices, found)


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
    """The result of a lookup.

    `contested`: by split the rows that would move to another partition, for a comparison with their stored rows, and
    the numbers of the slices that hold these.
    """

    tags: TagResult
    contested: tuple[tuple[int, StagedSplit], ...] = ()
    contested_slices: frozenset[int] = frozenset()


def send_keys(locations: LocationReader, _: TaskContext, task: SendKeysTask) -> Iterator[AddressedRows]:
    """The split's keys, to the file groups of the index that may have them. Memory: the keys of a partition path."""
    for path, keys in task.partitions():
        groups = locations.groups_of(path, keys.column(RECORD_KEY)).astype(np.int64)
        may_be_there = np.flatnonzero(groups >= 0)
        if len(may_be_there):
            yield AddressedRows(task.numbered(keys).take(pa.array(may_be_there)), groups[may_be_there])


def look_up_keys(how: HowToLookUp, context: TaskContext, group: int, incoming: Iterator[pa.RecordBatch]) -> Found:
    """Tag the keys that a file group of the index has. Memory: `KEYS_AT_ONCE` keys, and `TAGS_AT_ONCE` tags."""
    storage = open_spec(how.storage)
    contested: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    contested_slices: set[int] = set()
    with TagSink(how.folder, f"record-tags-{context.write_token}") as sink:
        # The index is read anew for each portion.
        for portion in in_portions(map(numbered_apart, incoming), KEYS_AT_ONCE):
            keys, split = one_batch(portion.rows), portion.split
            slices, partitions = _slices_of(how, how.locations.find(storage, group, keys.column(RECORD_KEY)))
            is_known = slices >= 0
            moved = np.zeros(keys.num_rows, dtype=bool)
            if how.moves:
                moved = is_known & ~as_mask(pc.equal(partitions, keys.column(PARTITION_PATH)))
            if how.contests and moved.any():
                at = np.flatnonzero(moved)
                for number, places in _grouped(split[at].astype(np.int64)):
                    contested[number].append(keys.take(pa.array(at[places])))
                contested_slices.update(np.unique(slices[moved]).tolist())
                is_known, moved = is_known & ~moved, np.zeros_like(moved)
            at = np.flatnonzero(is_known)
            sink.add(_tags(keys, at, slices, moved), split[at], keys.column(PARTITION_PATH).take(pa.array(at)))
    path = f"{how.folder.path}/contested-{context.write_token}"
    return Found(
        tags=sink.result(),
        contested=tuple(_staged(open_spec(how.folder.storage), path, contested)),
        contested_slices=frozenset(contested_slices),
    )


def _with_contests(engine: Engine, lookup: Lookup, slices: Sequence[FileSlice], found: Sequence[Found]) -> Tagged:
    """The tags of all tasks, and those of contested rows, whose stored rows are searched for."""
    tagged = joined(slices, [part.tags for part in found])
    contested = [part for lookup_result in found for part in lookup_result.contested]
    if not contested:
        return tagged
    searched = [to_search(lookup, number, file_slice) for number, file_slice in enumerate(slices)]
    held_by = {number for part in found for number in part.contested_slices}
    part_of_lookup = replace(lookup, splits=tuple(split for _, split in contested))
    settled = search(engine, part_of_lookup, slices, searched, sorted(held_by))
    segments: dict[int, tuple[Segment, ...]] = defaultdict(tuple)
    known: Counter[tuple[int, str]] = Counter()
    for number, parts in settled.segments.items():
        segments[contested[number][0]] += parts
    for (number, path), rows in settled.known_rows.items():
        known[contested[number][0], path] += rows
    return tagged.with_others(replace(settled, segments=segments, known_rows=known))


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
    for start, end in runs(sorted_groups):
        yield int(sorted_groups[start]), order[start:end]
