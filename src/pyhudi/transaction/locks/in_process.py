"""`InProcessLockProvider`: excludes other threads of this process, and no other process.

There is one mutex per table in the process, as JVM Hudi has one per table in its JVM.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

from pyhudi.environment import Environment
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.waiting import not_acquired

_mutexes: dict[str, threading.Lock] = {}
_mutexes_guard = threading.Lock()


def _reset() -> None:
    """Drop all mutexes in a forked child, which has no thread that would release them."""
    global _mutexes_guard  # noqa: PLW0603
    _mutexes.clear()
    _mutexes_guard = threading.Lock()


os.register_at_fork(after_in_child=_reset)


@dataclass(frozen=True, slots=True)
class HeldMutex:
    """The mutex of a table; it cannot be lost while the process lives."""

    mutex: threading.Lock

    def check_held(self) -> None:
        """Such a lock is always held."""

    def release(self) -> None:
        """Let the next thread in."""
        self.mutex.release()


@dataclass(frozen=True, slots=True)
class InProcessLocks:
    """Mutexes by the URI of the table."""

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldMutex:  # noqa: ARG002
        """See `LockProvider.acquire`. No requests."""
        with _mutexes_guard:
            mutex = _mutexes.setdefault(storage.uri, threading.Lock())
        if not mutex.acquire(timeout=wait_ms / 1000):
            raise not_acquired(storage, wait_ms)
        return HeldMutex(mutex)
