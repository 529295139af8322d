"""Executing a rollback plan, also one that another process has executed in part.

The order: the completed instant is deleted first, so that readers see all of its write or nothing; then data files are
deleted and command blocks written; then the rest of the instant is deleted; then the rollback is completed. Every step
can be repeated: deleting a missing file does nothing, and no second command block is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.environment import Environment
from pyhudi.errors import AlreadyExistsError, CorruptDataError, LockLostError, UnsafePathError
from pyhudi.events import ActionCompleted
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata.hashing import COMMIT_SUFFIX, RING_SUFFIX
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
from pyhudi.io.log.block_filter import UNKNOWN_TASK, LogSlice, exclude_blocks
from pyhudi.io.log.scan import scan_blocks
from pyhudi.markup import Shown
from pyhudi.metadata_table.before_write import with_kept_partitions
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.rollback import begin_rollback, drop_what_stays, end_rollback
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import HASHING_METADATA_FOLDER
from pyhudi.table.instant_times import completed_now
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.transaction.locks.table_lock import HeldLock
from pyhudi.transaction.plan_fencing import forget_runs
from pyhudi.transaction.tidying import tidy_up

_SERVICES = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
_RESIZING = (Action.CLUSTERING, Action.REPLACE_COMMIT)
"""The actions that make rings, as they are called while they are pending, and when they are completed."""


@dataclass(frozen=True, slots=True)
class RolledBack(Shown):
    """A write that was rolled back.

    Attributes:
        instant: the instant of the write.
        files_deleted: how many files of it were deleted.
        slices_undone: how many file slices got a command block; only in table version 6, where logs of several writes
            are one file; otherwise zero.
    """

    instant: InstantTime
    files_deleted: int
    slices_undone: int = 0


@dataclass(slots=True)
class _Done:
    """What was done in one partition, for the metadata."""

    deleted: list[str] = field(default_factory=list)
    undo_logs: dict[str, int] = field(default_factory=dict)
    undone_logs: dict[str, int] = field(default_factory=dict)


def run_rollback(
    table: TableState,
    rollback: Instant,
    plan: RollbackPlan,
    environment: Environment,
    lock: HeldLock,
    *,
    keeps_service_plan: bool,
) -> RolledBack:
    """Execute a plan to its end, under the table lock.

    `keeps_service_plan`: of a compaction, log compaction or clustering only the execution is rolled back; its plan
    remains to be executed again. Raises `UnsafePathError`, before anything is deleted, for a plan that names files of
    other writes. Cost: one delete per file; in version 6 one listing and the block headers per slice with blocks.
    """
    storage = table.storage
    started_ms, started = environment.clock.now_ms(), environment.clock.monotonic()
    _check_plan(storage, plan)
    if rollback.state is InstantState.REQUESTED:
        rollback = advanced(rollback, InstantState.INFLIGHT)
        _put(table, rollback, b"")
    table = with_kept_partitions(table, lock.check_held)
    files = _timeline_files(table, plan)
    if keeps_service_plan and _is_of_service(table, plan):
        files.pop(InstantState.REQUESTED, None)
    if (path := files.pop(InstantState.COMPLETED, None)) is not None:
        completed = parse_instant_file_name(path.rpartition("/")[2], table.version)
        assert completed is not None  # it was parsed before
        table = drop_what_stays(table, completed, rollback.requested_time, lock.check_held)
        storage.delete(path)
    was_merged = begin_rollback(table, plan.instant_time, rollback.requested_time)
    done: dict[str, _Done] = {}
    for request in plan.requests:
        _undo(storage, rollback.requested_time, plan, request, done.setdefault(request.partition_path, _Done()))
    remove_rings(table, plan.instant_time, _action_of(plan))
    _delete(storage, files.get(InstantState.INFLIGHT))
    _delete(storage, files.get(InstantState.REQUESTED))
    if InstantState.REQUESTED in files and (action := _action_of(plan)) in _SERVICES:
        # Whoever lost the lock when it began to execute the plan may have marked it inflight since, and then looks for
        # the plan.
        inflight = Instant(InstantTime(plan.instant_time), action, InstantState.INFLIGHT)
        storage.delete(instant_path(inflight, table.version))
    metadata = RollbackMetadata(
        start_time=rollback.requested_time,
        time_taken_ms=environment.clock.now_ms() - started_ms,
        instant_time=plan.instant_time,
        action=plan.action,
        partitions={path: _partition(path, partition) for path, partition in done.items()},
    )
    # A rollback is not told the options of a write: what it reads has the limits of the default.
    source = Source(table, environment, SpillSettings())
    end_rollback(source, metadata, lock.check_held, was_merged=was_merged)
    completed = completed_now(rollback, table.reload().timeline, table.config, environment.clock)
    _put(table, completed, encode_rollback_metadata(metadata))
    # Also for other actions: a completed compaction is a commit, and cannot be told from one here.
    forget_runs(storage, plan.instant_time)
    tidy_up(storage, plan.instant_time)
    files_deleted = sum(len(partition.deleted) for partition in done.values())
    seconds = environment.clock.monotonic() - started
    environment.observe(_completed(rollback, storage, environment, seconds=seconds, files_deleted=files_deleted))
    return RolledBack(
        InstantTime(plan.instant_time),
        files_deleted,
        sum(len(partition.undo_logs) for partition in done.values()),
    )


def _completed(
    rollback: Instant, storage: Storage, environment: Environment, *, seconds: float, files_deleted: int
) -> ActionCompleted:
    return ActionCompleted(
        action=Action.ROLLBACK,
        instant=rollback.requested_time,
        base_path=storage.uri,
        completed_ms=environment.clock.now_ms(),
        seconds=seconds,
        files_deleted=files_deleted,
    )


def _put(table: TableState, rollback: Instant, body: bytes) -> None:
    """Put the next file of a rollback. Where the lock was lost, another process may have gone on with it."""
    try:
        table.storage.put_if_absent(instant_path(rollback, table.version), body)
    except AlreadyExistsError as error:
        raise LockLostError(
            "another process has taken this rollback over, and finishes it", instant=rollback.requested_time
        ) from error


def _undo(storage: Storage, rollback_time: str, plan: RollbackPlan, request: RollbackRequest, done: _Done) -> None:
    for file in request.files_to_be_deleted:
        storage.delete(_relative_to_table(storage.uri, file))
        done.deleted.append(_without_scheme(file))
    if request.log_blocks_to_be_deleted:
        done.undone_logs.update(request.log_blocks_to_be_deleted)
        log_slice = LogSlice(request.partition_path, request.file_id, request.latest_base_instant)
        undo = exclude_blocks(storage, rollback_time, plan.instant_time, log_slice)
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
    """The files of the rolled-back instant by state, under the name that its action has in that state."""
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
    """Check every file that the plan names before anything is deleted."""
    _action_of(plan)
    for request in plan.requests:
        for file in request.files_to_be_deleted:
            _check_belongs_to(storage, _relative_to_table(storage.uri, file), plan.instant_time)
        if request.log_blocks_to_be_deleted:
            name = LogFileName(request.file_id, request.latest_base_instant, 1, UNKNOWN_TASK)
            if parse_data_file(str(name)) != name:
                raise UnsafePathError(
                    "a rollback plan names an impossible file slice; nothing was changed",
                    partition_path=request.partition_path,
                    file_id=request.file_id,
                    base_instant=request.latest_base_instant,
                )


def _check_belongs_to(storage: Storage, path: str, instant_time: str) -> None:
    """A log in a bucket that a resize makes is named after the resize, and its blocks tell whose it is."""
    check_data_path(path, source=f"the plan of the rollback of {instant_time}")
    name = parse_data_file(path.rpartition("/")[2])
    is_ours = name is not None and name.instant_time == instant_time
    if isinstance(name, LogFileName) and not is_ours:
        blocks = () if storage.info(path) is None else scan_blocks(storage, path)
        is_ours = all(block.kind is BlockType.CORRUPT or block.instant_time == instant_time for block in blocks)
    if not is_ours:
        raise UnsafePathError(
            "a rollback plan names a file of another write; nothing was changed",
            path=path,
            instant=instant_time,
        )


def _relative_to_table(base_uri: str, file: str) -> str:
    base, path = _without_scheme(base_uri).rstrip("/"), _without_scheme(file)
    if not path.startswith(f"{base}/"):
        raise UnsafePathError("a rollback plan names a file outside the table; nothing was changed", path=file)
    return path[len(base) + 1 :]


def _without_scheme(uri: str) -> str:
    """The path of a file in the form of rollback metadata: absolute, without a scheme."""
    local = local_path(uri)
    if local is not None:
        return str(local)
    return "/" + uri.partition("://")[2] if "://" in uri else uri


def remove_rings(table: TableState, instant_time: str, action: Action) -> None:
    """Remove the rings of a write that is rolled back, before its instant.

    Without its instant JVM Hudi takes a ring for that of an archived resize, if a base file of any of its buckets is
    there. Cost: for tables with a consistent bucket index a listing of all rings.
    """
    if action not in _RESIZING or not table.has_hashing_metadata:
        return
    names = (instant_time + COMMIT_SUFFIX, instant_time + RING_SUFFIX)
    for info in list(table.storage.list_recursive(HASHING_METADATA_FOLDER)):
        if info.name in names:
            table.storage.delete(info.path)
