"""Savepoints: states of the table that no clean deletes, and that a restore goes back to.

A savepoint is an action at the instant time of the write whose state it keeps. Its completed file names the files of
that state. The inflight file comes first and the files are looked up after it: a clean that is planned meanwhile spares
the states from a savepoint on that is being made, and one that was planned before is seen here.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyhudi.environment import Environment
from pyhudi.errors import AlreadyExistsError, InvalidRequestError, WriteConflictError
from pyhudi.format.metadata.savepoint import SavepointMetadata, encode_savepoint_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.markup import Shown
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.restore.plan import audit
from pyhudi.storage.naming import naming
from pyhudi.table.features import check_undoable
from pyhudi.table.instant_times import completed_now
from pyhudi.table.savepoints import completed_write, load_savepoints, newest_write
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_rollback_plan
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import HeldLock, table_lock
from pyhudi.transaction.publish import put_completed
from pyhudi.transaction.settings import TransactionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Savepoint(Shown):
    """A savepoint of a table.

    Attributes:
        instant: the requested time of the write whose state it keeps.
        name: its name; None for one that was made without, as all of JVM Hudi's.
        comment: what its maker said of it.
        user: who made it.
        created: when, in UTC.
        files: how many base and log files it keeps.
    """

    instant: InstantTime
    name: str | None
    comment: str
    user: str
    created: datetime
    files: int


def create_savepoint(
    call: ServiceCall, instant_time: str | None, *, name: str | None, comment: str, user: str
) -> Savepoint:
    """Keep the state after a completed write of the active timeline; None means the newest write.

    Raises `InvalidRequestError` for an instant that is no such write or has a savepoint, and for a name that is taken;
    otherwise as `audit`. Nothing is changed then. A call that dies leaves a savepoint that is not completed, which
    holds cleans back; the next call for this instant completes it, and `delete_savepoint` removes it.
    """
    check_undoable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock, naming(storage):
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.SAVEPOINT)
        chosen = newest_write(table.timeline) if instant_time is None else instant_time
        if chosen is None:
            raise InvalidRequestError("the table has no completed write whose state could be kept", path=storage.uri)
        write = completed_write(table.timeline, chosen)
        _check_free(table, write, name)
        _check_stays(table, write)
        audit(table, write, verb="keep")
        pending = Instant(write.requested_time, Action.SAVEPOINT, InstantState.INFLIGHT)
        lock.check_held()
        with suppress(AlreadyExistsError):  # of a call that died
            storage.put_if_absent(instant_path(pending, table.version), b"")
        try:
            metadata = _complete(
                call, pending, write, lock, SavepointMetadata(created_by=user, comment=comment, name=name)
            )
        except (InvalidRequestError, WriteConflictError):
            storage.delete(instant_path(pending, table.version))
            raise
    return savepoint_of(write.requested_time, metadata)


def _complete(
    call: ServiceCall, pending: Instant, write: Instant, lock: HeldLock, said: SavepointMetadata
) -> SavepointMetadata:
    """Name the files of the state that the savepoint keeps, as they are now that cleans know of it."""
    table = call.table.reload()
    state = audit(table, write, verb="keep")
    files = {
        partition: tuple(path.rpartition("/")[2] for file_slice in slices for path in file_slice.paths)
        for partition, slices in state.slices.items()
    }
    now_ms = call.environment.clock.now_ms()
    metadata = replace(said, created_ms=now_ms, files=files)
    completed = completed_now(pending, table.timeline, table.config, call.environment.clock)
    put_completed(table.storage, table.version, completed, encode_savepoint_metadata(metadata), lock)
    return metadata


def delete_savepoint(call: ServiceCall, instant_or_name: str) -> None:
    """Give up the savepoint of an instant, or with a name. The next clean may delete its files.

    Raises `InvalidRequestError` where there is no such savepoint. A call that dies leaves the whole savepoint or
    nothing of it that counts.
    """
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock, naming(storage):
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.SAVEPOINT)
        savepoints = [instant for instant in table.timeline.instants if instant.action is Action.SAVEPOINT]
        found = [instant for instant in savepoints if instant.requested_time == instant_or_name]
        if not found:  # names never look like instants, and a damaged savepoint is given up by its instant
            metadata = load_savepoints(storage, table.timeline)
            named = {instant for instant, savepoint in metadata.items() if savepoint.name == instant_or_name}
            found = [instant for instant in savepoints if instant.requested_time in named]
        if not found:
            raise InvalidRequestError("there is no such savepoint; nothing was changed", savepoint=instant_or_name)
        for instant in found:
            # The inflight file first: a savepoint without it counts, one without the other holds cleans back.
            pending = Instant(instant.requested_time, Action.SAVEPOINT, InstantState.INFLIGHT)
            lock.check_held()
            storage.delete(instant_path(pending, table.version))
            storage.delete(instant_path(instant, table.version))


def remove_dead_savepoints(table: TableState, settings: TransactionSettings, environment: Environment) -> TableState:
    """Remove savepoints whose making died, before a write; the table as it is then. Cost: nothing without such.

    They would hold cleans back for ever. One that is younger than the heartbeat expiry may be JVM Hudi's, which makes
    savepoints without the table lock.
    """
    if not any(map(_is_pending, table.timeline.instants)):
        return table
    storage = table.storage
    with table_lock(storage, environment, wait_ms=settings.lock_wait_ms):
        table = table.reload()
        for instant in filter(_is_pending, table.timeline.instants):
            info = storage.info(instant_path(instant, table.version))
            if info is not None and environment.clock.now_ms() - info.modified_ms > settings.heartbeat.expiry_ms:
                storage.delete(info.path)
    return table.reload()


def savepoint_of(instant_time: str, metadata: SavepointMetadata) -> Savepoint:
    """The savepoint that these metadata describe."""
    return Savepoint(
        instant=InstantTime(instant_time),
        name=metadata.name,
        comment=metadata.comment,
        user=metadata.created_by,
        created=datetime.fromtimestamp(metadata.created_ms / 1000, UTC),
        files=len(metadata.paths),
    )


def _is_pending(instant: Instant) -> bool:
    return instant.action is Action.SAVEPOINT and instant.state is not InstantState.COMPLETED


def _check_free(table: TableState, write: Instant, name: str | None) -> None:
    savepoints = load_savepoints(table.storage, table.timeline)
    if write.requested_time in savepoints:
        raise InvalidRequestError(
            "the state after this write has a savepoint; nothing was changed",
            instant=write.requested_time,
            name=savepoints[write.requested_time].name,
        )
    for instant, metadata in savepoints.items():
        if name is not None and metadata.name == name:
            raise InvalidRequestError("another savepoint has this name", name=name, instant=instant)


def _check_stays(table: TableState, write: Instant) -> None:
    """Refuse the savepoint of a write whose rollback has begun."""
    for rollback in table.timeline.pending_rollbacks:
        if load_rollback_plan(table.storage, rollback, table.version).instant_time == write.requested_time:
            raise WriteConflictError(
                "this write is being rolled back; nothing was changed",
                instant=write.requested_time,
                winner=rollback.requested_time,
            )
