"""The partition `record_index` where keys are unique in partitions of the table: each has file groups of its own.

The id of a file group names the partition of the table, and its number among the groups of that partition. A partition
gets its groups with the first write into it. Their first logs have the first instant of the metadata table, so that the
rollback of that write does not take away groups that another one has written to meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.errors import InternalError
from pyhudi.format.keys.partition_paths import escape_value
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.index_definitions import FIRST_VERSION, IndexDefinition
from pyhudi.format.metadata_table.keys import file_group_of
from pyhudi.format.metadata_table.schema import RECORD_INDEX_COLUMN
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.metadata_table.entries import REMOVED, key_entries, records_of_entries, write_changes
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.file_group import GroupTarget, create_group, file_ids, write_base, write_log
from pyhudi.metadata_table.partitions.protocol import PlacedPartition, Source
from pyhudi.metadata_table.partitions.record_index import (
    GroupSizing,
    changed_locations,
    groups_for_parts,
    location_settings,
    location_values,
)
from pyhudi.metadata_table.record_changes import RowSettings, changed_rows, row_settings
from pyhudi.metadata_table.slice_changes import SliceChange, current_slices
from pyhudi.table.metadata_partitions import RECORD_INDEX

PARTITIONED_KEY: Final = "isPartitioned"
"""The option of the definition of a record index that says that it is one of this kind."""
FEW_GROUPS: Final = GroupSizing(groups_min=1, groups_max=10)
_PREFIX: Final = "record-index-"
_FIRST_INSTANT: Final = "0" * 17
_BY_DRIVER: Final = "0-0-1"
_EXTRA_ESCAPES: Final = {ord("_"): "%5F", ord("-"): "%2D"}

Places = Mapping[str, tuple[int, int]]
"""By partition path the number of its first file group, and how many it has."""


def group_prefix(partition_path: str) -> str:
    """What the ids of the file groups of a partition of the table begin with."""
    return f"{_PREFIX}{escape_value(partition_path).translate(_EXTRA_ESCAPES)}-"


def places_of(ids: Sequence[str], partition_paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The places of the groups of those partitions of the table that have some. `ids`: of all groups, ascending."""
    first: dict[str, int] = {}
    count: dict[str, int] = defaultdict(int)
    for number, file_id in enumerate(ids):
        prefix = file_id.rsplit("-", 2)[0] + "-"
        first.setdefault(prefix, number)
        count[prefix] += 1
    prefixes = {path: group_prefix(path) for path in partition_paths}
    return {path: (first[prefix], count[prefix]) for path, prefix in prefixes.items() if prefix in first}


@dataclass(frozen=True, slots=True)
class PlacedMaker:
    """Makes the entries of the index. A partition without groups has no records, so nothing of it is removed."""

    places: Places

    def entries(
        self, change: SliceChange, rows: pa.RecordBatch, *, is_added: bool
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
        """See `EntryMaker.entries`: the number of a value is that of the change."""
        place = self.places.get(change.group.partition_path)
        keys = rows.column(RECORD_KEY)
        if place is None:
            if is_added:
                raise InternalError("a partition has no file groups in the record index", path=change.group)
            keys = keys.slice(0, 0)
        first, count = place or (0, 1)
        return key_entries(keys, change.number if is_added else REMOVED), first + file_group_of(keys, count)


@dataclass(frozen=True, kw_only=True)
class RecordIndexByPartition(PlacedPartition):
    """See `PlacedPartition`. `sizing`: how many file groups a new partition of the table gets."""

    name: str = RECORD_INDEX
    payload: str = RECORD_INDEX_COLUMN
    sizing: GroupSizing = field(default_factory=lambda: FEW_GROUPS)

    @property
    def definition(self) -> IndexDefinition:
        """See `PlacedPartition.definition`."""
        return IndexDefinition(
            name=RECORD_INDEX, kind=RECORD_INDEX, options={PARTITIONED_KEY: "true"}, version=FIRST_VERSION
        )

    def new_file_groups(self, source: Source) -> int:
        """See `MetadataPartition.new_file_groups`."""
        return len(self.initial_file_ids(source))

    def initial_file_ids(self, source: Source) -> tuple[str, ...]:
        """See `PlacedPartition.initial_file_ids`. Cost: see `groups_for_parts`."""
        by_path: dict[str, list[SliceChange]] = defaultdict(list)
        for file_slice in current_slices(source):
            by_path[file_slice.group.partition_path].append(file_slice)
        counts = groups_for_parts(source, by_path, self.sizing)
        return tuple(
            sorted(file_id for path, count in counts.items() for file_id in file_ids(group_prefix(path), count))
        )

    def with_groups(
        self, change: Change, source: Source, target: GroupTarget, *, first_instant: str | None = None
    ) -> GroupTarget:
        """See `PlacedPartition.with_groups`. Cost: a put for each new file group."""
        if change.metadata is None:
            return target
        paths = sorted(change.added)
        known = places_of(target.file_ids, paths)
        ids: list[str] = []
        for path in paths:
            if path not in known:
                rows = sum(file.stat.num_inserts for file in change.added[path] if file.stat is not None)
                ids += file_ids(group_prefix(path), self.sizing.groups_for(rows))
        first = replace(target, file_ids=tuple(ids), instant_time=first_instant or _FIRST_INSTANT)
        for number in range(len(ids)):
            create_group(source.storage, first, number)
        return replace(target, file_ids=tuple(sorted((*target.file_ids, *ids))))

    def write_ahead(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_ahead`. Cost: as of the index of a whole table."""
        changes = changed_locations(change, source)
        settings = location_settings(change, source)
        values = location_values(changes, source, change.instant_time)
        maker = PlacedMaker(_places(groups, changes))
        return write_changes(source, groups, changes, settings, maker, values, is_base=False)

    def write_initial(self, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_initial`. Cost: the key column of every file slice."""
        changes, settings = tuple(current_slices(source)), row_settings(source, ())
        if source.engine is None:
            return self._on_driver(changes, settings, source, groups, None)
        values = location_values(changes, source, None)
        maker = PlacedMaker(_places(groups, changes))
        return write_changes(source, groups, changes, settings, maker, values, is_base=True)

    def write_on_driver(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `PlacedPartition.write_on_driver`. Cost and memory: the record keys that came or went."""
        changes = changed_locations(change, source)
        return self._on_driver(changes, location_settings(change, source), source, groups, change.instant_time)

    def _on_driver(
        self,
        changes: Sequence[SliceChange],
        settings: RowSettings,
        source: Source,
        groups: GroupTarget,
        instant_time: str | None,
    ) -> tuple[WriteStat, ...]:
        maker, values = PlacedMaker(_places(groups, changes)), location_values(changes, source, instant_time)
        parts: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        for change in changes:
            for is_added, rows in changed_rows(source.storage, change, settings):
                entries, numbers = maker.entries(change, rows, is_added=is_added)
                for number in np.unique(numbers).tolist():
                    parts[number].append(entries.filter(pa.array(numbers == number)))
        write = write_base if instant_time is None else write_log
        return tuple(
            write(source.storage, groups, number, records_of_entries(batches, values), _BY_DRIVER)
            for number, batches in sorted(parts.items())
        )


def _places(groups: GroupTarget, changes: Sequence[SliceChange]) -> Places:
    return places_of(groups.file_ids, sorted({change.group.partition_path for change in changes}))
