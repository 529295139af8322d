"""`StorageBasedLockProvider`: a lease in one object of the table's own store, changed by conditional puts only.

The object is `.hoodie/.locks/table_lock.json` with `{"expired": false, "validUntil": <ms since the epoch>, "owner":
"<uuid>"}` (Hudi 1.0.2 and later, RFC-91; bytes verified with 1.2.0). It is created with If-None-Match; renewed,
released and taken over with If-Match on the version that was read. Releasing sets `expired`; the object remains. A
lease may be taken over half a second after its end, so clocks may differ by that much.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from pyhudi.environment import Environment, Timer
from pyhudi.errors import (
    AlreadyExistsError,
    CorruptDataError,
    NotFoundError,
    PreconditionFailedError,
    StorageError,
)
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.waiting import Lease, lost, wait_for

LOCK_PATH = ".hoodie/.locks/table_lock.json"
CLOCK_DRIFT_MS = 500
POLL_SECONDS = 0.2
SWITCH_PATH = ".hoodie/.locks/audit_enabled.json"
SWITCH_BYTES_MAX = 4096
"""What is read of the switch: one field."""
SWITCH_FIELD = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"
AUDIT_FOLDER = ".hoodie/.locks/audit"
_log = logging.getLogger("pyhudi")


@dataclass(slots=True, kw_only=True)
class Audit:
    """The lines of one acquisition; times are milliseconds since the epoch."""

    storage: Storage
    owner: str
    started_ms: int
    validity_ms: int
    lines: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file of this acquisition."""
        return f"{AUDIT_FOLDER}/{self.started_ms}_{self.owner}.jsonl"

    def record(self, state: str, at_ms: int) -> None:
        """Add a line: START, RENEW or END. Cost: one put. An audit that fails stops no write."""
        line = {
            "ownerId": self.owner,
            "transactionStartTime": self.started_ms,
            "timestamp": at_ms,
            "state": state,
            "lockExpiration": at_ms + self.validity_ms,
            "lockHeld": True,
        }
        self.lines.append(f"{json.dumps(line)}\n")
        try:
            self.storage.put(self.path, "".join(self.lines).encode(), durable=False)
        except StorageError as error:
            _log.warning("the audit of the table lock lacks a line: %s", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRecord:
    """The content of the lock object: its owner, and the end of the lease in milliseconds since the epoch."""

    owner: str
    valid_until_ms: int
    expired: bool = False

    def encode(self) -> bytes:
        """The bytes, as Hudi writes them."""
        values = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(values, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> LockRecord:
        """The record in the bytes of the object. Raises `CorruptDataError` for any other content."""
        try:
            values = json.loads(data)
            owner, until, expired = values["owner"], values["validUntil"], values["expired"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged() from error
        if not (isinstance(owner, str) and type(until) is int and isinstance(expired, bool)):
            raise _damaged()
        return cls(owner=owner, valid_until_ms=until, expired=expired)

    def is_free(self, now_ms: int) -> bool:
        """Whether any writer may take the lock."""
        return self.expired or now_ms > self.valid_until_ms + CLOCK_DRIFT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLocks:
    """A lease per table, valid for `validity_ms` milliseconds and renewed every `renew_ms`.

    `audited`: whether to read if the table has an audit of its lock.
    """

    validity_ms: int = 300_000
    renew_ms: int = 30_000
    audited: bool = True

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldObject:
        """See `LockProvider.acquire`. Cost: one read and one put, and a read for the audit; a read for each look."""
        owner = environment.ids.uuid()
        held = wait_for(
            lambda: self._attempt(storage, environment, owner),
            storage,
            environment,
            wait_ms=wait_ms,
            poll_seconds=POLL_SECONDS,
        )
        if self.audited:
            held.audit()
        held.keep_alive(self.renew_ms)
        return held

    def _attempt(self, storage: Storage, environment: Environment, owner: str) -> HeldObject | None:
        lease = Lease.beginning_now(environment.clock, self.validity_ms)
        record = LockRecord(owner=owner, valid_until_ms=lease.ends_ms)
        try:
            data, etag = storage.read_with_etag(LOCK_PATH)
            current = LockRecord.decode(data)
            if not current.is_free(environment.clock.now_ms()):
                return None
            etag = storage.put_if_match(LOCK_PATH, record.encode(), etag=etag)
        except NotFoundError:
            try:
                storage.put_if_absent(LOCK_PATH, record.encode())
            except AlreadyExistsError:
                return None
            data, etag = storage.read_with_etag(LOCK_PATH)
            if data != record.encode():
                return None
        except PreconditionFailedError:
            return None
        return HeldObject(storage=storage, environment=environment, record=record, lease=lease, etag=etag)


@dataclass(slots=True, kw_only=True)
class HeldObject:
    """The lease that we hold: `record` under the version `etag`. A timer renews it, so a mutex guards it."""

    storage: Storage
    environment: Environment
    record: LockRecord
    lease: Lease
    etag: str
    _is_lost: bool = False
    _renewal: Timer | None = None
    _audit: Audit | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def check_held(self) -> None:
        """See `AcquiredLock.check_held`. No requests: no writer takes a lease over before its end."""
        with self._guard:
            is_lost, lease = self._is_lost, self.lease
        if is_lost:
            raise lost(self.storage, "another writer took it over", lock=LOCK_PATH)
        if not lease.outlasts_a_commit:
            raise lost(self.storage, "its lease is about to end", remaining_ms=lease.remaining_ms, lock=LOCK_PATH)

    def release(self) -> None:
        """See `AcquiredLock.release`. Cost: one put.

        If the store fails, the lease ends by itself; what was done under it remains valid.
        """
        if self._renewal is not None:
            self._renewal.stop()
        freed = LockRecord(owner=self.record.owner, valid_until_ms=self.record.valid_until_ms, expired=True)
        with suppress(StorageError):
            self.storage.put_if_match(LOCK_PATH, freed.encode(), etag=self.etag)
            if self._audit is not None:
                self._audit.record("END", self.environment.clock.now_ms())

    def audit(self) -> None:
        """From now on, record when the lease was held, if the table has an audit."""
        self._audit = open_audit(self.storage, self.record.owner, self.lease)
        if self._audit is not None:
            self._audit.record("START", self.lease.at_ms)

    def keep_alive(self, every_ms: int) -> None:
        """From now on, renew the lease every so many milliseconds."""
        name = f"renewal of {self.storage.uri}/{LOCK_PATH}"
        self._renewal = self.environment.timers.every(every_ms / 1000, self._renew, name=name)

    def _renew(self) -> bool:
        lease = Lease.beginning_now(self.environment.clock, self.lease.duration_ms)
        record = LockRecord(owner=self.record.owner, valid_until_ms=lease.ends_ms)
        try:
            etag = self.storage.put_if_match(LOCK_PATH, record.encode(), etag=self.etag)
        except PreconditionFailedError:
            with self._guard:
                self._is_lost = True
            return False
        except StorageError:
            # The lease lasts for several renewals, and a commit checks what is left of it.
            return True
        with self._guard:
            self.record, self.lease, self.etag = record, lease, etag
        if self._audit is not None:
            self._audit.record("RENEW", lease.at_ms)
        return True


def _damaged() -> CorruptDataError:
    return CorruptDataError("the object of the table lock is damaged; remove it", path=LOCK_PATH)


def open_audit(storage: Storage, owner: str, lease: Lease) -> Audit | None:
    """The audit of one acquisition, or None where the table has none. Cost: one read."""
    try:
        switch = json.loads(storage.read(SWITCH_PATH, length=SWITCH_BYTES_MAX))
    except NotFoundError:
        return None
    except (StorageError, ValueError, RecursionError) as error:
        _log.warning("the table lock is not audited, because it cannot be read whether it should be: %s", error)
        return None
    if not isinstance(switch, dict) or switch.get(SWITCH_FIELD) is not True:
        return None
    return Audit(storage=storage, owner=owner, started_ms=lease.at_ms, validity_ms=lease.duration_ms)
