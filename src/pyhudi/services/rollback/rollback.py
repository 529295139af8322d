"""Rollback of failed writes, and of writes on request.

The requested instant of a rollback holds its plan, so that another process can finish an interrupted rollback
(`execute`). The plan lists the files of the write, to be deleted, and in table version 6 the logs with its blocks, to
be excluded (`plan`). Planned compactions, log compactions and clusterings are not failed writes: they are executed
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyhudi.environment import Environment
from pyhudi.errors import CommitOutcomeUnknownError, CorruptDataError, HudiError, NotFoundError, WriteConflictError
from pyhudi.format.metadata.rollback import RollbackPlan, encode_rollback_plan
from pyhudi.format.safe_paths import name_problem
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.io.log.block_filter import exclude_blocks
from pyhudi.services.cleaning.withdraw import withdraw_clean
from pyhudi.services.rollback.checks import check_rollback, instant_to_roll_back, planned_service
from pyhudi.services.rollback.execute import RolledBack, run_rollback
from pyhudi.services.rollback.plan import Leftovers, find_leftovers, find_lost_attempts, find_orphans, plan_rollback
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.bootstrap import is_second_commit
from pyhudi.table.features import check_undoable
from pyhudi.table.instant_times import next_time
from pyhudi.table.outcome import rollback_of
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.state import TableState
from pyhudi.table.timeline import begun_rollbacks, instant_path, load_rollback_plan, load_timeline, position_of
from pyhudi.transaction.conflicts.check import check_nothing_exclusive, excluding_instant
from pyhudi.transaction.conflicts.table import Own
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
from pyhudi.transaction.plan_fencing import forget_runs, is_taken_over
from pyhudi.transaction.publish import put_requested
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.transaction.tidying import tidy_up
from pyhudi.transaction.transaction import Transaction

__all__ = ["RolledBack", "roll_back", "roll_back_failed_writes", "roll_back_own_write", "roll_back_plan"]

_log = logging.getLogger("pyhudi")

GRACE_SECONDS = 5.0
"""How long a rollback waits for the last put of a writer that has an intent to commit and counts as dead."""


def roll_back_failed_writes(
    table: TableState, settings: TransactionSettings, environment: Environment, *, eager: bool = False
) -> tuple[RolledBack, ...]:
    """Roll back the pending writes of dead writers, and finish interrupted rollbacks.

    Writes of live writers are never touched. A write without a heartbeat (of a single-writer JVM Hudi) is rolled back
    only with `eager`, which means that no other process writes to the table. Without `eager`, a rollback that JVM Hudi
    began is left to it until the heartbeat expiry. While JVM Hudi restores the table or builds an index, nothing is
    done. Raises `UnsupportedFeatureError` for a table that this release must not write, and `CorruptDataError` for a
    damaged plan of a rollback. The second commit of a bootstrap is left to the next one.
    Cost: one listing if nothing is left over, a read for each live writer, and three
    requests for each rollback that is left to JVM Hudi; otherwise see `find_leftovers`.
    """
    check_undoable(table)
    table = without_empty_plans(table, settings.heartbeat, environment)
    storage = table.storage
    theirs = {} if eager else running_in_jvm(table, settings.heartbeat, environment)
    # What stands in for the heartbeat of a write that JVM Hudi rolls back is needed until it has done so.
    beats = {name: beat for name, beat in _heartbeats(storage).items() if name not in theirs}
    pending = {instant.requested_time: instant for instant in table.timeline.pending_writes}
    dead = [
        instant
        for name, instant in pending.items()
        if name not in theirs
        and _is_dead(table, instant, beats.get(name), settings.heartbeat, environment, eager=eager)
        and not is_clustering_plan(storage, table.version, instant)
        and not is_second_commit(table, instant)
    ]
    # Without dead writers there is nothing to do, so the lock is not taken.
    is_left_over = _is_left_over(table, beats, settings.heartbeat, environment)
    if not is_left_over and not dead and len(table.timeline.pending_rollbacks) == len(theirs):
        return ()
    with table_lock(storage, environment, wait_ms=settings.lock_wait_ms) as lock:
        table = table.reload()
        if excluding_instant(table.timeline, Own.ROLLBACK) is not None:
            return ()
        theirs = {} if eager else running_in_jvm(table, settings.heartbeat, environment)
        done = resume_rollbacks(table, environment, lock, besides=theirs)
        for instant in dead:
            table = table.reload()
            # Only if the instant is unchanged: its writer may have continued, or another process rolled it back.
            if instant in table.timeline.pending_writes and instant.requested_time not in theirs:
                rolled_back = roll_back_instant(table, instant, environment, lock)
                done += [rolled_back] if rolled_back is not None else []
        _tidy_up_after_the_dead(table.reload(), list(beats), settings.heartbeat, environment)
    return tuple(done)


def has_left_over(table: TableState, settings: HeartbeatSettings, environment: Environment) -> bool:
    """Whether there are heartbeats without a pending instant, of no living writer. Cost: a listing, a read for each."""
    return _is_left_over(table, _heartbeats(table.storage), settings, environment)


def _heartbeats(storage: Storage) -> dict[str, FileInfo]:
    # Skip names that are not valid paths: pyhudi never creates them, and one stray file must not block all writers.
    files = storage.list_folder(HEARTBEAT_FOLDER).files
    return {info.name: info for info in files if name_problem(info.name) is None}


def _is_left_over(
    table: TableState, beats: Mapping[str, FileInfo], settings: HeartbeatSettings, environment: Environment
) -> bool:
    # Plans of dead processes are executed again.
    timeline = table.timeline
    pending = (*timeline.pending_writes, *timeline.pending_compactions, *timeline.pending_clusterings)
    known = {instant.requested_time for instant in pending}
    now_ms = environment.clock.now_ms()
    return any(
        liveness_at(table.storage, beat, settings, now_ms) is not Liveness.ALIVE
        for name, beat in beats.items()
        if name not in known
    )


def roll_back(
    table: TableState, instant_time: str, settings: TransactionSettings, environment: Environment
) -> RolledBack:
    """Roll back the newest completed write, any pending write, a planned compaction with its files, or a planned clean.

    Only the newest completed write, by completion time, can be rolled back. Readers see all of it or nothing at any
    time. A pending write may be alive: then it fails at its commit. Raises `InvalidRequestError`, with nothing changed,
    for an instant that is not on the active timeline, or that cannot be rolled back because of a later write or plan, a
    savepoint, or a cleaner that has removed the files before it; and `WriteConflictError` for one that JVM Hudi may be
    rolling back, or that completed while its rollback was starting. The next write or rollback finishes an interrupted
    rollback; of a planned compaction it may then leave the plan. Cost: see `find_leftovers`.
    """
    return _roll_back_on_request(table, instant_time, settings, environment, choose=instant_to_roll_back)


def _roll_back_on_request(
    table: TableState,
    instant_time: str,
    settings: TransactionSettings,
    environment: Environment,
    *,
    choose: Callable[[TableState, str], Instant],
) -> RolledBack:
    check_undoable(table)
    with table_lock(table.storage, environment, wait_ms=settings.lock_wait_ms) as lock, naming(table.storage):
        table = without_empty_plans(table.reload(), settings.heartbeat, environment)
        check_nothing_exclusive(table.timeline, Own.ROLLBACK)
        theirs = running_in_jvm(table, settings.heartbeat, environment)
        if instant_time in theirs:
            raise WriteConflictError(
                "JVM Hudi is rolling this write back; wait until it has finished",
                instant=instant_time,
                winner=theirs[instant_time],
            )
        resumed = resume_rollbacks(table, environment, lock, besides=theirs)
        table = table.reload()
        for done in resumed:
            if done.instant == instant_time and all(i.requested_time != instant_time for i in table.timeline.instants):
                return done
        instant = choose(table, instant_time)
        if instant.action is Action.CLEAN:
            withdraw_clean(table, instant, settings.heartbeat, environment, lock)
            return RolledBack(instant.requested_time, files_deleted=0)
        check_rollback(table, instant, settings.heartbeat, environment)
        rolled_back = roll_back_instant(table, instant, environment, lock)
        if rolled_back is None:
            raise WriteConflictError(
                "the write completed while its rollback was starting; reload the table, and call rollback again if you "
                "still want to undo it",
                instant=instant_time,
            )
        return rolled_back


def roll_back_plan(
    table: TableState, instant_time: str, settings: TransactionSettings, environment: Environment
) -> RolledBack:
    """Roll back a planned service, and nothing else that this instant time may mean by then; otherwise as `roll_back`.

    Raises `InvalidRequestError` also where the plan is gone or completed.
    """
    return _roll_back_on_request(table, instant_time, settings, environment, choose=planned_service)


def roll_back_own_write(
    table: TableState, instant_time: InstantTime, environment: Environment, *, lock_wait_ms: int
) -> None:
    """Roll back a failed write of this process, also what it wrote after another process had rolled it back."""
    storage = table.storage
    with table_lock(storage, environment, wait_ms=lock_wait_ms) as lock:
        table = table.reload()
        check_nothing_exclusive(table.timeline, Own.ROLLBACK)
        others = {plan.instant_time for _, plan in begun_rollbacks(table.storage, table.timeline)} - {instant_time}
        resume_rollbacks(table, environment, lock, besides=others)
        table = table.reload()
        mine = [instant for instant in table.timeline.instants if instant.requested_time == instant_time]
        for instant in mine:
            if instant in table.timeline.pending_writes:
                roll_back_instant(table, instant, environment, lock)
        if not mine:
            _remove_orphans(table, instant_time)


def _remove_orphans(table: TableState, instant_time: InstantTime) -> None:
    """Remove what a write wrote after its rollback; missing command blocks carry the instant of that rollback."""
    storage = table.storage
    orphans = find_orphans(table, instant_time)
    for path in orphans.files:
        storage.delete(path)
    if orphans.logs:
        rollback = rollback_of(table, instant_time)
        rollback_time = rollback.requested_time if rollback is not None else instant_time
        for log_slice in orphans.logs:
            exclude_blocks(storage, rollback_time, instant_time, log_slice)
    tidy_up(storage, instant_time)


def _tidy_up_after_the_dead(
    table: TableState, heartbeats: list[str], settings: HeartbeatSettings, environment: Environment
) -> None:
    """Remove heartbeats and markers of writers that died before they put their instant, or after their commit.

    After a commit, also the files of lost task attempts. What stands in for the heartbeat of a writer of JVM Hudi goes
    alone: it may be removing its markers.
    """
    timeline = table.timeline
    pending = {
        instant.requested_time
        for instant in (*timeline.pending_writes, *timeline.pending_compactions, *timeline.pending_clusterings)
    }
    completed = {str(instant.requested_time): instant for instant in timeline.completed_writes}
    for instant_time in heartbeats:
        if instant_time in pending:
            continue
        path = heartbeat_path(instant_time)
        liveness = liveness_of(table.storage, path, settings, environment)
        if liveness is Liveness.UNKNOWN:
            table.storage.delete(path)
        elif liveness is Liveness.DEAD:
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
            # A put that takes effect after the rollback of its write restores the instant, without a heartbeat.
            return eager or rollback_of(table, instant.requested_time) is not None


def roll_back_instant(
    table: TableState, instant: Instant, environment: Environment, lock: HeldLock, *, leftovers: Leftovers | None = None
) -> RolledBack | None:
    """Roll an instant of the timeline back, under the table lock; None for one that has been completed meanwhile.

    `leftovers`: what it left, where the caller has searched for it.

    Where a lock can be lost, the writer may be about to put its completed instant without holding the lock. It checks
    for our plan after its put, and we check for its put after our plan, so at least one sees the other.
    """
    storage = table.storage
    plan = plan_rollback(storage.uri, instant, find_leftovers(table, instant) if leftovers is None else leftovers)
    rollback = Instant(
        requested_time=next_time(table.timeline, table.config, environment.clock),
        action=Action.ROLLBACK,
        state=InstantState.REQUESTED,
    )
    put_requested(storage, table.version, rollback, encode_rollback_plan(plan), lock)
    if lock.can_be_lost and instant.state is not InstantState.COMPLETED and _was_completed(table, instant, environment):
        storage.delete(instant_path(rollback, table.version))
        return None
    # A writer that has the lock again does not check for the plan after its put. So here only the plan may remain.
    lock.check_held()
    return run_rollback(table, rollback, plan, environment, lock, keeps_service_plan=False)


def _was_completed(table: TableState, instant: Instant, environment: Environment) -> bool:
    """Whether a pending instant has been completed. One with an intent to commit gets some time for its last put."""
    storage = table.storage
    if storage.info(intent_path(instant.requested_time)) is not None:
        environment.clock.sleep(GRACE_SECONDS)
    return load_timeline(storage, table.version).is_committed(instant.requested_time)


def without_empty_plans(table: TableState, settings: HeartbeatSettings, environment: Environment) -> TableState:
    """Remove pending rollbacks whose plan file is empty or truncated, and return the table without them.

    This is safe: a rollback deletes nothing before its plan is complete. Files younger than the heartbeat expiry are
    kept, because their writer may still be alive. JVM Hudi 0.15 and 1.0 remove them too; 1.2 ignores them. Cost: a read
    per requested rollback.
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


