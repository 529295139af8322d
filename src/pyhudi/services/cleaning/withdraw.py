"""Giving up a planned clean: one whose plan is damaged, or one that is in the way of a restore."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.format.timeline.instant import Instant, InstantState
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.locks.table_lock import HeldLock
from pyhudi.transaction.plan_fencing import is_running


def withdraw_clean(
    table: TableState,
    instant: Instant,
    settings: HeartbeatSettings,
    environment: Environment,
    lock: HeldLock,
    *,
    is_damaged: bool = False,
) -> None:
    """Take a planned clean from the timeline, under the table lock.

    Whoever begins a clean marks it inflight, without the lock, and then looks for the plan again; here the plan goes,
    and then the mark is looked for. So at least one of the two sees the other. Raises `InvalidRequestError` for a clean
    that has begun, unless its plan `is_damaged`, and for one that a process is executing; `WriteConflictError` for one
    that began at this moment. Cost: a few requests.
    """
    storage, version = table.storage, table.version
    if is_running(storage, version, instant, settings, environment):
        raise InvalidRequestError(
            "another process is executing this clean: let it end; nothing was changed", instant=instant.requested_time
        )
    planned, begun = (instant_path(replace(instant, state=member), version) for member in list(InstantState)[:2])
    lock.check_held()
    if instant.state is InstantState.INFLIGHT:
        if not is_damaged:
            raise InvalidRequestError(
                "this clean has begun, and may have deleted files: it can only be completed; nothing was changed",
                instant=instant.requested_time,
            )
        storage.delete(begun)
        storage.delete(planned)
        return
    body = storage.read(planned)
    storage.delete(planned)
    if storage.info(begun) is not None:
        storage.put_if_absent(planned, body)
        raise WriteConflictError(
            "another process began this clean at this moment: let it end", winner=instant.requested_time
        )
