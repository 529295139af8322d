"""Rollback: take away what a failed write left behind, or a write that should not have been.

The plan goes into the requested instant, so that whoever finds a rollback half done can finish it (`rollback_run`). It
says what is the write's own, to be deleted, and in table version 6 where its blocks are that must not count
(`rollback_plan`). Planned compactions, log compactions and clusterings are no failed writes: they are run again.

Source: `format/timeline.md` section 6.2; mission rows S1-08, S5-05.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from pyhudi.environment import Environment
from pyhudi.errors import CorruptDataError, NotFoundError, WriteConflictError
from pyhudi.format.metadata.rollback import RollbackPlan, encode_rollback_plan
from pyhudi.format.safe_paths import name_problem
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.rollback.checks import check_rollback, instant_to_roll_back
from pyhudi.services.rollback.execute import RolledBack, run_rollback, take_blocks_back
from pyhudi.services.rollback.plan import find_leftovers, find_lost_attempts, find_orphans, plan_rollback
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.features import check_undoable
from pyhudi.table.instant_times import next_time
from pyhudi.table.outcome import rollback_of
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_rollback_plan, load_timeline
from pyhudi.transaction.conflicts.check import check_nothing_exclusive, exclusive_instant, naming
from pyhudi.transaction.conflicts.table import Ours
from pyhudi.transaction.heartbeat import (
    HEARTBEAT_FOLDER,
    HeartbeatSettings,
    Liveness,
    heartbeat_path,
    liveness_at,
    liveness_of,
)
from pyhudi.transaction.intents import intent_path
from pyhudi.transaction.locks.table_lock import HeldLock, table_lock
from pyhudi.transaction.plan_fencing import forget_runs
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.transaction.transaction import tidy_up

__all__ = ["RolledBack", "roll_back", "roll_back_failed_writes", "roll_back_own_write"]

_log = logging.getLogger("pyhudi")

GRACE_SECONDS = 5.0
"""How long a writer that stands at its last put, and counts as dead, has to show that it is not."""


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
    when `eager` says that nobody else writes to the table, and without it a rollback that real Hudi began is left to
    it for as long as a heartbeat may be silent. While real Hudi restores the table or builds an index of it nothing is
    done. Raises `UnsupportedFeatureError` for a table that this release must not write, and `CorruptDataError` for a
    damaged plan of a rollback. Cost: one listing where nothing is left over, a read for each writer that lives, and
    three requests for each rollback that is left to others; else see `find_leftovers`.
    """
    check_undoable(table)
    table = _without_stillborn(table, settings, environment)
    storage = table.storage
    # A file that no path can name is nobody's heartbeat, and must not be in everybody's way.
    files = storage.list_folder(HEARTBEAT_FOLDER).files
    beats = {info.name: info for info in files if name_problem(info.name) is None}
    pending = {instant.requested_time: instant for instant in table.timeline.pending_writes}
    theirs = {} if eager else _left_to_others(table, settings, environment)
    dead = [
        instant
        for name, instant in pending.items()
        if name not in theirs
        and _is_dead(table, instant, beats.get(name), settings, environment, eager=eager)
        and not is_clustering_plan(storage, table.version, instant)
    ]
    # Beside writers that live there is nothing to do, and no lock to wait for; dead runs of plans are run again.
    plans = {plan.requested_time for plan in table.timeline.pending_compactions}
    stray = (beat for name, beat in beats.items() if name not in pending and name not in plans)
    now_ms = environment.clock.now_ms()
    is_left_over = any(liveness_at(storage, beat, settings, now_ms) is Liveness.DEAD for beat in stray)
    if not is_left_over and not dead and len(table.timeline.pending_rollbacks) == len(theirs):
        return ()
    with table_lock(storage, environment, wait_ms=lock_wait_ms) as lock:
        table = table.reload()
        if exclusive_instant(table.timeline, Ours.ROLLBACK) is not None:
            return ()
        theirs = {} if eager else _left_to_others(table, settings, environment)
        done = _resume_all(table, environment, lock, besides=theirs)
        for instant in dead:
            table = table.reload()
            # Only if it is as it was: the writer may have gone on, or another process been faster.
            if instant in table.timeline.pending_writes and instant.requested_time not in theirs:
                rolled_back = _roll_back(table, instant, environment, lock)
                done += [rolled_back] if rolled_back is not None else []
        _tidy_up_after_the_dead(table.reload(), list(beats), settings, environment)
    return tuple(done)


