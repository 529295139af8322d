"""Partitions and their files: from the file-system view, or from names alone where that would read too many writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import SlicesByPartition
from pyhudi.table.timeline import Timeline


@dataclass(slots=True)
class Partition:
    """A partition: its newest file slices, and when the newest of them began. Sizes are in bytes."""

    path: str
    file_groups: int = 0
    base_files: int = 0
    small_files: int = 0
    base_bytes: int = 0
    logs: int = 0
    log_bytes: int = 0
    newest: str = ""

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return self.base_bytes + self.log_bytes


_Slice: TypeAlias = tuple[str, int | None, int, int, str]
"""Of a file slice: the partition, the size of the base file, the number of logs, their size, and the instant."""


def partitions_of_view(latest: SlicesByPartition, small: int) -> list[Partition]:
    """The partitions of these file slices, the largest first. Base files below `small` bytes are small."""
    return _partitions(
        (
            (
                path,
                file_slice.base.size if file_slice.base else None,
                len(file_slice.logs),
                sum(log.size for log in file_slice.logs),
                file_slice.instant_time,
            )
            for path, slices in latest.items()
            for file_slice in slices
        ),
        small,
    )


def partitions_of_names(
    files: Iterable[FileInfo], timeline: Timeline, replaced: Collection[FileGroupId], small: int
) -> list[Partition]:
    """The same from the names of files, without a look at their writes.

    A file counts if its instant is completed or archived. So files of lost task attempts count, too, and of the groups
    that were replaced only those are left out that are given.
    """
    return _partitions(_slices_of_names(files, timeline, replaced), small)


@dataclass(slots=True)
class _Group:
    base_instant: str = ""
    base_size: int | None = None
    logs: list[tuple[str, int]] = field(default_factory=list)


def _slices_of_names(
    files: Iterable[FileInfo], timeline: Timeline, replaced: Collection[FileGroupId]
) -> Iterator[_Slice]:
    groups: defaultdict[tuple[str, str], _Group] = defaultdict(_Group)
    completed, first = timeline.completed_times, timeline.first_time or ""
    # Before version 8 the name of a log has the instant of its slice, which may be that of a pending compaction.
    names_tell = timeline.version.has_completion_times
    for info in files:
        path, _, text = info.path.rpartition("/")
        name = parse_data_file(text)
        if name is None:
            continue
        is_base, instant = isinstance(name, BaseFileName), name.instant_time
        if instant not in completed and instant >= first and (is_base or names_tell):
            continue
        if isinstance(name, BaseFileName):
            group = groups[path, name.file_id]
            if instant >= group.base_instant:
                group.base_instant, group.base_size = instant, info.size
        elif not name.is_cdc:
            groups[path, name.file_id].logs.append((timeline.completion_times.get(instant, instant), info.size))
    left_out = {(group.partition_path, group.file_id) for group in replaced}
    for (path, file_id), found in groups.items():
        if (path, file_id) not in left_out:
            logs = [(at, size) for at, size in found.logs if at >= found.base_instant]
            newest = found.base_instant or min((at for at, _ in logs), default="")
            yield path, found.base_size, len(logs), sum(size for _, size in logs), newest


def _partitions(slices: Iterable[_Slice], small: int) -> list[Partition]:
    found: dict[str, Partition] = {}
    for path, base_size, logs, log_size, instant in slices:
        partition = found.get(path)
        if partition is None:
            partition = found[path] = Partition(path)
        partition.file_groups += 1
        partition.logs += logs
        partition.log_bytes += log_size
        partition.newest = max(partition.newest, instant)
        if base_size is not None:
            partition.base_files += 1
            partition.base_bytes += base_size
            partition.small_files += base_size < small
    return sorted(found.values(), key=lambda partition: (-partition.bytes, partition.path))
