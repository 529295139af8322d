"""The lock file of FileSystemBasedLockProvider, and the mutex of InProcessLockProvider."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.support.lock_processes import count_together, taken_over_while_paused, thieves_that_win
from tests.support.tables import StepClock, environment

from pyhudi.environment import SYSTEM
from pyhudi.errors import ConfigError, LockLostError, LockNotAcquiredError, PermissionDeniedError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.filesystem import FileSystemLocks
from pyhudi.transaction.locks.in_process import InProcessLocks

MINUTE_MS = 60_000
SECONDS_MS = 5_000
"""The expiry of locks that tests wait for. A busy machine may be late with a renewal by half of it."""


def of_the_jvm(root: Path, *, age_seconds: float = 0) -> Path:
    """A lock file as the JVM leaves it on local disk: empty."""
    file = root / ".hoodie" / "lock"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"")
    modified = time.time() - age_seconds
    os.utime(file, (modified, modified))
    return file


def test_lock_file_says_who_holds_the_lock_and_goes_when_it_is_given_back(tmp_path: Path) -> None:
    lock = FileSystemLocks().acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=0)

    lock.check_held()
    record = json.loads((tmp_path / ".hoodie" / "lock").read_bytes())
    assert list(record) == ["lockCreateTime", "lockThreadName", "lockStacksInfo"]
    assert str(os.getpid()) in record["lockThreadName"]
    lock.release()
    assert not (tmp_path / ".hoodie" / "lock").exists()


def test_lock_file_of_the_jvm_keeps_us_out_for_good_where_locks_do_not_expire(tmp_path: Path) -> None:
    file = of_the_jvm(tmp_path, age_seconds=10**6)

    with pytest.raises(LockNotAcquiredError, match="delete the file") as refused:
        FileSystemLocks().acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=100)

    assert refused.value.context["holder"] == "unknown: the file does not say"
    assert file.read_bytes() == b""


@pytest.mark.parametrize("expire_ms", [0, 600_000])
def test_lock_that_a_killed_holder_left_names_its_file_and_the_holder(tmp_path: Path, expire_ms: int) -> None:
    FileSystemLocks(expire_ms=expire_ms).acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=0)

    with pytest.raises(LockNotAcquiredError) as refused:
        FileSystemLocks(expire_ms=expire_ms).acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=10)

    assert refused.value.context["lock"] == f"{LocalStorage(tmp_path).uri}/.hoodie/lock"
    assert f"process {os.getpid()}, since 20" in str(refused.value)
    assert ("delete the file" in str(refused.value)) is (expire_ms == 0)


@pytest.mark.parametrize(("age_seconds", "is_taken_over"), [(50, False), (70, True)])
def test_lock_file_is_taken_over_when_it_is_older_than_the_expiry(
    tmp_path: Path, age_seconds: float, is_taken_over: bool
) -> None:
    of_the_jvm(tmp_path, age_seconds=age_seconds)
    locks = FileSystemLocks(expire_ms=MINUTE_MS)

    if is_taken_over:
        lock = locks.acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=0)
        lock.check_held()
        lock.release()
    else:
        with pytest.raises(LockNotAcquiredError):
            locks.acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=100)


def test_of_many_thieves_of_an_expired_lock_one_wins(tmp_path: Path) -> None:
    of_the_jvm(tmp_path, age_seconds=100)

    assert thieves_that_win(FileSystemLocks(expire_ms=MINUTE_MS), LocalStorage(tmp_path)) == 1


@pytest.mark.parametrize("is_removed", [True, False], ids=["removed", "written over"])
def test_lock_whose_file_the_jvm_removed_or_wrote_over_is_lost_before_the_commit(
    tmp_path: Path, is_removed: bool
) -> None:
    lock = FileSystemLocks().acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=0)
    file = of_the_jvm(tmp_path)
    if is_removed:
        file.unlink()

    with pytest.raises(LockLostError):
        lock.check_held()
    lock.release()
    assert file.exists() is not is_removed


def test_lock_file_that_cannot_be_removed_does_not_undo_what_was_done(caplog: pytest.LogCaptureFixture) -> None:
    def deny(operation: str, path: str) -> None:
        if operation == "delete":
            raise PermissionDeniedError("no", path=path)

    FileSystemLocks().acquire(FaultStorage(MemoryStorage(), before=deny), SYSTEM, wait_ms=0).release()

    assert ".hoodie/lock" in caplog.text


def test_lock_that_is_about_to_expire_is_lost_before_it_does() -> None:
    clock = StepClock()
    lock = FileSystemLocks(expire_ms=MINUTE_MS).acquire(MemoryStorage(), environment(clock), wait_ms=0)

    clock.ms += MINUTE_MS - 11_000
    lock.check_held()
    clock.ms += 2_000
    with pytest.raises(LockLostError, match="expire"):
        lock.check_held()


def test_lock_is_renewed_for_as_long_as_its_holder_lives(tmp_path: Path) -> None:
    locks = FileSystemLocks(expire_ms=SECONDS_MS)
    lock = locks.acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=0)

    with pytest.raises(LockNotAcquiredError):
        locks.acquire(LocalStorage(tmp_path), SYSTEM, wait_ms=SECONDS_MS + 1_500)
    lock.check_held()
    lock.release()


def test_lock_file_lies_where_the_option_says(tmp_path: Path) -> None:
    lock = FileSystemLocks(folder=str(tmp_path / "elsewhere")).acquire(MemoryStorage(), SYSTEM, wait_ms=0)

    assert (tmp_path / "elsewhere" / "lock").exists()
    lock.release()
    assert not (tmp_path / "elsewhere" / "lock").exists()


def test_object_stores_are_refused_as_by_the_jvm() -> None:
    with pytest.raises(ConfigError, match="StorageBasedLockProvider"):
        FileSystemLocks().acquire(open_storage("s3://bucket/table"), SYSTEM, wait_ms=0)


def test_two_processes_with_a_lock_file_are_never_in_at_once(tmp_path: Path) -> None:
    assert count_together(str(tmp_path), {}, FileSystemLocks(), tmp_path / "counter") == 16


def test_holder_that_pauses_past_the_expiry_of_its_file_is_told(tmp_path: Path) -> None:
    locks = FileSystemLocks(expire_ms=SECONDS_MS)

    assert not taken_over_while_paused(str(tmp_path), {}, locks, act=lambda lock: lock.check_held())


# -- the mutex --------------------------------------------------------------------------------------------------------


def test_mutex_keeps_a_second_thread_out_and_other_tables_not() -> None:
    store, other = MemoryStorage(), MemoryStorage()
    lock = InProcessLocks().acquire(store, SYSTEM, wait_ms=0)

    with pytest.raises(LockNotAcquiredError):
        InProcessLocks().acquire(store, SYSTEM, wait_ms=20)
    InProcessLocks().acquire(other, SYSTEM, wait_ms=0).release()
    lock.check_held()
    lock.release()
    InProcessLocks().acquire(store, SYSTEM, wait_ms=0).release()
