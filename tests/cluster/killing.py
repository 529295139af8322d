"""A program on a cluster whose tasks wait to be killed (`lost_in_stage_program.py`), and what kills their executors."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.spark_cluster import SparkCluster

PROGRAM_SECONDS_MAX = 600


def told_by_program(
    program: Path,
    cluster: SparkCluster,
    folder: Path,
    settings: Mapping[str, Any],
    places: Sequence[Sequence[tuple[str, str]]],
) -> Any:
    """What a program prints in its last line. `places`: by step where its tasks wait, all of which have to be reached.

    Kills the executors of the tasks that wait.
    """
    command = [sys.executable, str(program), cluster.master, str(folder), json.dumps(settings)]
    with (folder / "log").open("wb") as log, (folder / "told").open("wb") as told:
        process = subprocess.Popen(command, stdout=told, stderr=log, cwd=folder)
        try:
            killed = _kill_all_that_wait(process, folder, cluster)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, (folder / "log").read_text(errors="replace")[-4000:]
    assert killed == {f"kill-{step}-{' '.join(place)}" for step, found in enumerate(places) for place in found}
    return json.loads((folder / "told").read_text().splitlines()[-1])


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
