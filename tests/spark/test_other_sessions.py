"""The same round trip where executors are other processes, and through Spark Connect: each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("round_trip_program.py")
PROGRAM_SECONDS_MAX = 500
ROWS = {"rows": 1000, "changed": 100, "cities": ["c0", "c1"]}


@pytest.mark.timeout(PROGRAM_SECONDS_MAX + 30)
@pytest.mark.parametrize(("kind", "executors"), [("cluster", 2), ("connect", 1)])
def test_round_trip_gives_the_same_rows_and_errors(kind: str, executors: int, tmp_path: Path) -> None:
    if kind == "connect":
        pytest.importorskip("grpc")
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), kind, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
        cwd=tmp_path,
    )

    assert ran.returncode == 0, ran.stderr[-4000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "copy on write": ROWS,
        "merge on read": {**ROWS, "changed without logs": 0},
        "compacted": {**ROWS, "changed without logs": 100},
        "refused": "RecordKeyError",
        "parallelism": 2,
        "elsewhere": True,
        "executors": executors,
    }
