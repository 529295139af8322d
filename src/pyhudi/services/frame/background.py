"""Table services in a thread of the writing process: the write returns, and its services run beside what it does next.

Of each table one thread runs at a time. What is asked for meanwhile runs afterwards, once, on the table as it is then.
A service in a thread has its own heartbeat and takes the table lock, as in a process of its own. The interpreter waits
for the threads when it ends; a process that is killed leaves what any dead process leaves.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.in_process import InProcessLocks

RunServices = Callable[[ServiceCall, frozenset[str]], None]
"""Runs the services with these names, in the order of their table; raises nothing."""


@dataclass(slots=True)
class _Lane:
    """The background of one table: its thread, and what is to run when that has finished what it is doing."""

    thread: threading.Thread | None = None
    call: ServiceCall | None = None
    names: frozenset[str] = frozenset()


_guard = threading.Lock()
_lanes: WeakKeyDictionary[Storage, _Lane] = WeakKeyDictionary()


def _begin_anew() -> None:
    """In a forked child: the parent's threads do not exist there."""
    global _guard, _lanes
    _guard, _lanes = threading.Lock(), WeakKeyDictionary()


os.register_at_fork(after_in_child=_begin_anew)


def can_run_in_background(call: ServiceCall) -> bool:
    """Whether services may go on after their write: not where the write had to be the table's only writer."""
    return call.table.storage.creates_exclusively() or not isinstance(call.environment.locks, InProcessLocks)


def run_in_background(call: ServiceCall, names: frozenset[str], run: RunServices) -> None:
    """Run the services with these names in the table's thread, which begins if it is not there. Returns at once.

    Raises `RuntimeError` where no thread can begin, as at the end of the interpreter.
    """
    storage = call.table.storage
    with _guard:
        _wait_at_exit()
        lane = _lanes.setdefault(itself(storage), _Lane())
        lane.call, lane.names = call, lane.names | names
        if lane.thread is None:
            thread = call.engine.thread(lambda: _work(lane, run))
            thread.start()  # it waits for the guard
            lane.thread = thread


def wait_for_background(storage: Storage) -> None:
    """Wait until the services of this table that run in this process have ended."""
    with _guard:
        lane = _lanes.get(itself(storage))
        thread = lane.thread if lane is not None else None
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def _work(lane: _Lane, run: RunServices) -> None:
    while True:
        with _guard:
            call, names = lane.call, lane.names
            lane.call, lane.names = None, frozenset()
            if call is None:
                lane.thread = None
                return
        run(call, names)


@functools.cache
def _wait_at_exit() -> None:
    """Have the interpreter wait for all threads before it stops starting new ones, which services need.

    `atexit` comes too late for that: executors and timers cannot start threads any more when it runs.
    """
    register: Any = threading._register_atexit  # type: ignore[attr-defined]
    register(_wait_for_all)


def _wait_for_all() -> None:
    with _guard:
        threads = [lane.thread for lane in _lanes.values() if lane.thread is not None]
    for thread in threads:
        thread.join()
