"""The file-system view: file groups and their slices, from a listing, the timeline and the metadata of its writes.

A file counts if the metadata of a completed write name it; other files are ignored. A write that has left the active
timeline counts if the archive has it as completed. A file that a completed write names must exist, see
`committed_files`.

A log changes the newest base file that was requested before the write of the log completed. So readers merge a base
file with all logs from its instant on, even if a compaction is pending between them. In table version 6 the names of
logs carry the instant of the slice, not of the write: all such logs are in the view, and their reader decides block by
block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.bootstrap_index import PARTITIONS_PATH
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.timeline.instant import SKELETON_INSTANT, Action
from pyhudi.io.log.block_filter import Stretch
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.writes import ArchivedWrites, in_place_of_archive, readable_archived_writes
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.committed_files import CommittedFiles, Shortfall, WritesOfTimeline, committed_files, refuse
from pyhudi.table.file_slice import BaseFile, FileGroupId, FileSlice, LogFile
from pyhudi.table.lister import Lister, StorageLister
from pyhudi.table.schema import load_names_by_write
from pyhudi.table.timeline import Timeline, load_compaction_plan

SlicesByPartition = Mapping[str, tuple[FileSlice, ...]]


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The visible files of a file group: base files by instant, logs in the order in which they are merged."""

    id: FileGroupId
    base_files: tuple[BaseFile, ...]
    logs: tuple[LogFile, ...] = ()


@dataclass(frozen=True)
class FileSystemView:
    """All versions of all file groups that a timeline makes visible.

    `pending_compactions`: the instants of compactions that will write the next base file of a group; everything that is
    written to the group from now on belongs to that slice.

    `committed`: the files that the completed writes name. A slice with a missing or short file is an error, unless the
    view `skips_damaged` files, with a warning. `archived`: the archived writes among those that wrote files here.
    `orphans`: files of writes that are neither on the active timeline nor in the archive. `change_logs`: the paths of
    the change data logs. `unnamed`: base files of completed writes that do not name them: of lost task attempts.
    """

    storage: Storage = field(repr=False)
    timeline: Timeline
    groups: Mapping[FileGroupId, FileGroup] = field(repr=False)
    committed: CommittedFiles = field(repr=False)
    pending_compactions: Mapping[FileGroupId, str] = field(default_factory=dict, repr=False)
    archived: ArchivedWrites = field(default_factory=ArchivedWrites, repr=False)
    orphans: tuple[FileInfo, ...] = field(default=(), repr=False)
    skips_damaged: bool = False
    change_logs: frozenset[str] = field(default=frozenset(), repr=False)
    unnamed: tuple[FileInfo, ...] = field(default=(), repr=False)

    @property
    def replaced(self) -> Mapping[FileGroupId, str]:
        """The instants that replaced groups."""
        return self.committed.replaced

    @cached_property
    def latest(self) -> SlicesByPartition:
        """The newest slice of each group that is not replaced, by partition path, sorted by file id."""
        return self.latest_until(None)

    def latest_until(self, instant_time: str | None) -> SlicesByPartition:
        """Like `latest`, as it was when the write of this instant had completed."""
        return self._latest_where(lambda write: instant_time is None or write <= instant_time)

    def latest_of(self, ended: Callable[[str], bool], *, written: Collection[str]) -> SlicesByPartition:
        """The latest slices of all file groups that the writes in `written` may have changed.

        Only writes for which `ended` is true count as completed. In table version 6 all slices with logs are included,
        as the names of logs do not show their writes; later, logs that an archived write may have named so.
        """
        by_name = self.timeline.version.has_completion_times
        last_archived = max((write for write in written if not self.timeline.is_committed(write)), default="")

        def may_have(log: LogFile) -> bool:
            return (
                not by_name or log.instant_time in written or (log.writer is None and log.instant_time < last_archived)
            )

        def touched(file_slice: FileSlice) -> bool:
            if file_slice.base is not None and file_slice.base.instant_time in written:
                return True
            return any(map(may_have, file_slice.logs))

        latest = self._latest_where(ended, needed=self.committed.touched_by(written))
        return {path: tuple(filter(touched, slices)) for path, slices in latest.items()}

    def slice_at(self, group_id: FileGroupId, counts: Callable[[str], bool]) -> tuple[FileSlice | None, str | None]:
        """The newest slice of a group by the writes that count, and a file of it that is missing, if one is known.

        A group that these writes have replaced has none. Missing files are known of writes on the active timeline.
        """
        replaced_at = self.committed.replaced.get(group_id)
        if replaced_at is not None and counts(replaced_at):
            return None, None
        group = self.groups.get(group_id, FileGroup(group_id, ()))
        found = _newest_slice(group, counts, None)
        missing = next(iter(self.committed.shortfalls(group_id, found, counts)), None)
        return found, None if missing is None else missing.path

    def slice_time_for_appends(self, file_slice: FileSlice) -> str:
        """The instant in the name of a new log of this slice's group in table version 6."""
        return self.pending_compactions.get(file_slice.group, file_slice.instant_time)

    def shortfalls(self) -> list[Shortfall]:
        """The missing and short files of the newest slices, for which `latest` is an error."""
        found: list[Shortfall] = []
        for group_id in self.committed.groups:
            if group_id not in self.committed.replaced:
                group = self.groups.get(group_id, FileGroup(group_id, ()))
                newest = _newest_slice(group, lambda _: True, self.pending_compactions.get(group_id))
                found += self.committed.shortfalls(group_id, newest, lambda _: True)
        return found

    def _latest_where(
        self, counts: Callable[[str], bool], needed: Collection[FileGroupId] | None = None
    ) -> SlicesByPartition:
        """The newest slice of each group that the writes which count have not replaced; those `needed` are complete."""
        chosen: dict[str, list[FileSlice]] = defaultdict(list)
        shortfalls: list[Shortfall] = []
        for group_id in sorted(
            {*self.groups, *self.committed.groups}, key=lambda id_: (id_.partition_path, id_.file_id)
        ):
            replaced_at = self.committed.replaced.get(group_id)
            if replaced_at is not None and counts(replaced_at):
                continue
            group = self.groups.get(group_id, FileGroup(group_id, ()))
            newest = _newest_slice(group, counts, self.pending_compactions.get(group_id))
            if needed is None or group_id in needed:
                shortfalls += self.committed.shortfalls(group_id, newest, counts)
            if newest is not None:
                chosen[group_id.partition_path].append(newest)
        if shortfalls:
            refuse(self.storage, self.timeline, shortfalls, only_warn=self.skips_damaged)
        return {partition: tuple(slices) for partition, slices in sorted(chosen.items())}


