"""File groups, and the files that hold their records at one time: a base file and the log files over it.

Source: `format/timeline.md` 2.1, 4.1, 4.2; mission rows S1-20 to S1-22, S1-29 to S1-32.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyhudi.format.file_names import BaseFileName, LogFileName
from pyhudi.io.log.block_filter import Stretch
from pyhudi.io.slices.files import SliceFiles


@dataclass(frozen=True, slots=True)
class FileGroupId:
    """A file group: the files that hold one set of record keys over time."""

    partition_path: str
    file_id: str


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One version of a file group. `path` is relative to the table, `size` in bytes."""

    partition_path: str
    name: BaseFileName
    path: str
    size: int

    @property
    def group(self) -> FileGroupId:
        """The group it belongs to."""
        return FileGroupId(self.partition_path, self.name.file_id)

    @property
    def file_id(self) -> str:
        """The id of its group."""
        return self.name.file_id

    @property
    def instant_time(self) -> str:
        """The write that made it."""
        return self.name.instant_time


@dataclass(frozen=True, slots=True)
class LogFile:
    """Changes to the records of a file group. `path` is relative to the table, `size` in bytes.

    The instant in its name is that of the delta commit that wrote it; in table version 6 that of the file slice.
    `writer`: from version 8 on the delta commit that says that it wrote it. As a rule that is the one in its name, but
    where a slice has no base file JVM Hudi 1.2.0 names logs of SQL updates after the slice's first write.
    `position` says where the log stands among base files: it changes those whose instant is not above it. It is the
    completion time of its delta commit; in version 6 again the instant of the file slice.
    `committed`: what of it completed writes put there. From version 8 on that is all of it. In version 6 it is what
    the writes of the active timeline say; a log that is older is taken as a whole.
    """

    partition_path: str
    name: LogFileName
    path: str
    size: int
    position: str = ""
    committed: tuple[Stretch, ...] = ()
    writer: str | None = None

    @property
    def instant_time(self) -> str:
        """The write that it is of, as far as one can tell without looking into it."""
        return self.writer or self.name.instant_time

    @property
    def group(self) -> FileGroupId:
        """The group it belongs to."""
        return FileGroupId(self.partition_path, self.name.file_id)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A file group at one time: what its base file says, changed by its logs in order.

    `instant_time` is where the slice begins: the base file's write, the compaction that is to make its base file, or
    the first log's instant. A group that never had a base file has slices of logs alone. While a compaction is pending
    the slice that readers get has the logs on both sides of it.
    """

    group: FileGroupId
    instant_time: str
    base: BaseFile | None
    logs: tuple[LogFile, ...] = ()

    @property
    def partition_path(self) -> str:
        """The partition of its group."""
        return self.group.partition_path

    @property
    def file_id(self) -> str:
        """The id of its group."""
        return self.group.file_id

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return (self.base.size if self.base else 0) + sum(log.size for log in self.logs)


def slice_files(base: BaseFile | None, logs: Iterable[LogFile]) -> SliceFiles:
    """What tasks have to know of these files of a slice."""
    logs = tuple(logs)
    return SliceFiles(
        base.path if base else None, tuple(log.path for log in logs), tuple(log.committed for log in logs)
    )
