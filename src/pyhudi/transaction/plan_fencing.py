"""Who runs a plan: the newest of all who began to.

A compaction may be run again when its runner counts as dead. That one may only have stood still, and go on later. So a
runner writes its number down, under the table lock, before it touches a file; and when it is about to remove what dead
runs left, to complete the compaction, or has just done so, it looks whether the number is still its own.

Real Hudi looks at no folder here (see `intents`), and says nowhere that it is running a plan. What it cannot
help is to mark the plan inflight when it begins, and each file that it makes: by those times it is judged.

Source: reliability.md 1.5, K6, K7; `format/timeline.md` section 6.1.
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
    """Whether somebody may be running a planned service now. Cost: two requests; two more where that was real Hudi.

    A run of ours keeps a heartbeat, which begins after the plan was marked inflight. Where that mark is newer, or
    there is no heartbeat, the run is one of real Hudi, and lives for as long as a heartbeat may be silent after its
    newest marker.
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
    """Make this run the one that counts. Expects the table lock. Cost: one put."""
    storage.put(_path(instant_time), str(run).encode(), durable=False)


def is_newest_run(storage: Storage, instant_time: str, run: int) -> bool:
    """Whether nobody has begun the plan anew, or ended it, since this run began. Cost: one read."""
    own = str(run).encode()
    with suppress(NotFoundError):
        return storage.read(_path(instant_time), length=len(own) + 1) == own
    return False


def check_newest_run(storage: Storage, instant_time: str, run: int) -> None:
    """Raise `LockLostError` unless this run is the newest. Cost: one read."""
    if not is_newest_run(storage, instant_time, run):
        raise LockLostError(
            "this compaction was taken over by another process, who took this one for dead; there is nothing to do",
            instant=instant_time,
        )


def forget_runs(storage: Storage, instant_time: str) -> None:
    """Remove what says who runs a plan. Cost: one delete."""
    storage.delete(_path(instant_time))


def _path(instant_time: str) -> str:
    return f"{RUNS_FOLDER}/{instant_time}"
