"""What each process writes down before and after a call, so that a later judge knows what it was told.

A line is on the disk before the call begins, and before anybody acts on its answer. A process that is killed leaves a
call without an answer, and perhaps half a line.
"""

from __future__ import annotations

import enum
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyhudi.testing.isolation import Ending


class Work(enum.StrEnum):
    """What a call does."""

    APPEND = "append"
    ONCE = "once"
    OWN = "own"
    SERVICE = "service"
    SNAPSHOT = "snapshot"
    PULL = "pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call and its answer. `began` and `ended` are seconds of the machine's monotonic clock."""

    name: str
    work: Work
    began: float
    asked: Mapping[str, Any]
    ended: float | None = None
    ending: Ending = Ending.UNKNOWN
    error: str | None = None
    answer: Mapping[str, Any] | None = None


class Journal:
    """One process's file."""

    def __init__(self, folder: Path, process: str) -> None:
        self._path = folder / f"{process}.jsonl"
        self._calls = 0

    def begin(self, work: Work, **asked: Any) -> str:
        """Write down that a call begins; its name, which no other call has."""
        self._calls += 1
        name = f"{self._path.stem}.{self._calls}"
        self._write({"call": name, "work": work.value, "at": time.monotonic(), "asked": asked})
        return name

    def end(self, name: str, ending: Ending, *, error: str | None = None, **answer: Any) -> None:
        """Write down what a call was told."""
        line = {"call": name, "ending": ending.name, "at": time.monotonic(), "error": error, "answer": answer}
        self._write(line)

    def _write(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def read_journals(folder: Path, processes: str = "*") -> tuple[Call, ...]:
    """The calls of all processes, or of those whose names fit a pattern."""
    return tuple(call for file in sorted(folder.glob(f"{processes}.jsonl")) for call in _calls(_lines(file)))


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text().splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            # The process was killed in the midst of it, before anything of what it says had begun.
            return


def _calls(lines: Iterable[Mapping[str, Any]]) -> Iterator[Call]:
    begun: dict[str, dict[str, Any]] = {}
    for line in lines:
        name = line["call"]
        if "work" in line:
            begun[name] = {"name": name, "work": Work(line["work"]), "began": line["at"], "asked": dict(line["asked"])}
        else:
            ending = Ending[line["ending"]]
            begun[name] |= {k: line[k] for k in ("error", "answer")} | {"ending": ending, "ended": line["at"]}
    return (Call(**values) for values in begun.values())