def roll_back(
    table: TableState, instant_time: str, settings: TransactionSettings, environment: Environment
) -> RolledBack:
    """Take back the newest completed write, any pending write, or a planned compaction with what was made of it.

    Of completed writes only the newest can go, by completion time. Readers see all of it or nothing at any time. A
    pending write may be alive: then it fails at its commit. Raises `InvalidRequestError`, with nothing changed, for an
    instant that is not on the active timeline or that others build on: a later write or plan, a savepoint, or a
    cleaner that has removed what was there before; and `WriteConflictError` for one that real Hudi may be rolling back,
    or that was completed at this moment. An interrupted rollback is finished by the next write or rollback;
    of a planned compaction it may then leave the plan. Cost: see `find_leftovers`.
    """
    check_undoable(table)
    with table_lock(table.storage, environment, wait_ms=settings.lock_wait_ms) as lock, naming(table.storage):
        table = _without_stillborn(table.reload(), settings.heartbeat, environment)
        check_nothing_exclusive(table.timeline, Ours.ROLLBACK)
        theirs = _left_to_others(table, settings.heartbeat, environment)
        if instant_time in theirs:
            raise WriteConflictError(
                "JVM Hudi is rolling this back; wait until it has",
                instant=instant_time,
                winner=theirs[instant_time],
            )
        resumed = _resume_all(table, environment, lock, besides=theirs)
        table = table.reload()
        for done in resumed:
            if done.instant == instant_time and all(i.requested_time != instant_time for i in table.timeline.instants):
                return done
        instant = instant_to_roll_back(table, instant_time)
        check_rollback(table, instant, settings.heartbeat, environment)
        rolled_back = _roll_back(table, instant, environment, lock)
        if rolled_back is None:
            raise WriteConflictError("this write was completed at this moment; ask again", instant=instant_time)
        return rolled_back


def roll_back_own_write(
    table: TableState, instant_time: InstantTime, environment: Environment, *, lock_wait_ms: int
) -> None:
    """Take away a write of this very process that failed before its commit, also what it wrote after others did so."""
    storage = table.storage
    with table_lock(storage, environment, wait_ms=lock_wait_ms) as lock:
        table = table.reload()
        check_nothing_exclusive(table.timeline, Ours.ROLLBACK)
        others = {plan.instant_time for _, plan in _begun_rollbacks(table)} - {instant_time}
        _resume_all(table, environment, lock, besides=others)
        table = table.reload()
        mine = [instant for instant in table.timeline.instants if instant.requested_time == instant_time]
        for instant in mine:
            if instant in table.timeline.pending_writes:
                _roll_back(table, instant, environment, lock)
        if not mine:
            _remove_orphans(table, instant_time)


def _remove_orphans(table: TableState, instant_time: InstantTime) -> None:
    """Take away what a write wrote after its rollback, which speaks for the command blocks that are still missing."""
    storage = table.storage
    orphans = find_orphans(table, instant_time)
    for path in orphans.files:
        storage.delete(path)
    if orphans.logs:
        rollback = rollback_of(table, instant_time)
        rollback_time = rollback.requested_time if rollback is not None else instant_time
        for one in orphans.logs:
            take_blocks_back(storage, rollback_time, instant_time, one)
    tidy_up(storage, instant_time)


def _tidy_up_after_the_dead(
    table: TableState, heartbeats: list[str], settings: HeartbeatSettings, environment: Environment
) -> None:
    """Remove heartbeats and markers of writers that died before their instant began or after it had ended.

    Of those that had ended, also what lost attempts of their tasks left.
    """
    timeline = table.timeline
    pending = {instant.requested_time for instant in (*timeline.pending_writes, *timeline.pending_compactions)}
    completed = {str(instant.requested_time): instant for instant in timeline.completed_writes}
    for instant_time in heartbeats:
        path = heartbeat_path(instant_time)
        if instant_time not in pending and liveness_of(table.storage, path, settings, environment) is Liveness.DEAD:
            if instant_time in completed:
                for lost in find_lost_attempts(table, completed[instant_time]):
                    table.storage.delete(lost)
            forget_runs(table.storage, instant_time)
            tidy_up(table.storage, instant_time)


def _is_dead(
    table: TableState,
    instant: Instant,
    beat: FileInfo | None,
    settings: HeartbeatSettings,
    environment: Environment,
    *,
    eager: bool,
) -> bool:
    """Whether the writer of a pending instant counts as dead. Cost: one request; more where it keeps no heartbeat."""
    now_ms = environment.clock.now_ms()
    match Liveness.UNKNOWN if beat is None else liveness_at(table.storage, beat, settings, now_ms):
        case Liveness.DEAD:
            return True
        case Liveness.ALIVE:
            return False
        case Liveness.UNKNOWN:
            # A put that took effect after its write had been rolled back brings the instant back, without a heartbeat.
            return eager or rollback_of(table, instant.requested_time) is not None


