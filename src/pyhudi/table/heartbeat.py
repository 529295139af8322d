"""Heartbeats: evidence that the writer of a pending instant is alive.

A writer keeps `.hoodie/.heartbeat/<instant>` fresh. Real Hudi looks at the file's modification time only; ours also
says which process wrote it, so that a writer on the same machine knows at once that a killed one is dead instead of
waiting until its heartbeat has expired.

Source: `format/timeline.md` section 6.2; mission row S1-08.
"""

from __future__ import annotations

import enum
import json
import platform
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

from pyhudi.errors import NotFoundError, StorageError
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment

HEARTBEAT_FOLDER = ".hoodie/.heartbeat"


class Liveness(enum.Enum):
    """What is known about the writer of a pending instant."""

    ALIVE = "its heartbeat is fresh"
    DEAD = "its process has ended, or its heartbeat has expired"
    UNKNOWN = "it keeps no heartbeat: an older or a single-writer JVM Hudi"


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How often a heartbeat is written, and how many may be missed before its writer counts as dead."""

    interval_ms: int = 60_000
    tolerable_misses: int = 2

    @property
    def expiry_ms(self) -> int:
        """The age at which a heartbeat means nothing any more."""
        return self.interval_ms * (self.tolerable_misses + 1)


class Heartbeat:
    """Keeps one heartbeat file fresh from a thread of its own, until it is stopped."""

    def __init__(self, storage: Storage, path: str, settings: HeartbeatSettings) -> None:
        self._storage = storage
        self._path = path
        self._settings = settings
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat {path}", daemon=True)

    def start(self) -> None:
        """Write the first beat, before anything of the instant can be seen, and go on beating."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop beating. The file stays: whoever finishes the instant removes it."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._settings.interval_ms / 1000):
            try:
                self._beat()
            except StorageError:
                # A missed beat is what `tolerable_misses` is for; the commit itself re-reads its instant.
                continue

    def _beat(self) -> None:
        self._storage.put(self._path, json.dumps(_this_process()).encode(), durable=False)


def heartbeat_path(instant_time: str) -> str:
    """Where the heartbeat of an instant lies."""
    return f"{HEARTBEAT_FOLDER}/{instant_time}"


def liveness_of(storage: Storage, path: str, settings: HeartbeatSettings, environment: Environment) -> Liveness:
    """Whether the writer that keeps a heartbeat file still works. Cost: two requests."""
    info = storage.info(path)
    if info is None:
        return Liveness.UNKNOWN
    if environment.clock.now_ms() - info.modified_ms > settings.expiry_ms:
        return Liveness.DEAD
    try:
        writer = json.loads(storage.read(path) or b"null")
    except (NotFoundError, ValueError):
        return Liveness.ALIVE
    return Liveness.DEAD if isinstance(writer, dict) and _has_ended(writer) else Liveness.ALIVE


def _this_process() -> dict[str, str | int | float]:
    process = psutil.Process()
    return {"machine": _process_table(), "pid": process.pid, "started": process.create_time()}


def _has_ended(writer: dict[str, object]) -> bool:
    pid, started = writer.get("pid"), writer.get("started")
    if writer.get("machine") != _process_table() or not isinstance(pid, int) or not isinstance(started, float):
        return False
    try:
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - started) > 1.0 or process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _process_table() -> str:
    """Names the table of processes in which a pid has its meaning: two containers on one machine have two."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    try:
        return f"{boot.read_text().strip()}/{namespace.readlink()}"
    except OSError:
        return platform.node()
