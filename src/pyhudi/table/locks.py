"""The table lock: who holds it may put an instant on the timeline.

It needs no configuration. On local disk it is an operating-system file lock, which dies with its process; in memory a
mutex; on an object store a lease in one object that is changed by conditional puts only. It is held for
the few requests of taking an instant time and of committing, never while data is written.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import filelock

from pyhudi.errors import (
    AlreadyExistsError,
    CorruptDataError,
    LockLostError,
    LockNotAcquiredError,
    NotFoundError,
    OutOfSpaceError,
    PermissionDeniedError,
    PreconditionFailedError,
    StorageError,
)
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment

LOCK_FOLDER = ".hoodie/.locks"
LEASE_PATH = f"{LOCK_FOLDER}/pyhudi_table_lock.json"
LEASE_MS = 60_000
LEASE_MARGIN_MS = 10_000
"""A commit is not started on a lease with less than this left: the final put must end before the lease does."""
POLL_SECONDS = 0.1
_KIND_OF_ERRNO = {
    errno.EACCES: PermissionDeniedError,
    errno.EPERM: PermissionDeniedError,
    errno.EROFS: PermissionDeniedError,
    errno.ENOSPC: OutOfSpaceError,
    errno.EDQUOT: OutOfSpaceError,
}

_mutexes: dict[str, threading.Lock] = {}
_mutexes_guard = threading.Lock()


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

    Raises `LockNotAcquiredError` when it stays taken for `wait_ms` milliseconds. Cost on an object store: three
    requests; on local disk no request of the Storage.
    """
    root = local_path(storage.uri)
    if root is not None:
        with _local_lock(storage, root, wait_ms) as held:
            yield held
    elif storage.uri.startswith("memory:"):
        with _mutex(storage, wait_ms) as held:
            yield held
    else:
        with _lease(storage, environment, wait_ms) as held:
            yield held


@contextmanager
def _local_lock(storage: Storage, root: Path, wait_ms: int) -> Iterator[HeldLock]:
    folder = root / LOCK_FOLDER
    lock = filelock.FileLock(folder / "pyhudi_table.lock", timeout=wait_ms / 1000, thread_local=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(poll_interval=0.005)
    except filelock.Timeout as error:
        raise _not_acquired(storage, wait_ms) from error
    except OSError as error:
        kind = _KIND_OF_ERRNO.get(error.errno or 0, StorageError)
        raise kind(f"the table lock cannot be taken: {error.strerror or error}", path=lock.lock_file) from error
    try:
        yield _UntilReleased()
    finally:
        lock.release()


@contextmanager
def _mutex(storage: Storage, wait_ms: int) -> Iterator[HeldLock]:
    with _mutexes_guard:
        mutex = _mutexes.setdefault(storage.uri, threading.Lock())
    if not mutex.acquire(timeout=wait_ms / 1000):
        raise _not_acquired(storage, wait_ms)
    try:
        yield _UntilReleased()
    finally:
        mutex.release()


@dataclass(slots=True)
class _Lease:
    """A lease on the lock object, ours until `expires_ms` by this machine's clock."""

    storage: Storage
    environment: Environment
    owner: str
    expires_ms: int
    etag: str

    def check_held(self) -> None:
        remaining = self.expires_ms - self.environment.clock.now_ms()
        if remaining < LEASE_MARGIN_MS:
            raise LockLostError(
                "the table lock's lease is about to end before the commit is written; run the write again",
                path=self.storage.uri,
                remaining_ms=remaining,
            )


@contextmanager
def _lease(storage: Storage, environment: Environment, wait_ms: int) -> Iterator[HeldLock]:
    clock = environment.clock
    deadline = clock.monotonic() + wait_ms / 1000
    owner = environment.ids.uuid()
    while (lease := _try_lease(storage, environment, owner)) is None:
        if clock.monotonic() >= deadline:
            raise _not_acquired(storage, wait_ms)
        clock.sleep(POLL_SECONDS)
    try:
        yield lease
    finally:
        # Where somebody took the expired lease over, it is theirs to release.
        # And where the store fails, the lease ends by itself: what was done under it stands.
        with suppress(StorageError):
            storage.put_if_match(LEASE_PATH, _lease_record(owner, 0), etag=lease.etag)


def _try_lease(storage: Storage, environment: Environment, owner: str) -> _Lease | None:
    expires_ms = environment.clock.now_ms() + LEASE_MS
    record = _lease_record(owner, expires_ms)
    try:
        current, etag = storage.read_with_etag(LEASE_PATH)
        if _expiry_of(current) > environment.clock.now_ms():
            return None
        etag = storage.put_if_match(LEASE_PATH, record, etag=etag)
    except NotFoundError:
        try:
            storage.put_if_absent(LEASE_PATH, record)
        except AlreadyExistsError:
            return None
        written, etag = storage.read_with_etag(LEASE_PATH)
        if written != record:
            return None
    except PreconditionFailedError:
        return None
    return _Lease(storage, environment, owner, expires_ms, etag)


def _lease_record(owner: str, expires_ms: int) -> bytes:
    return json.dumps({"owner": owner, "expiresMs": expires_ms}).encode()


def _expiry_of(record: bytes) -> int:
    try:
        return int(json.loads(record)["expiresMs"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptDataError("the table lock's object is damaged; remove it", path=LEASE_PATH) from error


def _not_acquired(storage: Storage, wait_ms: int) -> LockNotAcquiredError:
    return LockNotAcquiredError(
        "another writer keeps the table lock; try again, or raise hoodie.write.lock.wait_time_ms",
        path=storage.uri,
        waited_ms=wait_ms,
    )
