"""Simulated environment of an actor: its store, clock, ids, timers and table lock."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, cast

import pyarrow as pa

from pyhudi.environment import Environment, LockProvider
from pyhudi.errors import AlreadyExistsError, NotFoundError, PreconditionFailedError, UnavailableError
from pyhudi.storage import registry as in_process
from pyhudi.storage.output import Output
from pyhudi.storage.paths import check_relative, check_relative_folder, join
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage, StorageSpec
from pyhudi.testing.faults import SimulatedCrash
from pyhudi.testing.simulation.schedule import FAIL, FAIL_AFTER, FAIL_LATE, TORN
from pyhudi.testing.simulation.scheduler import Actor, Run, SimTimer
from pyhudi.testing.simulation.world import LatePut, Stored
from pyhudi.transaction.locks.in_process import InProcessLocks
from pyhudi.transaction.locks.waiting import not_acquired

URI = "sim://table"

Watch = Callable[[Actor, str, str, Stored | None], None]
"""Called after each change with the actor, the operation, the path, and the object that was at the path before."""


class SimStorage:
    """The store of the world for one actor. Each call is a step of the run; the step precedes its effect."""

    def __init__(self, run: Run, actor: Actor, watch: Watch) -> None:
        self._run, self._actor, self._world, self._watch = run, actor, run.world, watch
        self._spec: StorageSpec | None = None

    @property
    def spec(self) -> StorageSpec:
        """The specification from which this process finds this object."""
        if self._spec is None:
            self._spec = in_process.register(cast("Storage", self))
        return self._spec

    @property
    def uri(self) -> str:
        """A URI that is the same for all actors."""
        return URI

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """See `Storage.read`."""
        data = self._read("read", path).data
        return data[offset : None if length is None else offset + length]

    def open_input(self, path: str) -> Any:
        """See `Storage.open_input`. Later changes do not affect the content."""
        return pa.BufferReader(self._read("open_input", path).data)

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """See `Storage.read_with_etag`."""
        found = self._read("read_with_etag", path)
        return found.data, str(found.version)

    def info(self, path: str) -> FileInfo | None:
        """See `Storage.info`."""
        self._step("info", check_relative(path))
        found = self._world.info(path)
        self._actor.learn(found)
        return found

    def wait_for_writer(self, path: str) -> bool:
        """Never: objects are always complete."""
        del path
        return False

    def list_folder(self, path: str) -> FolderListing:
        """See `Storage.list_folder`."""
        self._step("list_folder", check_relative_folder(path))
        found = self._world.children(path)
        self._actor.learn(found)
        return found

    def list_names(self, path: str) -> tuple[str, ...]:
        """See `Storage.list_names`."""
        self._step("list_names", check_relative_folder(path))
        found = tuple(info.name for info in self._world.children(path).files)
        self._actor.learn(found)
        return found

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """See `Storage.list_recursive`."""
        self._step("list_recursive", check_relative_folder(path))
        infos = [self._world.info(path_below) for path_below in self._world.below(path)]
        found = tuple(info for info in infos if info is not None)
        self._actor.learn(found)
        return found

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:  # noqa: ARG002  # all is durable here
        """See `Storage.put`."""
        self._change("put", path, bytes(data), None)

    def creates_exclusively(self) -> bool:
        """Always. A world that is not `exclusive` simulates a store whose probe gave a wrong answer."""
        return True

    def put_if_absent(self, path: str, data: bytes) -> None:
        """See `Storage.put_if_absent`. In a world that is not `exclusive` it replaces an existing object."""
        self._change("put_if_absent", path, bytes(data), 0)

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """See `Storage.put_if_match`."""
        return str(self._change("put_if_match", path, bytes(data), int(etag)))

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:  # noqa: ARG002
        """See `Storage.open_output`. The object appears at `close`."""
        self._step("open_output", check_relative(path))
        if path in self._world.objects and self._world.exclusive:
            self._actor.learn(path)
            raise AlreadyExistsError("there is an object at this path already", path=join(URI, path))
        return cast("IO[bytes]", _SimOutput(self, path))

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        fault = self._step("delete", check_relative(path))
        self._remove("delete", path)
        self._answer(fault, path)

    def delete_folder(self, path: str) -> None:
        """See `Storage.delete_folder`."""
        fault = self._step("delete_folder", check_relative_folder(path))
        for path_below in self._world.below(path):
            self._remove("delete_folder", path_below)
        self._answer(fault, path)

    def _step(self, operation: str, path: str) -> str:
        self._actor.learn(operation, path)
        fault = self._run.step(self._actor, operation, path)
        if fault == FAIL:
            self._actor.learn(fault)
            raise UnavailableError("the store failed: the schedule asked for it", path=join(URI, path))
        return fault

    def _answer(self, fault: str, path: str) -> None:
        if fault == FAIL_AFTER:
            self._actor.learn(fault)
            raise UnavailableError("the store's answer got lost: the schedule asked for it", path=join(URI, path))

    def _read(self, operation: str, path: str) -> Stored:
        self._step(operation, check_relative(path))
        found = self._world.objects.get(path)
        self._actor.learn(found)
        if found is None:
            raise NotFoundError("there is no object at this path", path=join(URI, path))
        return found

    def _change(self, operation: str, path: str, data: bytes, version: int | None) -> int:
        """Put an object if its path has this `version`. 0: if there is no object; None: in any case."""
        fault = self._step(operation, check_relative(path))
        if fault == FAIL_LATE:
            self._world.late.append(LatePut(path, data, version))
            self._actor.learn(fault)
            raise UnavailableError("the store did not answer: the schedule asked for it", path=join(URI, path))
        previous = self._world.objects.get(path)
        there = 0 if previous is None else previous.version
        is_checked = version is not None and (version > 0 or self._world.exclusive)
        if is_checked and there != version:
            self._actor.learn(there)
            if version == 0:
                raise AlreadyExistsError("there is an object at this path already", path=join(URI, path))
            raise PreconditionFailedError("another actor changed or removed the object", path=join(URI, path))
        written = self._world.set(path, data)
        self._actor.learn(written)
        self._watch(self._actor, operation, path, previous)
        self._answer(fault, path)
        return written

    def _remove(self, operation: str, path: str) -> None:
        previous = self._world.objects.get(path)
        if previous is not None:
            self._world.remove(path)
            self._watch(self._actor, operation, path, previous)

    def complete(self, path: str, data: bytes) -> None:
        """Create the object of an output, or a half of it if the actor dies in the call."""
        fault = self._step("close_output", path)
        if fault == TORN:
            self._world.set(path, data[: len(data) // 2])
            self._run.kill(self._actor)
            raise SimulatedCrash
        previous = self._world.objects.get(path)
        if previous is not None and self._world.exclusive:
            raise AlreadyExistsError("there is an object at this path already", path=join(URI, path))
        self._world.set(path, data)
        self._watch(self._actor, "close_output", path, previous)
        self._answer(fault, path)


class _SimOutput(Output):
    def __init__(self, storage: SimStorage, path: str) -> None:
        super().__init__(join(URI, path))
        self._storage = storage
        self._relative = path
        self._pieces: list[bytes] = []

    def _append(self, data: memoryview) -> None:
        self._pieces.append(bytes(data))

    def _complete(self) -> None:
        self._storage.complete(self._relative, b"".join(self._pieces))

    def _remove(self) -> None:
        self._pieces.clear()

    def _release(self) -> None:
        self._pieces.clear()


@dataclass(frozen=True, slots=True)
class SimClock:
    """The world's clock for one actor. It advances only when actors sleep, or when the schedule makes time pass."""

    run: Run
    actor: Actor

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        now = self.run.world.now_ms + self.run.world.wall_ms + self.actor.ahead_ms
        self.actor.learn(now)
        return now

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        now = self.run.world.now_ms
        self.actor.learn(now)
        return now / 1000

    def sleep(self, seconds: float) -> None:
        """Let other actors run until the time has passed."""
        self.actor.learn("sleep", seconds)
        self.run.wait(self.actor, until_ms=self.run.world.now_ms + max(1, round(seconds * 1000)))


