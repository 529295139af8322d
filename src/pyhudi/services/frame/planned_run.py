"""Executing a plan of the timeline: who may do it, and what of a dead execution goes first.

If an execution dies, its plan remains, and the next execution begins by deleting the files of the dead one.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from pyhudi.errors import AlreadyExistsError, InvalidRequestError, LockLostError
from pyhudi.format.markers import marker_folder
from pyhudi.format.timeline.instant import Instant, InstantState, advanced
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.lister import Lister
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.tasks.log_writer import WRITE_TOKEN_NUMBERS
from pyhudi.transaction.heartbeat import Heartbeat, heartbeat_path
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.plan_fencing import begin_run, check_newest_run, forget_runs, is_running

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """An execution: the table as it was when it began, the plan's instant, and the number of the execution.

    The number replaces the stage number in the write tokens of its files, so that they are unique to it. `files`: those
    in the folders of the plan, listed after `table` was loaded, without those that dead executions left.
    """

    table: TableState
    instant: Instant
    number: int
    files: tuple[FileInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class FilesOfPlan:
    """The files in the folders of a plan: the paths of those that dead executions left, and the others."""

    left: tuple[str, ...]
    others: tuple[FileInfo, ...]


@contextmanager
def planned_run(
    call: ServiceCall,
    instant_time: str,
    *,
    kind: str,
    find: Callable[[TableState, str], Instant | None],
    files_of_plan: Callable[[TableState, Instant, Lister], FilesOfPlan],
) -> Iterator[PlannedRun | None]:
    """Take the plan for this process: mark it inflight, and delete what dead executions left. None if it is taken.

    `kind` is the service's name for errors, `find` gives the pending plan of an instant time, `files_of_plan`
    lists its folders. Raises `InvalidRequestError` if there is no plan, and `LockLostError` if another process has
    started it meanwhile.
    """
    storage, environment = call.table.storage, call.environment
    heartbeat = Heartbeat(storage, heartbeat_path(instant_time), call.settings.heartbeat, environment)
    number = uuid.UUID(environment.ids.uuid()).int % WRITE_TOKEN_NUMBERS
    with table_lock(storage, environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        instant = find(table, instant_time)
        if instant is not None and _shares_its_time(table, instant):
            _remove_late_plan(table, instant)
            instant = None
        elif instant is None and not table.timeline.is_committed(instant_time):
            raise InvalidRequestError(f"there is no planned {kind} with this instant time", instant=instant_time)
        settings = call.settings.heartbeat
        if instant is None or is_running(storage, table.version, instant, settings, environment):
            inflight = None
        else:
            inflight = _marked_inflight(table, instant, can_be_lost=lock.can_be_lost)
            heartbeat.start()
            try:
                begin_run(storage, instant_time, number)
                # With the lock still held, this process is the only one: later ones see the heartbeat.
                lock.check_held()
            except BaseException:
                heartbeat.stop()
                raise
    if inflight is None:
        yield None
        return
    run = PlannedRun(table, inflight, number)
    try:
        found = files_of_plan(table, inflight, call.lister)
        _remove_previous_run(call, run, found.left)
        yield replace(run, files=found.others)
    finally:
        heartbeat.stop()
        if not call.table.reload().timeline.is_committed(instant_time):
            with suppress(LockLostError):
                check_newest_run(storage, instant_time, number)
                forget_runs(storage, instant_time)
                heartbeat.stop_for_good()


def _shares_its_time(table: TableState, plan: Instant) -> bool:
    """Whether another action has the instant time of a plan, whose put took effect after its process had given up.

    A savepoint has the time of a completed write, and so of no plan.
    """
    return any(
        other.requested_time == plan.requested_time and other.action is not plan.action
        for other in table.timeline.instants
    )


def _remove_late_plan(table: TableState, plan: Instant) -> None:
    """Remove a plan that cannot be completed, because the files of the other action carry its time."""
    _log.warning("the plan %s came after another action had taken its time; it is removed", plan.requested_time)
    if plan.state is InstantState.INFLIGHT:
        table.storage.delete(instant_path(plan, table.version))
    table.storage.delete(instant_path(replace(plan, state=InstantState.REQUESTED), table.version))


def _marked_inflight(table: TableState, plan: Instant, *, can_be_lost: bool) -> Instant:
    """The plan in its inflight state. `can_be_lost`: whether the lock can. Cost: a put, and a look at the plan then."""
    if plan.state is InstantState.INFLIGHT:
        return plan
    inflight = advanced(plan, InstantState.INFLIGHT)
    try:
        table.storage.put_if_absent(instant_path(inflight, table.version), b"")
    except AlreadyExistsError:
        _log.info("the plan %s was inflight already", plan.requested_time)
    if can_be_lost and table.storage.info(instant_path(plan, table.version)) is None:
        # It was rolled back after the lock was lost. An inflight instant without a plan would fail every reader.
        table.storage.delete(instant_path(inflight, table.version))
        raise LockLostError("another process rolled this plan back", instant=plan.requested_time)
    return inflight


def _remove_previous_run(call: ServiceCall, run: PlannedRun, left: Collection[str]) -> None:
    """Delete what dead executions of a plan left: their files, and then their markers. Cost: a delete per file."""
    if not left:
        return
    storage, instant_time = call.table.storage, run.instant.requested_time
    # After the listing: if this execution is the newest now, the files found are of dead ones.
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        check_newest_run(storage, instant_time, run.number)
        lock.check_held()
    for path in left:
        storage.delete(path)
    storage.delete_folder(marker_folder(instant_time))