def running_in_jvm(table: TableState, settings: HeartbeatSettings, environment: Environment) -> dict[str, InstantTime]:
    """The rollbacks that JVM Hudi may be executing, by the instants that they roll back.

    JVM Hudi rolls back without holding the table lock. If we deleted the same files, its call would fail after its own
    commit. It keeps no heartbeat for rollbacks, so we treat one as running until the heartbeat expiry has passed since
    its instant file was last modified. Cost: two requests per pending rollback.
    """
    return {
        plan.instant_time: rollback.requested_time
        for rollback, plan in begun_rollbacks(table.storage, table.timeline)
        if is_running_in_jvm(table, rollback, plan, settings, environment)
    }


def is_running_in_jvm(
    table: TableState, rollback: Instant, plan: RollbackPlan, settings: HeartbeatSettings, environment: Environment
) -> bool:
    """Whether JVM Hudi may be executing a rollback; see `running_in_jvm`. Cost: one request where it began it."""
    info = None if plan.is_ours else table.storage.info(instant_path(rollback, table.version))
    return info is not None and environment.clock.now_ms() - info.modified_ms <= settings.expiry_ms


def _why_refused(table: TableState, instant_time: str) -> str | None:
    """Why JVM Hudi refuses to roll a completed write back; None where it does not, or the write is not completed.

    JVM Hudi puts the plan of a rollback, marks it inflight, and refuses it only then; each of its own writes fails from
    then on. It takes the completed instant away before it deletes anything.
    """
    writes = {str(write.requested_time): position_of(write) for write in table.timeline.completed_writes}
    position = writes.get(instant_time)
    if position is None:
        return None
    if max(writes.values()) > position:
        return "later writes follow"
    kept = (i for i in table.timeline.instants if i.action is Action.SAVEPOINT and i.state is InstantState.COMPLETED)
    return "a savepoint keeps the write" if any(i.requested_time == instant_time for i in kept) else None


