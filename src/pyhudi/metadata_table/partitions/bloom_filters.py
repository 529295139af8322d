"""The partition `bloom_filters`: the bloom filter in the footer of each base file.

A record is some 430 KB with the default size of filters, so tasks write them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.bloom import BLOOM_FILTER_KEY, BLOOM_FILTER_KIND_KEY, BloomFilterType
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.hfile.indexed import sorted_keys
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.keys import bloom_filter_keys, file_group_of
from pyhudi.format.metadata_table.records import make_records
from pyhudi.format.metadata_table.schema import BLOOM_FILTER_COLUMN, RecordType, payload_type
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.io.base_file import read_footer
from pyhudi.metadata_table.file_changes import Change, stored_partition
from pyhudi.metadata_table.file_group import GroupSlice, GroupTarget, write_base, write_log
from pyhudi.metadata_table.lookup import Wanted, read_slice
from pyhudi.metadata_table.partitions.protocol import LargePartition, Source
from pyhudi.metadata_table.slice_changes import current_slices
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_partitions import BLOOM_FILTERS

_FILTER_BYTES: Final = 500_000
"""About what a footer with a filter of the default size has."""


@dataclass(frozen=True, slots=True)
class FilteredFile:
    """A base file that came, or (`is_deleted`) went: its partition path and name."""

    partition_path: str
    name: str
    is_deleted: bool = False

    @property
    def path(self) -> str:
        """Its path in the table."""
        return f"{self.partition_path}/{self.name}" if self.partition_path else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterTask:
    """Write the filters of some files into one file group of the partition."""

    target: GroupTarget
    group: int
    files: tuple[FilteredFile, ...]
    instant_time: str
    is_base: bool


@dataclass(frozen=True, kw_only=True)
class BloomFiltersPartition(LargePartition):
    """See `MetadataPartition`. `file_groups`: how many a new one gets."""

    name: str = BLOOM_FILTERS
    payload: str = BLOOM_FILTER_COLUMN
    file_groups: int = 4

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Cost: a footer per base file."""
        yield from _records(source.storage, _current(source), "", source.table.version)

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`. Cost: a footer per new base file."""
        yield from _records(source.storage, _changed(change), change.instant_time, source.table.version)

    def write_ahead(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_ahead`. Cost: a footer per new base file, in tasks. Memory: those of a group."""
        return _write(_changed(change), change.instant_time, source, groups, is_base=False)

    def write_initial(self, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_initial`. Cost: a footer per base file, in tasks. Memory: those of a group."""
        return _write(_current(source), "", source, groups, is_base=True)


def write_filters(context: TaskContext, task: FilterTask) -> WriteStat | None:
    """Write the file of one group; none where no file has a filter."""
    storage, target = open_spec(task.target.storage), task.target
    batches = list(_records(storage, task.files, task.instant_time, target.version))
    if not batches:
        return None
    write = write_base if task.is_base else write_log
    return write(storage, target, task.group, pa.concat_batches(batches), context.write_token)


def _changed(change: Change) -> tuple[FilteredFile, ...]:
    added = (FilteredFile(path, file.name) for path, files in change.added.items() for file in files)
    removed = (FilteredFile(path, name, is_deleted=True) for path, names in change.removed.items() for name in names)
    return tuple(info for info in (*added, *removed) if isinstance(parse_data_file(info.name), BaseFileName))


def _current(source: Source) -> tuple[FilteredFile, ...]:
    """The base files of the newest slices: of those before, no reader asks."""
    return tuple(
        FilteredFile(file_slice.group.partition_path, file_slice.after.base.rpartition("/")[2])
        for file_slice in current_slices(source)
        if file_slice.after is not None and file_slice.after.base is not None
    )


def _write(
    files: Sequence[FilteredFile], instant_time: str, source: Source, target: GroupTarget, *, is_base: bool
) -> tuple[WriteStat, ...]:
    assert source.engine is not None
    groups = file_group_of(_keys(files), len(target.file_ids)) if files else np.zeros(0, np.int32)
    by_group: Mapping[int, list[FilteredFile]] = defaultdict(list)
    for file, group in zip(files, groups.tolist(), strict=True):
        by_group[group].append(file)
    tasks = [
        FilterTask(target=target, group=group, files=tuple(part), instant_time=instant_time, is_base=is_base)
        for group, part in sorted(by_group.items())
    ]
    size = 2 * _FILTER_BYTES * sum(not file.is_deleted for file in files)
    written = source.engine.map(write_filters, tasks, size_bytes=size, description="index bloom filters")
    return tuple(stat for stat in written if stat is not None)


def _keys(files: Sequence[FilteredFile]) -> pa.StringArray:
    partitions = pa.array([stored_partition(file.partition_path) for file in files], pa.string())
    return bloom_filter_keys(partitions, pa.array([file.name for file in files], pa.string()))


def _records(
    storage: Storage, files: Sequence[FilteredFile], instant_time: str, version: TableVersion
) -> Iterator[pa.RecordBatch]:
    """The records of files, one batch for each: the filter of a new file, a mark for one that went.

    A file without a filter has no record. `instant_time`: of the action; empty: that in the name of the file.
    """
    for file in files:
        values = {} if file.is_deleted else read_footer(storage, file.path).values
        text = values.get(BLOOM_FILTER_KEY)
        if text is None and not file.is_deleted:
            continue
        name = parse_data_file(file.name)
        assert name is not None
        code = values.get(BLOOM_FILTER_KIND_KEY)
        payload = {
            "type": "" if text is None else BloomFilterType.from_footer(code, path=file.path).value,
            "timestamp": instant_time or name.instant_time,
            "bloomFilter": (text or "").encode(),
            "isDeleted": file.is_deleted,
        }
        yield make_records(
            version,
            BLOOM_FILTER_COLUMN,
            _keys([file]),
            pa.array([int(RecordType.BLOOM_FILTER)], pa.int32()),
            pa.array([payload], payload_type(version, BLOOM_FILTER_COLUMN)),
        )


@dataclass(frozen=True, slots=True)
class FilterReader:
    """The bloom filters in the metadata table, as they are at one moment. Picklable, for tasks."""

    groups: tuple[GroupSlice, ...]

    def find(self, storage: Storage, paths: Sequence[str]) -> dict[str, dict[str, str]]:
        """What the footers of base files say of their filters, by path; nothing for a file without a record.

        Cost: the logs of each file group that has some of them, and blocks of its base file. Memory: the filters.
        """
        split = (path.rpartition("/") for path in paths)
        keys = _keys([FilteredFile(partition, name) for partition, _, name in split])
        numbers = file_group_of(keys, len(self.groups))
        path_of = dict(zip(keys.to_pylist(), paths, strict=True))
        found: dict[str, dict[str, str]] = {}
        for group in np.unique(numbers).tolist():
            wanted = Wanted(keys=sorted_keys(keys.filter(pa.array(numbers == group))))
            records = read_slice(storage, self.groups[group], BLOOM_FILTER_COLUMN, wanted)
            for key, payload in zip(*(records.column(at).to_pylist() for at in (0, 2)), strict=True):
                if payload is not None and not payload["isDeleted"]:
                    footer = {BLOOM_FILTER_KEY: payload["bloomFilter"].decode(), BLOOM_FILTER_KIND_KEY: payload["type"]}
                    found[path_of[key]] = footer
        return found
