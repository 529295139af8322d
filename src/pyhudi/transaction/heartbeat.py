"""Heartbeats: evidence that the writer of a pending instant is alive.

A writer rewrites `.hoodie/.heartbeat/<instant>` at an interval. JVM Hudi uses only the modification time of the file.
The heartbeats of pyhudi also name their process, so that a writer on the same machine sees at once that a process was
killed, and does not wait until the heartbeat has expired.
"""

from __future__ import annotations

import enum
import functools
import json
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from pyhudi.environment import Environment, Timer
from pyhudi.errors import NotFoundError, StorageError
from pyhudi.storage.protocol import FileInfo, Storage

HEARTBEAT_FOLDER = ".hoodie/.heartbeat"
HEARTBEAT_BYTES_MAX = 4096
"""How much of a heartbeat is read; those of pyhudi have 200 bytes, those of JVM Hudi are empty."""

_GIVEN_UP = json.dumps({"given_up": True}).encode()

STAND_IN = json.dumps({"stands_in_for": "the heartbeat of a single writer of JVM Hudi"}).encode()
"""The content of a file that is no heartbeat, and lets JVM Hudi roll a write back (`waiting_rollbacks.py`)."""


class Liveness(enum.Enum):
    """What is known about the writer of a pending instant."""

    ALIVE = "its heartbeat is fresh"
    DEAD = "its process has ended, its heartbeat has expired, or it gave up"
    UNKNOWN = "it keeps no heartbeat: an older or a single-writer JVM Hudi; a file may stand in for one"


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How often a heartbeat is written, and how many may be missed before its writer counts as dead."""

    interval_ms: int = 60_000
    tolerable_misses: int = 2

    @property
    def expiry_ms(self) -> int:
        """The heartbeat expiry: the age from which on the writer of a heartbeat counts as dead."""
        return self.interval_ms * (self.tolerable_misses + 1)


class Heartbeat:
    """Keeps one heartbeat file fresh, by a timer of the environment, until it is stopped."""

    def __init__(self, storage: Storage, path: str, settings: HeartbeatSettings, environment: Environment) -> None:
        self._storage = storage
        self._path = path
        self._settings = settings
        self._timers = environment.timers
        self._timer: Timer | None = None

    def start(self) -> None:
        """Write the first beat, before anything of the instant can be seen, and go on beating."""
        self._beat()
        interval = self._settings.interval_ms / 1000
        self._timer = self._timers.every(interval, self._beat_again, name=f"heartbeat {self._path}")

    def stop(self) -> None:
        """Stop beating. The file stays: whoever finishes the instant removes it."""
        if self._timer is not None:
            self._timer.stop()

    def stop_for_good(self) -> None:
        """Stop beating, and store that the writer has given up, so that others need not wait for the expiry."""
        self.stop()
        self._storage.put(self._path, _GIVEN_UP, durable=False)

    def _beat_again(self) -> bool:
        # A missed beat is what `tolerable_misses` is for; the commit itself re-reads its instant.
        with suppress(StorageError):
            self._beat()
        return True

    def _beat(self) -> None:
        self._storage.put(self._path, _this_process(), durable=False)


def heartbeat_path(instant_time: str) -> str:
    """The path of the heartbeat of an instant."""
    return f"{HEARTBEAT_FOLDER}/{instant_time}"


def liveness_of(storage: Storage, path: str, settings: HeartbeatSettings, environment: Environment) -> Liveness:
    """Whether the writer of a heartbeat file is alive. Cost: two requests."""
    info = storage.info(path)
    return Liveness.UNKNOWN if info is None else liveness_at(storage, info, settings, environment.clock.now_ms())


def liveness_at(storage: Storage, beat: FileInfo, settings: HeartbeatSettings, now_ms: int) -> Liveness:
    """Whether a writer is alive, by its last beat and a time in milliseconds since the epoch. Cost: one request."""
    if _stands_in(storage, beat):
        return Liveness.UNKNOWN
    if now_ms - beat.modified_ms > settings.expiry_ms:
        return Liveness.DEAD
    try:
        writer = json.loads(storage.read(beat.path, length=HEARTBEAT_BYTES_MAX) or b"null")
    except (NotFoundError, ValueError, RecursionError):
        return Liveness.ALIVE
    is_over = isinstance(writer, dict) and (writer.get("given_up") is True or _has_ended(writer))
    return Liveness.DEAD if is_over else Liveness.ALIVE


def _stands_in(storage: Storage, beat: FileInfo) -> bool:
    # The size spares all other heartbeats a read.
    if beat.size != len(STAND_IN):
        return False
    with suppress(NotFoundError):
        return storage.read(beat.path, length=len(STAND_IN)) == STAND_IN
    return False


# A forked child has another identity than its parent. Its pid does not tell: in a process table of its own it may have
# the same one, and later an ancestor's.
@functools.cache
def _this_process() -> bytes:
    """The content of a heartbeat, which is the same for as long as the process lives."""
    pid = os.getpid()
    started = psutil.Process(pid).create_time()
    identity = {"machine": _process_table(), "pid": pid, "started": started, "started_ticks": _start_ticks(pid)}
    return json.dumps(identity).encode()


def _has_ended(writer: dict[str, object]) -> bool:
    pid, started = writer.get("pid"), writer.get("started")
    if writer.get("machine") != _process_table() or not isinstance(pid, int) or not isinstance(started, float):
        return False
    try:
        process = psutil.Process(pid)
        ticks, now = writer.get("started_ticks"), _start_ticks(pid)
        if ticks is not None and now is not None:
            return ticks != now or process.status() == psutil.STATUS_ZOMBIE
        return bool(abs(process.create_time() - started) > 1.0 or process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, ValueError):  # such a number is no process id
        return False


def _start_ticks(pid: int) -> int | None:
    """When a process began, counted from the start of the machine; None where the system does not provide it.

    The time of day when it began is no identity: it changes when the clock is set.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


# As for `_this_process`: a forked child may be in another process table.
@functools.cache
def _process_table() -> str:
    """An id of the process table that a pid belongs to: two containers on one machine have two."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    try:
        return f"{boot.read_text().strip()}/{namespace.readlink()}"
    except OSError:
        return platform.node()


def _begin_anew() -> None:
    """Forget in a forked child who the parent is."""
    _this_process.cache_clear()
    _process_table.cache_clear()


os.register_at_fork(after_in_child=_begin_anew)