def _newest_slice(group: FileGroup, counts: Callable[[str], bool], compaction: str | None) -> FileSlice | None:
    base = next((file for file in reversed(group.base_files) if counts(file.instant_time)), None)
    logs = tuple(
        log
        for log in group.logs
        if (counts(log.instant_time) or log.instant_time == compaction)
        and (base is None or log.position >= base.instant_time)
    )
    if base is not None:
        return FileSlice(group.id, base.instant_time, base, logs)
    return FileSlice(group.id, logs[0].instant_time, None, logs) if logs else None


def load_view(
    storage: Storage,
    timeline: Timeline,
    partition_paths: Iterable[str] | None = None,
    *,
    lister: Lister | None = None,
    skips_damaged: bool = False,
) -> FileSystemView:
    """The view of some partitions, or of all. `lister`: None lists the store. `skips_damaged`: see `FileSystemView`.

    Cost: that of the lister, which is one listing per named partition, or one recursive listing per top-level folder;
    one read per pending compaction of the active timeline, and per completed write of it that is not cached in this
    process; if there are files of writes that are not on the active timeline, also the archive (`archived_writes`).
    """
    paths = None if partition_paths is None else frozenset(partition_paths)
    lister = lister or StorageLister(storage)
    files = lister.table() if paths is None else lister.partitions(sorted(paths))
    return view_of(storage, timeline, files, paths, skips_damaged=skips_damaged)


