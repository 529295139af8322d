"""Executors that are killed while their tasks write files or shuffle rows; the table is on an S3 server."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cluster.lost_in_stage_program import ROWS, STEPS
from tests.support.audit import audit
from tests.support.minio import Minio, minio
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

from pyhudi.storage.open import open_storage

__all__ = ["cluster", "minio"]
PROGRAM = Path(__file__).with_name("lost_in_stage_program.py")
PROGRAM_SECONDS_MAX = 600
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)


@pytest.mark.parametrize("table_type", STEPS)
def test_executor_lost_inside_a_stage_neither_loses_nor_doubles_rows(
    table_type: str, cluster: SparkCluster, minio: Minio, tmp_path: Path
) -> None:
    """The input gives other values each time, and one of its tasks fails half-way: each row is of one evaluation."""
    uri = minio.new_root()
    settings = {"uri": uri, "store": minio.options, "table_type": table_type, "config": dict(APPLICATION)}
    command = [sys.executable, str(PROGRAM), cluster.master, str(tmp_path), json.dumps(settings)]
    with (tmp_path / "log").open("wb") as log, (tmp_path / "told").open("wb") as told:
        program = subprocess.Popen(command, stdout=told, stderr=log, cwd=tmp_path)
        try:
            killed = _kill_all_that_wait(program, tmp_path, cluster)
        finally:
            program.kill()
            program.wait()
    assert program.returncode == 0, (tmp_path / "log").read_text(errors="replace")[-4000:]
    steps = STEPS[table_type]
    assert killed == {
        f"kill-{number}-{' '.join(place)}" for number, (_, places) in enumerate(steps) for place in places
    }
    for number, seen in enumerate(json.loads((tmp_path / "told").read_text().splitlines()[-1])):
        assert seen["sums"] == [ROWS, ROWS, ROWS, ROWS // 2 if number else ROWS], number
        assert (seen["failed"], seen["commits"]) == (True, number + 1)
        # A task that was killed at its end had written its file.
        assert (seen["removed"] > 0) == any(
            place[1] == "end" and place[0] != "stage rows" for place in steps[number][1]
        )
    audit(open_storage(uri, minio.options))


def _kill_all_that_wait(program: subprocess.Popen[bytes], folder: Path, cluster: SparkCluster) -> set[str]:
    """Kill the executors of the tasks that wait for it, until the program ends. Returns the names of their files."""
    killed: set[str] = set()
    deadline = time.monotonic() + PROGRAM_SECONDS_MAX
    while program.poll() is None and time.monotonic() < deadline:
        for file in folder.glob("kill-*"):
            if file.name not in killed and (text := file.read_text()).endswith("\n"):
                assert cluster.kill_executor_of(int(text))
                killed.add(file.name)
        time.sleep(0.05)
    return killed
