"""Findings of the timeline: instants that do not parse, that died, and what ended writes left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyhudi.doctor.finding import Finding, Mend, Severity
from pyhudi.errors import CorruptDataError, HudiError, NotFoundError
from pyhudi.format.markers import marker_folder
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.services.cleaning.execute import load_clean_plan, pending_cleans
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.rollback.rollback import is_running_in_jvm
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_begun_rollback, load_compaction_plan
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, Liveness, heartbeat_path, liveness_at, liveness_of
from pyhudi.transaction.locks.filesystem import LOCK_PATH
from pyhudi.transaction.plan_fencing import is_running

_LOCK_MS = 3_600_000
"""A writer holds the table lock for seconds."""
_EXCLUSIVE = frozenset({Action.RESTORE, Action.INDEXING})


def timeline_findings(call: ServiceCall) -> Iterator[Finding]:
    """What is wrong with the instants of the active timeline.

    Cost: a read per completed write and savepoint, two per pending instant.
    """
    table = call.table
    for instant in table.timeline.completed_writes:
        yield from _unreadable(instant, partial(load_commit_metadata, table.storage, instant, table.version))
    for instant in table.timeline.instants:
        if instant.action is Action.SAVEPOINT and instant.state is InstantState.COMPLETED:
            alone = replace(table.timeline, instants=(instant,))
            for damage in _unreadable(instant, partial(load_savepoints, table.storage, alone)):
                yield replace(damage, command=f"savepoint PATH --delete {instant.requested_time}")
    for instant in table.timeline.pending_writes:
        if is_clustering_plan(table.storage, table.version, instant):
            yield from _pending_plan(call, instant)
        else:
            yield from _pending_write(call, instant)
    for instant in (*table.timeline.pending_compactions, *table.timeline.pending_clusterings):
        yield from _pending_plan(call, instant)
    for instant in pending_cleans(table.timeline):
        yield from _pending_clean(table, instant)
    for instant in table.timeline.pending_rollbacks:
        yield from _pending_rollback(call, instant)
    for instant in table.timeline.instants:
        if instant.action in _EXCLUSIVE and instant.state is not InstantState.COMPLETED:
            yield Finding(
                severity=Severity.WARNING,
                problem=f"{instant.action.value} is pending",
                path=instant.requested_time,
                detail=f"a {instant.action.value} began and did not end; it is finished by being run again",
                command="rollback PATH" if instant.action is Action.RESTORE else "index PATH",
                mend=Mend.ROLL_BACK if instant.action is Action.RESTORE else None,
            )
    yield from _left_over(call)


def _unreadable(instant: Instant, load: Callable[[], object]) -> Iterator[Finding]:
    try:
        load()
    except CorruptDataError as error:
        yield _damaged(instant, error)
    except NotFoundError:  # archived, completed or rolled back meanwhile
        return


def _damaged(instant: Instant, error: CorruptDataError) -> Finding:
    return Finding(
        severity=Severity.ERROR,
        problem="instant is damaged",
        path=str(error.context.get("path") or instant.requested_time),
        detail=f"{instant.action.value} {instant.requested_time}: {error.message}",
        command=None,
    )


def _pending_write(call: ServiceCall, instant: Instant) -> Iterator[Finding]:
    name = instant.requested_time
    liveness = liveness_of(call.table.storage, heartbeat_path(name), call.settings.heartbeat, call.environment)
    if liveness is Liveness.DEAD:
        yield Finding(
            severity=Severity.WARNING,
            problem="write is dead",
            path=name,
            detail=f"a {instant.action.value} is {instant.state.name.lower()}, and its writer has ended",
            command="rollback PATH",
            mend=Mend.ROLL_BACK,
        )
    elif liveness is Liveness.UNKNOWN:
        yield Finding(
            severity=Severity.WARNING,
            problem="write without a heartbeat",
            path=name,
            detail=f"a {instant.action.value} is {instant.state.name.lower()}, of a writer without heartbeats: it is "
            "at work, or died; roll it back only if no process is writing",
            command="rollback PATH --eager",
        )


def _pending_plan(call: ServiceCall, instant: Instant) -> Iterator[Finding]:
    table = call.table
    if instant.action in (Action.COMPACTION, Action.LOG_COMPACTION):
        found = list(_unreadable(instant, partial(load_compaction_plan, table.storage, instant, table.version)))
        if found:
            yield replace(found[0], problem="plan is damaged", command=f"rollback PATH {instant.requested_time}")
            return
    if is_running(table.storage, table.version, instant, call.settings.heartbeat, call.environment):
        return
    is_begun = instant.state is InstantState.INFLIGHT
    yield Finding(
        severity=Severity.WARNING if is_begun else Severity.NOTE,
        problem="execution of a plan is dead" if is_begun else "plan waits",
        path=instant.requested_time,
        detail=f"a {instant.action.value} is {instant.state.name.lower()}, and no process executes it",
        command="services PATH",
        mend=Mend.SERVICES,
    )


def _pending_clean(table: TableState, instant: Instant) -> Iterator[Finding]:
    try:
        load_clean_plan(table.storage, instant, table)
    except CorruptDataError as error:
        yield Finding(
            severity=Severity.WARNING,
            problem="plan is damaged",
            path=str(error.context.get("path") or instant.requested_time),
            detail=f"clean {instant.requested_time}: {error.message}; it holds back later cleans",
            command="doctor PATH --fix",
            mend=Mend.CLEAN_PLANS,
        )
        return
    yield Finding(
        severity=Severity.NOTE,
        problem="plan waits",
        path=instant.requested_time,
        detail="a clean is planned and not completed; the next clean executes it",
        command="clean PATH",
        mend=Mend.SERVICES,
    )


def _pending_rollback(call: ServiceCall, instant: Instant) -> Iterator[Finding]:
    table = call.table
    try:
        plan = load_begun_rollback(table.storage, instant, table.version)
    except CorruptDataError as error:
        yield _damaged_rollback(call, instant, error)
        return
    if plan is None:
        return
    who_ends = "the next write, or this command, ends it"
    if is_running_in_jvm(table, instant, plan, call.settings.heartbeat, call.environment):
        who_ends = f"JVM Hudi may be at work on it; once its file is as old as the heartbeat expiry, {who_ends}"
    yield Finding(
        severity=Severity.WARNING,
        problem="rollback is pending",
        path=instant.requested_time,
        detail=f"a rollback began and did not end; {who_ends}",
        command="rollback PATH",
        mend=Mend.ROLL_BACK,
    )


def _damaged_rollback(call: ServiceCall, instant: Instant, error: CorruptDataError) -> Finding:
    damage = replace(_damaged(instant, error), problem="plan is damaged")
    if instant.state is not InstantState.REQUESTED:
        return replace(damage, detail=f"{damage.detail}; put a copy of the file back")
    info = call.table.storage.info(instant_path(instant, call.table.version))
    if info is not None and call.environment.clock.now_ms() - info.modified_ms <= call.settings.heartbeat.expiry_ms:
        return replace(damage, detail=f"{damage.detail}; its writer may be at work still")
    return replace(
        damage,
        severity=Severity.WARNING,
        detail=f"{damage.detail}; the rollback has deleted nothing",
        command="rollback PATH",
        mend=Mend.ROLL_BACK,
    )


def _left_over(call: ServiceCall) -> Iterator[Finding]:
    """Heartbeats of dead writers without an instant, markers of ended writes, and an old lock."""
    storage, timeline = call.table.storage, call.table.timeline
    unended = {instant.requested_time for instant in timeline.instants if instant.state is not InstantState.COMPLETED}
    pending = unended.union(_being_rolled_back(call.table))
    now_ms = call.environment.clock.now_ms()
    for beat in storage.list_folder(HEARTBEAT_FOLDER).files:
        with suppress(HudiError):
            if beat.name in pending:
                continue
            if liveness_at(storage, beat, call.settings.heartbeat, now_ms) is not Liveness.ALIVE:
                yield Finding(
                    severity=Severity.NOTE,
                    problem="heartbeat is left over",
                    path=beat.path,
                    detail="its write has ended, or never began",
                    command="rollback PATH",
                    mend=Mend.ROLL_BACK,
                )
    for folder in storage.list_folder(marker_folder("").rstrip("/")).folders:
        name = folder.rpartition("/")[2]
        if name.isdigit() and name not in pending and not timeline.pending_rollbacks and name < timeline.latest_time:
            yield Finding(
                severity=Severity.NOTE,
                problem="markers are left over",
                path=folder,
                detail="their write is completed" if timeline.is_committed(name) else "their write was rolled back",
                command="doctor PATH --fix",
                mend=Mend.MARKERS,
            )
    lock = storage.info(LOCK_PATH)
    if lock is not None and now_ms - lock.modified_ms > _LOCK_MS:
        yield Finding(
            severity=Severity.WARNING,
            problem="lock is left over",
            path=LOCK_PATH,
            detail=f"it is {(now_ms - lock.modified_ms) // 3_600_000:,} hours old, and writers with"
            " FileSystemBasedLockProvider wait for it; delete the file if no process is writing",
        )


def _being_rolled_back(table: TableState) -> Iterator[str]:
    """The instants of pending rollbacks, which may be gone. Their heartbeats are needed until the rollback ends."""
    for rollback in table.timeline.pending_rollbacks:
        with suppress(CorruptDataError):  # a finding of its own
            plan = load_begun_rollback(table.storage, rollback, table.version)
            if plan is not None:
                yield plan.instant_time