def resume_rollbacks(
    table: TableState,
    environment: Environment,
    lock: HeldLock,
    *,
    besides: Collection[str] = (),
    for_restore: bool = False,
) -> list[RolledBack]:
    """Finish the pending rollbacks, except those of the instants `besides`, under the table lock.

    Of a planned service only the execution is rolled back, as JVM Hudi does, and its plan remains; but `for_restore`
    all of it is rolled back, and of any write.
    """
    done = []
    for rollback, plan in begun_rollbacks(table.storage, table.timeline):
        if plan.instant_time in besides:
            continue
        refused = None if plan.is_ours or for_restore else _why_refused(table, plan.instant_time)
        if refused is not None:
            _log.warning("a rollback of %s that JVM Hudi refused is removed: %s", plan.instant_time, refused)
            table.storage.delete(instant_path(replace(rollback, state=InstantState.INFLIGHT), table.version))
            table.storage.delete(instant_path(replace(rollback, state=InstantState.REQUESTED), table.version))
            continue
        is_untouched = rollback.state is InstantState.REQUESTED and table.timeline.is_committed(plan.instant_time)
        if lock.can_be_lost and is_untouched and not for_restore:
            # The write may have been completed, and reported so, before the plan was put; see `roll_back_instant`.
            table.storage.delete(instant_path(rollback, table.version))
            continue
        done.append(run_rollback(table, rollback, plan, environment, lock, keeps_service_plan=not for_restore))
    return done


@contextmanager
def undone_on_failure(transaction: Transaction) -> Iterator[None]:
    """If the block fails, roll the write back before the error is raised.

    If the outcome of the commit is unknown, nothing is rolled back: the commit may be visible. Nor is a write that
    another process goes on with.
    """
    try:
        yield
    except CommitOutcomeUnknownError:
        raise
    except (Exception, KeyboardInterrupt, SystemExit):
        run, storage = transaction.run, transaction.storage
        try:
            if run is None or not is_taken_over(storage, transaction.instant_time, run):
                roll_back_own_write(
                    transaction.base,
                    transaction.instant_time,
                    transaction.environment,
                    lock_wait_ms=transaction.settings.lock_wait_ms,
                )
        except HudiError as second:
            _log.warning("a failed write could not be rolled back at once; the next write will do it: %s", second)
        raise
