"""Leases: locks that end by themselves, and how long one still lasts."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.environment import Clock

MARGIN_MS = 10_000


def margin_ms(duration_ms: int) -> int:
    """How many milliseconds must be left of a lease when the last put of a commit begins, so that the put ends in time.

    Ten thousand, or a quarter of a lease that is shorter than 40 seconds.
    """
    return min(MARGIN_MS, duration_ms // 4)


@dataclass(frozen=True, slots=True)
class Lease:
    """A span of time that began `at_ms`, or `at_seconds` by the monotonic clock, and lasts `duration_ms`.

    Two clocks, because either may stop where the lease does not: the wall clock may be set back, and the monotonic one
    stands still while some machines sleep. The one that has seen more time pass is believed.
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
