"""What a write costs beside many others that live: it does not look at all they keep, nor wait for the lock for it."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest
from tests.support.tables import NO_PROCESS, CountingLocks, environment, new_table, open_table, rows

from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, Heartbeat, HeartbeatSettings
from pyhudi.transaction.locks.waiting import wait_for


def table_in_memory() -> MemoryStorage:
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    return storage


def beat(storage: Storage, path: str, *, pid: int) -> None:
    """A fresh heartbeat of a process of this machine."""
    heartbeat = Heartbeat(storage, path, HeartbeatSettings(), environment())
    heartbeat.start()
    heartbeat.stop()
    storage.put(path, json.dumps({**json.loads(storage.read(path)), "pid": pid}).encode())


def requests_of_an_upsert(storage: MemoryStorage) -> Counter[str]:
    store = FaultStorage(storage)
    open_table(store).upsert(rows((1, "oslo", 2, "b")))
    return Counter(operation.name for operation in store.operations)


def locks_taken(storage: MemoryStorage) -> int:
    locks = CountingLocks()
    open_table(storage, env=replace(environment(), locks=locks)).upsert(rows((1, "oslo", 2, "b")))
    return locks.taken


def test_recovery_beside_a_living_writer_takes_no_lock() -> None:
    alone, beside, after_a_death = table_in_memory(), table_in_memory(), table_in_memory()
    beat(beside, f"{HEARTBEAT_FOLDER}/20260101000000000", pid=os.getpid())
    beat(after_a_death, f"{HEARTBEAT_FOLDER}/20260101000000000", pid=NO_PROCESS)

    assert locks_taken(beside) == locks_taken(alone)
    assert locks_taken(after_a_death) == locks_taken(alone) + 1
    assert after_a_death.list_recursive(HEARTBEAT_FOLDER) == ()


@dataclass
class ClockOfSleeps:
    """A clock that moves only in sleeps and while somebody looks at the lock; the sleeps are kept."""

    seconds: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.seconds += seconds


@pytest.mark.parametrize(("answer_seconds", "pause"), [(0.0, 0.2), (0.1, 0.4), (30.0, 1.0)])
def test_wait_for_a_lock_asks_a_slow_store_less_often(answer_seconds: float, pause: float) -> None:
    clock = ClockOfSleeps()

    def look() -> str | None:
        clock.seconds += answer_seconds
        return "held" if len(clock.sleeps) == 3 else None

    env = replace(environment(), clock=clock)
    assert wait_for(look, MemoryStorage(), env, wait_ms=120_000, poll_seconds=0.2) == "held"
    assert clock.sleeps == pytest.approx([pause] * 3)


def test_long_wait_for_a_lock_asks_less_and_less_often() -> None:
    clock = ClockOfSleeps()

    def look() -> str | None:
        return "held" if len(clock.sleeps) == 8 else None

    env = replace(environment(), clock=clock)
    assert wait_for(look, MemoryStorage(), env, wait_ms=120_000, poll_seconds=0.002) == "held"
    assert clock.sleeps == pytest.approx([0.002, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05])
