"""File groups and file slices: a slice is a base file with the logs that change it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyhudi.format.file_names import BaseFileName, LogFileName
from pyhudi.format.schema.stored_names import NamesByWrite
from pyhudi.io.log.block_filter import Stretch
from pyhudi.io.slices.files import SliceFiles, SourceFile


@dataclass(frozen=True, slots=True)
class FileGroupId:
    """A file group: the files that hold one set of record keys over time."""

    partition_path: str
    file_id: str


@dataclass(frozen=True, slots=True)
class BaseFile:
    """One version of a file group. `path` is relative to the table, `size` in bytes.

    `source`: of the skeleton of a bootstrap, the file with the other columns.
    `modified_ms`: by the store's clock, 0 if the listing does not tell. `names`: see `SliceFiles`.
    """

    partition_path: str
    name: BaseFileName
    path: str
    size: int
    source: SourceFile | None = None
    modified_ms: int = field(default=0, compare=False)
    names: NamesByWrite | None = field(default=None, compare=False, repr=False)

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
    `writer`: from version 8 on the delta commit whose metadata name the log. Usually it is the one in the name of the
    log; but in a slice without a base file, JVM Hudi 1.2.0 names logs of SQL updates after the first write.
    `position`: the log changes base files whose instant is not above it. It is the completion time of the delta commit;
    in version 6 again the instant of the file slice.
    `committed`: the byte ranges that completed writes wrote. From version 8 on that is the whole log. In version 6 it
    is what the metadata of the active timeline name; an older log counts as a whole. `names`: see `SliceFiles`.
    """

    partition_path: str
    name: LogFileName
    path: str
    size: int
    position: str = ""
    committed: tuple[Stretch, ...] = ()
    writer: str | None = None
    names: NamesByWrite | None = field(default=None, compare=False, repr=False)

    @property
    def instant_time(self) -> str:
        """The write of the log, as far as it is known without reading it."""
        return self.writer or self.name.instant_time

    @property
    def group(self) -> FileGroupId:
        """The group it belongs to."""
        return FileGroupId(self.partition_path, self.name.file_id)


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A file group at one time: the rows of its base file, changed by its logs in order.

    `instant_time` is the start of the slice: the write of its base file, the compaction that will write its base file,
    or the instant of its first log. A group that never had a base file has slices of logs only. While a compaction is
    pending, readers get one slice with the logs before and after its instant.
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

    @property
    def paths(self) -> tuple[str, ...]:
        """All its files, relative to the table: the base file, then the logs."""
        return (*((self.base.path,) if self.base is not None else ()), *(log.path for log in self.logs))


def slice_files(base: BaseFile | None, logs: Iterable[LogFile]) -> SliceFiles:
    """These files of a slice in the form that tasks get."""
    logs = tuple(logs)
    return SliceFiles(
        base.path if base else None,
        tuple(log.path for log in logs),
        tuple(log.committed for log in logs),
        base.source if base else None,
        next((file.names for file in ((base,) if base else ()) + logs if file.names is not None), None),
    )
