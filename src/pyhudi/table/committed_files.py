"""What the completed writes of a timeline say that they wrote, held against what is there.

The newest slice of a file group that was not replaced is needed by every reader: no service of Hudi deletes a file of
it. So a file of it that a completed write names and that is missing, or shorter than the write left it, is damage, and
the older files of the group are no answer. A slice that has a successor may be cleaned away; then who asks for the
table as it was gets an error that says so, too.

Of writes that were archived nothing is compared: that would take the whole archive.
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
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.written_files import WrittenFile, WrittenFiles
from pyhudi.format.timeline.instant import Instant
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.timeline import Timeline, load_timeline
from pyhudi.table.written_files import load_written_files

NAMED_IN_WARNING_MAX = 10
"""Files that a warning names one by one."""


class CommittedFile(NamedTuple):
    """A file as one write left it."""

    instant_time: str
    file: WrittenFile


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A file that a completed write needs and that is not there as the write left it; `found`: its size if it is."""

    group: FileGroupId
    path: str
    instant_time: str
    expected: int
    found: int | None


@dataclass(frozen=True)
class CommittedFiles:
    """The files of the completed writes of a timeline, by file group, oldest write first.

    `replaced`: the instants that replaced groups. `untold`: writes that were archived after the timeline was loaded, of
    whose files nothing is known any more.
    """

    timeline: Timeline
    groups: Mapping[FileGroupId, Sequence[CommittedFile]] = field(repr=False)
    replaced: Mapping[FileGroupId, str] = field(default_factory=dict, repr=False)
    untold: frozenset[str] = frozenset()

    @cached_property
    def _writers(self) -> Mapping[tuple[str, str], str]:
        return {
            (group.partition_path, one.file.name): one.instant_time
            for group, files in self.groups.items()
            for one in files
        }

    def writer_of(self, info: FileInfo) -> str | None:
        """The newest completed write that says that it wrote to a file; None where none does."""
        partition_path, _, name = info.path.rpartition("/")
        return self._writers.get((partition_path, name))

    def names(self, info: FileInfo, instant_time: str) -> bool:
        """Whether a completed write says that it wrote a file, which has this time in its name."""
        return self.writer_of(info) is not None or instant_time in self.untold

    def touched_by(self, written: Collection[str]) -> frozenset[FileGroupId]:
        """The groups that one of these writes wrote to."""
        return frozenset(
            group for group, files in self.groups.items() if any(one.instant_time in written for one in files)
        )

    def shortfalls(
        self, group: FileGroupId, found: FileSlice | None, counts: Callable[[str], bool]
    ) -> Iterator[Shortfall]:
        """What is wrong with the newest slice of a group that was found, by the writes that count."""
        files = [one for one in self.groups.get(group, ()) if counts(one.instant_time)]
        if not files:
            return
        bases = [one for one in files if not one.file.is_log]
        newest = max(bases, key=lambda one: one.instant_time, default=None)
        base = found.base if found is not None else None
        starts_at = max(newest.instant_time if newest else "", base.instant_time if base else "")
        sizes: dict[str, int] = {}
        if found is not None and base is not None:
            sizes[str(base.name)] = base.size
        if found is not None:
            sizes.update((str(log.name), log.size) for log in found.logs)
        needed = [one for one in files if one.file.is_log and self._position(one) >= starts_at]
        if newest is not None and newest.instant_time == starts_at:
            needed.append(newest)
        for one in needed:
            size = sizes.get(one.file.name)
            if size is None or size < one.file.end:
                yield _shortfall(group, one, size)

    def cut_off(self, group: FileGroupId, sizes: Mapping[str, int]) -> list[Shortfall]:
        """Which of these files of a group, by name, are shorter than completed writes left them."""
        files = (one for one in self.groups.get(group, ()) if one.file.name in sizes)
        return [_shortfall(group, one, sizes[one.file.name]) for one in files if sizes[one.file.name] < one.file.end]

    def is_superseded(self, group: FileGroupId, instant_time: str) -> bool:
        """Whether a newer base file has taken the place of what a write did to a group, or other groups have."""
        return group in self.replaced or any(
            not one.file.is_log and one.instant_time > instant_time for one in self.groups.get(group, ())
        )

    def _position(self, one: CommittedFile) -> str:
        """Where a log stands among base files, see `LogFile`."""
        if self.timeline.version.has_completion_times:
            return self.timeline.completion_times[one.instant_time]
        name = parse_data_file(one.file.name)
        return name.instant_time if isinstance(name, LogFileName) else ""