def _roll_back(table: TableState, instant: Instant, environment: Environment, lock: HeldLock) -> RolledBack | None:
    """Roll an instant back; None for a pending one that turned out to be completed after all.

    Where a lock can be lost, the writer may be about to put its completed instant, without the lock that we hold. It
    looks for our plan after its put, and we look for its put after our plan, so that at least one sees the other.
    """
    storage = table.storage
    plan = plan_rollback(storage.uri, instant, find_leftovers(table, instant))
    rollback = Instant(
        requested_time=next_time(table.timeline, table.config, environment.clock),
        action=Action.ROLLBACK,
        state=InstantState.REQUESTED,
    )
    lock.check_held()
    storage.put_if_absent(instant_path(rollback, table.version), encode_rollback_plan(plan))
    if lock.can_be_lost and instant.state is not InstantState.COMPLETED and _was_completed(table, instant, environment):
        storage.delete(instant_path(rollback, table.version))
        return None
    # A writer that holds the lock again does not look for the plan after its put. If it is not ours, the plan stays.
    lock.check_held()
    return run_rollback(table, rollback, plan, environment, keeps_service_plan=False)


def _was_completed(table: TableState, instant: Instant, environment: Environment) -> bool:
    """Whether a pending instant is completed by now. One that has an intent to commit gets some time for it."""
    storage = table.storage
    if storage.info(intent_path(instant.requested_time)) is not None:
        environment.clock.sleep(GRACE_SECONDS)
    return load_timeline(storage, table.version).is_committed(instant.requested_time)


def _without_stillborn(table: TableState, settings: HeartbeatSettings, environment: Environment) -> TableState:
    """The table when rollbacks are gone whose process died while it wrote their plan; it has done nothing else.

    So do real Hudi 0.15 and 1.0, who create the file before they fill it; 1.2 passes over it. One that is younger than
    a writer may be silent stays. Cost: a read per rollback that is only planned.
    """
    storage, version = table.storage, table.version
    gone = False
    for rollback in table.timeline.pending_rollbacks:
        if rollback.state is not InstantState.REQUESTED:
            continue
        try:
            load_rollback_plan(storage, rollback, version)
        except NotFoundError:
            gone = True
        except CorruptDataError as damage:
            path = instant_path(rollback, version)
            info = storage.info(path)
            if info is None or environment.clock.now_ms() - info.modified_ms <= settings.expiry_ms:
                raise
            _log.warning("a rollback whose plan was never written is removed: %s", damage)
            storage.delete(path)
            gone = True
    return table.reload() if gone else table


def _begun_rollbacks(table: TableState) -> list[tuple[Instant, RollbackPlan]]:
    """The rollbacks that are not finished. Cost: a read for each."""
    storage, version = table.storage, table.version
    found = []
    for rollback in table.timeline.pending_rollbacks:
        try:
            found.append((rollback, load_rollback_plan(storage, rollback, version)))
        except NotFoundError:
            # Who finds that the write was completed after all takes the plan back.
            if storage.info(instant_path(rollback, version)) is not None:
                raise
    return found


def _left_to_others(table: TableState, settings: HeartbeatSettings, environment: Environment) -> dict[str, InstantTime]:
    """The rollbacks that real Hudi may be at, by the instants that they take back.

    It is at them without the table lock, and two who delete the same files are in each other's way: its call fails,
    after its commit. Nothing says whether it is still at it, so it is for as long as a writer may be silent. Cost: two
    requests per rollback that is not finished.
    """
    left = {}
    for rollback, plan in _begun_rollbacks(table):
        info = None if plan.is_ours else table.storage.info(instant_path(rollback, table.version))
        if info is not None and environment.clock.now_ms() - info.modified_ms <= settings.expiry_ms:
            left[plan.instant_time] = rollback.requested_time
    return left


def _resume_all(
    table: TableState, environment: Environment, lock: HeldLock, *, besides: Collection[str]
) -> list[RolledBack]:
    """Finish the rollbacks that somebody began, but for those of the instants `besides`.

    Of a planned service real Hudi takes back its run, never its plan.
    """
    done = []
    for rollback, plan in _begun_rollbacks(table):
        if plan.instant_time in besides:
            continue
        is_untouched = rollback.state is InstantState.REQUESTED and table.timeline.is_committed(plan.instant_time)
        if lock.can_be_lost and is_untouched:
            # The write may have been completed, and said so, before there was the plan; see `_roll_back`.
            table.storage.delete(instant_path(rollback, table.version))
            continue
        done.append(run_rollback(table, rollback, plan, environment, keeps_service_plan=True))
    return done
