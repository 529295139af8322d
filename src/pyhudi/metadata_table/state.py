"""The metadata table at one moment, for readers: its timeline, and the file slices of its partitions.

A delta commit of the metadata table counts if it is completed there, and the action of its time is not pending in the
table: it is completed first, so between the two it is not to be seen. Such an action is recovered by taking the delta
commit back. Delta commits that are older than a timeline were archived, which only completed ones are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.metadata_table.file_group import GroupSlice
from pyhudi.metadata_table.folders import inner_version, partition_folder
from pyhudi.metadata_table.missing_files import check_nothing_missing
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.writes import ArchivedWrites, readable_archived_writes
from pyhudi.table.committed_files import committed_files
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, position_of, timeline_of


@dataclass(frozen=True)
class MetadataState:
    """The metadata table of `table`, which was loaded before its own `timeline`.

    `log_compactions`: the times of its log compactions, which are called delta commits once they are completed.
    """

    table: TableState
    timeline: Timeline
    log_compactions: frozenset[str] = frozenset()
    _slices: dict[str, tuple[GroupSlice, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def storage(self) -> Storage:
        """The store of the data table."""
        return self.table.storage

    @cached_property
    def valid(self) -> frozenset[str]:
        """The times of its delta commits and compactions that count, of those on its active timeline."""
        pending = {
            instant.requested_time
            for instant in self.table.timeline.instants
            if instant.state is not InstantState.COMPLETED
        }
        return self.timeline.completed_times - pending

    @cached_property
    def log_times(self) -> dict[str, str]:
        """When its delta commits became visible, by requested time."""
        writes = (write for write in self.timeline.completed_writes if write.action is Action.DELTA_COMMIT)
        return {write.requested_time: position_of(write) for write in writes}

    @cached_property
    def compactions(self) -> frozenset[str]:
        """The times of its completed compactions. A write of the table may have taken the same time."""
        return frozenset(
            write.requested_time for write in self.timeline.completed_writes if write.action is Action.COMMIT
        )

    def counts(self, instant_time: str) -> bool:
        """Whether what was written under this time counts."""
        return instant_time in self.valid or self.timeline.starts_after(instant_time)

    def counts_base(self, instant_time: str) -> bool:
        """Whether base files of this time count: a compaction may have taken the time of a write of the table."""
        planned = {compaction.requested_time for compaction in self.timeline.pending_compactions}
        return instant_time in self.compactions or (instant_time not in planned and self.counts(instant_time))

    def slices(self, partition: str) -> tuple[GroupSlice, ...]:
        """The newest slices of a partition's file groups, by file id.

        Cost: a listing, and `check_nothing_missing`, once for this value; where a log is older than the active
        timeline, that of `readable_archived_writes`.

        Raises:
            CorruptDataError: the partition has no file groups, or lacks some of them, or files of them.
        """
        if partition not in self._slices:
            slices = self._load_slices(partition)
            # Each commit writes to `files`, which is checked without a read where names of logs show their write.
            if partition != FILES or not self.timeline.version.has_completion_times:
                check_nothing_missing(self.storage, self.timeline, self.valid, partition, slices)
            self._slices[partition] = slices
        return self._slices[partition]

    def _load_slices(self, partition: str) -> tuple[GroupSlice, ...]:
        folder = partition_folder(partition)
        infos = self.storage.list_folder(folder).files
        bases: dict[str, dict[str, list[FileInfo]]] = defaultdict(lambda: defaultdict(list))
        logs: dict[str, list[tuple[LogFileName, FileInfo]]] = defaultdict(list)
        file_ids: set[str] = set()
        for info in infos:
            name = parse_data_file(info.name)
            if name is None:
                continue
            file_ids.add(name.file_id)
            if isinstance(name, BaseFileName):
                if self.counts_base(name.instant_time):
                    bases[name.file_id][name.instant_time].append(info)
            else:
                logs[name.file_id].append((name, info))
        if not file_ids:
            raise CorruptDataError("a partition of the metadata table has no files", path=folder)
        _check_groups(file_ids, folder)
        archived = self._archived(logs)
        return tuple(
            self._slice(file_id, bases.get(file_id, {}), logs.get(file_id, []), archived)
            for file_id in sorted(file_ids)
        )

    def _archived(self, logs: Mapping[str, list[tuple[LogFileName, FileInfo]]]) -> ArchivedWrites:
        """What the archive says of logs that are older than the active timeline; of version 6 nothing is needed."""
        if not self.timeline.version.has_completion_times:
            return ArchivedWrites()
        times = {name.instant_time for group in logs.values() for name, _ in group}
        older = {time for time in times if self.timeline.starts_after(time)}
        return readable_archived_writes(self.storage, self.timeline.version, older) if older else ArchivedWrites()

    def _slice(
        self,
        file_id: str,
        bases: Mapping[str, list[FileInfo]],
        logs: list[tuple[LogFileName, FileInfo]],
        archived: ArchivedWrites,
    ) -> GroupSlice:
        base_instant = max(bases, default="")
        base = self._committed(bases[base_instant]) if base_instant else None
        if self.timeline.version.has_completion_times:
            places = {
                info.path: self.log_times.get(name.instant_time)
                or archived.completed.get(name.instant_time)
                or name.instant_time
                for name, info in logs
            }
            kept = [
                (name, info)
                for name, info in logs
                if self.counts(name.instant_time) and places[info.path] >= base_instant
            ]
            blocks = BlockFilter()
        else:
            places = {info.path: name.instant_time for name, info in logs}
            kept = [(name, info) for name, info in logs if name.instant_time >= base_instant]
            blocks = BlockFilter(committed=self.valid, archived_before=self.timeline.first_time or "")
        kept.sort(key=lambda log: (places[log[1].path], log[0].version, log[0].write_token or ""))
        return GroupSlice(
            file_id,
            base.path if base else None,
            base_instant,
            tuple(info.path for _, info in kept),
            blocks,
            tuple(info.size for _, info in kept),
            base.size if base else 0,
            self.log_compactions & self.valid if self.timeline.version.has_completion_times else frozenset(),
        )

    def is_named(self, path: str) -> bool:
        """Whether the metadata of a delta commit or compaction that counts name a file.

        Cost: a read for each of them, once per process.
        """
        partition, _, name = path.removeprefix(f"{METADATA_TABLE_FOLDER}/").rpartition("/")
        named = committed_files(self.storage, self.timeline, {partition})
        return named.writer_of(FileInfo(f"{partition}/{name}", 0, 0)) in self.valid

    def _committed(self, attempts: list[FileInfo]) -> FileInfo:
        """The base file that its write names, of those that the attempts of its task left."""
        named = [info for info in attempts if self.is_named(info.path)] if len(attempts) > 1 else []
        return max(named or attempts, key=lambda info: info.name)


def load_metadata_state(table: TableState) -> MetadataState:
    """The metadata table as it is now; the table must have been loaded before. Cost: a listing."""
    version = inner_version(table.version)
    names = table.storage.list_names(version.timeline_folder)
    suffix = f".{Action.LOG_COMPACTION.value}."
    own = frozenset(name.partition(".")[0] for name in names if suffix in name)
    return MetadataState(table, timeline_of(version, names), own)


def _check_groups(file_ids: set[str], folder: str) -> None:
    """The groups of an index are numbered without gaps: a gap would send keys to other groups than their own."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for file_id in file_ids:
        prefix, number, _ = _parts(file_id)
        numbers[prefix].add(number)
    for prefix, found in numbers.items():
        if found != set(range(len(found))):
            raise CorruptDataError(
                "a partition of the metadata table lacks file groups", path=folder, file_groups=len(found), index=prefix
            )


def _parts(file_id: str) -> tuple[str, int, str]:
    """Prefix, number and attempt of a file id of the metadata table: `col-stats-0001-0`."""
    prefix, number, last = ([""] * 3 + file_id.rsplit("-", 2))[-3:]
    return (prefix, int(number), last) if number.isdigit() else (file_id, 0, "")
