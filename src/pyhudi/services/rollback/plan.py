"""What a write left behind, and the plan that takes it away.

Files that carry the write's instant in their names are its own and are deleted: base files, and from table version 8
on logs. In version 6 logs are named after their slices, so its blocks have to be looked for *in* them; they stay where
they are, and a command block behind them says that they do not count.

Files are found by their names in a listing and by markers, together: markers may be gone, and a listing may miss what
a task is about to create. Which logs to look into is what markers say, or else the profile in the inflight instant.

Source: `format/timeline.md` 6.1, 6.2; `format/logs-and-indexes.md` 1.6; mission rows S1-08, S5-05, S5-30.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata.commit import JSON_BYTES_MAX, CommitMetadata, decode_commit_metadata
from pyhudi.format.metadata.rollback import RollbackPlan, RollbackRequest
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import list_data_files
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_commit_metadata
from pyhudi.transaction.markers.reading import groups_of_files, load_markers

_APPENDING = (Action.DELTA_COMMIT, Action.LOG_COMPACTION)
"""What may append to logs, as it is called while it is pending."""

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class LogSlice:
    """The logs of one name in table version 6: those of a file group that change the base file of an instant."""

    partition_path: str
    file_id: str
    base_instant: str


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What a write left: its own files, and logs of version 6 that hold blocks of it; paths relative to the table."""

    files: tuple[str, ...]
    logs: Mapping[LogSlice, tuple[FileInfo, ...]] = field(default_factory=dict)


def find_leftovers(table: TableState, instant: Instant) -> Leftovers:
    """What a write of the timeline has left, whether it is pending or completed.

    Cost: one listing of the table and of the markers; in version 6 the headers of the log blocks of those file groups
    which the write may have appended to.
    """
    storage = table.storage
    markers = _load_markers(storage, instant.requested_time)
    listed = list_data_files(storage)
    files = _own_files(table, instant.requested_time, [info.path for info in listed] + sorted(markers or ()))
    if table.version.has_completion_times or not _may_have_appended(instant):
        return Leftovers(files)
    return Leftovers(
        files, _logs_with_blocks(storage, listed, instant.requested_time, _suspects(table, instant, markers))
    )


def find_orphans(table: TableState, instant_time: str) -> Leftovers:
    """What a write left that is not on the timeline any more: nothing tells where, so everything is looked at."""
    listed = list_data_files(table.storage)
    files = _own_files(table, instant_time, [info.path for info in listed])
    if table.version.has_completion_times:
        return Leftovers(files)
    return Leftovers(files, _logs_with_blocks(table.storage, listed, instant_time, _any_group))


def find_lost_attempts(table: TableState, instant: Instant) -> tuple[str, ...]:
    """Files that a completed write announced and does not list: of task attempts that did not count.

    They are there still where the process died between its commit and the end of its tidying. Logs of version 6 are
    left out: their names do not tell whose they are. Cost: that of its markers; with any, one read.
    """
    announced = _load_markers(table.storage, instant.requested_time)
    if announced is None:
        return ()
    listed = load_commit_metadata(table.storage, instant, table.version).paths()
    return tuple(path for path in _own_files(table, instant.requested_time, announced) if path not in listed)


def plan_rollback(base_uri: str, instant: Instant, leftovers: Leftovers) -> RollbackPlan:
    """The plan that takes the leftovers of a write away. Pure; the plan's paths begin with `base_uri`."""
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
    for one, logs in leftovers.logs.items():
        requests.append(
            RollbackRequest(
                partition_path=one.partition_path,
                file_id=one.file_id,
                latest_base_instant=one.base_instant,
                log_blocks_to_be_deleted={f"{base_uri}/{info.path}": info.size for info in logs},
            )
        )
    return RollbackPlan(instant_time=instant.requested_time, action=instant.action.value, requests=tuple(requests))


def logs_of_slice(storage: Storage, one: LogSlice) -> list[tuple[LogFileName, FileInfo]]:
    """The logs of one name in the order in which readers take their blocks. Cost: one listing."""
    found = [
        (name, info)
        for info in storage.list_folder(one.partition_path).files
        if isinstance(name := parse_data_file(info.name), LogFileName)
        and (name.file_id, name.instant_time, name.is_cdc) == (one.file_id, one.base_instant, False)
    ]
    return sorted(
        found, key=lambda log: (log[0].version, [int(part) for part in (log[0].write_token or "0").split("-")])
    )


def _own_files(table: TableState, instant_time: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that carry the instant, and hold nothing else but what its write put there."""
    own = set()
    for path in paths:
        name = parse_data_file(path.rpartition("/")[2])
        if name is None or name.instant_time != instant_time:
            continue
        if table.version.has_completion_times or not isinstance(name, LogFileName) or name.is_cdc:
            own.add(path)
    return tuple(sorted(own))


def _may_have_appended(instant: Instant) -> bool:
    """Whether there can be blocks of a write: none of any release appends before its inflight instant is there."""
    return instant.action in _APPENDING and instant.state is not InstantState.REQUESTED


def _load_markers(storage: Storage, instant_time: str) -> frozenset[str] | None:
    """The data files that the markers of a write announce; None where they do not tell.

    A store that fails does not make them silent: its error goes on, and the rollback is tried again.
    """
    try:
        return load_markers(storage, instant_time) or None
    except CorruptDataError as damage:
        _log.warning("markers are damaged, so files are looked for everywhere: %s", damage)
        return None


def _suspects(table: TableState, instant: Instant, markers: frozenset[str] | None) -> Callable[[FileGroupId], bool]:
    """Which file groups a write of version 6 may have appended to."""
    if instant.state is InstantState.COMPLETED:
        stats = load_commit_metadata(table.storage, instant, table.version).stats_by_partition
        return {FileGroupId(path, stat.file_id) for path, group in stats.items() for stat in group}.__contains__
    if markers is not None:
        # Of 0.14 and before, a marker of an append names a base file that is not there; its group is right.
        return set(groups_of_files(markers)).__contains__
    profile = _load_profile(table, instant)
    if profile is not None and profile.stats_by_partition:
        # It names all partitions, but not the groups that inserts are appended to.
        partitions = profile.stats_by_partition.keys()
        return lambda group: group.partition_path in partitions
    return _any_group


def _any_group(group: FileGroupId) -> bool:
    del group
    return True


def _load_profile(table: TableState, instant: Instant) -> CommitMetadata | None:
    """What an inflight instant says that its write is going to do, if it says anything."""
    path = instant_path(replace(instant, state=InstantState.INFLIGHT), table.version)
    try:
        data = read_at_most(table.storage, path, JSON_BYTES_MAX)
        return decode_commit_metadata(data, path=path) if data else None
    except NotFoundError:
        return None
    except CorruptDataError as damage:
        _log.warning("the profile of a dead write cannot be read, so its blocks are looked for everywhere: %s", damage)
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
    return {one: tuple(infos) for one, infos in found.items()}


def _holds_blocks(storage: Storage, path: str, instant_time: str) -> bool:
    kinds_without_rows = (BlockType.CORRUPT, BlockType.COMMAND)
    return any(
        block.kind not in kinds_without_rows and block.instant_time == instant_time
        for block in scan_blocks(storage, path)
    )
