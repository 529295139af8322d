"""`FileSystemBasedLockProvider`: the writer that creates the file `lock` holds the table lock until it is deleted.

What JVM Hudi does with it (0.15.0 and 1.2.0, observed):

- The file is `<hoodie.write.lock.filesystem.path>/lock`, by default `<table>/.hoodie/lock`. Its content has no meaning:
  JVM Hudi leaves it empty on local disk. A lock expires by its modification time alone.
- It does not renew its lock. It takes an expired one over by deleting the file and creating its own.
- Closing its provider deletes the file, even if another writer holds the lock. Its creation on local disk is not
  exclusive, so it may overwrite a file that was created meanwhile.

So the file of pyhudi names its owner, and before a commit is put the file is read again and compared.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyhudi.environment import Environment, Timer, Timers
from pyhudi.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    PreconditionFailedError,
    StorageError,
)
from pyhudi.storage.open import open_storage
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.waiting import Lease, lost, wait_for

FILE_NAME = "lock"
DEFAULT_FOLDER = ".hoodie"
LOCK_PATH = f"{DEFAULT_FOLDER}/{FILE_NAME}"
"""Where the lock is if no folder is given."""
POLL_SECONDS = 0.05
RENEWALS_PER_EXPIRY = 4

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemLocks:
    """A lock file per folder, on local disk (or, for tests, in memory).

    `folder` is a local path or `file:` URI; None stands for the table's `.hoodie`. `expire_ms`: at which age, in
    milliseconds, a lock is taken over; 0: never.
    """

    folder: str | None = None
    expire_ms: int = 0

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldFile:
        """See `LockProvider.acquire`. Cost: one put; one read for each time the file is in the way, if it may expire.

        Raises `ConfigError` for a table in an object store.
        """
        store, path = self._place(storage)
        record = _record(environment)

        def attempt() -> HeldFile | None:
            lease = Lease.beginning_now(environment.clock, self.expire_ms) if self.expire_ms else None
            if not self._create(store, path, record, environment):
                return None
            return HeldFile(table=storage, store=store, path=path, record=record, lease=lease)

        held = wait_for(
            attempt,
            storage,
            environment,
            wait_ms=wait_ms,
            poll_seconds=POLL_SECONDS,
            holder=lambda: self._holder(store, path),
        )
        held.keep_alive(environment.timers)
        return held

    def _place(self, storage: Storage) -> tuple[Storage, str]:
        store = storage if self.folder is None else open_storage(self.folder)
        if not store.uri.startswith(("file:", "memory:")):
            raise ConfigError(
                "FileSystemBasedLockProvider works on local disk only, as that of JVM Hudi does:"
                " use StorageBasedLockProvider",
                option="hoodie.write.lock.provider",
                path=store.uri,
            )
        return store, LOCK_PATH if self.folder is None else FILE_NAME

    def _create(self, store: Storage, path: str, record: bytes, environment: Environment) -> bool:
        try:
            store.put_if_absent(path, record)
        except AlreadyExistsError:
            return self.expire_ms > 0 and self._take_over(store, path, record, environment)
        return True

    def _holder(self, store: Storage, path: str) -> dict[str, object]:
        """What to look at where a lock stays taken: its file, and who the file says has made it."""
        try:
            made_by = _made_by(store.read(path))
        except NotFoundError:
            made_by = "the lock is free now"
        found: dict[str, object] = {"lock": f"{store.uri.rstrip('/')}/{path}", "holder": made_by}
        if self.expire_ms == 0:
            found["hint"] = "if the holder is dead, delete the file of the lock: it does not expire"
        return found

    def _take_over(self, store: Storage, path: str, record: bytes, environment: Environment) -> bool:
        """Replace an expired lock by a conditional put: of two writers that try, one succeeds."""
        try:
            _, etag = store.read_with_etag(path)
            info = store.info(path)
            if info is None or environment.clock.now_ms() - info.modified_ms <= self.expire_ms:
                return False
            store.put_if_match(path, record, etag=etag)
        except (NotFoundError, PreconditionFailedError):
            return False
        return True


@dataclass(slots=True, kw_only=True)
class HeldFile:
    """The lock file, with our record in it. `lease` is None for a lock that does not expire."""

    table: Storage
    store: Storage
    path: str
    record: bytes = field(repr=False)
    lease: Lease | None
    _renewal: Timer | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def check_held(self) -> None:
        """See `AcquiredLock.check_held`. Cost: one read."""
        with self._guard:
            lease = self.lease
        if lease is not None and not lease.outlasts_a_commit:
            raise lost(self.table, "its file is about to expire", remaining_ms=lease.remaining_ms, lock=self.path)
        if not self._is_ours():
            raise lost(self.table, "its file was removed or replaced", lock=self.path)

    def release(self) -> None:
        """See `AcquiredLock.release`. Cost: one read and one delete.

        If the store fails, the file remains, and a warning says so; what was done under the lock remains valid.
        """
        if self._renewal is not None:
            self._renewal.stop()
        try:
            if self._is_ours():
                self.store.delete(self.path)
        except StorageError as error:
            _log.warning("the file of the table lock stays; remove it, or no writer gets the lock: %s", error)

    def keep_alive(self, timers: Timers) -> None:
        """From now on, touch the file well before it expires."""
        folder = local_path(self.store.uri)
        if self.lease is None or folder is None:
            return
        file = folder / self.path
        every_seconds = self.lease.duration_ms / RENEWALS_PER_EXPIRY / 1000
        self._renewal = timers.every(every_seconds, lambda: self._touch(file), name=f"renewal of {file}")

    def _touch(self, file: Path) -> bool:
        with self._guard:
            assert self.lease is not None
            renewed = Lease.beginning_now(self.lease.clock, self.lease.duration_ms)
        try:
            if not self._is_ours():
                return False
            # If another writer takes the lock over right now, this makes its file look newer, which is harmless.
            os.utime(file)
        except (StorageError, OSError):
            return True
        with self._guard:
            self.lease = renewed
        return True

    def _is_ours(self) -> bool:
        try:
            return self.store.read(self.path) == self.record
        except NotFoundError:
            return False


def _made_by(record: bytes) -> str:
    """Who has put a record, as it says itself; JVM Hudi's says nothing on local disk."""
    try:
        values = json.loads(record)
        return f"{values['lockThreadName']}, since {values['lockCreateTime']} UTC"
    except (ValueError, KeyError, TypeError):
        return "unknown: the file does not say"


def _record(environment: Environment) -> bytes:
    """The content of the lock file, in the form of JVM Hudi's record; unique per acquisition."""
    taken = datetime.fromtimestamp(environment.clock.now_ms() / 1000, UTC)
    holder = f"pyhudi {environment.ids.uuid()} on {platform.node()}, process {os.getpid()}"
    record = {
        "lockCreateTime": taken.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
        "lockThreadName": f"{threading.current_thread().name} of {holder}",
        "lockStacksInfo": [],
    }
    return json.dumps(record, indent=2).encode()
