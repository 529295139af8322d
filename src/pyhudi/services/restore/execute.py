"""Restore: take the table back to the state after one of its writes.

The requested restore names the instants that are rolled back, and stands while the rollbacks run, one after the other,
under the table lock. No writer of Hudi begins or commits while a restore is pending. If the process dies, the next
write or restore of pyhudi goes on; the rollbacks that it has completed are on the timeline.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from pyhudi.environment import Environment
from pyhudi.errors import AlreadyExistsError, CorruptDataError, WriteConflictError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.restore import (
    RestoreMetadata,
    RestorePlan,
    decode_restore_plan,
    encode_restore_metadata,
    encode_restore_plan,
)
from pyhudi.format.metadata.rollback import RollbackMetadata, decode_rollback_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced, completed_action
from pyhudi.markup import Shown
from pyhudi.services.restore.plan import PlannedRestore, plan_restore, target_of
from pyhudi.services.restore.savepoint import remove_dead_savepoints
from pyhudi.services.rollback.plan import find_leftovers
from pyhudi.services.rollback.rollback import (
    RolledBack,
    resume_rollbacks,
    roll_back_failed_writes,
    roll_back_instant,
    running_in_jvm,
    without_empty_plans,
)
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.features import check_undoable
from pyhudi.table.instant_times import completed_now, next_time
from pyhudi.table.lister import list_data_files
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, instant_path
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import HeldLock, table_lock
from pyhudi.transaction.publish import put_completed, put_requested
from pyhudi.transaction.settings import TransactionSettings

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Shown):
    """What a restore did.

    Attributes:
        instant: the restore's own instant; None where nothing had come after the target.
        to: the requested time of the write whose state the table has now.
        rolled_back: what was rolled back, newest first.
    """

    instant: InstantTime | None
    to: InstantTime
    rolled_back: tuple[InstantTime, ...] = ()


def restore(table: TableState, to: str, settings: TransactionSettings, environment: Environment) -> Restored:
    """Restore the table to the state that `to` means, as `target_of` says.

    Everything is checked before anything is touched; errors: see `plan_restore`. A restore that died is finished first,
    also one of JVM Hudi to the same target that has stood still for the heartbeat expiry. Raises `WriteConflictError`
    while JVM Hudi restores the table, rolls a write back or builds an index. Cost: that of the plan, of `run_rollback`
    per instant, and three puts.
    """
    check_undoable(table)
    with table_lock(table.storage, environment, wait_ms=settings.lock_wait_ms) as lock, naming(table.storage):
        table = table.reload()
        for pending in pending_restores(table.timeline):
            plan = _load_plan(table, pending, settings, environment)
            if plan is not None and not _may_finish(table, pending, plan, to, settings, environment):
                continue
            done = _finish(table, pending, plan, environment, lock)
            table = table.reload()
            if done is not None and done.to == _instant_of(table, to):
                return done
        check_nothing_exclusive(table.timeline, Own.RESTORE)
        table = without_empty_plans(table, settings.heartbeat, environment)
        _check_no_rollback_of_jvm(table, settings, environment)
        resume_rollbacks(table, environment, lock)
        table = table.reload()
        planned = plan_restore(table, to, settings.heartbeat, environment)
        if not planned.instants:
            return Restored(instant=None, to=planned.target.requested_time)
        pending, plan = _announce(table, planned, environment, lock)
        return _run(table, pending, plan, environment, lock)


def finish_restores(table: TableState, settings: TransactionSettings, environment: Environment) -> TableState:
    """Finish restores of pyhudi that died, before a write; the table as it is then. Cost: nothing where there are none.

    A restore of JVM Hudi stays pending: only JVM Hudi, or a restore to the same target, goes on with it.
    """
    if not pending_restores(table.timeline):
        return table
    with table_lock(table.storage, environment, wait_ms=settings.lock_wait_ms) as lock, naming(table.storage):
        table = table.reload()
        for pending in pending_restores(table.timeline):
            plan = _load_plan(table, pending, settings, environment)
            if plan is None or plan.is_ours:
                _finish(table, pending, plan, environment, lock)
                table = table.reload()
    return table


def pending_restores(timeline: Timeline) -> tuple[Instant, ...]:
    """Restores that have begun and are not completed, oldest first."""
    return tuple(
        instant
        for instant in timeline.instants
        if instant.action is Action.RESTORE and instant.state is not InstantState.COMPLETED
    )


def _announce(
    table: TableState, planned: PlannedRestore, environment: Environment, lock: HeldLock
) -> tuple[Instant, RestorePlan]:
    pending = Instant(
        requested_time=next_time(table.timeline, table.config, environment.clock),
        action=Action.RESTORE,
        state=InstantState.REQUESTED,
    )
    plan = RestorePlan(
        to=planned.target.requested_time,
        instants=tuple((instant.requested_time, instant.action.value) for instant in planned.instants),
    )
    put_requested(table.storage, table.version, pending, encode_restore_plan(plan), lock)
    return pending, plan


def _run(table: TableState, pending: Instant, plan: RestorePlan, environment: Environment, lock: HeldLock) -> Restored:
    """Execute a plan to its end, also one that another process has executed in part."""
    storage, version = table.storage, table.version
    started_ms = environment.clock.now_ms()
    if pending.state is InstantState.REQUESTED:
        pending = advanced(pending, InstantState.INFLIGHT)
        with suppress(AlreadyExistsError):
            storage.put_if_absent(instant_path(pending, version), b"")
    resume_rollbacks(table.reload(), environment, lock, for_restore=True)
    listed, undone = list_data_files(storage), frozenset(instant_time for instant_time, _ in plan.instants)
    for instant_time, action in plan.instants:
        _roll_back(table.reload(), instant_time, action, environment, lock, (listed, undone))
    table = table.reload()
    rollbacks = _rollbacks_of(table, pending, undone)
    metadata = RestoreMetadata(
        start_time=pending.requested_time,
        time_taken_ms=environment.clock.now_ms() - started_ms,
        instants=plan.instants,
        rollbacks=rollbacks,
    )
    completed = completed_now(pending, table.timeline, table.config, environment.clock)
    put_completed(storage, version, completed, encode_restore_metadata(metadata), lock)
    return Restored(
        instant=pending.requested_time,
        to=InstantTime(plan.to or ""),
        rolled_back=tuple(InstantTime(instant_time) for instant_time, _ in plan.instants),
    )


def _roll_back(
    table: TableState,
    instant_time: str,
    action: str,
    environment: Environment,
    lock: HeldLock,
    files: tuple[list[FileInfo], frozenset[str]],
) -> RolledBack | None:
    """Roll one instant of the plan back; None where it is gone.

    Where a lock can be lost, a pending write may be completed at this moment. It is rolled back all the same, as a
    completed one.
    """
    listed, undone = files
    for instant in table.timeline.instants:
        if instant.requested_time != instant_time or completed_action(instant.action).value != _completed_word(action):
            continue
        leftovers = find_leftovers(table, instant, listed=listed, undone=undone)
        done = roll_back_instant(table, instant, environment, lock, leftovers=leftovers)
        if done is None:
            return _roll_back(table.reload(), instant_time, action, environment, lock, files)
        return done
    return None


def _completed_word(action: str) -> str:
    try:
        return completed_action(Action(action)).value
    except ValueError as error:
        raise CorruptDataError("the plan of a restore names an action that does not exist", action=action) from error


def _finish(
    table: TableState, pending: Instant, plan: RestorePlan | None, environment: Environment, lock: HeldLock
) -> Restored | None:
    """Finish a restore that died; None where it died before its plan was written, so that it is only removed."""
    if plan is not None:
        return _run(table, pending, plan, environment, lock)
    lock.check_held()
    table.storage.delete(instant_path(pending, table.version))
    return None


def _load_plan(
    table: TableState, pending: Instant, settings: TransactionSettings, environment: Environment
) -> RestorePlan | None:
    """The plan of a pending restore; None for one whose writer died before it was written, and nothing was done.

    As with rollbacks, an empty or truncated plan is left alone until the heartbeat expiry.
    """
    path = instant_path(replace(pending, state=InstantState.REQUESTED), table.version)
    try:
        return read_decoded(table.storage, path, CONTAINER_BYTES_MAX, decode_restore_plan)
    except CorruptDataError as damage:
        info = table.storage.info(path)
        is_young = info is None or environment.clock.now_ms() - info.modified_ms <= settings.heartbeat.expiry_ms
        if pending.state is not InstantState.REQUESTED or is_young:
            raise
        _log.warning("a restore whose plan was never written is removed: %s", damage)
        return None


def _may_finish(
    table: TableState,
    pending: Instant,
    plan: RestorePlan,
    to: str,
    settings: TransactionSettings,
    environment: Environment,
) -> bool:
    """Whether we go on with a restore: with ours, or with one of JVM Hudi to the same target that stands still.

    JVM Hudi restores without holding the table lock, and keeps no heartbeat. The files on the timeline that it puts
    while it restores show whether it is at work.
    """
    if plan.is_ours:
        return True
    if plan.to is None or plan.to != _instant_of(table, to):
        return False
    folder = table.storage.list_folder(table.version.timeline_folder)
    times = (info.modified_ms for info in folder.files if info.name >= pending.requested_time)
    return environment.clock.now_ms() - max(times, default=0) > settings.heartbeat.expiry_ms


def _instant_of(table: TableState, to: str) -> str:
    return target_of(table, to, load_savepoints(table.storage, table.timeline))


def _check_no_rollback_of_jvm(table: TableState, settings: TransactionSettings, environment: Environment) -> None:
    for instant_time, rollback in running_in_jvm(table, settings.heartbeat, environment).items():
        raise WriteConflictError(
            "JVM Hudi is rolling a write back; wait until it has finished", instant=instant_time, winner=rollback
        )


def _rollbacks_of(table: TableState, restore: Instant, undone: frozenset[str]) -> tuple[RollbackMetadata, ...]:
    """What the rollbacks of this restore have done, those of a process that died among them."""
    found = []
    for instant in table.timeline.instants:
        is_rollback = instant.action is Action.ROLLBACK and instant.state is InstantState.COMPLETED
        if is_rollback and instant.requested_time > restore.requested_time:
            path = instant_path(instant, table.version)
            metadata = read_decoded(table.storage, path, CONTAINER_BYTES_MAX, decode_rollback_metadata)
            if metadata.instant_time in undone:
                found.append(metadata)
    return tuple(found)


def finish_what_died(table: TableState, settings: TransactionSettings, environment: Environment) -> TableState:
    """Finish restores of pyhudi, and remove savepoints whose making died; the table as it is then.

    Cost: nothing where there are none. Errors: see `finish_restores`.
    """
    table = finish_restores(table, settings, environment)
    return remove_dead_savepoints(table, settings, environment)


def recover(
    table: TableState, settings: TransactionSettings, environment: Environment, *, eager: bool = False
) -> tuple[RolledBack, ...]:
    """Also roll dead writers back; see `roll_back_failed_writes`."""
    table = finish_what_died(table, settings, environment)
    return roll_back_failed_writes(table, settings, environment, eager=eager)
