"""Waiting for a table lock, leases, and the errors of locks that stay taken or are lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyhudi.environment import Clock, Environment
from pyhudi.errors import LockLostError, LockNotAcquiredError
from pyhudi.storage.protocol import Storage

T = TypeVar("T")

PAUSE_PER_ANSWER = 4
"""The pause before the next attempt, as a multiple of what the last attempt took."""
PAUSE_SECONDS_MAX = 1.0
"""The longest pause, so that a lock that becomes free is taken soon."""
CROWDED_PAUSE_SECONDS = 0.05
"""Shorter pauses grow up to this value in proportion to the time already waited: a long wait means many waiters."""
MARGIN_MS = 10_000


@dataclass(frozen=True, slots=True)
class Lease:
    """A span of time that began `at_ms`, or `at_seconds` by the monotonic clock, and lasts `duration_ms`.

    Two clocks, because either may stop where the lease does not: the wall clock may be set back, and the monotonic one
    stands still while some machines sleep. The one that has seen more time pass counts.
    """

    clock: Clock
    duration_ms: int
    at_ms: int
    at_seconds: float

    @classmethod
    def beginning_now(cls, clock: Clock, duration_ms: int) -> Lease:
        """A lease from now on. Make it before the request that takes it, whose answer may be late."""
        return cls(clock, duration_ms, clock.now_ms(), clock.monotonic())

    @property
    def ends_ms(self) -> int:
        """Its end by the wall clock, in milliseconds since the epoch."""
        return self.at_ms + self.duration_ms

    @property
    def elapsed_ms(self) -> int:
        """How long ago it began."""
        by_monotonic = int((self.clock.monotonic() - self.at_seconds) * 1000)
        return max(self.clock.now_ms() - self.at_ms, by_monotonic)

    @property
    def remaining_ms(self) -> int:
        """What is left of it; not positive when it has ended."""
        return self.duration_ms - self.elapsed_ms

    @property
    def outlasts_a_commit(self) -> bool:
        """Whether enough is left to put a commit under it."""
        return self.remaining_ms >= margin_ms(self.duration_ms)


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


def margin_ms(duration_ms: int) -> int:
    """How many milliseconds must be left of a lease when the last put of a commit begins, so that the put ends in time.

    Ten thousand, or a quarter of a lease that is shorter than 40 seconds.
    """
    return min(MARGIN_MS, duration_ms // 4)
