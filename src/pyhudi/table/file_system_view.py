"""File groups and their slices, from listings and the timeline.

A file counts when the write in its name is completed; its mere presence means nothing. Of two files of one slice (a
task attempt that was lost but not cleaned up in time) the one that the commit's metadata lists counts.

A log file changes the newest base file that was requested before the log's write completed, so a base file with all
logs from its instant on is what readers merge, whether or not a compaction is pending between them. In table version 6
log names carry the instant of the slice and not of the write: such logs are all taken, and their reader judges block
by block.

Source: `format/timeline.md` sections 2.1 and 4.1; mission rows S1-20 to S1-22, S5-20 to S5-23.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.instant import Action
from pyhudi.format.safe_paths import is_metadata_folder
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.file_slice import BaseFile, FileGroupId, FileSlice, LogFile
from pyhudi.table.history import archived_completion_times, has_archive
from pyhudi.table.timeline import Timeline, load_commit_metadata, load_compaction_plan
from pyhudi.table.written_files import load_written_files

SlicesByPartition = Mapping[str, tuple[FileSlice, ...]]


@dataclass(frozen=True, slots=True)
class FileGroup:
    """All that a timeline makes visible of a file group: base files by instant, logs in the order they are merged."""

    id: FileGroupId
    base_files: tuple[BaseFile, ...]
    logs: tuple[LogFile, ...] = ()


@dataclass(frozen=True)
class FileSystemView:
    """All versions of all file groups that a timeline makes visible.

    `replaced`: the instants that replaced groups. `pending_compactions`: the instants of compactions that will give a
    group its next base file; what is written to the group from now on belongs to that slice.
    """

    timeline: Timeline
    groups: Mapping[FileGroupId, FileGroup] = field(repr=False)
    replaced: Mapping[FileGroupId, str] = field(repr=False)
    pending_compactions: Mapping[FileGroupId, str] = field(default_factory=dict, repr=False)

    @cached_property
    def latest(self) -> SlicesByPartition:
        """The newest slice of each group that is not replaced, by partition path, sorted by file id."""
        return self.latest_until(None)

    def latest_until(self, instant_time: str | None) -> SlicesByPartition:
        """Like `latest`, as it was when the write of this instant had completed."""
        return self._latest_where(lambda write: instant_time is None or write <= instant_time)

    def latest_of(self, ended: Callable[[str], bool], *, written: Collection[str]) -> SlicesByPartition:
        """Slices that the writes `written` may have changed, as when just the writes that `ended` says had completed.

        Of table version 6 all slices with logs: their names do not tell.
        """
        by_name = self.timeline.version.has_completion_times

        def touched(file_slice: FileSlice) -> bool:
            if file_slice.base is not None and file_slice.base.instant_time in written:
                return True
            return any(not by_name or log.name.instant_time in written for log in file_slice.logs)

        latest = self._latest_where(ended)
        return {path: tuple(filter(touched, slices)) for path, slices in latest.items()}

    def slice_time_for_appends(self, file_slice: FileSlice) -> str:
        """The instant that a new log of this slice's group is named after in table version 6."""
        return self.pending_compactions.get(file_slice.group, file_slice.instant_time)

    def _latest_where(self, counts: Callable[[str], bool]) -> SlicesByPartition:
        """The newest slice of each group, and the replacements, by the writes that count."""
        chosen: dict[str, list[FileSlice]] = defaultdict(list)
        for group in self.groups.values():
            replaced_at = self.replaced.get(group.id)
            if replaced_at is not None and counts(replaced_at):
                continue
            newest = _newest_slice(group, counts, self.pending_compactions.get(group.id))
            if newest is not None:
                chosen[group.id.partition_path].append(newest)
        return {
            partition: tuple(sorted(slices, key=lambda one: one.file_id))
            for partition, slices in sorted(chosen.items())
        }


def _newest_slice(group: FileGroup, counts: Callable[[str], bool], compaction: str | None) -> FileSlice | None:
    base = next((file for file in reversed(group.base_files) if counts(file.instant_time)), None)
    logs = tuple(
        log
        for log in group.logs
        if (counts(log.name.instant_time) or log.name.instant_time == compaction)
        and (base is None or log.position >= base.instant_time)
    )
    if base is not None:
        return FileSlice(group.id, base.instant_time, base, logs)
    return FileSlice(group.id, logs[0].name.instant_time, None, logs) if logs else None


def load_view(storage: Storage, timeline: Timeline, partition_paths: Iterable[str] | None = None) -> FileSystemView:
    """The view of some partitions, or of all.

    Cost: one listing per named partition, or one recursive listing per top-level folder; one read per pending
    compaction of the active timeline, and per replace commit that this process does not know yet; where logs are older
    than the active timeline, also the archive.
    """
    if partition_paths is None:
        files = list_data_files(storage)
    else:
        files = [info for path in sorted(set(partition_paths)) for info in storage.list_folder(path).files]
    return view_of(storage, timeline, files)


