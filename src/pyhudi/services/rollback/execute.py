"""Carrying out a rollback plan, from any point at which somebody may have left it.

The order: a completed instant goes first, so that readers see all of its write or nothing; then data files and blocks;
then the rest of the instant; then the rollback is completed. Every step may be repeated: a file that is gone is gone,
and before a command block is written the logs are looked into for one.

Source: `format/timeline.md` 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi.environment import Environment
from pyhudi.errors import CorruptDataError, UnsafePathError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType, rollback_block
from pyhudi.format.metadata.rollback import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    encode_rollback_metadata,
)
from pyhudi.format.safe_paths import check_data_path
from pyhudi.format.timeline.instant import (
    Action,
    Instant,
    InstantState,
    InstantTime,
    advanced,
    completed_action,
    parse_instant_file_name,
)
from pyhudi.io.log.scan import scan_blocks
from pyhudi.services.rollback.plan import LogSlice, logs_of_slice
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.instant_times import completed_now
from pyhudi.table.metadata_table import drop_metadata_table
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.transaction.plan_fencing import forget_runs
from pyhudi.transaction.transaction import tidy_up

_UNKNOWN_TASK = "1-0-1"  # as in real Hudi, the log of a command block is nobody's in particular
_SERVICES = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A write that was rolled back.

    Attributes:
        instant: the instant of the write.
        files_deleted: how many files of it were deleted.
        slices_undone: how many file slices got a rollback block; only in table version 6, where logs of several writes
            are one file. Else zero.
    """

    instant: InstantTime
    files_deleted: int
    slices_undone: int = 0


@dataclass(slots=True)
class _Done:
    """What was done in one partition, as the metadata say it."""

    deleted: list[str] = field(default_factory=list)
    undo_logs: dict[str, int] = field(default_factory=dict)
    undone_logs: dict[str, int] = field(default_factory=dict)


def run_rollback(
    table: TableState, rollback: Instant, plan: RollbackPlan, environment: Environment, *, keeps_service_plan: bool
) -> RolledBack:
    """Carry a plan out to its end, under the table lock.

    `keeps_service_plan`: of a compaction, log compaction or clustering only the run is taken back, and its plan stays
    to be run again. Raises `UnsafePathError`, before anything is deleted, for a plan that names what is not its
    write's. Cost: one delete per file; in version 6 one listing and the block headers per slice with blocks.
    """
    storage, version = table.storage, table.version
    started_ms = environment.clock.now_ms()
    _check_plan(storage, plan)
    if rollback.state is InstantState.REQUESTED:
        rollback = advanced(rollback, InstantState.INFLIGHT)
        storage.put_if_absent(instant_path(rollback, version), b"")
    drop_metadata_table(table)
    files = _timeline_files(table, plan)
    if keeps_service_plan and _is_of_service(table, plan):
        files.pop(InstantState.REQUESTED, None)
    _delete(storage, files.pop(InstantState.COMPLETED, None))
    done: dict[str, _Done] = {}
    for request in plan.requests:
        _undo(storage, rollback.requested_time, plan, request, done.setdefault(request.partition_path, _Done()))
    _delete(storage, files.get(InstantState.INFLIGHT))
    _delete(storage, files.get(InstantState.REQUESTED))
    completed = completed_now(rollback, table.reload().timeline, table.config, environment.clock)
    metadata = RollbackMetadata(
        start_time=rollback.requested_time,
        time_taken_ms=environment.clock.now_ms() - started_ms,
        instant_time=plan.instant_time,
        action=plan.action,
        partitions={path: _partition(path, one) for path, one in done.items()},
    )
    storage.put_if_absent(instant_path(completed, version), encode_rollback_metadata(metadata))
    # A compaction that is completed is a commit like others, so that every rollback looks.
    forget_runs(storage, plan.instant_time)
    tidy_up(storage, plan.instant_time)
    return RolledBack(
        InstantTime(plan.instant_time),
        sum(len(one.deleted) for one in done.values()),
        sum(len(one.undo_logs) for one in done.values()),
    )


