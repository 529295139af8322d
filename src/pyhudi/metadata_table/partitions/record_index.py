"""The partition `record_index`: the file group of each record key.

An entry is written when a record comes into a file group, and removed when it leaves the table. An update that keeps
its file group writes nothing, and neither do compactions. A clustering moves all of its records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.keys import file_group_of
from pyhudi.format.metadata_table.locations import location_payloads
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN, RecordType
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.format.timeline.instant import parse_instant_time
from pyhudi.io.base_file import read_footer
from pyhudi.metadata_table.entries import (
    REMOVED,
    Payloads,
    key_entries,
    records_on_driver,
    write_changes,
)
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.file_group import GroupTarget
from pyhudi.metadata_table.partitions.protocol import LargePartition, Source
from pyhudi.metadata_table.record_changes import RowSettings, row_settings
from pyhudi.metadata_table.slice_changes import SliceChange, current_slices, slice_changes
from pyhudi.storage.bounded import at_once
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.instant_times import table_zone
from pyhudi.table.metadata_partitions import RECORD_INDEX

LEARNED_BY_INDEX: Final = "tagged by the record index"
"""In `Change.learned`: the write looked its keys up here, so it has not brought a removed record back in its group."""
_ENTRY_BYTES: Final = 48
"""What JVM Hudi takes an entry for when it counts file groups."""
_RECORDS_PER_BYTE_MAX: Final = 4
"""More records than this are not in a byte of a base file: record keys differ, and do not compress to nothing."""
FILES_PER_TASK = 64
_FOOTER_BYTES = 64 * 1024
"""About what is read per file; an engine may run small work in this process."""
_KEEPS_GROUPS: Final = frozenset({WriteOperation.COMPACT, WriteOperation.LOG_COMPACT})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSizing:
    """From how many records follows how many file groups an index over record keys gets, as in JVM Hudi."""

    groups_min: int = 10
    groups_max: int = 10_000
    growth: float = 2.0
    group_bytes_max: int = 1 << 30

    def groups_for(self, records: int) -> int:
        """The number of file groups of an index that has so many records when it is built."""
        if self.groups_min == self.groups_max:
            return self.groups_min
        expected = math.ceil(float(np.float32(records) * np.float32(self.growth)))
        groups = expected // max(1, self.group_bytes_max // _ENTRY_BYTES)
        return max(1, min(max(groups, self.groups_min), self.groups_max))


@dataclass(frozen=True, slots=True)
class LocationMaker:
    """Makes the entries of the record index. `groups`: how many file groups it has."""

    groups: int

    def entries(
        self, change: SliceChange, rows: pa.RecordBatch, *, is_added: bool
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """See `EntryMaker.entries`: the number of a value is that of the change."""
        keys = rows.column(RECORD_KEY)
        return key_entries(keys, change.number if is_added else REMOVED), file_group_of(keys, self.groups)


@dataclass(frozen=True, kw_only=True)
class RecordIndexPartition(LargePartition):
    """See `MetadataPartition`. `sizing`: how many file groups a new one gets."""

    name: str = RECORD_INDEX
    payload: str = RECORD_INDEX_COLUMN
    sizing: GroupSizing = field(default_factory=GroupSizing)

    def new_file_groups(self, source: Source) -> int:
        """See `MetadataPartition.new_file_groups`. Cost: a footer per base file, if there may be too many records."""
        return groups_for_table(source, self.sizing)

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Cost: the key column of every file slice."""
        changes = tuple(current_slices(source))
        yield from self._records(changes, source, row_settings(source, ()))

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`. Cost and memory: the record keys that came or went."""
        changes = changed_locations(change, source)
        yield from self._records(changes, source, location_settings(change, source), change.instant_time)

    def write_ahead(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_ahead`. Cost: as `records_of`, and an exchange."""
        changes = changed_locations(change, source)
        return self._write(
            changes, source, groups, location_settings(change, source), change.instant_time, is_base=False
        )

    def write_initial(self, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_initial`. Cost: the key column of every file slice, in tasks."""
        changes = tuple(current_slices(source))
        return self._write(changes, source, groups, row_settings(source, ()), None, is_base=True)

    def _records(
        self, changes: Sequence[SliceChange], source: Source, settings: RowSettings, instant_time: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        payloads = location_values(changes, source, instant_time)
        return records_on_driver(source.storage, changes, settings, LocationMaker(1), payloads)

    def _write(
        self,
        changes: Sequence[SliceChange],
        source: Source,
        groups: GroupTarget,
        settings: RowSettings,
        instant_time: str | None,
        *,
        is_base: bool,
    ) -> tuple[WriteStat, ...]:
        payloads = location_values(changes, source, instant_time)
        maker = LocationMaker(len(groups.file_ids))
        return write_changes(source, groups, changes, settings, maker, payloads, is_base=is_base)


def changed_locations(change: Change, source: Source) -> tuple[SliceChange, ...]:
    """The file groups whose records came or went. Cost: see `slice_changes`."""
    if change.metadata is None or change.operation in _KEEPS_GROUPS:
        return ()
    moved = change.operation is WriteOperation.CLUSTER
    found = (
        change_of_slice
        for change_of_slice in slice_changes(change, source)
        if not (moved and change_of_slice.after is None)
    )
    compares = not change.learned.get(LEARNED_BY_INDEX)
    kept = [change_of_slice for change_of_slice in found if _may_have_moved(change_of_slice, compares=compares)]
    return tuple(replace(change_of_slice, number=number) for number, change_of_slice in enumerate(kept))


def _may_have_moved(change: SliceChange, *, compares: bool) -> bool:
    """Whether records may have come or gone: a rewrite with updates only, or a log of them, changes no location."""
    if change.before is None or change.after is None or change.inserts or change.deletes:
        return True
    return bool(change.own_logs) and (change.before.base is None or (compares and bool(change.before.logs)))


def location_settings(change: Change, source: Source) -> RowSettings:
    """How the record keys that a change brought or took are read."""
    return row_settings(source, (), change, compares=not change.learned.get(LEARNED_BY_INDEX))


def location_values(changes: Sequence[SliceChange], source: Source, instant_time: str | None) -> Payloads:
    """The locations by the number of the change. `instant_time`: of the action; None: that of the slice's base file."""
    zone = table_zone(source.table.config)

    def moment(change: SliceChange) -> int:
        return parse_instant_time(instant_time or change.instant_time, zone) or 0

    version = source.table.version
    partitions = [change.group.partition_path for change in changes]
    file_ids = [change.group.file_id for change in changes]
    values = location_payloads(version, partitions, file_ids, [moment(change) for change in changes])
    return Payloads(RecordType.RECORD_INDEX, values)


def groups_for_table(source: Source, sizing: GroupSizing) -> int:
    """How many file groups an index over the record keys of a table gets. Cost: see `groups_for_parts`."""
    return groups_for_parts(source, {"": tuple(current_slices(source))}, sizing)[""]


def groups_for_parts(source: Source, parts: Mapping[str, Sequence[SliceChange]], sizing: GroupSizing) -> dict[str, int]:
    """How many file groups an index over record keys gets for each part of the file slices, by the name of the part.

    Cost: see `records_of_files`, for the parts whose bytes may hold more records than the fewest file groups take.
    """
    fewest = sizing.groups_for(0)
    bases = {
        name: [part.after.base for part in slices if part.after is not None and part.after.base is not None]
        for name, slices in parts.items()
        if sizing.groups_for(_RECORDS_PER_BYTE_MAX * sum(part.size for part in slices)) != fewest
    }
    records = records_of_files(source, [path for paths in bases.values() for path in paths])
    known = {name: sizing.groups_for(sum(records[path] for path in paths)) for name, paths in bases.items()}
    return {name: known.get(name, fewest) for name in parts}


@dataclass(frozen=True, slots=True)
class CountTask:
    """Base files whose records are counted."""

    storage: StorageSpec
    paths: tuple[str, ...]


def records_of_files(source: Source, paths: Sequence[str]) -> dict[str, int]:
    """How many records base files have, by path. Cost: a footer per file, many of them in tasks of the engine."""
    if source.engine is None:
        counts = [read_footer(source.storage, path).rows for path in paths]
    else:
        tasks = [
            CountTask(source.storage.spec, tuple(paths[start : start + FILES_PER_TASK]))
            for start in range(0, len(paths), FILES_PER_TASK)
        ]
        size = len(paths) * _FOOTER_BYTES
        found = source.engine.map(count_records, tasks, size_bytes=size, description="count records")
        counts = [count for of_task in found for count in of_task]
    return dict(zip(paths, counts, strict=True))


def count_records(_: TaskContext, task: CountTask) -> list[int]:
    """The numbers of records in the base files of a task. Cost: a footer per file, several at once on object stores."""
    storage = open_spec(task.storage)
    return at_once(storage, lambda path: read_footer(storage, path).rows, task.paths)
