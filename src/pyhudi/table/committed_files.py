"""The files in the metadata of completed writes, compared with the files in the store.

Every reader needs the newest slice of a file group that was not replaced, and no service of Hudi deletes its files. So
if such a file is missing, or shorter than its write left it, the table is damaged, and reading older files of the group
instead would give wrong rows. A cleaner may delete older slices; then time travel to them is an error, too.

Archived writes are not compared: that would need the whole archive.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from pyhudi.errors import (
    CorruptDataError,
    DamagedFileWarning,
    HistoryNotRetainedError,
    InvalidRequestError,
    NotFoundError,
)
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.metadata.written_files import WrittenFile, WrittenFiles
from pyhudi.format.schema.internal_schema import InternalSchema
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.history import ArchivedOutcome, archived_outcome
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.timeline import Timeline, load_timeline
from pyhudi.table.written_files import load_written_files

NAMED_IN_WARNING_MAX = 10
"""How many files a warning names."""


class CommittedFile(NamedTuple):
    """A file as one write left it."""

    instant_time: str
    file: WrittenFile


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A file of a completed write that is missing (`found` is None) or too short (`found` is its size)."""

    group: FileGroupId
    path: str
    instant_time: str
    expected: int
    found: int | None


@dataclass(frozen=True)
class CommittedFiles:
    """The files of the completed writes of a timeline, by file group, oldest write first.

    `replaced`: the instants that replaced groups. `unknown`: writes that were archived after the timeline was loaded,
    so that their files are not known. `columns`: by write, newest first, the columns with ids that it says to have
    written under; None for a write that names columns without ids.
    """

    timeline: Timeline
    groups: Mapping[FileGroupId, Sequence[CommittedFile]] = field(repr=False)
    replaced: Mapping[FileGroupId, str] = field(default_factory=dict, repr=False)
    unknown: frozenset[str] = frozenset()
    columns: Mapping[str, InternalSchema | None] = field(default_factory=dict, repr=False)

    @cached_property
    def _writers(self) -> Mapping[tuple[str, str], str]:
        return {
            (group.partition_path, committed.file.name): committed.instant_time
            for group, files in self.groups.items()
            for committed in files
        }

    def writer_of(self, info: FileInfo) -> str | None:
        """The newest completed write whose metadata name a file; None if none do."""
        partition_path, _, name = info.path.rpartition("/")
        return self._writers.get((partition_path, name))

    def names(self, info: FileInfo, instant_time: str) -> bool:
        """Whether the metadata of a completed write name a file, which has this instant in its name."""
        return self.writer_of(info) is not None or instant_time in self.unknown

    def is_of_lost_attempt(self, info: FileInfo) -> bool:
        """Whether a base file is of a completed write that does not name it: a lost task attempt left it."""
        name = parse_data_file(info.name)
        if not isinstance(name, BaseFileName) or not self.timeline.is_committed(name.instant_time):
            return False
        return not self.names(info, name.instant_time)

    def touched_by(self, written: Collection[str]) -> frozenset[FileGroupId]:
        """The groups that one of these writes wrote to."""
        return frozenset(
            group for group, files in self.groups.items() if any(file.instant_time in written for file in files)
        )

    def shortfalls(
        self, group: FileGroupId, found: FileSlice | None, counts: Callable[[str], bool]
    ) -> Iterator[Shortfall]:
        """The missing and short files of the newest slice of a group, by the writes that count."""
        files = [file for file in self.groups.get(group, ()) if counts(file.instant_time)]
        if not files:
            return
        bases = [committed for committed in files if not committed.file.is_log]
        newest = max(bases, key=lambda committed: committed.instant_time, default=None)
        base = found.base if found is not None else None
        starts_at = max(newest.instant_time if newest else "", base.instant_time if base else "")
        sizes: dict[str, int] = {}
        if found is not None and base is not None:
            sizes[str(base.name)] = base.size
        if found is not None:
            sizes.update((str(log.name), log.size) for log in found.logs)
        needed = [log for log in files if log.file.is_log and self._position(log) >= starts_at]
        if newest is not None and newest.instant_time == starts_at:
            needed.append(newest)
        for committed in needed:
            size = sizes.get(committed.file.name)
            if size is None or size < committed.file.end:
                yield _shortfall(group, committed, size)

    def cut_off(self, group: FileGroupId, sizes: Mapping[str, int]) -> list[Shortfall]:
        """The files of a group, with their `sizes` by name, that are shorter than completed writes left them."""
        files = (committed for committed in self.groups.get(group, ()) if committed.file.name in sizes)
        return [
            _shortfall(group, file, sizes[file.file.name]) for file in files if sizes[file.file.name] < file.file.end
        ]

    def is_superseded(self, group: FileGroupId, instant_time: str) -> bool:
        """Whether a newer base file, or a replacement of the group, supersedes what a write did to it."""
        return group in self.replaced or any(
            not file.file.is_log and file.instant_time > instant_time for file in self.groups.get(group, ())
        )

    def _position(self, log: CommittedFile) -> str:
        """The position of a log among base files, see `LogFile`."""
        if self.timeline.version.has_completion_times:
            return self.timeline.completion_times[log.instant_time]
        name = parse_data_file(log.file.name)
        return name.instant_time if isinstance(name, LogFileName) else ""


def _shortfall(group: FileGroupId, committed: CommittedFile, found: int | None) -> Shortfall:
    name = committed.file.name
    path = f"{group.partition_path}/{name}" if group.partition_path else name
    return Shortfall(group, path, committed.instant_time, committed.file.end, found)


class WritesOfTimeline(NamedTuple):
    """The files of the completed writes of a timeline, and the times of writes whose metadata are gone."""

    files: Mapping[Instant, WrittenFiles]
    unknown: frozenset[str]


