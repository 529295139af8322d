"""Publishing an instant: the put of its completed file, and the check afterwards where the lock may have been lost."""

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