def _shortfall(group: FileGroupId, one: CommittedFile, found: int | None) -> Shortfall:
    path = f"{group.partition_path}/{one.file.name}" if group.partition_path else one.file.name
    return Shortfall(group, path, one.instant_time, one.file.end, found)


def committed_files(
    storage: Storage, timeline: Timeline, partition_paths: Collection[str] | None = None
) -> CommittedFiles:
    """What the completed writes say of some partitions, or of all. Cost: see `load_written_files`.

    Raises:
        InvalidRequestError: a write was taken back since the timeline was loaded.
        CorruptDataError: naming the file of a write that does not parse.
    """
    groups: dict[FileGroupId, list[CommittedFile]] = defaultdict(list)
    replaced: dict[FileGroupId, str] = {}
    loaded, untold = _loaded(storage, timeline)
    for instant, files in loaded.items():
        for path in files.written if partition_paths is None else partition_paths:
            for file in files.written.get(path, ()):
                groups[FileGroupId(path, file.file_id)].append(CommittedFile(instant.requested_time, file))
        for path, file_ids in files.replaced.items():
            for file_id in file_ids:
                replaced[FileGroupId(path, file_id)] = instant.requested_time
    return CommittedFiles(timeline, groups, replaced, untold)


def _loaded(storage: Storage, timeline: Timeline) -> tuple[dict[Instant, WrittenFiles], frozenset[str]]:
    """What the completed writes did to files, and the times of those of which nothing is left to read."""
    writes = timeline.completed_writes
    try:
        return load_written_files(storage, timeline.version, writes), frozenset()
    except NotFoundError:
        now = load_timeline(storage, timeline.version)
    there = [instant for instant in writes if now.is_committed(instant.requested_time)]
    gone = frozenset(instant.requested_time for instant in writes) - {instant.requested_time for instant in there}
    for instant_time in sorted(gone):
        if not now.starts_after(instant_time):
            raise _taken_back(instant_time)
    return load_written_files(storage, timeline.version, there), gone


def _taken_back(instant_time: str, path: str | None = None) -> InvalidRequestError:
    return InvalidRequestError(
        "a write was taken back while, or since, the table was opened; open it again", path=path, instant=instant_time
    )


def refuse(storage: Storage, timeline: Timeline, shortfalls: Sequence[Shortfall], *, only_warn: bool) -> None:
    """Raise what a shortfall comes to, or warn of all of them. Cost: one listing, and the writes since the timeline.

    Raises:
        InvalidRequestError: the write was taken back.
        HistoryNotRetainedError: the files have a successor by now, so that a cleaner may have removed them.
        CorruptDataError: nothing explains it.
    """
    if only_warn:
        listed = ", ".join(one.path for one in shortfalls[:NAMED_IN_WARNING_MAX])
        warnings.warn(
            f"{len(shortfalls)} file(s) that completed writes need are missing or cut off and are left out; where there"
            f" are older versions of their rows, those are shown: {listed}",
            DamagedFileWarning,
            stacklevel=2,
        )
        return
    now = load_timeline(storage, timeline.version)
    committed = committed_files(storage, now, {one.group.partition_path for one in shortfalls})
    for one in shortfalls:
        if not now.is_committed(one.instant_time) and not now.starts_after(one.instant_time):
            raise _taken_back(one.instant_time, one.path)
        if one.found is None and committed.is_superseded(one.group, one.instant_time):
            raise HistoryNotRetainedError(
                "files of the table as it was then have been removed, as cleaners do once there are newer ones; ask "
                "for a newer state, or open the table again",
                path=one.path,
                instant=one.instant_time,
            )
    worst = shortfalls[0]
    raise CorruptDataError(
        "a file that a completed write made is " + ("missing" if worst.found is None else "cut off"),
        path=worst.path,
        instant=worst.instant_time,
        size=worst.found,
        expected=worst.expected or None,
        damaged_files=len(shortfalls),
    )
