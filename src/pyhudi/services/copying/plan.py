"""Plans of copies: the files of completed writes, the timeline and the archive, and the plans that others wait for.

Writes that are pending stay behind, with their files. Plans of compactions and clusterings come along as requested: the
names of logs, and the buckets of a table, may already go by them. The metadata table does not come along, because it
moves on while files are copied: the copy builds its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyhudi.config.enums import TableType
from pyhudi.errors import WriteConflictError
from pyhudi.format.bootstrap_index import INDEX_FOLDER
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.metadata_table.index_definitions import DEFINITIONS_PATH
from pyhudi.format.safe_paths import METADATA_FOLDER
from pyhudi.format.schema.internal_schema import SCHEMA_FOLDER
from pyhudi.format.timeline.instant import Action, InstantState, completed_action, parse_instant_file_name
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.features import HASHING_METADATA_FOLDER, check_writable
from pyhudi.table.file_system_view import FileSystemView, view_of
from pyhudi.table.lister import list_data_files
from pyhudi.table.pending_clusterings import pending_clusterings
from pyhudi.table.state import TableState
from pyhudi.table.timeline import timeline_of

_DESCRIBING: Final = (SCHEMA_FOLDER, INDEX_FOLDER, HASHING_METADATA_FOLDER, DEFINITIONS_PATH.rpartition("/")[0])
"""Folders that describe the table beside its timeline. All others below `.hoodie` belong to running processes."""


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """The files of a copy: `data` outside of `.hoodie`, which never change, and `metadata` in it.

    `timeline`: the names of all files of the timeline, of which the copy has the `instants`. `archived`: the files of
    the archive.
    """

    data: tuple[FileInfo, ...]
    metadata: tuple[FileInfo, ...]
    timeline: frozenset[str]
    instants: frozenset[str]
    archived: tuple[FileInfo, ...]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(info.size for info in (*self.data, *self.metadata))


def plan_copy(table: TableState, *, newest: bool) -> CopyPlan:
    """The copy of a table as it is now. `newest`: only of the file slices that its newest state has, no savepoints.

    Raises:
        WriteConflictError: writes are being rolled back, buckets divided, or, in version 6, logs appended to.
        UnsupportedFeatureError: the table has files that pyhudi does not know.
        CorruptDataError: a file of the newest state is missing or cut off.

    Cost: a listing of the table, and what `view_of` reads.
    """
    storage, version = table.storage, table.version
    # The archive first: an instant that is archived in between is missing in the timeline, and the plan does not hold.
    archived = storage.list_recursive(version.history_folder)
    listed = storage.list_folder(version.timeline_folder).files
    names = frozenset(info.name for info in listed)
    table = table.with_timeline(timeline_of(version, names))
    check_writable(table)
    _check_settled(table)
    files = list_data_files(storage)
    data = _data(view_of(storage, table.timeline, files), files, newest=newest)
    instants = _instants(table, names, newest=newest)
    latest = table.timeline.latest_time
    described = [
        info
        for folder in _DESCRIBING
        for info in storage.list_recursive(folder)
        # A schema of a later write is no part of this state.
        if folder != SCHEMA_FOLDER or info.name.partition(".")[0] <= latest
    ]
    metadata = (*described, *archived, *(info for info in listed if info.name in instants))
    return CopyPlan(tuple(data), metadata, names, instants, archived)


def still_holds(table: TableState, plan: CopyPlan) -> bool:
    """Whether what the plan names was there all the time until now. Cost: two listings."""
    names = frozenset(table.storage.list_names(table.version.timeline_folder))
    if not plan.instants <= names or table.storage.list_recursive(table.version.history_folder) != plan.archived:
        return False
    # In version 6 later writes append to the logs that are copied.
    return not _appends_to_logs(table) or names == plan.timeline


def is_of_copy(path: str, version: TableVersion) -> bool:
    """Whether a file of this path could have been copied: processes keep others, such as locks, below `.hoodie`."""
    folder, _, name = path.rpartition("/")
    if not path.startswith(f"{METADATA_FOLDER}/") or path.startswith(tuple(f"{folder}/" for folder in _DESCRIBING)):
        return True
    if folder == version.timeline_folder:
        return parse_instant_file_name(name, version) is not None
    return path.startswith(f"{version.history_folder}/")


def _appends_to_logs(table: TableState) -> bool:
    return table.config.table_type is TableType.MERGE_ON_READ and not table.version.has_completion_times


def _check_settled(table: TableState) -> None:
    timeline = table.timeline
    undoing = [
        instant
        for instant in timeline.instants
        if instant.action in (Action.ROLLBACK, Action.RESTORE) and instant.state is not InstantState.COMPLETED
    ]
    if undoing:
        raise WriteConflictError(
            "a rollback or restore is not completed: run `pyhudi rollback` or `pyhudi restore` on the table first",
            instant=undoing[0].requested_time,
        )
    if table.has_hashing_metadata and (resizing := pending_clusterings(table.storage, timeline)):
        raise WriteConflictError(
            "a clustering of the table's buckets is not completed: run `pyhudi cluster` on the table first",
            instant=resizing[0].requested_time,
        )
    if _appends_to_logs(table) and timeline.pending_writes:
        raise WriteConflictError(
            "a write is pending, whose rows are in logs that the copy would have: wait for it, or run "
            "`pyhudi rollback` on the table if its process died",
            instant=timeline.pending_writes[0].requested_time,
        )


def _data(view: FileSystemView, files: list[FileInfo], *, newest: bool) -> Iterator[FileInfo]:
    latest = view.latest  # raises for a damaged file
    if newest:
        wanted = {path for slices in latest.values() for file_slice in slices for path in file_slice.paths}
    else:
        wanted = {*view.change_logs}
        for group in view.groups.values():
            wanted |= {base.path for base in group.base_files} | {log.path for log in group.logs}
    folders = {path.rpartition("/")[0] for path in wanted}
    pending = {instant.requested_time for instant in view.timeline.pending_writes}
    for info in files:
        is_metafile = info.name.startswith(PARTITION_METADATA_FILE) and info.path.rpartition("/")[0] in folders
        name = parse_data_file(info.name)
        if is_metafile or (info.path in wanted and name is not None and name.instant_time not in pending):
            yield info


def _instants(table: TableState, names: frozenset[str], *, newest: bool) -> frozenset[str]:
    """The names of the timeline's files that a copy has."""
    timeline = table.timeline
    completed = {
        (instant.requested_time, instant.action)
        for instant in timeline.instants
        if instant.state is InstantState.COMPLETED and not (newest and instant.action is Action.SAVEPOINT)
    }
    plans = (*timeline.pending_compactions, *pending_clusterings(table.storage, timeline))
    planned = {(instant.requested_time, instant.action) for instant in plans}
    found = set()
    for name in names:
        instant = parse_instant_file_name(name, table.version)
        if instant is None:
            continue
        is_completed = (instant.requested_time, completed_action(instant.action)) in completed
        is_plan = (instant.requested_time, instant.action) in planned and instant.state is InstantState.REQUESTED
        if is_completed or is_plan:
            found.add(name)
    return frozenset(found)
