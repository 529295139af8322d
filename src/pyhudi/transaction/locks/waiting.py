"""Waiting for a table lock, and the errors of locks that stay taken or are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from pyhudi.environment import Environment
from pyhudi.errors import LockLostError, LockNotAcquiredError
from pyhudi.storage.protocol import Storage

T = TypeVar("T")

PAUSE_PER_ANSWER = 4
"""The pause before the next attempt, as a multiple of what the last attempt took."""
PAUSE_SECONDS_MAX = 1.0
"""The longest pause, so that a lock that becomes free is taken soon."""
CROWDED_PAUSE_SECONDS = 0.05
"""Shorter pauses grow up to this value in proportion to the time already waited: a long wait means many waiters."""


def wait_for(
    attempt: Callable[[], T | None],
    storage: Storage,
    environment: Environment,
    *,
    wait_ms: int,
    poll_seconds: float,
    holder: Callable[[], Mapping[str, object]] = dict,
) -> T:
    """Call `attempt` until it returns something other than None: at once, and then every `poll_seconds`.

    Pauses are longer where an attempt takes long, or the wait is long. Raises `LockNotAcquiredError` after `wait_ms`
    milliseconds of refusals, with what `holder` tells of who has the lock.
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
            raise not_acquired(storage, wait_ms, **holder())
        # Many waiting writers must not slow the store, or the processor, of the one that holds the lock.
        crowded = min(answered - began, CROWDED_PAUSE_SECONDS)
        slow = min(PAUSE_PER_ANSWER * (answered - asked), PAUSE_SECONDS_MAX)
        clock.sleep(max(poll_seconds, crowded, slow))


def not_acquired(storage: Storage, wait_ms: int, **holder: object) -> LockNotAcquiredError:
    """The error for a lock that another writer holds for too long. `holder`: what is known of the lock and of it."""
    return LockNotAcquiredError(
        "another writer holds the table lock; try again, or raise hoodie.write.lock.wait_time_ms",
        path=storage.uri,
        waited_ms=wait_ms,
        **holder,
    )


def lost(storage: Storage, reason: str, **context: object) -> LockLostError:
    """The error for a lock that is no longer ours."""
    return LockLostError(
        f"the table lock was lost before the commit was written: {reason}; run the write again",
        path=storage.uri,
        **context,
    )
