"""The clock, timers, ids, and who keeps the table lock: passed in, so that a simulator can replace them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pyhudi.storage.protocol import Storage


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


class Timer(Protocol):
    """A call that is repeated."""

    def stop(self) -> None:
        """End it. A call that is under way is waited for; after this there is none."""
        ...


class Timers(Protocol):
    """Where repeated calls come from: heartbeats and renewals of leases."""

    def every(self, seconds: float, call: Callable[[], bool], *, name: str) -> Timer:
        """Make the call after each span of so many seconds, until it returns False or the timer is stopped.

        `name` says in a list of threads what the timer is for.
        """
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


class ThreadTimers:
    """A thread for each timer, which does not keep the process alive."""

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
    """A lock in our hands, until it is given back or lost."""

    def check_held(self) -> None:
        """Raise `LockLostError` unless the lock is ours for long enough to finish a commit."""
        ...

    def release(self) -> None:
        """Give the lock back. Raises nothing for a lock that was lost: it is somebody else's then."""
        ...


class LockProvider(Protocol):
    """Keeps one lock per table. Has no state of its own: what is held is in the `AcquiredLock`."""

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> AcquiredLock:
        """Wait for the lock of the table in `storage`, for `wait_ms` milliseconds at most.

        Raises `LockNotAcquiredError` when it stays taken, and `StorageError` when its keeper fails.
        """
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything outside the store that a transaction depends on.

    `locks` keeps the table lock; None leaves it to the lock that is built in (`pyhudi.transaction.locks.table_lock`).
    """

    clock: Clock
    ids: Ids
    locks: LockProvider | None = None
    timers: Timers = field(default_factory=ThreadTimers)


SYSTEM = Environment(clock=SystemClock(), ids=RandomIds())
