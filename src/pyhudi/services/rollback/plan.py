"""Finding what a write left behind, and planning its rollback.

Files with the instant of the write in their names are deleted: base files, and from table version 8 on logs. In version
6 logs are named after their slices, so the rollback searches *in* them for blocks of the write. The blocks remain, and
a command block behind them excludes them.

Files are found by a listing and by markers together: markers may be gone, and a listing may miss files that a task is
about to create. The markers, or else the profile in the inflight instant, show which logs to search.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata.commit import JSON_BYTES_MAX, CommitMetadata, decode_commit_metadata
from pyhudi.format.metadata.rollback import RollbackPlan, RollbackRequest
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.io.log.block_filter import LogSlice
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.transaction.markers.reading import groups_of_files, load_markers

_APPENDING = (Action.DELTA_COMMIT, Action.LOG_COMPACTION)
"""The actions that may append to logs, as they are called while they are pending."""

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a write left: its own files, and logs of version 6 with blocks of it. Paths are relative to the table."""

    files: tuple[str, ...]
    logs: Mapping[LogSlice, tuple[FileInfo, ...]] = field(default_factory=dict)


def find_leftovers(
    table: TableState,
    instant: Instant,
    *,
    listed: Sequence[FileInfo] | None = None,
    undone: Collection[str] = (),
) -> Leftovers:
    """What a pending or completed write of the timeline has left.

    `listed`: the data files of the table, where the caller has listed them. `undone`: all instants that are rolled back
    together with this one; in version 6 the slices that they begin go as a whole, with the logs of later writes.

    Cost: one listing of the table and of the markers; in version 6 also the headers of the log blocks of the file
    groups that the write may have appended to.
    """
    storage, own = table.storage, instant.requested_time
    markers = _load_markers(storage, own)
    listed = list_data_files(storage) if listed is None else listed
    paths = [info.path for info in listed] + sorted(markers or ())
    files = _own_files(table, own, paths, with_logs=own in undone)
    files += _logs_of_resizes(table, own, [info.path for info in listed], markers)
    if table.version.has_completion_times or not _may_have_appended(instant):
        return Leftovers(files)
    staying = [info for info in listed if not _begins_with(info, undone)]
    return Leftovers(files, _logs_with_blocks(storage, staying, own, _suspects(table, instant, markers)))


def _begins_with(info: FileInfo, instants: Collection[str]) -> bool:
    """Whether a log of version 6 belongs to a slice that one of these instants begins."""
    name = parse_data_file(info.name)
    return isinstance(name, LogFileName) and name.instant_time in instants


def find_orphans(table: TableState, instant_time: str) -> Leftovers:
    """What a write left that is no longer on the timeline: the whole table is searched."""
    listed = list_data_files(table.storage)
    files = _own_files(table, instant_time, [info.path for info in listed])
    if table.version.has_completion_times:
        paths = [info.path for info in listed]
        return Leftovers(files + _logs_of_resizes(table, instant_time, paths, None))
    return Leftovers(files, _logs_with_blocks(table.storage, listed, instant_time, _any_group))


def find_lost_attempts(table: TableState, instant: Instant) -> tuple[str, ...]:
    """Files of lost task attempts: a completed write has markers for them, and its commit does not list them.

    They remain if the process died between its commit and the end of the cleanup. Logs of version 6 are left out, as
    their names do not show their write. Cost: that of its markers; with any, one read.
    """
    marked = _load_markers(table.storage, instant.requested_time)
    if marked is None:
        return ()
    listed = load_commit_metadata(table.storage, instant, table.version).paths()
    return tuple(path for path in _own_files(table, instant.requested_time, marked) if path not in listed)


def plan_rollback(base_uri: str, instant: Instant, leftovers: Leftovers) -> RollbackPlan:
    """The plan of the rollback of a write. Pure; the plan's paths begin with `base_uri`."""
    requests = []
    for path in leftovers.files:
        partition_path, _, file_name = path.rpartition("/")
        name = parse_data_file(file_name)
        requests.append(
            RollbackRequest(
                partition_path=partition_path,
                file_id=name.file_id if name is not None else "",
                latest_base_instant=instant.requested_time,
                files_to_be_deleted=(f"{base_uri}/{path}",),
            )
        )
    for log_slice, logs in leftovers.logs.items():
        requests.append(
            RollbackRequest(
                partition_path=log_slice.partition_path,
                file_id=log_slice.file_id,
                latest_base_instant=log_slice.base_instant,
                log_blocks_to_be_deleted={f"{base_uri}/{info.path}": info.size for info in logs},
            )
        )
    return RollbackPlan(instant_time=instant.requested_time, action=instant.action.value, requests=tuple(requests))


