"""The clock, the source of ids, and who keeps the table lock: passed in, so that a simulator can replace them."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyhudi.table.lock_providers.protocol import LockProvider


class Clock(Protocol):
    """Wall-clock time and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may stand still or step back."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step back, for measuring durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Ids(Protocol):
    """A source of unique names."""

    def uuid(self) -> str:
        """A fresh random UUID in its text form."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class RandomIds:
    """Ids from the operating system's random source."""

    def uuid(self) -> str:
        """A random UUID (version 4)."""
        return str(uuid.uuid4())


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything outside the store that a transaction depends on.

    `locks` keeps the table lock; None leaves it to the lock that is built in (`pyhudi.table.locks`).
    """

    clock: Clock
    ids: Ids
    locks: LockProvider | None = None


SYSTEM = Environment(clock=SystemClock(), ids=RandomIds())
