"""Entries of an index over record keys on their way into the metadata table, from tasks to tasks.

Tasks read the changed rows of file groups and sort their entries by file group of the index, into exchange files. Then
one task for each file group of the index gathers its entries and writes one file. So no entry passes the driver.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.engine.shares import TASKS_PER_CORE, spread
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.schema import KEY, PAYLOAD_COLUMNS, TYPE, RecordType
from pyhudi.io.exchange import ExchangeWriter, Segment, read_segment
from pyhudi.metadata_table.file_group import GroupTarget, write_base, write_log
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.record_changes import RowSettings, changed_rows
from pyhudi.metadata_table.slice_changes import SliceChange
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec

REMOVED: Final = -1
"""Instead of the number of a value: the entry is removed."""
ENTRIES: Final = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())])
"""An entry: its key, and the number of its value among those of the change."""
ENTRIES_AT_ONCE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Payloads:
    """The distinct payloads of the entries of a change: there are far fewer than entries."""

    type: RecordType
    values: pa.StructArray

    @property
    def column(self) -> str:
        """The name of their column."""
        return PAYLOAD_COLUMNS[self.type]


class EntryMaker(Protocol):
    """What an index keeps of rows. Frozen and picklable."""

    def entries(
        self, change: SliceChange, rows: pa.RecordBatch, *, is_added: bool
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """The `ENTRIES` of some rows of a file group, and the file groups of the index that they belong to."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SortTask:
    """Sort the entries of some file groups of the table by file groups of the index, into a file in `folder`."""

    storage: StorageSpec
    folder: str
    changes: tuple[SliceChange, ...]
    settings: RowSettings
    maker: EntryMaker


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Write the entries of one file group of the index: as its base file, or as a log. `payloads`: by their numbers."""

    target: GroupTarget
    group: int
    segments: tuple[Segment, ...]
    payloads: Payloads
    is_base: bool


def write_changes(
    source: Source,
    target: GroupTarget,
    changes: Sequence[SliceChange],
    settings: RowSettings,
    maker: EntryMaker,
    payloads: Payloads,
    *,
    is_base: bool,
) -> tuple[WriteStat, ...]:
    """Write the entries of changes into the file groups of an index, by tasks: base files, or logs of a commit.

    `source` has an engine. Cost: two rounds of tasks and an exchange file for each; nothing without changes.
    """
    if not changes:
        return ()
    assert source.engine is not None
    assert source.exchange is not None
    with source.exchange() as folder:
        found = _sorted_entries(source.engine, source.storage, folder, changes, settings, maker)
        return _write_entries(source.engine, target, found, payloads, is_base=is_base)


def _sorted_entries(
    engine: Engine,
    storage: Storage,
    folder: str,
    changes: Sequence[SliceChange],
    settings: RowSettings,
    maker: EntryMaker,
) -> dict[int, tuple[Segment, ...]]:
    """The entries of all changes, as segments of exchange files, by file group of the index. One round of tasks."""
    by_number = {change.number: change for change in changes}
    shares = spread({change.number: change.size for change in changes}, engine.parallelism * TASKS_PER_CORE)
    tasks = [
        SortTask(
            storage=storage.spec,
            folder=folder,
            changes=tuple(by_number[number] for number in share),
            settings=settings,
            maker=maker,
        )
        for share in shares
    ]
    found: dict[int, list[Segment]] = defaultdict(list)
    size = sum(change.size for change in changes)
    for result in engine.map(sort_entries, tasks, size_bytes=size, description="read the keys of an index"):
        for group, segment in result:
            found[group].append(segment)
    return {group: tuple(segments) for group, segments in sorted(found.items())}


def sort_entries(context: TaskContext, task: SortTask) -> tuple[tuple[int, Segment], ...]:
    """Write an exchange file with the entries of the task's changes. Memory: `ENTRIES_AT_ONCE` of them."""
    storage = open_spec(task.storage)
    path = f"{task.folder}/entries-{context.write_token}.arrow"
    batches: dict[int, list[int]] = defaultdict(list)
    rows: dict[int, int] = defaultdict(int)
    with ExchangeWriter(storage, path, ENTRIES) as writer:
        for unsorted, of_rows in _gathered(_entries_of(storage, task)):
            order = np.argsort(of_rows, kind="stable")
            entries, groups = unsorted.take(pa.array(order)), of_rows[order]
            starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
                group = int(groups[start])
                batches[group].append(writer.write(entries.slice(start, end - start)))
                rows[group] += end - start
    return tuple((group, Segment(path, tuple(numbers), rows[group])) for group, numbers in sorted(batches.items()))