def view_of(
    storage: Storage,
    timeline: Timeline,
    files: Iterable[FileInfo],
    partition_paths: Collection[str] | None = None,
    *,
    skips_damaged: bool = False,
    writes: WritesOfTimeline | None = None,
) -> FileSystemView:
    """The view of these data files, which are all files in these partitions, under a timeline.

    `writes`: the completed writes, for who makes several views; None loads them.
    """
    committed = committed_files(storage, timeline, partition_paths, writes=writes)
    named = [(info, name) for info in files if (name := parse_data_file(info.name)) is not None]
    elsewhere = _instants_elsewhere(timeline, named)
    archived = readable_archived_writes(storage, timeline.version, None if _may_hide(named, timeline) else elsewhere)
    _check_archive(archived, elsewhere, named, timeline)
    if archived.known_from is None and any(map(timeline.starts_after, elsewhere)):
        archived = in_place_of_archive(storage, timeline)
    completed = timeline.completed_times.union(filter(archived.has, elsewhere))
    names = load_names_by_write(storage, timeline, committed)
    bases: dict[FileGroupId, dict[str, BaseFile]] = defaultdict(dict)
    change_logs: set[str] = set()
    unnamed: list[FileInfo] = []
    logs: dict[FileGroupId, list[LogFile]] = defaultdict(list)
    for info, name in named:
        partition_path = info.path.rpartition("/")[0]
        if isinstance(name, LogFileName) and name.is_cdc:
            change_logs.add(info.path)  # read through the metadata of their writes alone
            continue
        if not _counts(info, name, timeline, committed, completed):
            if committed.is_of_lost_attempt(info):
                unnamed.append(info)
            continue
        if isinstance(name, BaseFileName):
            if name.extension != ".parquet":
                raise UnsupportedFeatureError("only Parquet base files can be read", path=info.path)
            base = BaseFile(partition_path, name, info.path, info.size, modified_ms=info.modified_ms, names=names)
            attempt = bases[base.group].get(name.instant_time)
            # For an archived write it is not known which task attempt counted; as in JVM Hudi it is the last.
            if attempt is None or attempt.name.write_token < name.write_token:
                bases[base.group][name.instant_time] = base
        else:
            writer = committed.writer_of(info) if timeline.version.has_completion_times else None
            position = _position(writer or name.instant_time, timeline, archived)
            stretches = _stretches(info, name, writer, timeline, committed)
            log = LogFile(partition_path, name, info.path, info.size, position, stretches, writer, names)
            logs[log.group].append(log)
    _join_with_sources(storage, bases)
    return FileSystemView(
        storage,
        timeline,
        {
            group: FileGroup(group, _by_instant(bases.get(group, {})), _in_merge_order(logs.get(group, [])))
            for group in sorted({*bases, *logs}, key=lambda id_: (id_.partition_path, id_.file_id))
        },
        committed,
        pending_compactions(storage, timeline),
        archived,
        tuple(
            info for info, name in named if name.instant_time in elsewhere - completed and _shows_write(name, timeline)
        ),
        skips_damaged,
        frozenset(change_logs),
        tuple(unnamed),
    )


def _join_with_sources(storage: Storage, bases: Mapping[FileGroupId, dict[str, BaseFile]]) -> None:
    """Give the skeleton files of a bootstrap the files with their columns. Cost: none for other tables."""
    skeletons = [files[SKELETON_INSTANT] for files in bases.values() if SKELETON_INSTANT in files]
    if not skeletons:
        return
    sources = load_sources(storage, {skeleton.partition_path for skeleton in skeletons})
    for skeleton in skeletons:
        source = sources.get(skeleton.group)
        if source is None and storage.info(skeleton.path) is None:  # cleaned since it was listed
            del bases[skeleton.group][SKELETON_INSTANT]
            continue
        if source is None:
            raise CorruptDataError(
                "the bootstrap index does not name the file with the columns of a skeleton file; restore the index "
                "from a copy, or bootstrap the table again",
                path=skeleton.path,
                index=PARTITIONS_PATH,
            )
        bases[skeleton.group][SKELETON_INSTANT] = replace(skeleton, source=source)


_DataFileName = BaseFileName | LogFileName


def _instants_elsewhere(timeline: Timeline, named: Iterable[tuple[FileInfo, _DataFileName]]) -> set[str]:
    """The writes of files that are not on the active timeline: archived, or rolled back.

    Writes above the timeline began after it was loaded, and do not count.
    """
    known, latest = {instant.requested_time for instant in timeline.instants}, timeline.latest_time
    return {name.instant_time for _, name in named if name.instant_time not in known and name.instant_time < latest}


