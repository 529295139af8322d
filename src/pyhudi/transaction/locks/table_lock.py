"""The table lock: only its holder may put an instant on the timeline.

The built-in lock needs no configuration. On local disk it is an operating-system file lock, which ends with its
process; in memory a mutex; on an object store a lease in one object that is changed by conditional puts only, in the
form of Hudi's StorageBasedLockProvider. Where JVM writers share the table, `Environment.locks` is the lock provider
that they are configured for.

It is held for the few requests of taking an instant time and of committing, never while data is written.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import filelock

from pyhudi.environment import AcquiredLock, Environment, LockProvider
from pyhudi.errors import OutOfSpaceError, PermissionDeniedError, StorageError, UnsupportedFeatureError
from pyhudi.storage.local import OUT_OF_SPACE
from pyhudi.storage.paths import check_inside, local_path
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.in_process import InProcessLocks
from pyhudi.transaction.locks.storage_based import StorageLocks
from pyhudi.transaction.locks.waiting import wait_for

LOCK_FOLDER = ".hoodie/.locks"
_LOCAL_LOCK = f"{LOCK_FOLDER}/pyhudi_table.lock"
_LOCAL_POLL_SECONDS = 0.002
LEASE_MS = 60_000
_MUTEXES = InProcessLocks()
_LEASES = StorageLocks(validity_ms=LEASE_MS, renew_ms=LEASE_MS // 4, audited=False)
_KIND_OF_ERRNO = {
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    **dict.fromkeys(OUT_OF_SPACE, OutOfSpaceError),
}


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A lock that we hold. `can_be_lost`: whether another writer may get it while we still work under it."""

    can_be_lost: bool
    _lock: AcquiredLock | None = None

    def check_held(self) -> None:
        """Raise `LockLostError` unless the lock is still ours for long enough to finish a commit."""
        if self._lock is not None:
            self._lock.check_held()


@contextmanager
def table_lock(storage: Storage, environment: Environment, *, wait_ms: int) -> Iterator[HeldLock]:
    """Hold the table's lock for a block of code.

    Raises `LockNotAcquiredError` if another writer holds it for `wait_ms` milliseconds, and `UnsupportedFeatureError`
    for a lease in a store that cannot create objects exclusively. Cost of the built-in lock on an object store: three
    requests, and some more the first time; on local disk no request of the Storage.
    """
    deadline = environment.clock.monotonic() + wait_ms / 1000
    root = local_path(storage.uri)
    provider = environment.locks or _built_in(storage)
    with ExitStack() as stack:
        if root is not None:
            # Also beside a lock provider: it costs nothing, and excludes writers with other settings.
            stack.enter_context(_local_lock(storage, environment, root, wait_ms))
        if provider is None:
            yield HeldLock(can_be_lost=False)
            return
        if isinstance(provider, StorageLocks) and not storage.creates_exclusively():
            raise needs_lock_provider(storage, "no lock can be kept in it")
        left_ms = max(int((deadline - environment.clock.monotonic()) * 1000), 0)
        lock = provider.acquire(storage, environment, wait_ms=left_ms)
        stack.callback(lock.release)
        ends_with_process = root is not None or isinstance(provider, InProcessLocks)
        yield HeldLock(not ends_with_process, lock)


def needs_lock_provider(storage: Storage, consequence: str) -> UnsupportedFeatureError:
    """The error for a store that cannot create objects exclusively, where only a lock elsewhere helps."""
    return UnsupportedFeatureError(
        "this object store does not create objects exclusively (it ignores or refuses If-None-Match), so "
        f"{consequence}: set hoodie.write.lock.provider to ZookeeperBasedLockProvider or DynamoDBBasedLockProvider in "
        "all writers",
        path=storage.uri,
    )


def _built_in(storage: Storage) -> LockProvider | None:
    """The lock provider if the options name none; None on local disk, where the operating system locks."""
    if storage.uri.startswith("file:"):
        return None
    return _MUTEXES if storage.uri.startswith("memory:") else _LEASES


@contextmanager
def _local_lock(storage: Storage, environment: Environment, root: Path, wait_ms: int) -> Iterator[None]:
    check_inside(str(root), _LOCAL_LOCK)
    lock = filelock.FileLock(root / _LOCAL_LOCK, thread_local=False)

    def attempt() -> filelock.BaseFileLock | None:
        with suppress(filelock.Timeout):
            lock.acquire(blocking=False)
        return lock if lock.is_locked else None

    try:
        (root / LOCK_FOLDER).mkdir(parents=True, exist_ok=True)
        wait_for(attempt, storage, environment, wait_ms=wait_ms, poll_seconds=_LOCAL_POLL_SECONDS)
    except OSError as error:
        kind = _KIND_OF_ERRNO.get(error.errno or 0, StorageError)
        raise kind(f"the table lock cannot be taken: {error.strerror or error}", path=lock.lock_file) from error
    try:
        yield
    finally:
        lock.release()
