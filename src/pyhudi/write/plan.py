"""The workload profile of a write and what follows from it: which base files are written, and what goes where. Pure.

Updates rewrite the file group that holds the record. New records first fill the partition's small files, smallest
first, up to the maximum file size, then new file groups of that size.

Source: mission rows S1-27, S1-28, S1-44, S2-39 (flow F1); sizes in bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyhudi.format.commit_metadata import CommitMetadata
from pyhudi.io.route import Quota
from pyhudi.table.file_system_view import BaseFile


@dataclass(frozen=True, slots=True)
class Sizing:
    """How large base files become: `record_size` is the average bytes of a stored record.

    `small_file_limit` 0 switches packing off. `rows_per_new_file` overrides what follows from the sizes.
    """

    max_file_size: int
    small_file_limit: int
    record_size: int
    rows_per_new_file: int | None = None

    @property
    def new_file_rows(self) -> int:
        """Rows that a new file group takes."""
        return self.rows_per_new_file or max(1, self.max_file_size // self.record_size)

    def room_in(self, file: BaseFile) -> int:
        """New records that fit into a stored file."""
        return max(0, (self.max_file_size - file.size) // self.record_size)


@dataclass(frozen=True, slots=True)
class Profile:
    """Counts of a staged and tagged batch.

    `new_rows`: by (split, partition path). `updates`: stored rows that change, by base file.
    """

    new_rows: Mapping[tuple[int, str], int]
    updates: Mapping[BaseFile, int]


@dataclass(frozen=True, slots=True)
class Bucket:
    """One base file to write: a new version of `former`, or the first of a new file group."""

    number: int
    partition_path: str
    file_id: str
    former: BaseFile | None
    updates: int
    inserts: int


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """All buckets of a write, and the share of new records that each split puts into them.

    The last quota of a partition is open-ended: it takes what the counts did not foresee. So a bucket may be planned
    for which no row turns up; it is not written.
    """

    buckets: tuple[Bucket, ...]
    quotas: Mapping[int, Mapping[str, tuple[Quota, ...]]]


@dataclass(slots=True)
class _Draft:
    partition_path: str
    file_id: str
    former: BaseFile | None
    updates: int = 0
    inserts: int = 0


@dataclass(slots=True)
class _Drafts:
    """Buckets while they are being filled; a file group appears once, however many ways lead to it."""

    new_file_id: Callable[[], str]
    drafts: list[_Draft] = field(default_factory=list)
    number_of: dict[tuple[str, str], int] = field(default_factory=dict)

    def of_file(self, file: BaseFile) -> int:
        key = (file.partition_path, file.file_id)
        if key not in self.number_of:
            self.number_of[key] = self._add(_Draft(file.partition_path, file.file_id, file))
        return self.number_of[key]

    def of_new_group(self, partition_path: str) -> int:
        return self._add(_Draft(partition_path, self.new_file_id(), None))

    def _add(self, draft: _Draft) -> int:
        self.drafts.append(draft)
        return len(self.drafts) - 1


def plan_buckets(
    profile: Profile,
    latest: Mapping[str, Sequence[BaseFile]],
    sizing: Sizing,
    new_file_id: Callable[[], str],
) -> BucketPlan:
    """Decide the base files of a write. `latest` are the newest base files of the touched partitions."""
    drafts = _Drafts(new_file_id)
    for file, updates in profile.updates.items():
        drafts.drafts[drafts.of_file(file)].updates += updates
    by_partition: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (split, partition_path), rows in sorted(profile.new_rows.items()):
        by_partition[partition_path].append((split, rows))
    quotas: dict[int, dict[str, tuple[Quota, ...]]] = defaultdict(dict)
    for partition_path, per_split in by_partition.items():
        total = sum(rows for _, rows in per_split)
        room = _room(total, partition_path, latest.get(partition_path, ()), sizing, drafts)
        for split, rows in per_split:
            quotas[split][partition_path] = _take(room, rows, drafts)
    buckets = tuple(
        Bucket(number, d.partition_path, d.file_id, d.former, d.updates, d.inserts)
        for number, d in enumerate(drafts.drafts)
    )
    return BucketPlan(buckets, quotas)


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
    total: int, partition_path: str, files: Sequence[BaseFile], sizing: Sizing, drafts: _Drafts
) -> list[tuple[int, int]]:
    """Buckets for the new records of a partition, each with how many it takes; the last one takes any number."""
    room: list[tuple[int, int]] = []
    small = sorted((file for file in files if file.size < sizing.small_file_limit), key=lambda f: (f.size, f.file_id))
    left = total
    for file in small:
        if left <= 0:
            break
        if (taken := min(left, sizing.room_in(file))) > 0:
            room.append((drafts.of_file(file), taken))
            left -= taken
    while left > 0:
        taken = min(left, sizing.new_file_rows)
        room.append((drafts.of_new_group(partition_path), taken))
        left -= taken
    return room or [(drafts.of_new_group(partition_path), 0)]


def _take(room: list[tuple[int, int]], rows: int, drafts: _Drafts) -> tuple[Quota, ...]:
    """Use up the front of `room` for one split; at least one quota, so that a miscount has somewhere to go."""
    quotas: list[Quota] = []
    while rows > 0:
        bucket, capacity = room[0]
        taken = rows if len(room) == 1 else min(rows, capacity)
        quotas.append(Quota(bucket, taken))
        drafts.drafts[bucket].inserts += taken
        rows -= taken
        if taken == capacity and len(room) > 1:
            room.pop(0)
        else:
            room[0] = (bucket, max(0, capacity - taken))
    return tuple(quotas) or (Quota(room[0][0], 0),)
