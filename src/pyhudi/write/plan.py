"""Assigning rows to files: from the workload profile of a write to the files that it writes. Pure.

New records first fill the partition's small files, smallest first, up to the maximum file size, then new file groups of
that size. Updates rewrite the file group that holds the record; in a merge-on-read table they are appended to its
logs, unless the group is rewritten anyway because new records are added to it. Sizes are in bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.tasks.route import Quota


@dataclass(frozen=True, slots=True)
class Sizing:
    """Targets for the size of base files: `record_size` is the average bytes of a stored record.

    `small_file_limit` 0 switches packing off. `rows_per_new_file` overrides what follows from the sizes.
    `small_files_max`: how many small files of a partition take new records at most; None: any number.
    """

    max_file_size: int
    small_file_limit: int
    record_size: int
    rows_per_new_file: int | None = None
    small_files_max: int | None = None

    @property
    def new_file_rows(self) -> int:
        """Rows that a new file group takes."""
        return self.rows_per_new_file or max(1, self.max_file_size // self.record_size)

    def room_in(self, stored: FileSlice) -> int:
        """New records that fit into a stored file."""
        return max(0, (self.max_file_size - stored.size) // self.record_size)


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts of a staged and tagged batch.

    `new_rows`: by (split, partition path). `updates`: stored rows that change, by file slice.
    """

    new_rows: Mapping[tuple[int, str], int]
    updates: Mapping[FileSlice, int]


@dataclass(frozen=True, slots=True)
class LogSeries:
    """Logs of several writes that are all named after one instant, each with the next `version`."""

    instant_time: str
    version: int


@dataclass(frozen=True, slots=True)
class FileAssignment:
    """One file to write: a base file that follows `previous`, the first of a new file group, or (`appends`) a log.

    `log_series`: how the log is named, if not after the write.
    """

    number: int
    partition_path: str
    file_id: str
    previous: FileSlice | None
    updates: int
    inserts: int
    appends: bool = False
    log_series: LogSeries | None = None

    @property
    def expects_rows(self) -> bool:
        """Whether the counts say that it gets rows."""
        return self.updates + self.inserts > 0


@dataclass(frozen=True, slots=True)
class FilePlan:
    """All file assignments of a write, and the share of new records that each split puts into them.

    The last quota of a partition has no limit: it takes rows that the counts missed. So a file may be planned that gets
    no row; it is not written.
    """

    assignments: tuple[FileAssignment, ...]
    quotas: Mapping[int, Mapping[str, tuple[Quota, ...]]]


@dataclass(slots=True)
class _Draft:
    partition_path: str
    file_id: str
    previous: FileSlice | None
    updates: int = 0
    inserts: int = 0


@dataclass(slots=True)
class _Drafts:
    """Assignments while they are filled; a file group has one, for updates and inserts."""

    new_file_id: Callable[[], str]
    drafts: list[_Draft] = field(default_factory=list)
    number_of: dict[FileGroupId, int] = field(default_factory=dict)

    def of_slice(self, stored: FileSlice) -> int:
        if stored.group not in self.number_of:
            self.number_of[stored.group] = self._add(_Draft(stored.partition_path, stored.file_id, stored))
        return self.number_of[stored.group]

    def of_new_group(self, partition_path: str) -> int:
        return self._add(_Draft(partition_path, self.new_file_id(), None))

    def _add(self, draft: _Draft) -> int:
        self.drafts.append(draft)
        return len(self.drafts) - 1


def plan_files(
    profile: Profile,
    packable: Mapping[str, Sequence[FileSlice]],
    sizing: Sizing,
    new_file_id: Callable[[], str],
    *,
    appends: bool = False,
) -> FilePlan:
    """Decide the files of a write. `packable`: by partition path the slices whose base files may take new records.

    `appends`: updates go to logs where they can (merge-on-read).
    """
    drafts = _Drafts(new_file_id)
    for stored, updates in profile.updates.items():
        drafts.drafts[drafts.of_slice(stored)].updates += updates
    by_partition: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (split, partition_path), rows in sorted(profile.new_rows.items()):
        by_partition[partition_path].append((split, rows))
    quotas: dict[int, dict[str, tuple[Quota, ...]]] = defaultdict(dict)
    for partition_path, per_split in by_partition.items():
        total = sum(rows for _, rows in per_split)
        room = _room(total, partition_path, packable.get(partition_path, ()), sizing, drafts)
        for split, rows in per_split:
            quotas[split][partition_path] = _take(room, rows, drafts)
    assignments = tuple(
        FileAssignment(
            number,
            d.partition_path,
            d.file_id,
            d.previous,
            d.updates,
            d.inserts,
            appends=appends and d.previous is not None and d.inserts == 0,
        )
        for number, d in enumerate(drafts.drafts)
    )
    return FilePlan(assignments, quotas)


def record_size_estimate(recent: Iterable[CommitMetadata], *, default: int, threshold_bytes: float) -> int:
    """Average stored bytes of a record, from the newest commit that wrote more than `threshold_bytes`."""
    for metadata in recent:
        stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
        size = sum(stat.total_write_bytes or 0 for stat in stats)
        rows = sum(stat.num_writes or 0 for stat in stats)
        if rows and size > threshold_bytes:
            return max(1, -(-size // rows))
    return default


def _room(
    total: int, partition_path: str, packable: Sequence[FileSlice], sizing: Sizing, drafts: _Drafts
) -> list[tuple[int, int]]:
    """The files for the new records of a partition, each with how many it takes; the last one takes any number."""
    room: list[tuple[int, int]] = []
    small = sorted(
        (stored for stored in packable if stored.size < sizing.small_file_limit), key=lambda s: (s.size, s.file_id)
    )
    left = total
    for stored in small[: sizing.small_files_max]:
        if left <= 0:
            break
        if (taken := min(left, sizing.room_in(stored))) > 0:
            room.append((drafts.of_slice(stored), taken))
            left -= taken
    while left > 0:
        taken = min(left, sizing.new_file_rows)
        room.append((drafts.of_new_group(partition_path), taken))
        left -= taken
    return room or [(drafts.of_new_group(partition_path), 0)]


def _take(room: list[tuple[int, int]], rows: int, drafts: _Drafts) -> tuple[Quota, ...]:
    """Take quotas for one split from the front of `room`; at least one, so that rows the counts missed have a file."""
    quotas: list[Quota] = []
    while rows > 0:
        assignment, capacity = room[0]
        taken = rows if len(room) == 1 else min(rows, capacity)
        quotas.append(Quota(assignment, taken))
        drafts.drafts[assignment].inserts += taken
        rows -= taken
        if taken == capacity and len(room) > 1:
            room.pop(0)
        else:
            room[0] = (assignment, max(0, capacity - taken))
    return tuple(quotas) or (Quota(room[0][0], 0),)
