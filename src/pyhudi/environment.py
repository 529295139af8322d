"""The clock, the timers, the source of ids and the lock provider: arguments, so that a simulator can replace them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pyhudi.events import Observe, ignore
from pyhudi.storage.protocol import Storage


class Clock(Protocol):
    """Wall-clock time and waiting."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch. Two calls may return the same time, and a later call an earlier time."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease, for measuring durations."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Ids(Protocol):
    """A source of unique names."""

    def uuid(self) -> str:
        """A fresh random UUID in its text form."""
        ...


class Timer(Protocol):
    """A call that is repeated at a fixed interval."""

    def stop(self) -> None:
        """End the repetition. Waits for a running call; no call runs afterwards."""
        ...


class Timers(Protocol):
    """A source of timers, which renew heartbeats and leases."""

    def every(self, seconds: float, call: Callable[[], bool], *, name: str) -> Timer:
        """Run `call` every `seconds` seconds until it returns False or the timer is stopped.

        `name` is the name of the timer's thread.
        """
        ...


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that never decrease."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class ThreadTimers:
    """Timers in daemon threads, one thread for each timer."""

    def every(self, seconds: float, call: Callable[[], bool], *, name: str) -> Timer:
        """See `Timers.every`."""
        return _ThreadTimer(seconds, call, name)


class _ThreadTimer:
    def __init__(self, seconds: float, call: Callable[[], bool], name: str) -> None:
        self._seconds = seconds
        self._call = call
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """See `Timer.stop`."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds) and self._call():
            pass


class RandomIds:
    """Ids from the operating system's random source."""

    def uuid(self) -> str:
        """A random UUID (version 4)."""
        return str(uuid.uuid4())


class AcquiredLock(Protocol):
    """A table lock that this process has acquired."""

    def check_held(self) -> None:
        """Check that this process holds the lock, for long enough to finish a commit.

        Raises:
            LockLostError: the lock was lost, or its lease is about to expire.
        """
        ...

    def release(self) -> None:
        """Release the lock. No effect on a lock that was lost, because another process may hold it."""
        ...


class LockProvider(Protocol):
    """Acquires the lock of a table. Stateless: the state of an acquired lock is in its `AcquiredLock`."""

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> AcquiredLock:
        """Acquire the lock of the table in `storage`. Waits for at most `wait_ms` milliseconds.

        Raises:
            LockNotAcquiredError: another process held the lock for all of this time.
            StorageError: the service that manages the lock failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything outside the store that a transaction depends on.

    `locks` provides the table lock. None selects the built-in lock (`pyhudi.transaction.locks.table_lock`). `observe`
    is called with what happens.
    """

    clock: Clock
    ids: Ids
    locks: LockProvider | None = None
    timers: Timers = field(default_factory=ThreadTimers)
    observe: Observe = ignore


SYSTEM = Environment(clock=SystemClock(), ids=RandomIds())