def take_blocks_back(storage: Storage, rollback_time: str, instant_time: str, one: LogSlice) -> tuple[str, int] | None:
    """Make sure that blocks of a write in a slice do not count. The log that says so, and its size in bytes.

    None where no log has such blocks. Repeatable: a command block that stands behind all of them is enough.
    """
    undo: tuple[str, int] | None = None
    counting = False
    logs = logs_of_slice(storage, one)
    for _, info in logs:
        for block in scan_blocks(storage, info.path):
            if block.kind is BlockType.COMMAND:
                if block.target_instant_time == instant_time:
                    undo, counting = (info.path, info.size), False
            elif block.kind is not BlockType.CORRUPT and block.instant_time == instant_time:
                counting = True
    if counting:
        name = LogFileName(one.file_id, one.base_instant, max(name.version for name, _ in logs) + 1, _UNKNOWN_TASK)
        path = f"{one.partition_path}/{name}" if one.partition_path else str(name)
        data = rollback_block(rollback_time, instant_time)
        storage.put_if_absent(path, data)
        undo = (path, len(data))
    return undo


def _undo(storage: Storage, rollback_time: str, plan: RollbackPlan, request: RollbackRequest, done: _Done) -> None:
    for file in request.files_to_be_deleted:
        storage.delete(_relative_to_table(storage.uri, file))
        done.deleted.append(_without_scheme(file))
    if request.log_blocks_to_be_deleted:
        done.undone_logs.update(request.log_blocks_to_be_deleted)
        one = LogSlice(request.partition_path, request.file_id, request.latest_base_instant)
        undo = take_blocks_back(storage, rollback_time, plan.instant_time, one)
        if undo is not None:
            path, size = undo
            done.undo_logs[f"{storage.uri}/{path}"] = size


def _partition(path: str, done: _Done) -> RollbackPartition:
    return RollbackPartition(
        partition_path=path,
        deleted=tuple(done.deleted),
        rollback_log_files=done.undo_logs,
        log_files_from_failed_commit=done.undone_logs,
    )


def _timeline_files(table: TableState, plan: RollbackPlan) -> dict[InstantState, str]:
    """The files of the rolled-back instant by state, under whichever word its action has in that state."""
    action = completed_action(_action_of(plan))
    files = {}
    for name in table.storage.list_names(table.version.timeline_folder):
        instant = parse_instant_file_name(name, table.version)
        if instant is None or instant.requested_time != plan.instant_time:
            continue
        if completed_action(instant.action) is action:
            files[instant.state] = f"{table.version.timeline_folder}/{name}"
    return files


def _delete(storage: Storage, path: str | None) -> None:
    if path is not None:
        storage.delete(path)


def _is_of_service(table: TableState, plan: RollbackPlan) -> bool:
    """Whether the plan is about the run of a planned service, and not about a write."""
    action = _action_of(plan)
    pending = Instant(InstantTime(plan.instant_time), action, InstantState.REQUESTED)
    return action in _SERVICES or is_clustering_plan(table.storage, table.version, pending)


def _action_of(plan: RollbackPlan) -> Action:
    try:
        return Action(plan.action)
    except ValueError as error:
        raise CorruptDataError(
            "a rollback plan names an action that does not exist", instant=plan.instant_time, action=plan.action
        ) from error


def _check_plan(storage: Storage, plan: RollbackPlan) -> None:
    """Everything that the plan names, before anything is touched: what is half done would have to be finished."""
    _action_of(plan)
    for request in plan.requests:
        for file in request.files_to_be_deleted:
            _check_belongs_to(_relative_to_table(storage.uri, file), plan.instant_time)
        if request.log_blocks_to_be_deleted:
            name = LogFileName(request.file_id, request.latest_base_instant, 1, _UNKNOWN_TASK)
            if parse_data_file(str(name)) != name:
                raise UnsafePathError(
                    "a rollback plan names a file slice that cannot be; nothing was changed",
                    partition_path=request.partition_path,
                    file_id=request.file_id,
                    base_instant=request.latest_base_instant,
                )


def _check_belongs_to(path: str, instant_time: str) -> None:
    check_data_path(path, source=f"the plan of the rollback of {instant_time}")
    name = parse_data_file(path.rpartition("/")[2])
    if name is None or name.instant_time != instant_time:
        raise UnsafePathError(
            "a rollback plan names a file of another write; it was left alone",
            path=path,
            instant=instant_time,
        )


def _relative_to_table(base_uri: str, file: str) -> str:
    base, path = _without_scheme(base_uri).rstrip("/"), _without_scheme(file)
    if not path.startswith(f"{base}/"):
        raise UnsafePathError("a rollback plan names a file outside the table; it was left alone", path=file)
    return path[len(base) + 1 :]


def _without_scheme(uri: str) -> str:
    """The path of a file as rollback metadata name it: absolute, without a scheme."""
    local = local_path(uri)
    if local is not None:
        return str(local)
    return "/" + uri.partition("://")[2] if "://" in uri else uri
