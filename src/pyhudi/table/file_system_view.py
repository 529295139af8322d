"""File groups and their slices, from listings and the timeline.

A file counts when the write in its name is completed; its mere presence means nothing. Of two files of one slice (a
task attempt that was lost but not cleaned up in time) the one that the commit's metadata lists counts.

Source: `format/timeline.md` sections 2.1 and 4.1; mission rows S1-20 to S1-22, S5-20 to S5-23.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.instant import Action
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.timeline import Timeline, has_archive, load_commit_metadata

METADATA_FOLDER = ".hoodie"


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


@dataclass(frozen=True)
class FileSystemView:
    """All versions of all file groups that a timeline makes visible."""

    timeline: Timeline
    versions: Mapping[FileGroupId, tuple[BaseFile, ...]] = field(repr=False)
    replaced: Mapping[FileGroupId, str] = field(repr=False)

    @cached_property
    def latest(self) -> Mapping[str, tuple[BaseFile, ...]]:
        """The newest base file of each group that is not replaced, by partition path, sorted by file id."""
        return self.latest_until(None)

    def latest_until(self, instant_time: str | None) -> Mapping[str, tuple[BaseFile, ...]]:
        """Like `latest`, as it was when the write of this instant had completed."""
        return self._latest_where(lambda write: instant_time is None or write <= instant_time)

    def latest_of(self, ended: Collection[str], *, written: Collection[str]) -> Mapping[str, tuple[BaseFile, ...]]:
        """What the writes `written` left, as it was when just the writes `ended` had completed."""
        latest = self._latest_where(ended.__contains__)
        return {path: tuple(f for f in files if f.instant_time in written) for path, files in latest.items()}

    def _latest_where(self, counts: Callable[[str], bool]) -> Mapping[str, tuple[BaseFile, ...]]:
        """The newest version of each group and the replacements by the writes that count."""
        chosen: dict[str, list[BaseFile]] = defaultdict(list)
        for group, versions in self.versions.items():
            replaced_at = self.replaced.get(group)
            if replaced_at is not None and counts(replaced_at):
                continue
            visible = [version for version in versions if counts(version.instant_time)]
            if visible:
                chosen[group.partition_path].append(visible[-1])
        return {
            partition: tuple(sorted(files, key=lambda file: file.file_id))
            for partition, files in sorted(chosen.items())
        }


def load_view(storage: Storage, timeline: Timeline, partition_paths: Iterable[str] | None = None) -> FileSystemView:
    """The view of some partitions, or of all.

    Cost: one listing per named partition, or one recursive listing per top-level folder; one read per replace commit
    of the active timeline.
    """
    if partition_paths is None:
        files = list_data_files(storage)
    else:
        files = [info for path in sorted(set(partition_paths)) for info in storage.list_folder(path).files]
    return view_of(storage, timeline, files)


def view_of(storage: Storage, timeline: Timeline, files: Iterable[FileInfo]) -> FileSystemView:
    """The view that these data files make under a timeline."""
    groups: dict[FileGroupId, list[BaseFile]] = defaultdict(list)
    archive = cache(lambda: has_archive(storage, timeline.version))
    for info in files:
        partition_path, _, file_name = info.path.rpartition("/")
        name = parse_data_file(file_name)
        if not isinstance(name, BaseFileName) or not _is_visible(name.instant_time, timeline, archive):
            continue
        if name.extension != ".parquet":
            raise UnsupportedFeatureError("only Parquet base files can be read", path=info.path)
        base_file = BaseFile(partition_path, name, info.path, info.size)
        groups[base_file.group].append(base_file)
    versions = {group: _one_per_instant(storage, timeline, found) for group, found in groups.items()}
    return FileSystemView(timeline, versions, _replaced_groups(storage, timeline))


def _is_visible(instant_time: str, timeline: Timeline, has_archive: Callable[[], bool]) -> bool:
    """Whether the write that made a file is completed.

    A file from before the active timeline belongs to an archived write. Where nothing was ever archived it can only be
    what a task wrote after its write had been rolled back.
    """
    return timeline.is_committed(instant_time) or (timeline.starts_after(instant_time) and has_archive())


def list_data_files(storage: Storage) -> list[FileInfo]:
    """Everything in the table outside its metadata folder. Cost: one recursive listing per top-level folder."""
    root = storage.list_folder("")
    files = list(root.files)
    for folder in root.folders:
        if folder != METADATA_FOLDER:
            files.extend(storage.list_recursive(folder))
    return files


def _one_per_instant(storage: Storage, timeline: Timeline, found: list[BaseFile]) -> tuple[BaseFile, ...]:
    by_instant: dict[str, list[BaseFile]] = defaultdict(list)
    for base_file in found:
        by_instant[base_file.instant_time].append(base_file)
    return tuple(
        files[0] if len(files) == 1 else _committed_attempt(storage, timeline, files)
        for _, files in sorted(by_instant.items())
    )


def _committed_attempt(storage: Storage, timeline: Timeline, attempts: list[BaseFile]) -> BaseFile:
    for instant in timeline.completed_writes:
        if instant.requested_time == attempts[0].instant_time:
            listed = load_commit_metadata(storage, instant, timeline.version).paths()
            for attempt in attempts:
                if attempt.path in listed:
                    return attempt
    return max(attempts, key=lambda attempt: attempt.name.write_token)


def _replaced_groups(storage: Storage, timeline: Timeline) -> dict[FileGroupId, str]:
    replaced: dict[FileGroupId, str] = {}
    for instant in timeline.completed_writes:
        if instant.action is not Action.REPLACE_COMMIT:
            continue
        metadata = load_commit_metadata(storage, instant, timeline.version)
        for partition_path, file_ids in (metadata.replaced_file_ids or {}).items():
            for file_id in file_ids:
                replaced[FileGroupId(partition_path, file_id)] = instant.requested_time
    return replaced
