"""Rollback: take away what a failed write left behind, or a write that should not have been.

The plan goes into the requested instant, so that whoever finds a rollback half done can finish it (`rollback_run`). It
says what is the write's own, to be deleted, and in table version 6 where its blocks are that must not count
(`rollback_plan`). Planned compactions, log compactions and clusterings are no failed writes: they are run again.

Source: `format/timeline.md` section 6.2; mission rows S1-08, S5-05.
"""

from __future__ import annotations

from pyhudi.format.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.rollback_metadata import encode_rollback_plan
from pyhudi.services.outcome import rollback_of
from pyhudi.services.rollback_checks import check_rollback, instant_to_roll_back
from pyhudi.services.rollback_plan import find_leftovers, find_orphans, plan_rollback
from pyhudi.services.rollback_run import RolledBack, is_clustering_plan, run_rollback, take_blocks_back
from pyhudi.table.environment import Environment
from pyhudi.table.heartbeat import HEARTBEAT_FOLDER, HeartbeatSettings, Liveness, heartbeat_path, liveness_of
from pyhudi.table.instant_times import next_time
from pyhudi.table.locks import table_lock
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_rollback_plan
from pyhudi.table.transaction import TransactionSettings, tidy_up

__all__ = ["RolledBack", "roll_back", "roll_back_failed_writes", "roll_back_own_write"]


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
    release must not write. Cost: one listing where nothing is left over; else see `find_leftovers`.
    """
    table.config.check_writable()
    storage = table.storage
    heartbeats = [info.name for info in storage.list_folder(HEARTBEAT_FOLDER).files]
    dead = [
        instant
        for instant in table.timeline.pending_writes
        if _may_roll_back(liveness_of(storage, heartbeat_path(instant.requested_time), settings, environment), eager)
        and not is_clustering_plan(table, instant)
    ]
    if not heartbeats and not dead and not table.timeline.pending_rollbacks:
        return ()
    with table_lock(storage, environment, wait_ms=lock_wait_ms):
        table = table.reload()
        done = [_resume(table, rollback, environment) for rollback in table.timeline.pending_rollbacks]
        for instant in dead:
            table = table.reload()
            # Only if it is as it was: the writer may have gone on, or another process been faster.
            if instant in table.timeline.pending_writes:
                done.append(_roll_back(table, instant, environment))
        _tidy_up_after_the_dead(table.reload(), heartbeats, settings, environment)
    return tuple(done)


def roll_back(
    table: TableState, instant_time: str, settings: TransactionSettings, environment: Environment
) -> RolledBack:
    """Take back the newest completed write, any pending write, or a planned compaction with what was made of it.

    Of completed writes only the newest can go, by completion time. Readers see all of it or nothing at any time. A
    pending write may be alive: then it fails at its commit. Raises `InvalidRequestError`, with nothing changed, for an
    instant that is not on the active timeline or that others build on: a later write or plan, a savepoint, or a
    cleaner that has removed what was there before. An interrupted rollback is finished by the next write or rollback;
    of a planned compaction it may then leave the plan. Cost: see `find_leftovers`.
    """
    table.config.check_writable()
    with table_lock(table.storage, environment, wait_ms=settings.lock_wait_ms):
        table = table.reload()
        resumed = [_resume(table, rollback, environment) for rollback in table.timeline.pending_rollbacks]
        table = table.reload()
        for done in resumed:
            if done.instant_time == instant_time and all(
                i.requested_time != instant_time for i in table.timeline.instants
            ):
                return done
        instant = instant_to_roll_back(table, instant_time)
        check_rollback(table, instant, settings.heartbeat, environment)
        return _roll_back(table, instant, environment)


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
    plan = plan_rollback(storage.uri, instant, find_leftovers(table, instant))
    rollback = Instant(
        requested_time=next_time(table.timeline, table.config, environment.clock),
        action=Action.ROLLBACK,
        state=InstantState.REQUESTED,
    )
    storage.put_if_absent(instant_path(rollback, table.version), encode_rollback_plan(plan))
    return run_rollback(table, rollback, plan, environment, keeps_service_plan=False)


def _resume(table: TableState, rollback: Instant, environment: Environment) -> RolledBack:
    """Finish a rollback that somebody began. Real Hudi takes back only the run of a planned service, never its plan."""
    plan = load_rollback_plan(table.storage, rollback, table.version)
    return run_rollback(table, rollback, plan, environment, keeps_service_plan=True)
