"""How a heartbeat is kept, and what it says of a process that has ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.support.dead_writers import ADDED, prepared
from tests.support.tables import environment, open_table, own_beat, rows
from tests.support.timers import HandMovedTimers

from pyhudi.environment import SYSTEM
from pyhudi.errors import PermissionDeniedError, UnavailableError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.heartbeat import Heartbeat, HeartbeatSettings, Liveness, liveness_of


def test_a_heartbeat_goes_on_after_a_beat_that_failed() -> None:
    failures = [False, True, False]

    def fail(operation: str, path: str) -> None:
        if operation == "put" and failures.pop(0):
            raise UnavailableError("busy", path=path)

    timers = HandMovedTimers()
    env = replace(environment(), timers=timers)
    storage = FaultStorage(MemoryStorage(), before=fail)
    Heartbeat(storage, "beat", HeartbeatSettings(), env).start()

    assert [timers.fire(), timers.fire()] == [[True], [True]]
    assert failures == []


def test_heartbeat_stopped_for_good_beats_no_more() -> None:
    timers = HandMovedTimers()
    stopped: list[bool] = []
    watch = FaultStorage(MemoryStorage(), before=lambda *_: stopped.extend(one.is_stopped for one in timers.made))
    ours = Heartbeat(watch, "beat", HeartbeatSettings(), replace(environment(), timers=timers))
    ours.start()

    ours.stop_for_good()

    assert stopped == [True], "stopped before it says so, or a last beat would take it back"


def test_a_write_that_cannot_begin_keeps_no_heartbeat_going() -> None:
    def deny(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".requested"):
            raise PermissionDeniedError("no", path=path)

    timers = HandMovedTimers()
    storage = prepared()
    table = open_table(FaultStorage(storage, before=deny), env=replace(environment(), timers=timers))
    with pytest.raises(PermissionDeniedError):
        table.upsert(rows(ADDED))

    assert timers.made
    assert all(one.is_stopped for one in timers.made)


def beat_of(pid: int) -> bytes:
    """What a heartbeat of another process of this machine says."""
    started_ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    started = psutil.Process(pid).create_time()
    return json.dumps({**own_beat(), "pid": pid, "started": started, "started_ticks": started_ticks}).encode()


def test_a_process_that_has_ended_and_was_not_waited_for_is_dead() -> None:
    """A zombie: its pid is still taken, with the time at which it began."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    storage = MemoryStorage()
    storage.put("beat", beat_of(child.pid))
    try:
        while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        assert liveness_of(storage, "beat", HeartbeatSettings(), SYSTEM) is Liveness.DEAD
    finally:
        child.wait()


def test_a_living_process_stays_alive_when_the_clock_of_its_machine_is_set() -> None:
    storage = MemoryStorage()
    beat = own_beat()
    # What psutil tells of the beginning of a process moves with the clock.
    storage.put("beat", json.dumps({**beat, "started": beat["started"] - 5.0}).encode())

    assert liveness_of(storage, "beat", HeartbeatSettings(), SYSTEM) is Liveness.ALIVE


def test_a_process_that_has_the_pid_of_another_one_is_not_taken_for_it() -> None:
    storage = MemoryStorage()
    beat = own_beat()
    storage.put("beat", json.dumps({**beat, "started_ticks": beat["started_ticks"] - 1}).encode())

    assert liveness_of(storage, "beat", HeartbeatSettings(), SYSTEM) is Liveness.DEAD
