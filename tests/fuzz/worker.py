"""The process in which inputs are parsed. It reads jobs and writes what came of them, both as lines of JSON.

The number of the input in hand stands in a file that it shares with its parent, who so knows which one a crash is of. A
second number counts what was parsed, so that the parent sees a worker that is stuck.
"""

from __future__ import annotations

import base64
import json
import logging
import mmap
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from tests.fuzz import guard
from tests.fuzz.inputs import input_of
from tests.fuzz.minimise import minimised
from tests.fuzz.registry import TARGETS
from tests.fuzz.target import Target

_TRIES = 600
_TRIES_OF_HANGS = 25


def main(progress_file: str) -> None:
    """Work until there are no more jobs."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    guard.isolate()
    with guard.prepared(), Path(progress_file).open("r+b") as file, mmap.mmap(file.fileno(), 16) as progress:
        for line in sys.stdin:
            job = json.loads(line)
            result = _replayed(job) if "data" in job else _worked(job, progress)
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()


def _worked(job: dict[str, Any], progress: mmap.mmap) -> dict[str, Any]:
    """The inputs `first` to `last` of a target."""
    target = TARGETS[job["target"]]
    counts: Counter[str] = Counter()
    failures: dict[str, dict[str, Any]] = {}
    started = time.monotonic()
    for number in range(job["first"], job["last"]):
        progress[:8] = number.to_bytes(8, "little")
        data = input_of(target, job["seed"], number)
        outcome = _parsed(target, data, progress)
        if isinstance(outcome, guard.Failure):
            counts["failed"] += 1
            if outcome.signature not in failures:
                failures[outcome.signature] = _described(target, data, outcome, number, progress)
        else:
            counts[outcome.value] += 1
    seconds = time.monotonic() - started
    return {"target": target.name, "counts": counts, "failures": failures, "seconds": seconds}


def _replayed(job: dict[str, Any]) -> dict[str, Any]:
    target, data = TARGETS[job["target"]], base64.b64decode(job["data"])
    outcome = guard.run(target, data)
    if isinstance(outcome, guard.Failure):
        counts, failures = {"failed": 1}, {outcome.signature: _shown(data, outcome, -1)}
    else:
        counts, failures = {outcome.value: 1}, {}
    return {"target": target.name, "counts": counts, "failures": failures, "seconds": 0}


def _parsed(target: Target, data: bytes, progress: mmap.mmap) -> guard.Outcome | guard.Failure:
    progress[8:] = (int.from_bytes(progress[8:], "little") + 1).to_bytes(8, "little")
    return guard.run(target, data)


def _described(target: Target, data: bytes, failure: guard.Failure, number: int, progress: mmap.mmap) -> dict[str, Any]:
    def fails(shorter: bytes) -> bool:
        outcome = _parsed(target, shorter, progress)
        return isinstance(outcome, guard.Failure) and outcome.signature == failure.signature

    hangs = failure.signature.startswith(guard.HangError.__name__)
    return _shown(minimised(data, fails, tries=_TRIES_OF_HANGS if hangs else _TRIES), failure, number)


def _shown(data: bytes, failure: guard.Failure, number: int) -> dict[str, Any]:
    return {"data": base64.b64encode(data).decode(), "detail": failure.detail, "number": number}


if __name__ == "__main__":
    main(sys.argv[1])
