"""kill -9 at random moments of a write: the table reads as before or after it, and the next write goes through.

`PYHUDI_KILLS=50` kills more often.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.support.audit import audit
from tests.support.kill_program import OPTIONS, batch

import pyhudi

KILLS = int(os.environ.get("PYHUDI_KILLS", "6"))
PROGRAM = Path(__file__).parents[2] / "support" / "kill_program.py"
PROMPTLY_SECONDS = 30.0
"""Far below the minutes after which a heartbeat expires, far above a write on a busy machine."""


@pytest.mark.parametrize(("table_type", "version"), [("cow", 9), ("mor", 6), ("mor", 9)])
def test_a_killed_writer_leaves_all_or_nothing_and_never_blocks_the_next_one(
    table_type: str, version: int, tmp_path: Path
) -> None:
    """Writers to merge-on-read tables compact after every second write: they die in compactions, too."""
    dice = random.Random(20260101)
    path = str(tmp_path / "t")
    pyhudi.HudiTable.create(
        path,
        schema=batch(0, range(1)).schema,
        record_key="id",
        partition_by="city",
        table_type=table_type,
        table_version=version,
        hudi_options=OPTIONS,
    )
    expected: dict[int, int] = {}
    turn = 1
    for kill in range(KILLS):
        started, acknowledged = _killed_writer(path, turn, dice)
        for done in range(turn, acknowledged + 1):
            expected |= _written(done)
        found = _read(path)
        before, after = expected, expected | _written(started)
        assert found in (before, after), f"kill {kill}"

        turn = started + 1
        begun = time.monotonic()
        table = pyhudi.HudiTable.for_path(path, hudi_options=OPTIONS)
        table.upsert(batch(turn, range(40)))
        assert time.monotonic() - begun < PROMPTLY_SECONDS
        expected = found | dict.fromkeys(range(40), turn)
        assert _read(path) == expected, f"kill {kill}"
        audit(table.handle.state.storage)
        turn += 1
    if table_type == "mor":
        assert "compact" in pyhudi.HudiTable.for_path(path).inspect.history().column("operation").to_pylist()


def _killed_writer(path: str, turn: int, dice: random.Random) -> tuple[int, int]:
    """Let a process write and kill it; the number of the write it died in or after, and of the last it finished."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), path, str(turn)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        # Wait for a first write to begin, sometimes for a later one; then for some part of the time that one takes.
        lines = [process.stdout.readline().split()]
        begun = time.monotonic()
        lines.extend(process.stdout.readline().split() for _ in range(dice.choice([0, 0, 2, 4])))
        per_write = (time.monotonic() - begun) / max(1, len(lines) // 2)
        time.sleep(dice.random() * (per_write if len(lines) > 1 else 0.4))
        assert process.poll() is None, process.stderr.read()
    finally:
        process.kill()
        rest, _ = process.communicate()
    lines += [line.split() for line in rest.splitlines()]
    started = max(int(number) for word, number in lines if word == "start")
    done = max((int(number) for word, number in lines if word == "done"), default=turn - 1)
    return started, done


def _written(turn: int) -> dict[int, int]:
    ids = range(1000 * turn, 1000 * turn + 10) if turn % 3 == 0 else range(40)
    return dict.fromkeys(ids, turn)


def _read(path: str) -> dict[int, int]:
    rows = pyhudi.HudiTable.for_path(path).scan(["id", "turn"]).to_arrow().to_pylist()
    assert max(Counter(row["id"] for row in rows).values(), default=1) == 1
    return {row["id"]: row["turn"] for row in rows}