def _write_entries(
    engine: Engine,
    target: GroupTarget,
    segments: Mapping[int, tuple[Segment, ...]],
    payloads: Payloads,
    *,
    is_base: bool,
) -> tuple[WriteStat, ...]:
    """Write gathered entries into the file groups of the index; a group without entries gets no file. One round."""
    tasks = [
        GatherTask(target=target, group=group, segments=parts, payloads=payloads, is_base=is_base)
        for group, parts in segments.items()
    ]
    size = sum(part.rows for parts in segments.values() for part in parts) * 100
    return tuple(engine.map(gather_entries, tasks, size_bytes=size, description="write an index"))


def gather_entries(context: TaskContext, task: GatherTask) -> WriteStat:
    """Write the file of one file group. Memory: its entries."""
    storage = open_spec(task.target.storage)
    if task.is_base:
        _check_one_group_each(storage, task.segments)
    records = records_of_segments(storage, task.segments, task.payloads)
    write = write_base if task.is_base else write_log
    return write(storage, task.target, task.group, records, context.write_token)


def _check_one_group_each(storage: Storage, segments: Iterable[Segment]) -> None:
    """Refuse an index over keys that are in two file groups each: writes would find only one of the records.

    Raises `InvalidRequestError` naming such a key.
    """
    entries = pa.Table.from_batches((b for segment in segments for b in read_segment(storage, segment)), ENTRIES)
    keys = entries.group_by("key").aggregate([("value", "min"), ("value", "max")])
    several = keys.filter(pc.not_equal(keys.column("value_min"), keys.column("value_max")))
    if several.num_rows:
        raise InvalidRequestError(
            "several file groups have a record with the same key, as inserts or one key in several partitions leave "
            "them, so the table can have no index by its record keys: remove such records first",
            record_key=several.column("key")[0].as_py(),
            keys=several.num_rows,
        )


def records_of_segments(storage: Storage, segments: Iterable[Segment], payloads: Payloads) -> pa.RecordBatch:
    """The records of gathered entries."""
    return records_of_entries([batch for segment in segments for batch in read_segment(storage, segment)], payloads)


def records_on_driver(
    storage: Storage, changes: Iterable[SliceChange], settings: RowSettings, maker: EntryMaker, payloads: Payloads
) -> Iterator[pa.RecordBatch]:
    """The records of all changes, without tasks. Memory: all of them."""
    batches = [
        maker.entries(change, rows, is_added=is_added)[0]
        for change in changes
        for is_added, rows in changed_rows(storage, change, settings)
        if rows.num_rows
    ]
    if batches:
        yield records_of_entries(batches, payloads)


def records_of_entries(batches: Sequence[pa.RecordBatch], payloads: Payloads) -> pa.RecordBatch:
    """Records of entries of one file group of the index, or of all where the key alone says in which one it is.

    Each key once: what one file group of the table lost and another has now is there.
    """
    entries = pa.Table.from_batches(batches, ENTRIES)
    entries = entries.take(pc.sort_indices(entries, sort_keys=[("key", "ascending"), ("value", "ascending")]))
    keys, numbers = (entries.column(name).combine_chunks() for name in ENTRIES.names)
    if len(keys) > 1:
        # The last of equal keys: removals have the lowest number.
        is_last = np.append(np.asarray(pc.not_equal(keys[:-1], keys[1:])), True)
        keys, numbers = keys.filter(pa.array(is_last)), numbers.filter(pa.array(is_last))
    places = pc.if_else(pc.equal(numbers, REMOVED), pa.scalar(None, pa.int32()), numbers)
    types = pa.repeat(pa.scalar(int(payloads.type), pa.int32()), len(keys))
    values = pa.DictionaryArray.from_arrays(places, payloads.values)
    return pa.RecordBatch.from_arrays([keys, types, values], names=[KEY, TYPE, payloads.column])


def _entries_of(storage: Storage, task: SortTask) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    for change in task.changes:
        for is_added, rows in changed_rows(storage, change, task.settings):
            entries, groups = task.maker.entries(change, rows, is_added=is_added)
            if len(groups):  # rows without a value have none in the first version of a secondary index
                yield entries, groups


def _gathered(
    parts: Iterable[tuple[pa.RecordBatch, npt.NDArray[np.int32]]],
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    """The same entries in larger batches, so that each file group gets few of them."""
    waiting: list[tuple[pa.RecordBatch, npt.NDArray[np.int32]]] = []
    rows = 0
    for part in parts:
        waiting.append(part)
        rows += part[0].num_rows
        if rows >= ENTRIES_AT_ONCE:
            yield _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(
    parts: Sequence[tuple[pa.RecordBatch, npt.NDArray[np.int32]]],
) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
    return pa.concat_batches([entries for entries, _ in parts]), np.concatenate([groups for _, groups in parts])


def key_entries(keys: pa.Array, value: int) -> pa.RecordBatch:
    """Entries of these keys, all with one value."""
    return pa.RecordBatch.from_arrays(
        [keys.cast(pa.string()), pa.array(np.full(len(keys), value, dtype=np.int32))], schema=ENTRIES
    )
