"""Runs one peer in a process of its own, listens to its reports, and watches its memory and its use of the cores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from contestants import Contestant
from inputs import Inputs
from operations import FIRST

CORES = 2
WORKER = Path(__file__).with_name("worker.py")
SAMPLE_SECONDS = 0.1
SAMPLES_PER_SEARCH = 10
"""Looking for new processes costs more than asking known ones for their memory."""


@dataclass
class Measurements:
    """What one peer did.

    By operation: times and processor time of all rounds in seconds, answers of all rounds, peaks in bytes. Of all
    operations together: for how many seconds they were timed, and processor time that other programs took meanwhile.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    fingerprints: list[dict[str, list[str]]] = field(default_factory=list)
    process_peak: dict[str, int] = field(default_factory=dict)
    python_worker_peak: dict[str, int] = field(default_factory=dict)
    cpu_seconds: dict[str, list[float]] = field(default_factory=dict)
    watched_seconds: float = 0.0
    foreign_cpu_seconds: float = 0.0

    @property
    def foreign_cores(self) -> float:
        """How many cores other programs kept busy while this peer was timed; its times mean little if that is much."""
        return self.foreign_cpu_seconds / self.watched_seconds if self.watched_seconds else 0.0


class PeerFailedError(Exception):
    """A peer is not installed, or its process ended before it was done: the message says why, or where the log is."""


def measure(
    contestant: Contestant, *, inputs: Inputs, warm_up: Inputs, operations: list[str], rounds: int, home: Path
) -> Measurements:
    """Run all rounds of one peer. Raises `PeerFailedError`."""
    missing = [str(path) for path in (contestant.python, *contestant.jars) if not path.exists()]
    if missing:
        raise PeerFailedError(f"{contestant.title} was left out: there is no {', '.join(missing)}")
    measurements = Measurements()
    in_warm_session = [operation for operation in operations if operation != FIRST]
    if FIRST in operations:
        for _ in range(rounds):
            request = {"inputs": str(inputs.folder), "warm_up": None, "operations": ["bulk_insert"], "rounds": 1}
            _run_worker(contestant, request, home, measurements, {"bulk_insert": FIRST})
    if in_warm_session:
        folders = {"inputs": str(inputs.folder), "warm_up": str(warm_up.folder)}
        request = {**folders, "operations": in_warm_session, "rounds": rounds}
        _run_worker(contestant, request, home, measurements, {})
    return measurements


def _run_worker(
    contestant: Contestant, request: Mapping[str, Any], home: Path, measurements: Measurements, names: Mapping[str, str]
) -> None:
    """Run one process of a peer to its end, and record what it reports; operations in `names` are called so."""
    work, log = home / "tables" / contestant.name, home / "logs" / f"{contestant.name}.log"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    jars = [str(jar) for jar in contestant.jars]
    whole = {**request, "peer": contestant.peer, "jars": jars, "work": str(work), "cores": CORES}
    # Spark finds its home through the Python that runs it; a setting of the caller would mix two Sparks.
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    with log.open("w") as errors:
        process = subprocess.Popen(
            [contestant.python, WORKER, json.dumps(whole)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=work,
            env=environment,
        )
        assert process.stdout is not None
        with process, _watched(process.pid) as watch:
            events = [_record(measurements, watch, json.loads(line), names) for line in process.stdout]
    shutil.rmtree(work, ignore_errors=True)
    if not events or events[-1] != "done" or process.returncode != 0:
        raise PeerFailedError(f"{contestant.title} failed; see {log}")


def _record(measurements: Measurements, watch: _Watch, event: dict[str, Any], names: Mapping[str, str]) -> str:
    kind: str = event["event"]
    if kind == "begin":
        watch.begin()
    elif kind == "end":
        operation = names.get(event["operation"], event["operation"])
        usage = watch.end()
        measurements.seconds.setdefault(operation, []).extend(event["seconds"])
        measurements.answers.setdefault(operation, []).append(event["answer"])
        measurements.cpu_seconds.setdefault(operation, []).append(usage.cpu_seconds)
        measurements.watched_seconds += usage.seconds
        measurements.foreign_cpu_seconds += usage.foreign_cpu_seconds
        for peaks, seen in (
            (measurements.process_peak, watch.process_peak),
            (measurements.python_worker_peak, watch.python_worker_peak),
        ):
            peaks[operation] = max(peaks.get(operation, 0), seen)
    elif kind == "tables":
        measurements.fingerprints.append(event["fingerprints"])
    return kind


@dataclass(frozen=True)
class _Usage:
    """Seconds on the clock, and of all processors together: of the watched processes, and of all others."""

    seconds: float
    cpu_seconds: float
    foreign_cpu_seconds: float


class _Watch:
    """What a process and its children use.

    Resident memory is sampled: of all of them together, and of the largest Python child. Processor time is counted by
    the system.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._python_children: list[psutil.Process] = []
        self._others: list[psutil.Process] = [self._root]
        self.begin()

    def begin(self) -> None:
        """Forget the peaks and start the clocks."""
        self.process_peak = self.python_worker_peak = 0
        self.search()
        self._began = self._clocks()

    def end(self) -> _Usage:
        """What was used since `begin`."""
        self.search()
        seconds, own, everybody = (now - then for now, then in zip(self._clocks(), self._began, strict=True))
        return _Usage(seconds, own, max(0.0, everybody - own))

    def _clocks(self) -> tuple[float, float, float]:
        own = sum(_cpu_seconds(process) for process in [*self._python_children, *self._others])
        system = psutil.cpu_times()
        return time.perf_counter(), own, sum(system) - system.idle - getattr(system, "iowait", 0.0)

    def search(self) -> None:
        """Find the processes that exist now."""
        try:
            children = self._root.children(recursive=True)
            self._python_children = [child for child in children if child.name().startswith("python")]
            self._others = [self._root, *(child for child in children if child not in self._python_children)]
        except psutil.NoSuchProcess:
            # Some process ended meanwhile; the next search is soon.
            return

    def sample(self) -> None:
        """Look at the memory of the processes found."""
        workers = [_resident(process) for process in self._python_children]
        self.python_worker_peak = max(self.python_worker_peak, *workers, 0)
        together = sum(workers) + sum(_resident(process) for process in self._others)
        self.process_peak = max(self.process_peak, together)


def cpu_seconds_of_tree(pid: int) -> float:
    """Processor time of a process and its children, those that have ended among them."""
    root = psutil.Process(pid)
    return sum(_cpu_seconds(process) for process in [root, *root.children(recursive=True)])


def end_tree(pid: int) -> None:
    """Kill a process and those that it has started."""
    root = psutil.Process(pid)
    for process in [*root.children(recursive=True), root]:
        with suppress(psutil.Error):  # it has ended
            process.kill()


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def _cpu_seconds(process: psutil.Process) -> float:
    """Processor time of a process, and of those of its children that have ended."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


@contextmanager
def _watched(pid: int) -> Iterator[_Watch]:
    watch, stopped = _Watch(pid), threading.Event()

    def look() -> None:
        count = 0
        while not stopped.wait(SAMPLE_SECONDS):
            if count % SAMPLES_PER_SEARCH == 0:
                watch.search()
            watch.sample()
            count += 1

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        stopped.set()
        thread.join()