def committed_files(
    storage: Storage,
    timeline: Timeline,
    partition_paths: Collection[str] | None = None,
    *,
    writes: WritesOfTimeline | None = None,
) -> CommittedFiles:
    """The files that the completed writes name in some partitions, or in all. `writes`: None loads them.

    Raises what `load_writes` raises. Cost: what that costs, for None.
    """
    groups: dict[FileGroupId, list[CommittedFile]] = defaultdict(list)
    replaced: dict[FileGroupId, str] = {}
    writes = writes or load_writes(storage, timeline)
    hidden = _unfinished_resizes(timeline)
    for instant, files in writes.files.items():
        for path in files.written if partition_paths is None else partition_paths:
            for file in files.written.get(path, ()):
                if hidden(instant, file):
                    continue
                groups[FileGroupId(path, file.file_id)].append(CommittedFile(instant.requested_time, file))
        for path, file_ids in files.replaced.items():
            for file_id in file_ids:
                replaced[FileGroupId(path, file_id)] = instant.requested_time
    columns: dict[str, InternalSchema | None] = {
        instant.requested_time: files.columns
        for instant, files in sorted(writes.files.items(), key=lambda item: item[0].requested_time, reverse=True)
        if files.has_schema
    }
    return CommittedFiles(timeline, groups, replaced, writes.unknown, columns)


def _unfinished_resizes(timeline: Timeline) -> Callable[[Instant, WrittenFile], bool]:
    """Whether a write put a file into a bucket that the resize of a consistent bucket index has yet to make.

    Such a log is named after the resize. The same rows are in the old bucket, so it is not visible before the resize is
    completed, and never if that was undone.
    """
    may_be = {
        instant.requested_time
        for instant in timeline.instants
        if instant.action in (Action.CLUSTERING, Action.REPLACE_COMMIT)
        and not timeline.is_committed(instant.requested_time)
    }

    def is_hidden(instant: Instant, file: WrittenFile) -> bool:
        if not file.is_log or instant.requested_time in file.name:
            return False
        name = parse_data_file(file.name)
        if name is None or name.instant_time in may_be:
            return name is not None
        by_write = timeline.version.has_completion_times
        is_there = timeline.is_committed(name.instant_time) or timeline.starts_after(name.instant_time)
        return by_write and not is_there

    return is_hidden


def load_writes(storage: Storage, timeline: Timeline) -> WritesOfTimeline:
    """The files of the completed writes of a timeline. Cost: see `load_written_files`.

    Raises:
        InvalidRequestError: a write was rolled back since the timeline was loaded.
        CorruptDataError: the metadata of a write are damaged; names the file.
    """
    writes = timeline.completed_writes
    try:
        return WritesOfTimeline(load_written_files(storage, timeline.version, writes), frozenset())
    except NotFoundError:
        now = load_timeline(storage, timeline.version)
    there = [instant for instant in writes if now.is_committed(instant.requested_time)]
    gone = frozenset(instant.requested_time for instant in writes) - {instant.requested_time for instant in there}
    for instant_time in sorted(gone):
        if not now.starts_after(instant_time):
            raise _rolled_back(instant_time)
    return WritesOfTimeline(load_written_files(storage, timeline.version, there), gone)


def _rolled_back(instant_time: str, path: str | None = None) -> InvalidRequestError:
    return InvalidRequestError(
        "a write was rolled back while, or since, the table was opened, or another table was made at its path; open it "
        "again",
        path=path,
        instant=instant_time,
    )


def _is_lost(storage: Storage, now: Timeline, instant_time: str) -> bool:
    """Whether a completed write is neither on the timeline nor archived. Cost: for one before it the archive."""
    if now.is_committed(instant_time):
        return False
    if not now.starts_after(instant_time):
        return True
    return archived_outcome(storage, now.version, instant_time) is not ArchivedOutcome.COMPLETED


def refuse(storage: Storage, timeline: Timeline, shortfalls: Sequence[Shortfall], *, only_warn: bool) -> None:
    """Raise the error for missing and short files, or warn. Cost: one listing, and the writes since the timeline.

    Raises:
        InvalidRequestError: the write was rolled back, or the table is another one.
        HistoryNotRetainedError: newer files supersede them, so a cleaner may have deleted them.
        CorruptDataError: otherwise.
    """
    if only_warn:
        listed = ", ".join(shortfall.path for shortfall in shortfalls[:NAMED_IN_WARNING_MAX])
        warnings.warn(
            f"{len(shortfalls)} file(s) of completed writes are missing or cut off and are left out; older versions of "
            f"their rows are shown if there are any: {listed}",
            DamagedFileWarning,
            stacklevel=2,
        )
        return
    now = load_timeline(storage, timeline.version)
    committed = committed_files(storage, now, {shortfall.group.partition_path for shortfall in shortfalls})
    for shortfall in shortfalls:
        if _is_lost(storage, now, shortfall.instant_time):
            raise _rolled_back(shortfall.instant_time, shortfall.path)
        if shortfall.found is None and committed.is_superseded(shortfall.group, shortfall.instant_time):
            raise HistoryNotRetainedError(
                "files of the requested state have been deleted, as cleaners do once there are newer ones; ask for a "
                "newer state, or open the table again",
                path=shortfall.path,
                instant=shortfall.instant_time,
            )
    worst = shortfalls[0]
    raise CorruptDataError(
        "a file of a completed write is " + ("missing" if worst.found is None else "cut off"),
        path=worst.path,
        instant=worst.instant_time,
        size=worst.found,
        expected=worst.expected or None,
        damaged_files=len(shortfalls),
    )
