"""Fencing for executions of a plan: only the execution that started last may complete it.

A plan is executed again when the process that executed it counts as dead. That process may only have been paused, and
go on later. So each execution stores its number under the table lock before it touches a file. It checks that the
stored number is still its own before it deletes files of dead executions, before it completes the compaction, and
after that.

A bootstrap, which another process may go on with, has such numbers, too.

JVM Hudi ignores these numbers, and keeps no heartbeat while it executes a plan. But it marks the plan inflight when it
begins, and creates a marker for each file: the times of these files show whether it is still at work.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pyhudi.environment import Environment
from pyhudi.errors import LockLostError, NotFoundError
from pyhudi.format.markers import marker_folder
from pyhudi.format.timeline.instant import Instant, InstantState
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import instant_path
from pyhudi.transaction.heartbeat import HeartbeatSettings, Liveness, heartbeat_path, liveness_at

RUNS_FOLDER: Final = ".hoodie/.aux/.runs"


def is_running(
    storage: Storage, version: TableVersion, plan: Instant, settings: HeartbeatSettings, environment: Environment
) -> bool:
    """Whether a process may be executing a plan now. Cost: two requests; two more where JVM Hudi executed it last.

    pyhudi keeps a heartbeat, which begins after the plan was marked inflight. If that mark is newer, or there is no
    heartbeat, JVM Hudi executes the plan: it counts as running until the heartbeat expiry after its newest marker.
    """
    beat = storage.info(heartbeat_path(plan.requested_time))
    now_ms = environment.clock.now_ms()
    if beat is not None and liveness_at(storage, beat, settings, now_ms) is Liveness.ALIVE:
        return True
    if plan.state is not InstantState.INFLIGHT:
        return False
    begun = storage.info(instant_path(plan, version))
    if begun is None or (beat is not None and beat.modified_ms >= begun.modified_ms):
        return False
    markers = storage.list_recursive(marker_folder(plan.requested_time))
    newest_ms = max([begun.modified_ms, *(marker.modified_ms for marker in markers)])
    return now_ms - newest_ms <= settings.expiry_ms


def begin_run(storage: Storage, instant_time: str, run: int) -> None:
    """Store the number of this execution; those before it may not complete the plan. Needs the table lock. One put."""
    storage.put(_path(instant_time), str(run).encode(), durable=False)


def is_newest_run(storage: Storage, instant_time: str, run: int) -> bool:
    """Whether no other process has started, or completed, the plan since this execution began. Cost: one read."""
    own = str(run).encode()
    with suppress(NotFoundError):
        return storage.read(_path(instant_time), length=len(own) + 1) == own
    return False


def is_taken_over(storage: Storage, instant_time: str, run: int) -> bool:
    """Whether another process is at this now: a newer run has begun, and has not ended. Cost: one or two reads."""
    return not is_newest_run(storage, instant_time, run) and storage.info(_path(instant_time)) is not None


def check_newest_run(storage: Storage, instant_time: str, run: int) -> None:
    """Raise `LockLostError` unless this execution is the newest. Cost: one read."""
    if not is_newest_run(storage, instant_time, run):
        raise LockLostError(
            "another process took this plan over because its heartbeat had expired; there is nothing left to do",
            instant=instant_time,
        )


def forget_runs(storage: Storage, instant_time: str) -> None:
    """Remove the number of the newest execution. Cost: one delete."""
    storage.delete(_path(instant_time))


def _path(instant_time: str) -> str:
    return f"{RUNS_FOLDER}/{instant_time}"
