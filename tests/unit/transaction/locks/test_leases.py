"""Leases on a store that answers late, and locks that others write while we look."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tables import StepClock, environment
from tests.support.timers import HandMovedTimers

from pyhudi.errors import LockLostError, LockNotAcquiredError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.filesystem import FileSystemLocks
from pyhudi.transaction.locks.storage_based import LOCK_PATH, LockRecord, StorageLocks

MINUTE_MS = 60_000
CHANGES = ("put_if_absent", "put_if_match")


def slow(store: MemoryStorage | LocalStorage, clock: StepClock, answer_ms: int) -> FaultStorage:
    """A store whose conditional puts take effect, and are answered so much later."""

    def pass_time(operation: str, path: str) -> None:
        del path
        if operation in CHANGES:
            clock.ms += answer_ms

    return FaultStorage(store, after=pass_time)


@pytest.mark.parametrize("is_renewed", [False, True])
def test_lease_counts_from_before_the_request_whose_answer_was_late(is_renewed: bool) -> None:
    """Others go by what the object says, so its holder must not believe in more."""
    clock = StepClock()
    store = slow(MemoryStorage(), clock, 52_000)
    timers = HandMovedTimers()
    env = replace(environment(clock), timers=timers)
    lock = StorageLocks(validity_ms=MINUTE_MS).acquire(store, env, wait_ms=0)
    if is_renewed:
        assert timers.fire() == [True]

    assert lock.lease.ends_ms == LockRecord.decode(store.read(LOCK_PATH)).valid_until_ms
    with pytest.raises(LockLostError, match="about to end"):
        lock.check_held()
    lock.release()


def test_lock_object_overwritten_before_it_is_read_back_belongs_to_the_other_writer() -> None:
    theirs = LockRecord(owner="thief", valid_until_ms=2_000_000_000_000).encode()

    class StoreThatOverwritesTheLock(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            super().put_if_absent(path, data)
            self.inner.put(path, theirs)

    store = StoreThatOverwritesTheLock(MemoryStorage())
    with pytest.raises(LockNotAcquiredError):
        StorageLocks().acquire(store, environment(), wait_ms=0)

    assert store.read(LOCK_PATH) == theirs


def test_lock_file_counts_from_before_the_put_whose_answer_was_late() -> None:
    clock = StepClock()
    store = slow(MemoryStorage(), clock, 52_000)
    lock = FileSystemLocks(expire_ms=MINUTE_MS).acquire(store, environment(clock), wait_ms=0)

    with pytest.raises(LockLostError, match="expire"):
        lock.check_held()


def test_lock_file_that_was_touched_late_counts_from_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = StepClock()
    timers = HandMovedTimers()
    env = replace(environment(clock), timers=timers)
    lock = FileSystemLocks(expire_ms=MINUTE_MS).acquire(LocalStorage(tmp_path), env, wait_ms=0)
    touch = os.utime

    def late(path: Path) -> None:
        touch(path)
        clock.ms += 52_000

    monkeypatch.setattr(os, "utime", late)
    assert timers.fire() == [True]

    with pytest.raises(LockLostError, match="expire"):
        lock.check_held()
    lock.release()


def test_expired_lock_file_taken_by_another_during_our_check_belongs_to_it() -> None:
    clock = StepClock()
    inner = MemoryStorage(clock=clock.now_ms)
    inner.put(".hoodie/lock", b"of a dead process")
    clock.ms += 2 * MINUTE_MS

    class StoreWithAnotherThief(FaultStorage):
        def read_with_etag(self, path: str) -> tuple[bytes, str]:
            if self.inner.read(path) != b"of the thief":
                self.inner.put(path, b"of the thief")
            return super().read_with_etag(path)

    with pytest.raises(LockNotAcquiredError):
        FileSystemLocks(expire_ms=MINUTE_MS).acquire(StoreWithAnotherThief(inner), environment(clock), wait_ms=0)

    assert inner.read(".hoodie/lock") == b"of the thief"