@dataclass(frozen=True, slots=True)
class SimIds:
    """Deterministic ids: the actor's number and a counter."""

    actor: Actor

    def uuid(self) -> str:
        """See `Ids.uuid`."""
        self.actor.ids += 1
        return str(uuid.UUID(int=(self.actor.number + 1) << 64 | self.actor.ids))


@dataclass(frozen=True, slots=True)
class SimTimers:
    """Timers that fire when simulated time passes, even in the middle of an operation of their owner."""

    run: Run
    actor: Actor

    def every(self, seconds: float, call: Callable[[], bool], *, name: str) -> SimTimer:  # noqa: ARG002
        """See `Timers.every`."""
        milliseconds = max(1, round(seconds * 1000))
        timer = SimTimer(self.actor, milliseconds, call, self.run.world.now_ms + milliseconds)
        self.actor.timers.append(timer)
        return timer


@dataclass(frozen=True, slots=True)
class PerfectLocks(InProcessLocks):
    """A lock that only the death of its holder releases, and then at once, like a lock of the operating system."""

    run: Run
    actor: Actor

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> Any:  # noqa: ARG002
        """See `LockProvider.acquire`."""
        run, actor = self.run, self.actor
        run.step(actor, "lock", "")
        ends_ms = run.world.now_ms + wait_ms
        while run.lock_holder is not None:
            if run.world.now_ms >= ends_ms:
                raise not_acquired(storage, wait_ms)
            run.wait(actor, until_ms=ends_ms, condition=lambda: run.lock_holder is None)
        actor.learn("locked", run.world.now_ms)
        run.lock_holder = actor.number
        return self

    def check_held(self) -> None:
        """No effect: this lock cannot be lost."""

    def release(self) -> None:
        """See `AcquiredLock.release`."""
        if self.run.lock_holder == self.actor.number:
            self.run.lock_holder = None


class NoLocks:
    """A lock provider without mutual exclusion, for showing the anomalies without a lock."""

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> NoLocks:  # noqa: ARG002
        """Never waits."""
        return self

    def check_held(self) -> None:
        """No effect."""

    def release(self) -> None:
        """No effect."""


def environment_of(run: Run, actor: Actor, locks: LockProvider | None) -> Environment:
    """The environment of an actor. Without `locks`, its lock provider is `PerfectLocks`."""
    return Environment(
        clock=SimClock(run, actor),
        ids=SimIds(actor),
        locks=locks or PerfectLocks(run, actor),
        timers=SimTimers(run, actor),
    )