def view_of(storage: Storage, timeline: Timeline, files: Iterable[FileInfo]) -> FileSystemView:
    """The view that these data files make under a timeline."""
    bases: dict[FileGroupId, list[BaseFile]] = defaultdict(list)
    logs: dict[FileGroupId, list[LogFile]] = defaultdict(list)
    archive = cache(lambda: has_archive(storage, timeline.version))
    for info in files:
        partition_path, _, file_name = info.path.rpartition("/")
        match parse_data_file(file_name):
            case BaseFileName() as name if _is_visible(name.instant_time, timeline, archive):
                if name.extension != ".parquet":
                    raise UnsupportedFeatureError("only Parquet base files can be read", path=info.path)
                base = BaseFile(partition_path, name, info.path, info.size)
                bases[base.group].append(base)
            case LogFileName(is_cdc=False) as name if _may_hold_changes(name, timeline, archive):
                log = LogFile(partition_path, name, info.path, info.size)
                logs[log.group].append(log)
    placed = _placed(storage, timeline, logs)
    return FileSystemView(
        timeline,
        {
            group: FileGroup(group, _one_per_instant(storage, timeline, bases.get(group, [])), placed.get(group, ()))
            for group in sorted({*bases, *logs}, key=lambda id_: (id_.partition_path, id_.file_id))
        },
        _replaced_groups(storage, timeline),
        pending_compactions(storage, timeline),
    )


def _is_visible(instant_time: str, timeline: Timeline, has_archive: Callable[[], bool]) -> bool:
    """Whether the write that made a file is completed.

    A file from before the active timeline belongs to an archived write. Where nothing was ever archived it can only be
    what a task wrote after its write had been rolled back.
    """
    return timeline.is_committed(instant_time) or (timeline.starts_after(instant_time) and has_archive())


def _may_hold_changes(name: LogFileName, timeline: Timeline, has_archive: Callable[[], bool]) -> bool:
    """Whether a log's write is completed; where its name does not say which it was, the reader finds out."""
    return not timeline.version.has_completion_times or _is_visible(name.instant_time, timeline, has_archive)


def _placed(
    storage: Storage, timeline: Timeline, logs: Mapping[FileGroupId, list[LogFile]]
) -> dict[FileGroupId, tuple[LogFile, ...]]:
    """The logs of each group with their positions, in the order in which they are merged."""
    times = timeline.completion_times
    if timeline.version.has_completion_times:
        old = {log.name.instant_time for found in logs.values() for log in found} - times.keys()
        times = {**times, **archived_completion_times(storage, timeline.version, old)}
    return {
        group: tuple(
            sorted(
                (
                    replace(log, position=times.get(log.name.instant_time, log.name.instant_time))
                    for log in _without_lost_attempts(storage, timeline, found)
                ),
                key=lambda log: (log.position, log.name.version, _token_order(log.name.write_token)),
            )
        )
        for group, found in logs.items()
    }


def _token_order(write_token: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in write_token.split("-")) if write_token else ()


def _without_lost_attempts(storage: Storage, timeline: Timeline, found: list[LogFile]) -> list[LogFile]:
    """One log per write and version. In version 6 several writes share a slice's names, so all are taken."""
    if not timeline.version.has_completion_times:
        return found
    attempts: dict[tuple[str, int], list[LogFile]] = defaultdict(list)
    for log in found:
        attempts[log.name.instant_time, log.name.version].append(log)
    return [log for logs in attempts.values() for log in _committed_attempts(storage, timeline, logs)]


def _committed_attempts(storage: Storage, timeline: Timeline, attempts: list[LogFile]) -> list[LogFile]:
    if len(attempts) == 1:
        return attempts
    listed = _listed_paths(storage, timeline, attempts[0].name.instant_time)
    # A write may give one version to several logs with a token each; then its metadata list them all.
    return [log for log in attempts if log.path in listed] or attempts


def list_data_files(storage: Storage) -> list[FileInfo]:
    """Everything in the table outside its metadata folder. Cost: one recursive listing per top-level folder."""
    root = storage.list_folder("")
    files = list(root.files)
    for folder in root.folders:
        if not is_metadata_folder(folder):
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
    listed = _listed_paths(storage, timeline, attempts[0].instant_time)
    for attempt in attempts:
        if attempt.path in listed:
            return attempt
    return max(attempts, key=lambda attempt: attempt.name.write_token)


def _listed_paths(storage: Storage, timeline: Timeline, instant_time: str) -> Collection[str]:
    """The files that a write's metadata list; none for an archived write."""
    for instant in timeline.completed_writes:
        if instant.requested_time == instant_time:
            return load_commit_metadata(storage, instant, timeline.version).paths()
    return ()


def _replaced_groups(storage: Storage, timeline: Timeline) -> dict[FileGroupId, str]:
    replaced: dict[FileGroupId, str] = {}
    replacing = [instant for instant in timeline.completed_writes if instant.action is Action.REPLACE_COMMIT]
    for instant, files in load_written_files(storage, timeline.version, replacing).items():
        for partition_path, file_ids in files.replaced.items():
            for file_id in file_ids:
                replaced[FileGroupId(partition_path, file_id)] = instant.requested_time
    return replaced


def pending_compactions(storage: Storage, timeline: Timeline) -> dict[FileGroupId, str]:
    """The groups that a planned compaction will give a new base file, with its instant. Cost: one read per plan."""
    pending: dict[FileGroupId, str] = {}
    for instant in timeline.pending_compactions:
        if instant.action is Action.COMPACTION:
            for operation in load_compaction_plan(storage, instant, timeline.version).operations:
                pending[FileGroupId(operation.partition_path, operation.file_id)] = instant.requested_time
    return pending
