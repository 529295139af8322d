"""`python -m pyhudi wait-for` as a scheduler runs it: a process of its own, beside one that writes the table."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

WRITER = """
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import pyhudi

for line in sys.stdin:
    source, minute = line.split()
    at = datetime(2026, 11, 22, 9, tzinfo=UTC) + timedelta(minutes=int(minute))
    rows = pa.table({"id": [f"{source}{minute}"], "at": [at], "hour": [f"{at:%Y-%m-%d/%H}"]})
    options = {
        "hoodie.table.name": "events",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "hour",
        "hoodie.write.track.event.time.watermark": "true",
        "hoodie.payload.event.time.field": "at",
        "hoodie.write.event.time.source": source,
    }
    print(pyhudi.save(rows, sys.argv[1], hudi_options=options).instant, flush=True)
"""
"""Writes an event of a source, at a minute after nine, for each line; and says the instant of the write."""
SOURCES = ["--sources", "orders,payments"]


class Writer:
    """A process that writes events into a table."""

    def __init__(self, told: IO[str], says: IO[str]) -> None:
        self.told, self.says = told, says

    def write(self, source: str, minute: int) -> str:
        self.told.write(f"{source} {minute}\n")
        self.told.flush()
        return self.says.readline().strip()


@contextmanager
def writer_of(path: Path) -> Iterator[Writer]:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Writer(process.stdin, process.stdout)


def started(path: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pyhudi", "wait-for", str(path), "--partition", "2026-11-22/09", "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> tuple[int, dict[str, object]]:
    """The exit status, and what was printed."""
    out, err = process.communicate(timeout=100)
    assert err == "", err
    return process.returncode, json.loads(out)


def is_waiting(process: subprocess.Popen[str], seconds: float) -> bool:
    """Whether a process is still there after a while."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return True
    return False


def test_scheduler_waits_for_the_last_source_and_is_told_what_came_later(tmp_path: Path):
    path = tmp_path / "events"
    with writer_of(path) as writer:
        writer.write("orders", 59)
        waits_for_one = started(path, "--poll", "1s", "--timeout", "90s")
        waits_for_both = started(path, *SOURCES, "--poll", "1s", "--timeout", "90s")
        assert is_waiting(waits_for_one, 1)
        complete = writer.write("orders", 65)
        status, shown = ended(waits_for_one)
        assert (status, shown["complete"], shown["instant"]) == (0, True, complete)
        assert is_waiting(waits_for_both, 0)  # nothing of the payments

        stalled_at = writer.write("payments", 30)
        began = time.monotonic()
        status, shown = ended(started(path, *SOURCES, "--timeout", "1s"))
        assert time.monotonic() - began >= 1
        assert (status, shown["complete"], shown["instant"]) == (3, False, stalled_at)
        assert shown["watermark"] == "2026-11-22T09:30:00+00:00"
        assert is_waiting(waits_for_both, 0)
        _, err = (refused := started(path, "--partition", "city=oslo", "--timeout", "1h")).communicate(timeout=100)
        assert (refused.returncode, "no hour, day or month" in err) == (2, True), err

        complete = writer.write("payments", 75)
        status, shown = ended(waits_for_both)
        assert (status, shown["instant"], shown["watermark"]) == (0, complete, "2026-11-22T10:05:00+00:00")
        writer.write("payments", 45)
        status, shown = ended(started(path, *SOURCES, "--lateness", "5m", "--after", complete))
        assert (status, shown["late_rows"]) == (0, 1)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ([], "TableNotFoundError", "is not a Hudi table"),
        (["--lateness", "ten"], "InvalidRequestError", "must be a span such as 10m"),
    ],
)
def test_path_or_argument_that_is_wrong_ends_with_two_and_a_complaint(
    tmp_path: Path, given: list[str], error: str, said: str
):
    process = started(tmp_path, *given, "--timeout", "0s")
    out, err = process.communicate(timeout=100)
    assert (process.returncode, json.loads(out)["error"]) == (2, error)
    assert (said in err, "Traceback" in err) == (True, False), err
