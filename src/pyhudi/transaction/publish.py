"""Putting instants: the requested file that takes an instant time, and the completed file that makes an action visible.

Where the table lock may have been lost, each put is followed by a check.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from pyhudi.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    LockLostError,
    StorageError,
    UnavailableError,
)
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import Timeline, instant_path, load_rollback_plan, load_timeline, position_of
from pyhudi.transaction.locks.table_lock import HeldLock
from pyhudi.transaction.plan_fencing import is_newest_run

_log = logging.getLogger("pyhudi")


def put_requested(storage: Storage, version: TableVersion, instant: Instant, body: bytes, lock: HeldLock) -> None:
    """Create the requested file of an instant, whose content is `body`, while the lock is held.

    Raises `LockLostError` where the lock is gone, or another action has the instant time: a rollback of one would
    delete the files of both. Then nothing of this action stays. Cost: one put; one listing under a lock that can be
    lost.
    """
    lock.check_held()
    path = instant_path(instant, version)
    try:
        storage.put_if_absent(path, body)
    except AlreadyExistsError as error:
        raise _time_is_taken(instant) from error
    if lock.can_be_lost:
        check_alone(storage, instant, version)


def check_alone(storage: Storage, instant: Instant, version: TableVersion) -> None:
    """Give up an instant time that another action has, too. Cost: one listing.

    Instants of two actions have different file names, so exclusive creation does not keep them apart. Both writers look
    after their put, so at least one sees the other. Raises `LockLostError`, with the instant removed again.
    """
    for other in load_timeline(storage, version).instants:
        if other.requested_time == instant.requested_time and other.action is not instant.action:
            storage.delete(instant_path(instant, version))
            raise _time_is_taken(instant)


def put_plan(storage: Storage, version: TableVersion, planned: Instant, body: bytes, lock: HeldLock) -> None:
    """Create the requested file of a service whose plan must know every completed write: `put_requested`, or nothing.

    A write that completed after the lock was lost is not in the plan, and would be lost when the plan is executed.
    """
    put_requested(storage, version, planned, body, lock)
    try:
        lock.check_held()
    except LockLostError:
        storage.delete(instant_path(planned, version))
        raise


def _time_is_taken(instant: Instant) -> LockLostError:
    return LockLostError(
        "another process took the same instant time, so the table lock does not keep the two apart; nothing of this "
        "action is visible; run it again, and make sure that all processes of the table use the same lock provider",
        instant=instant.requested_time,
    )


def put_completed(storage: Storage, version: TableVersion, completed: Instant, body: bytes, lock: HeldLock) -> None:
    """Create the completed file of an instant, whose metadata is `body`, while the lock is held.

    Raises `CommitOutcomeUnknownError` where the store does not say whether the file was written, and `LockLostError`
    where the lock is gone, or another process completed the instant. Cost: one put.
    """
    path = instant_path(completed, version)
    lock.check_held()
    try:
        storage.put_if_absent(path, body)
    except UnavailableError as error:
        raise CommitOutcomeUnknownError(
            "the store did not say whether the commit was written; look at the table's history before writing again",
            path=path,
            instant=completed.requested_time,
        ) from error
    except AlreadyExistsError as error:
        raise _taken_over(completed) from error
    except StorageError as error:
        if storage.info(path) is None:
            raise
        raise CommitOutcomeUnknownError(
            "the commit can be seen, but the store did not say that it will last; look at the table's history before "
            "writing again",
            path=path,
            instant=completed.requested_time,
        ) from error


def check_not_undone(
    storage: Storage, version: TableVersion, completed: Instant, lock: HeldLock, *, run: int | None
) -> None:
    """Delete the completed instant again if the lock was lost before its put, and another process ended our action.

    A rollback, or a newer execution of our compaction, then deletes our files, or has done so. That process puts its
    plan, or its number, and then looks for the completed instant; we put the completed instant and then look for
    the plan or number. So at least one sees the other. Cost: nothing while the lock is held.
    """
    with suppress(LockLostError, StorageError):
        lock.check_held()
        return
    try:
        timeline = load_timeline(storage, version)
        is_ours = run is None or is_newest_run(storage, completed.requested_time, run)
        if is_ours and not _is_rolled_back(storage, timeline, completed):
            _warn_if_out_of_order(timeline, completed)
            return
        storage.delete(instant_path(completed, version))
    except StorageError as error:
        raise CommitOutcomeUnknownError(
            "the commit was written, but perhaps after it had been rolled back; look at the table's history before "
            "writing again",
            instant=completed.requested_time,
        ) from error
    raise _taken_over(completed)


def _taken_over(completed: Instant) -> LockLostError:
    return LockLostError(
        "another process rolled back or completed this action because its heartbeat had expired; nothing of this run "
        "is visible; run it again",
        instant=completed.requested_time,
    )


def _is_rolled_back(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    """Whether a rollback of an instant has begun or ended. Cost: a read per younger rollback."""
    return any(
        load_rollback_plan(storage, rollback, timeline.version).instant_time == instant.requested_time
        for rollback in timeline.instants
        if rollback.action is Action.ROLLBACK and rollback.requested_time > instant.requested_time
    )


def _warn_if_out_of_order(timeline: Timeline, completed: Instant) -> None:
    later = [
        instant.requested_time
        for instant in timeline.completed_writes
        if position_of(instant) >= position_of(completed)
    ]
    if timeline.version.has_completion_times and later != [completed.requested_time]:
        _log.warning(
            "the table lock was lost during the last put of commit %s, and commits %s were completed meanwhile: an "
            "incremental reader that is past them misses this commit; read it by its own time",
            completed.requested_time,
            later,
        )
