"""Many inputs over many parsers in a few worker processes, and what was found."""

from __future__ import annotations

import base64
import json
import math
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.fuzz.inputs import input_of
from tests.fuzz.registry import TARGETS

ROOT = Path(__file__).parents[2]
WORKER = ("-m", "tests.fuzz.worker")
WORKER_ARGUMENTS: tuple[str, ...] = ()
"""What Python runs as a worker: the test of crashes has one of its own."""
STALL_SECONDS = 15.0
"""How long one input may keep a worker, in processor time, before it counts as a hang that no Python code ends."""
SILENCE_SECONDS = 300.0
"""The same in wall time, for a worker that waits for something."""
_INPUTS_PER_JOB = 500


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which a parser failed, with the smallest input for it. `number`: that of the first such input."""

    target: str
    signature: str
    data: bytes = field(repr=False)
    detail: str = field(repr=False)
    number: int


@dataclass(slots=True)
class Report:
    """What a campaign saw: counts of accepted, refused and failed inputs per target, seconds of work, findings.

    `is_whole` is false where it was interrupted.
    """

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    seconds: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], Finding] = field(default_factory=dict)
    is_whole: bool = True

    def add(self, result: dict[str, Any]) -> None:
        """Add what a worker answered."""
        target = result["target"]
        self.counts.setdefault(target, Counter()).update(result["counts"])
        self.seconds[target] += result["seconds"]
        for signature, found in result["failures"].items():
            finding = Finding(target, signature, base64.b64decode(found["data"]), found["detail"], found["number"])
            if (target, signature) not in self.findings:
                print(f"  found: {target}: {signature}", file=sys.stderr, flush=True)  # noqa: T201 - a run takes long
            known = self.findings.setdefault((target, signature), finding)
            if len(finding.data) < len(known.data):
                self.findings[target, signature] = finding

    @property
    def inputs(self) -> int:
        """How many inputs were parsed."""
        return sum(sum(counts.values()) for counts in self.counts.values())


def shared_out(inputs: int, names: Sequence[str], seed: int) -> Iterator[dict[str, Any]]:
    """Jobs for so many inputs, each target in turn and to its share."""
    shares = {name: TARGETS[name].share for name in names}
    counts = {name: math.ceil(inputs * share / sum(shares.values())) for name, share in shares.items()}
    for first in range(0, max(counts.values()), _INPUTS_PER_JOB):
        for name, count in counts.items():
            if first < count:
                yield {"target": name, "seed": seed, "first": first, "last": min(count, first + _INPUTS_PER_JOB)}


def replays(files: Iterable[tuple[str, bytes]]) -> Iterator[dict[str, Any]]:
    """Jobs for inputs that are at hand: target and bytes."""
    for target, data in files:
        yield {"target": target, "data": base64.b64encode(data).decode()}


def carry_out(
    jobs: Iterable[dict[str, Any]], *, workers: int, tell: Callable[[Report], None] = lambda _: None
) -> Report:
    """Give the jobs to workers, and begin a new worker where one crashed or hangs. `tell` is called now and then."""
    report, waiting = Report(), iter(jobs)
    again: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, selectors.DefaultSelector() as ready:
        running = [_Worker(Path(folder) / str(number)) for number in range(workers)]
        try:
            for worker in running:
                _give(worker, again, waiting, ready)
            while ready.get_map():
                for key, _ in ready.select(timeout=1.0):
                    worker = key.data
                    ready.unregister(worker.output)
                    line = worker.output.readline()
                    if line:
                        report.add(json.loads(line))
                    else:
                        again += worker.after_death(report, "crash")
                    _give(worker, again, waiting, ready)
                for worker in running:
                    if worker.is_stalled() and worker.output in ready.get_map():
                        ready.unregister(worker.output)
                        worker.process.kill()
                        again += worker.after_death(report, "hang in native code")
                        _give(worker, again, waiting, ready)
                tell(report)
        except KeyboardInterrupt:
            report.is_whole = False
        finally:
            for worker in running:
                worker.stop()
    return report


def _give(
    worker: _Worker, again: list[dict[str, Any]], waiting: Iterator[dict[str, Any]], ready: selectors.BaseSelector
) -> None:
    job = again.pop() if again else next(waiting, None)
    if job is not None:
        worker.start(job)
        ready.register(worker.output, selectors.EVENT_READ, worker)


class _Worker:
    """A worker process, and the job that it has."""

    def __init__(self, progress: Path) -> None:
        self._progress = progress
        self._progress.write_bytes(bytes(16))
        self._job: dict[str, Any] = {}
        self._seen = (b"", 0.0, 0.0)
        self.process = self._begun()

    @property
    def output(self) -> Any:
        """Where answers come from."""
        return self.process.stdout

    def start(self, job: dict[str, Any]) -> None:
        """Hand over a job."""
        self._job, self._seen = job, (b"", 0.0, 0.0)
        self._progress.write_bytes(int(job.get("first", 0)).to_bytes(8, "little") + bytes(8))
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps(job) + "\n").encode())
        self.process.stdin.flush()

    def is_stalled(self) -> bool:
        """Whether the same input has been in hand for too long."""
        try:
            used = psutil.Process(self.process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return False
        progress, busy, now = self._progress.read_bytes(), used.user + used.system, time.monotonic()
        if progress != self._seen[0]:
            self._seen = (progress, busy, now)
        return busy - self._seen[1] > STALL_SECONDS or now - self._seen[2] > SILENCE_SECONDS

    def after_death(self, report: Report, what: str) -> list[dict[str, Any]]:
        """Note which input ended the process, begin another, and give back what is left of the job."""
        code = self.process.wait()
        errors = self.process.stderr.read().decode(errors="replace") if self.process.stderr else ""
        if code > 0:  # no signal: it is this program that failed
            raise RuntimeError(f"a worker failed outside of any parser, with the job {self._job}\n{errors}")
        job, number = self._job, self._number()
        is_replay = "data" in job
        data = base64.b64decode(job["data"]) if is_replay else input_of(TARGETS[job["target"]], job["seed"], number)
        lines = [line for line in errors.splitlines() if "/src/pyhudi/" in line]
        signature = f"{what} ({code}) {lines[0].strip() if lines else ''}"
        found = {"data": base64.b64encode(data).decode(), "detail": errors[-4000:], "number": number}
        before = 0 if is_replay else number - job["first"]
        counts = {"failed": 1, "lost": before}
        report.add({"target": job["target"], "counts": counts, "failures": {signature: found}, "seconds": 0})
        self._close()
        self.process = self._begun()
        return [] if is_replay or number + 1 >= job["last"] else [{**job, "first": number + 1}]

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()

    def _number(self) -> int:
        return int.from_bytes(self._progress.read_bytes()[:8], "little")

    def _begun(self) -> subprocess.Popen[bytes]:
        # One arena and the system's allocator: what a parser asks for then shows in the size of the process.
        settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, *WORKER, str(self._progress), *WORKER_ARGUMENTS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **settings, "OPENBLAS_NUM_THREADS": "1"},
        )
