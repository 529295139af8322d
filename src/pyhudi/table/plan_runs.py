"""Who runs a plan: the newest of all who began to.

A compaction may be run again when its runner counts as dead. That one may only have stood still, and go on later. So a
runner writes its number down, under the table lock, before it touches a file; and when it is about to remove what dead
runs left, to complete the compaction, or has just done so, it looks whether the number is still its own.

Real Hudi looks at no folder here: see `table/intents.py`. Source: reliability.md 1.5, K6, K7.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from pyhudi.errors import LockLostError, NotFoundError
from pyhudi.storage.protocol import Storage

RUNS_FOLDER: Final = ".hoodie/.aux/.runs"


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
