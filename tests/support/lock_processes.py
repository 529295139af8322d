"""Others that want the table lock: they count under it, steal it, or hold it and are paused."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from pyhudi.environment import SYSTEM, AcquiredLock, LockProvider
from pyhudi.errors import LockLostError, LockNotAcquiredError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

SPAWN = multiprocessing.get_context("spawn")
WAIT_MS = 60_000


def count_together(
    uri: str, options: Mapping[str, str], provider: LockProvider, counter: Path, *, rounds: int = 8
) -> int:
    """What two processes count to that add one under the lock, `rounds` times each, by reading and writing a file."""
    counter.write_text("0")
    with ProcessPoolExecutor(2, mp_context=SPAWN) as pool:
        done = [pool.submit(_count, uri, dict(options), provider, counter, rounds) for _ in range(2)]
        for one in done:
            one.result(timeout=WAIT_MS / 1000)
    return int(counter.read_text())


def _count(uri: str, options: dict[str, str], provider: LockProvider, counter: Path, rounds: int) -> None:
    storage = open_storage(uri, options)
    for _ in range(rounds):
        lock = provider.acquire(storage, SYSTEM, wait_ms=WAIT_MS)
        value = int(counter.read_text())
        time.sleep(0.005)
        counter.write_text(str(value + 1))
        lock.check_held()
        lock.release()


@dataclass(frozen=True, slots=True)
class Holder:
    """Another process that holds the lock."""

    process: BaseProcess
    pipe: Connection

    def pause(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def wake(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def still_holds(self) -> bool:
        """What `check_held` of its lock says."""
        self.pipe.send("check")
        answer = self.pipe.recv()
        assert isinstance(answer, bool)
        return answer


@contextlib.contextmanager
def holder(uri: str, options: Mapping[str, str], provider: LockProvider) -> Iterator[Holder]:
    """A process that has the lock when the block begins, and is killed, lock and all, when it ends."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=_hold, args=(uri, dict(options), provider, theirs), daemon=True)
    process.start()
    try:
        assert ours.poll(WAIT_MS / 1000)
        assert ours.recv() == "held"
        yield Holder(process, ours)
    finally:
        process.kill()
        process.join()
        ours.close()


def _hold(uri: str, options: dict[str, str], provider: LockProvider, pipe: Connection) -> None:
    lock = provider.acquire(open_storage(uri, options), SYSTEM, wait_ms=WAIT_MS)
    pipe.send("held")
    while pipe.recv() == "check":
        try:
            lock.check_held()
        except LockLostError:
            pipe.send(False)
        else:
            pipe.send(True)


def thieves_that_win(provider: LockProvider, store: Storage, thieves: int = 6) -> int:
    """How many of some threads take over a lock that has expired, when all of them have looked before one acts."""
    have_looked = threading.Barrier(thieves)
    all_acted = threading.Event()

    def wait(operation: str, _: str) -> None:
        if operation in {"put", "put_if_match"} and not all_acted.is_set():
            have_looked.wait(WAIT_MS / 1000)

    def steal(_: int) -> AcquiredLock | None:
        try:
            return provider.acquire(FaultStorage(store, before=wait), SYSTEM, wait_ms=0)
        except LockNotAcquiredError:
            return None

    with ThreadPoolExecutor(thieves) as pool:
        stolen = [lock for lock in pool.map(steal, range(thieves)) if lock is not None]
    all_acted.set()
    for lock in stolen:
        lock.release()
    return len(stolen)


def taken_over_while_paused(
    uri: str, options: Mapping[str, str], provider: LockProvider, *, act: Callable[[AcquiredLock], None]
) -> bool:
    """Whether a holder thinks to have the lock still, when it wakes after another one, who did `act`, took it over."""
    with holder(uri, options, provider) as paused:
        assert paused.still_holds()
        paused.pause()
        lock = provider.acquire(open_storage(uri, options), SYSTEM, wait_ms=WAIT_MS)
        act(lock)
        paused.wake()
        still_holds = paused.still_holds()
        lock.check_held()
        lock.release()
        return still_holds
