"""Rollback: take away what a failed write left behind.

The plan goes into the requested instant, so that whoever finds a rollback half done can finish it: every step can be
repeated. The rolled-back write's timeline files go before the rollback completes; its data files before them.

Source: `format/timeline.md` section 6.2; mission rows S1-08, S5-05.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from pyhudi.errors import UnsafePathError
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.markers import marker_folder, parse_marker_path
from pyhudi.format.rollback_metadata import (
    RollbackMetadata,
    RollbackPartition,
    RollbackPlan,
    RollbackRequest,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment
from pyhudi.table.file_system_view import list_data_files
from pyhudi.table.heartbeat import HEARTBEAT_FOLDER, HeartbeatSettings, Liveness, heartbeat_path, liveness_of
from pyhudi.table.instant_times import completed_now, next_time
from pyhudi.table.locks import table_lock
from pyhudi.table.metadata_table import drop_metadata_table
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_rollback_plan
from pyhudi.table.transaction import tidy_up


@dataclass(frozen=True, slots=True)
class RolledBack:
    """One write that was taken away: its instant time, and how many files it had left."""

    instant_time: InstantTime
    files_deleted: int


def roll_back_failed_writes(
    table: TableState,
    settings: HeartbeatSettings,
    environment: Environment,
    *,
    lock_wait_ms: int,
    eager: bool = False,
) -> tuple[RolledBack, ...]:
    """Roll back the pending writes whose writers are dead, and finish rollbacks that were left half done.

    A writer that lives is never touched. One that keeps no heartbeat (a single-writer JVM Hudi) is rolled back only
    when `eager` says that nobody else writes to the table. Raises `UnsupportedFeatureError` for a table that this
    release must not write. Cost: one listing where nothing is left over; else one recursive listing per rolled-back
    write.
    """
    table.config.check_writable()
    storage = table.storage
    heartbeats = [info.name for info in storage.list_folder(HEARTBEAT_FOLDER).files]
    dead = [
        instant
        for instant in table.timeline.pending_writes
        if _may_roll_back(liveness_of(storage, heartbeat_path(instant.requested_time), settings, environment), eager)
    ]
    if not heartbeats and not dead and not table.timeline.pending_rollbacks:
        return ()
    with table_lock(storage, environment, wait_ms=lock_wait_ms):
        table = table.reload()
        done = [_resume(table, rollback, environment) for rollback in table.timeline.pending_rollbacks]
        for instant in dead:
            table = table.reload()
            if instant in table.timeline.pending_writes:
                done.append(_roll_back(table, instant, environment))
        _tidy_up_after_the_dead(table.reload(), heartbeats, settings, environment)
    return tuple(done)


def roll_back_own_write(
    table: TableState, instant_time: InstantTime, environment: Environment, *, lock_wait_ms: int
) -> None:
    """Take away a write of this very process that failed before its commit, also what it wrote after others did so."""
    storage = table.storage
    with table_lock(storage, environment, wait_ms=lock_wait_ms):
        table = table.reload()
        for rollback in table.timeline.pending_rollbacks:
            _resume(table, rollback, environment)
        table = table.reload()
        mine = [instant for instant in table.timeline.instants if instant.requested_time == instant_time]
        for instant in mine:
            if instant in table.timeline.pending_writes:
                _roll_back(table, instant, environment)
        if not mine:
            for path in _files_of(storage, instant_time):
                storage.delete(path)
            tidy_up(storage, instant_time)


def plan_rollback(base_uri: str, instant: Instant, data_paths: tuple[str, ...]) -> RollbackPlan:
    """Which files go. Pure; `data_paths` are relative to the table."""
    requests = []
    for path in data_paths:
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
    return RollbackPlan(instant_time=instant.requested_time, action=instant.action.value, requests=tuple(requests))


def _tidy_up_after_the_dead(
    table: TableState, heartbeats: list[str], settings: HeartbeatSettings, environment: Environment
) -> None:
    """Remove heartbeats and markers of writers that died before their instant began or after it had ended."""
    pending = {instant.requested_time for instant in table.timeline.pending_writes}
    for instant_time in heartbeats:
        path = heartbeat_path(instant_time)
        if instant_time not in pending and liveness_of(table.storage, path, settings, environment) is Liveness.DEAD:
            tidy_up(table.storage, instant_time)


def _may_roll_back(liveness: Liveness, eager: bool) -> bool:
    return liveness is Liveness.DEAD or (eager and liveness is Liveness.UNKNOWN)


def _roll_back(table: TableState, instant: Instant, environment: Environment) -> RolledBack:
    storage = table.storage
    plan = plan_rollback(storage.uri, instant, _files_of(storage, instant.requested_time))
    rollback = Instant(
        requested_time=next_time(table.timeline, table.config, environment.clock),
        action=Action.ROLLBACK,
        state=InstantState.REQUESTED,
    )
    storage.put_if_absent(instant_path(rollback, table.version), encode_rollback_plan(plan))
    return _execute(table, rollback, plan, environment)


def _resume(table: TableState, rollback: Instant, environment: Environment) -> RolledBack:
    plan = load_rollback_plan(table.storage, rollback, table.version)
    return _execute(table, rollback, plan, environment)


def _execute(table: TableState, rollback: Instant, plan: RollbackPlan, environment: Environment) -> RolledBack:
    storage, version = table.storage, table.version
    started_ms = environment.clock.now_ms()
    if rollback.state is InstantState.REQUESTED:
        storage.put_if_absent(instant_path(replace(rollback, state=InstantState.INFLIGHT), version), b"")
    drop_metadata_table(table)
    deleted: dict[str, list[str]] = defaultdict(list)
    for request in plan.requests:
        for file in request.files_to_be_deleted:
            relative = _relative_to_table(storage.uri, file)
            _check_belongs_to(relative, plan.instant_time)
            storage.delete(relative)
            deleted[request.partition_path].append(_without_scheme(file))
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        storage.delete(instant_path(Instant(InstantTime(plan.instant_time), Action(plan.action), state, None), version))
    completed = completed_now(rollback, table.reload().timeline, table.config, environment.clock)
    metadata = RollbackMetadata(
        start_time=rollback.requested_time,
        time_taken_ms=environment.clock.now_ms() - started_ms,
        instant_time=plan.instant_time,
        action=plan.action,
        partitions={
            path: RollbackPartition(partition_path=path, deleted=tuple(files)) for path, files in deleted.items()
        },
    )
    storage.put_if_absent(instant_path(completed, version), encode_rollback_metadata(metadata))
    tidy_up(storage, plan.instant_time)
    return RolledBack(InstantTime(plan.instant_time), sum(map(len, deleted.values())))


def _files_of(storage: Storage, instant_time: InstantTime) -> tuple[str, ...]:
    """Data files of an instant: those that carry it in their name, and those that its markers announce."""
    paths = set()
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        if isinstance(name, BaseFileName) and name.instant_time == instant_time:
            paths.add(info.path)
    for marker in storage.list_recursive(marker_folder(instant_time)):
        path = parse_marker_path(marker.path, instant_time)
        if path is not None:
            paths.add(path)
    return tuple(sorted(paths))


def _relative_to_table(base_uri: str, file: str) -> str:
    base, path = _without_scheme(base_uri).rstrip("/"), _without_scheme(file)
    if not path.startswith(f"{base}/"):
        raise UnsafePathError("a rollback plan names a file outside the table; it was left alone", path=file)
    return path[len(base) + 1 :]


def _check_belongs_to(path: str, instant_time: str) -> None:
    name = parse_data_file(path.rpartition("/")[2])
    if name is None or name.instant_time != instant_time:
        raise UnsafePathError(
            "a rollback plan names a file of another write; it was left alone",
            path=path,
            instant=instant_time,
        )


def _without_scheme(uri: str) -> str:
    """The path of a file as rollback metadata name it: absolute, without a scheme."""
    local = local_path(uri)
    if local is not None:
        return str(local)
    return "/" + uri.partition("://")[2] if "://" in uri else uri
