"""Writes of an application whose executors, on a standalone cluster, are killed; the table is on an S3 server."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cluster.life_program import ROWS
from tests.support.audit import audit
from tests.support.minio import Minio, minio
from tests.support.spark_cluster import APPLICATION, EXECUTORS_OF_A_WORKER, WORKERS, SparkCluster, cluster

from pyhudi.storage.open import open_storage

__all__ = ["cluster", "minio"]
PROGRAM = Path(__file__).with_name("life_program.py")
PROGRAM_SECONDS_MAX = 500
STEPS = 4
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)

#: What the four steps of the program make of the fares 0 to ROWS - 1: rows, keys, and their sum.
_ODD = [fare for fare in range(ROWS) if fare % 2]
_CHANGED = [1 if fare % 4 == 1 else fare for fare in _ODD]
_LEFT = [1 if fare % 4 == 1 else fare for fare in _ODD if fare >= 1000]
SEEN = [
    [ROWS, ROWS, sum(range(ROWS))],
    [ROWS, ROWS, sum(_ODD)],
    [ROWS, ROWS, sum(_CHANGED)],
    [ROWS - 1000, ROWS - 1000, sum(_LEFT)],
]
#: Executors come and go, and what they have shuffled is lost with them. They stay long enough to serve several stages:
#: on a busy machine an executor and its Python worker take a minute to start, and each stage would wait for new ones.
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "20s",
    "spark.dynamicAllocation.executorIdleTimeout": "20s",
    "spark.dynamicAllocation.maxExecutors": str(WORKERS * EXECUTORS_OF_A_WORKER),
}


@pytest.mark.parametrize(
    ("allocation", "table_type"),
    [
        pytest.param("fixed", "COPY_ON_WRITE", marks=pytest.mark.quick),
        ("fixed", "MERGE_ON_READ"),
        ("dynamic", "COPY_ON_WRITE"),
        ("dynamic", "MERGE_ON_READ"),
    ],
)
def test_table_is_the_same_though_executors_are_killed_in_each_write(
    allocation: str, table_type: str, cluster: SparkCluster, minio: Minio, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    chosen, uri = random.Random(seed), minio.new_root()
    settings = {
        "uri": uri,
        "store": minio.options,
        "table_type": table_type,
        "config": {**APPLICATION, **(DYNAMIC if allocation == "dynamic" else {})},
    }
    command = [sys.executable, str(PROGRAM), cluster.master, str(tmp_path), json.dumps(settings)]
    killed = 0
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=tmp_path)
        try:
            for step in range(STEPS):
                if not _has_begun(tmp_path / f"step-{step}", program):
                    break
                time.sleep(chosen.uniform(0, 4))
                killed += cluster.kill_an_executor(chosen)
            answer, _ = program.communicate(timeout=PROGRAM_SECONDS_MAX)
        finally:
            program.kill()
            program.wait()
    assert program.returncode == 0, f"seed {seed}: {(tmp_path / 'log').read_text(errors='replace')[-4000:]}"
    said = json.loads(answer.splitlines()[-1])
    assert said["seen"] == SEEN, f"seed {seed}"
    assert killed > 0
    if allocation == "fixed":  # otherwise they come and go, and one may be left
        assert said["executors"] > 1
    audit(open_storage(uri, minio.options))


def _has_begun(mark: Path, program: subprocess.Popen[bytes]) -> bool:
    while not mark.exists():
        if program.poll() is not None:
            return False
        time.sleep(0.05)
    return True