def _own_files(
    table: TableState, instant_time: str, paths: Iterable[str], *, with_logs: bool = False
) -> tuple[str, ...]:
    """The paths with the instant in their names whose files only this write has written to.

    `with_logs`: also the logs of version 6 that carry the instant of their slice.
    """
    own = set()
    for path in paths:
        name = parse_data_file(path.rpartition("/")[2])
        if name is None or name.instant_time != instant_time:
            continue
        if with_logs or table.version.has_completion_times or not isinstance(name, LogFileName) or name.is_cdc:
            own.add(path)
    return tuple(sorted(own))


def _logs_of_resizes(
    table: TableState, instant_time: str, paths: Iterable[str], markers: frozenset[str] | None
) -> tuple[str, ...]:
    """The logs of a write in buckets that a resize makes, which are named after the resize.

    They are those that the write has markers for, or that have blocks of it. Cost: without markers, for tables with a
    consistent bucket index, the block headers of all logs that are named after resizes.
    """
    if not table.version.has_completion_times or not table.has_hashing_metadata:
        return ()
    resizes = {
        instant.requested_time
        for instant in table.timeline.instants
        if instant.action in (Action.CLUSTERING, Action.REPLACE_COMMIT) and instant.requested_time != instant_time
    }
    found = set()
    for path in paths if markers is None else markers:
        name = parse_data_file(path.rpartition("/")[2])
        if not isinstance(name, LogFileName) or name.instant_time not in resizes:
            continue
        if markers is not None or _holds_blocks(table.storage, path, instant_time):
            found.add(path)
    return tuple(sorted(found))


def _may_have_appended(instant: Instant) -> bool:
    """Whether a write may have appended blocks: no release of Hudi does before the inflight instant exists."""
    return instant.action in _APPENDING and instant.state is not InstantState.REQUESTED


def _load_markers(storage: Storage, instant_time: str) -> frozenset[str] | None:
    """The data files that a write has markers for; None if it has no markers, or they are damaged or not all there.

    An error of the store is raised, and the rollback is tried again later.
    """
    try:
        return load_markers(storage, instant_time, whole=True) or None
    except CorruptDataError as damage:
        _log.warning("markers are damaged, so the whole table is searched for files: %s", damage)
        return None


def _suspects(table: TableState, instant: Instant, markers: frozenset[str] | None) -> Callable[[FileGroupId], bool]:
    """Which file groups a write of version 6 may have appended to."""
    if instant.state is InstantState.COMPLETED:
        stats = load_commit_metadata(table.storage, instant, table.version).stats_by_partition
        return {FileGroupId(path, stat.file_id) for path, group in stats.items() for stat in group}.__contains__
    if markers is not None:
        # Up to 0.14 a marker of an append names a base file that does not exist; the file group is right.
        return set(groups_of_files(markers)).__contains__
    profile = _load_profile(table, instant)
    if profile is not None and profile.stats_by_partition:
        # The profile names all partitions, but not all groups that inserts are appended to.
        partitions = profile.stats_by_partition.keys()
        return lambda group: group.partition_path in partitions
    return _any_group


def _any_group(group: FileGroupId) -> bool:
    del group
    return True


def _load_profile(table: TableState, instant: Instant) -> CommitMetadata | None:
    """The workload profile in an inflight instant, if it has one."""
    path = instant_path(replace(instant, state=InstantState.INFLIGHT), table.version)
    try:
        data = read_at_most(table.storage, path, JSON_BYTES_MAX)
        return decode_commit_metadata(data, path=path) if data else None
    except NotFoundError:
        return None
    except CorruptDataError as damage:
        _log.warning(
            "the profile of a dead write cannot be read, so the whole table is searched for its blocks: %s", damage
        )
        return None


def _logs_with_blocks(
    storage: Storage, listed: Iterable[FileInfo], instant_time: str, is_suspect: Callable[[FileGroupId], bool]
) -> dict[LogSlice, tuple[FileInfo, ...]]:
    found: dict[LogSlice, list[FileInfo]] = defaultdict(list)
    for info in listed:
        partition_path, _, file_name = info.path.rpartition("/")
        name = parse_data_file(file_name)
        if not isinstance(name, LogFileName) or name.is_cdc:
            continue
        if is_suspect(FileGroupId(partition_path, name.file_id)) and _holds_blocks(storage, info.path, instant_time):
            found[LogSlice(partition_path, name.file_id, name.instant_time)].append(info)
    return {log_slice: tuple(infos) for log_slice, infos in found.items()}


def _holds_blocks(storage: Storage, path: str, instant_time: str) -> bool:
    kinds_without_rows = (BlockType.CORRUPT, BlockType.COMMAND)
    return any(
        block.kind not in kinds_without_rows and block.instant_time == instant_time
        for block in scan_blocks(storage, path)
    )
