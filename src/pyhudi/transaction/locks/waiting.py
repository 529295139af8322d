"""Waiting for a table lock, and the errors of locks that stay taken or are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyhudi.environment import Environment
from pyhudi.errors import LockLostError, LockNotAcquiredError
from pyhudi.storage.protocol import Storage

T = TypeVar("T")

PAUSE_PER_ANSWER = 4
"""The pause before the next look at a lock, in times of what the last look took."""
PAUSE_SECONDS_MAX = 1.0
"""But not longer than this: a lock that nobody looks at is free for nobody."""
CROWDED_PAUSE_SECONDS = 0.05
"""To this a shorter pause grows, in step with what was waited: who waits for long is one of many."""


def wait_for(
    attempt: Callable[[], T | None], storage: Storage, environment: Environment, *, wait_ms: int, poll_seconds: float
) -> T:
    """What `attempt` returns once it is not None any more; it is asked at least once, and then every `poll_seconds`.

    Less often where an answer takes long, or the lock is long in coming. Raises `LockNotAcquiredError` after `wait_ms`
    milliseconds of refusals.
    """
    clock = environment.clock
    began = clock.monotonic()
    deadline = began + wait_ms / 1000
    while True:
        asked = clock.monotonic()
        if (got := attempt()) is not None:
            return got
        answered = clock.monotonic()
        if answered >= deadline:
            raise not_acquired(storage, wait_ms)
        # Many who wait must not keep a busy store, or processor, from serving the one who has the lock.
        crowded = min(answered - began, CROWDED_PAUSE_SECONDS)
        slow = min(PAUSE_PER_ANSWER * (answered - asked), PAUSE_SECONDS_MAX)
        clock.sleep(max(poll_seconds, crowded, slow))


def not_acquired(storage: Storage, wait_ms: int) -> LockNotAcquiredError:
    """The error for a lock that stays taken."""
    return LockNotAcquiredError(
        "another writer keeps the table lock; try again, or raise hoodie.write.lock.wait_time_ms",
        path=storage.uri,
        waited_ms=wait_ms,
    )


def lost(storage: Storage, reason: str, **context: object) -> LockLostError:
    """The error for a lock that is not ours any more."""
    return LockLostError(
        f"the table lock was lost before the commit was written: {reason}; run the write again",
        path=storage.uri,
        **context,
    )
