"""The lock object of StorageBasedLockProvider, in memory and on the S3 server."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.lock_processes import count_together, taken_over_while_paused, thieves_that_win
from tests.support.minio import Minio, minio
from tests.support.tables import ClockOfTimers, StepClock, environment
from tests.support.timers import HandMovedTimers

from pyhudi.environment import SYSTEM
from pyhudi.errors import CorruptDataError, LockLostError, LockNotAcquiredError, UnavailableError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.storage_based import AUDIT_FOLDER, LOCK_PATH, SWITCH_PATH, LockRecord, StorageLocks

__all__ = ["minio"]

#: As `StorageLockFile.toByteArray` of Hudi 1.2.0 writes it.
OF_HUDI = b'{"expired":false,"validUntil":123456,"owner":"me"}'
SHORT = StorageLocks(validity_ms=4_000, renew_ms=400)


def test_record_has_the_bytes_of_hudi() -> None:
    record = LockRecord(owner="me", valid_until_ms=123456)

    assert record.encode() == OF_HUDI
    assert LockRecord.decode(OF_HUDI) == record


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b'{"expired":false,"validUntil":"1","owner":"me"}',
        b'{"expired":false,"validUntil":true,"owner":"me"}',
        b'{"expired":0,"validUntil":1,"owner":"me"}',
        b'{"expired":false,"validUntil":1,"owner":null}',
        b"\xff\xfe",
    ],
)
def test_damaged_lock_object_is_named_and_not_guessed_to_be_free(damage: bytes) -> None:
    store = MemoryStorage()
    store.put(LOCK_PATH, damage)

    with pytest.raises(CorruptDataError, match="lock"):
        StorageLocks().acquire(store, SYSTEM, wait_ms=0)


def test_lock_keeps_others_out_until_it_is_given_back_as_expired() -> None:
    store, clock = MemoryStorage(), StepClock()
    lock = StorageLocks().acquire(store, environment(clock), wait_ms=0)
    held = LockRecord.decode(store.read(LOCK_PATH))

    with pytest.raises(LockNotAcquiredError):
        StorageLocks().acquire(store, environment(clock), wait_ms=1_000)
    lock.release()

    assert LockRecord.decode(store.read(LOCK_PATH)) == LockRecord(
        owner=held.owner, valid_until_ms=held.valid_until_ms, expired=True
    )
    StorageLocks().acquire(store, environment(clock), wait_ms=0).release()


@pytest.mark.parametrize(("after_end_ms", "is_taken_over"), [(490, False), (510, True)])
def test_lock_of_a_dead_jvm_is_taken_over_when_the_clocks_cannot_differ_by_more(
    after_end_ms: int, is_taken_over: bool
) -> None:
    store, clock = MemoryStorage(), StepClock()
    of_jvm = {"owner": "jvm", "validUntil": clock.ms - after_end_ms, "expired": False}
    store.put(LOCK_PATH, json.dumps(of_jvm).encode())

    if is_taken_over:
        StorageLocks().acquire(store, environment(clock), wait_ms=0).release()
    else:
        with pytest.raises(LockNotAcquiredError):
            StorageLocks().acquire(store, environment(clock), wait_ms=0)


def test_of_many_thieves_of_an_expired_lease_one_wins() -> None:
    inner = MemoryStorage()
    inner.put(LOCK_PATH, OF_HUDI)

    assert thieves_that_win(StorageLocks(), inner) == 1


@pytest.mark.parametrize("clock_stops", [False, True])
def test_lease_is_lost_before_it_ends_even_if_the_wall_clock_stops(clock_stops: bool) -> None:
    class Clock(StepClock):
        def now_ms(self) -> int:
            return 1_790_000_000_000 if clock_stops else super().now_ms()

        def monotonic(self) -> float:
            return self.ms / 1000

    clock = Clock()
    lock = StorageLocks().acquire(MemoryStorage(), environment(clock), wait_ms=0)
    clock.ms += 289_000
    lock.check_held()
    clock.ms += 2_000
    with pytest.raises(LockLostError, match="about to end"):
        lock.check_held()
    lock.release()


def test_lease_is_renewed_for_as_long_as_its_holder_lives() -> None:
    store, clock = MemoryStorage(), ClockOfTimers()
    lock = SHORT.acquire(store, replace(environment(clock), timers=clock.timers), wait_ms=0)

    with pytest.raises(LockNotAcquiredError):
        SHORT.acquire(store, environment(clock), wait_ms=20_000)
    lock.check_held()
    lock.release()


def test_lease_taken_by_another_is_lost_and_stays_with_it() -> None:
    store = MemoryStorage()
    timers = HandMovedTimers()
    lock = StorageLocks(validity_ms=300_000).acquire(store, replace(SYSTEM, timers=timers), wait_ms=0)
    theirs = LockRecord(owner="thief", valid_until_ms=2_000_000_000_000).encode()
    store.put(LOCK_PATH, theirs)
    assert timers.fire() == [False]

    with pytest.raises(LockLostError, match="took it over"):
        lock.check_held()
    lock.release()
    assert store.read(LOCK_PATH) == theirs


def test_renewal_that_fails_for_a_while_is_tried_again() -> None:
    failures = iter([True, True])

    def fail(operation: str, path: str) -> None:
        if operation == "put_if_match" and next(failures, False):
            raise UnavailableError("busy", path=path)

    store, clock = FaultStorage(MemoryStorage(), before=fail), ClockOfTimers()
    lock = SHORT.acquire(store, replace(environment(clock), timers=clock.timers), wait_ms=0)
    with pytest.raises(LockNotAcquiredError):
        SHORT.acquire(store, environment(clock), wait_ms=20_000)
    assert next(failures, None) is None
    lock.check_held()
    lock.release()
    assert LockRecord.decode(store.read(LOCK_PATH)).expired


def test_lock_that_cannot_be_given_back_does_not_undo_what_was_done() -> None:
    def deny(operation: str, path: str) -> None:
        if operation == "put_if_match":
            raise UnavailableError("busy", path=path)

    StorageLocks().acquire(FaultStorage(MemoryStorage(), before=deny), SYSTEM, wait_ms=0).release()


# -- the audit --------------------------------------------------------------------------------------------------------


def test_audit_has_a_line_for_each_thing_that_happened_to_the_lock() -> None:
    store = MemoryStorage()
    store.put(SWITCH_PATH, b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}')
    timers = HandMovedTimers()
    lock = StorageLocks().acquire(store, replace(SYSTEM, timers=timers), wait_ms=0)
    assert timers.fire() == [True]
    lock.release()

    (file,) = store.list_recursive(AUDIT_FOLDER)
    lines = [json.loads(line) for line in store.read(file.path).splitlines()]
    owner = LockRecord.decode(store.read(LOCK_PATH)).owner
    assert [line["state"] for line in lines] == ["START", "RENEW", "END"]
    assert file.name == f"{lines[0]['transactionStartTime']}_{owner}.jsonl"
    assert {line["ownerId"] for line in lines} == {owner}
    assert all(line["lockExpiration"] - line["timestamp"] == 300_000 for line in lines)
    assert all(line["lockHeld"] is True for line in lines)


@pytest.mark.parametrize("switch", [None, b"{}", b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": false}', b"{", b"[]"])
def test_table_without_an_audit_gets_none(switch: bytes | None) -> None:
    store = MemoryStorage()
    if switch is not None:
        store.put(SWITCH_PATH, switch)

    StorageLocks().acquire(store, SYSTEM, wait_ms=0).release()

    assert store.list_recursive(AUDIT_FOLDER) == ()


def test_audit_that_cannot_be_written_stops_no_write(caplog: pytest.LogCaptureFixture) -> None:
    def deny(operation: str, path: str) -> None:
        if path.startswith(f"{AUDIT_FOLDER}/"):
            raise UnavailableError("busy", path=path)

    store = FaultStorage(MemoryStorage(), before=deny)
    store.put(SWITCH_PATH, b'{"STORAGE_LOCK_AUDIT_SERVICE_ENABLED": true}')

    StorageLocks().acquire(store, SYSTEM, wait_ms=0).release()

    assert "lacks a line" in caplog.text


# -- the S3 server ----------------------------------------------------------------------------------------------------


def test_two_processes_with_a_lock_object_are_never_in_at_once(minio: Minio, tmp_path: Path) -> None:
    assert count_together(minio.new_root(), minio.options, StorageLocks(), tmp_path / "counter", rounds=4) == 8


def test_holder_that_pauses_past_the_end_of_its_lease_is_told(minio: Minio) -> None:
    locks = StorageLocks(validity_ms=8_000, renew_ms=200)

    assert not taken_over_while_paused(minio.new_root(), minio.options, locks, act=lambda lock: lock.check_held())
