"""The table lock: who holds it may put an instant on the timeline.

The built-in lock needs no configuration. On local disk it is an operating-system file lock, which dies with its
process; in memory a mutex; on an object store a lease in one object that is changed by conditional puts only, in the
form of Hudi's StorageBasedLockProvider. Where JVM writers share the table, `Environment.locks` keeps the lock in the
form that they are configured for.

It is held for the few requests of taking an instant time and of committing, never while data is written.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import filelock

from pyhudi.errors import OutOfSpaceError, PermissionDeniedError, StorageError
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment
from pyhudi.table.lock_providers.in_process import InProcessLocks
from pyhudi.table.lock_providers.protocol import LockProvider, not_acquired
from pyhudi.table.lock_providers.storage_based import LOCK_PATH, StorageLocks

LOCK_FOLDER = ".hoodie/.locks"
LEASE_PATH = LOCK_PATH
LEASE_MS = 60_000
_MUTEXES = InProcessLocks()
_LEASES = StorageLocks(validity_ms=LEASE_MS, renew_ms=LEASE_MS // 4, audited=False)
_KIND_OF_ERRNO = {
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    errno.ENOSPC: OutOfSpaceError,
    errno.EDQUOT: OutOfSpaceError,
}


class HeldLock(Protocol):
    """A lock in our hands."""

    def check_held(self) -> None:
        """Raise `LockLostError` unless the lock is still ours for long enough to finish a commit."""
        ...


class _UntilReleased:
    """A lock that cannot be lost while the process lives."""

    def check_held(self) -> None:
        """Such a lock is always held."""


@contextmanager
def table_lock(storage: Storage, environment: Environment, *, wait_ms: int) -> Iterator[HeldLock]:
    """Hold the table's lock for a block of code.

    Raises `LockNotAcquiredError` when it stays taken for `wait_ms` milliseconds. Cost of the built-in lock on an object
    store: three requests; on local disk no request of the Storage.
    """
    deadline = environment.clock.monotonic() + wait_ms / 1000
    root = local_path(storage.uri)
    provider = environment.locks or _built_in(storage)
    with ExitStack() as stack:
        if root is not None:
            # Even if another one counts, for it costs nothing and keeps writers of different settings apart.
            stack.enter_context(_local_lock(storage, root, wait_ms))
        if provider is None:
            yield _UntilReleased()
            return
        left_ms = max(int((deadline - environment.clock.monotonic()) * 1000), 0)
        lock = provider.acquire(storage, environment, wait_ms=left_ms)
        stack.callback(lock.release)
        yield lock


def _built_in(storage: Storage) -> LockProvider | None:
    """Who keeps the lock if nobody says; None on local disk, where it is the operating system."""
    if storage.uri.startswith("file:"):
        return None
    return _MUTEXES if storage.uri.startswith("memory:") else _LEASES


@contextmanager
def _local_lock(storage: Storage, root: Path, wait_ms: int) -> Iterator[None]:
    folder = root / LOCK_FOLDER
    lock = filelock.FileLock(folder / "pyhudi_table.lock", timeout=wait_ms / 1000, thread_local=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(poll_interval=0.005)
    except filelock.Timeout as error:
        raise not_acquired(storage, wait_ms) from error
    except OSError as error:
        kind = _KIND_OF_ERRNO.get(error.errno or 0, StorageError)
        raise kind(f"the table lock cannot be taken: {error.strerror or error}", path=lock.lock_file) from error
    try:
        yield
    finally:
        lock.release()