def _check_archive(
    archived: ArchivedWrites,
    elsewhere: Collection[str],
    named: Iterable[tuple[FileInfo, _DataFileName]],
    timeline: Timeline,
) -> None:
    """Raise the error of a damaged archive if the damaged part may have a write that counts, or one of a log block."""
    is_known = archived.completed.keys() >= set(elsewhere) and all(_shows_write(name, timeline) for _, name in named)
    if archived.damage is not None and not is_known:
        raise archived.damage


def _may_hide(named: Iterable[tuple[FileInfo, _DataFileName]], timeline: Timeline) -> bool:
    """Whether logs may have blocks of archived writes though their names are on the active timeline.

    JVM Hudi archives writes that are newer than a savepoint and leaves the savepoint's own write where it is.
    """
    has_savepoint = any(instant.action is Action.SAVEPOINT for instant in timeline.instants)
    return has_savepoint and any(not _shows_write(name, timeline) for _, name in named)


def _shows_write(name: _DataFileName, timeline: Timeline) -> bool:
    """Whether the name of a file shows its write: that of a log of table version 6 does not."""
    return isinstance(name, BaseFileName) or timeline.version.has_completion_times


def _counts(
    info: FileInfo, name: _DataFileName, timeline: Timeline, committed: CommittedFiles, completed: Collection[str]
) -> bool:
    """Whether a file is of a completed write. No write names the files of lost task attempts.

    The logs of table version 6 all count here, as their names do not show their writes; their reader decides.
    """
    if not _shows_write(name, timeline):
        return True
    if timeline.is_committed(name.instant_time):
        return committed.names(info, name.instant_time)
    return name.instant_time in completed


def _position(instant_time: str, timeline: Timeline, archived: ArchivedWrites) -> str:
    """The position of a log among base files, see `LogFile`."""
    if not timeline.version.has_completion_times:
        return instant_time
    return timeline.completion_times.get(instant_time) or archived.completed.get(instant_time, instant_time)


def _stretches(
    info: FileInfo, name: LogFileName, writer: str | None, timeline: Timeline, committed: CommittedFiles
) -> tuple[Stretch, ...]:
    """See `LogFile.committed`."""
    if timeline.version.has_completion_times:
        # Of an archived write the name does not tell: version 6, and SQL of JVM Hudi, name logs after the slice.
        return (Stretch(writer or "", 0, info.size),)
    group = FileGroupId(info.path.rpartition("/")[0], name.file_id)
    found = [
        Stretch(written.instant_time, written.file.start, written.file.end or info.size)
        for written in committed.groups.get(group, ())
        if written.file.name == info.name
    ]
    if not found and timeline.starts_after(name.instant_time):
        found.append(Stretch("", 0, info.size))
    return (*found, *(Stretch(instant_time, 0, 0) for instant_time in sorted(committed.unknown)))


def _by_instant(bases: Mapping[str, BaseFile]) -> tuple[BaseFile, ...]:
    return tuple(base for _, base in sorted(bases.items()))


def _in_merge_order(logs: Iterable[LogFile]) -> tuple[LogFile, ...]:
    return tuple(sorted(logs, key=lambda log: (log.position, log.name.version, _token_order(log.name.write_token))))


def _token_order(write_token: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in write_token.split("-")) if write_token else ()


def pending_compactions(storage: Storage, timeline: Timeline) -> dict[FileGroupId, str]:
    """The groups for which a planned compaction will write a base file, with its instant. Cost: one read per plan."""
    pending: dict[FileGroupId, str] = {}
    for instant in timeline.pending_compactions:
        if instant.action is Action.COMPACTION:
            for operation in load_compaction_plan(storage, instant, timeline.version).operations:
                pending[FileGroupId(operation.partition_path, operation.file_id)] = instant.requested_time
    return pending


def with_names_of(view: FileSystemView, until: str) -> FileSystemView:
    """The view with its files under the names of the newest write until an instant time.

    Cost: none but for a table whose columns have ids; then a listing and a read.
    """
    if all(columns is None for columns in view.committed.columns.values()):
        return view
    names = load_names_by_write(view.storage, view.timeline, view.committed, until=until)
    groups = {
        group_id: FileGroup(
            group_id,
            tuple(replace(base, names=names) for base in group.base_files),
            tuple(replace(log, names=names) for log in group.logs),
        )
        for group_id, group in view.groups.items()
    }
    return replace(view, groups=groups)
