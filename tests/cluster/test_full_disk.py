"""Executors that cannot write what they shuffle, as on a full disk; the table is on an S3 server.

A limit of the size of files stands for the full disk, because it needs no right to mount one: what Spark writes in a
shuffle fails with an error of the system in the same places.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.cluster.full_disk_program import ROWS, STEPS
from tests.support.audit import audit
from tests.support.minio import Minio, minio
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

from pyhudi.storage.open import open_storage

__all__ = ["cluster", "minio"]
PROGRAM = Path(__file__).with_name("full_disk_program.py")
PROGRAM_SECONDS_MAX = 500
FILE_BYTES_MAX = 64 << 10
#: Of each step: the workers whose executors have a full disk.
FULL = [(), (0, 1), (0,), ()]
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_write_on_full_disks_fails_with_nothing_visible_and_the_next_one_leaves_nothing_behind(
    table_type: str, cluster: SparkCluster, minio: Minio, tmp_path: Path
) -> None:
    uri = minio.new_root()
    settings = {"uri": uri, "store": minio.options, "table_type": table_type, "config": dict(APPLICATION)}
    command = [sys.executable, str(PROGRAM), cluster.master, str(tmp_path), json.dumps(settings)]
    with (tmp_path / "log").open("wb") as log:
        program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=tmp_path)
        try:
            for step in range(STEPS):
                while not (tmp_path / f"ready-{step}").exists() and program.poll() is None:
                    time.sleep(0.05)
                _limit_files(cluster, FULL[step])
                (tmp_path / f"go-{step}").touch()
            answer, _ = program.communicate(timeout=PROGRAM_SECONDS_MAX)
        finally:
            program.kill()
            program.wait()
    assert program.returncode == 0, (tmp_path / "log").read_text(errors="replace")[-4000:]
    first, all_full, one_full, last = json.loads(answer.splitlines()[-1])
    assert first == {"error": None, "sums": [ROWS, ROWS, 0, 0]}
    assert "OutOfSpaceError" in all_full["error"][0], all_full["error"]
    assert all_full["sums"] == first["sums"]
    # Spark tries the tasks again, on the other worker or on the same one, and gives up after four times.
    assert one_full["error"] is None or "OutOfSpaceError" in one_full["error"][0], one_full["error"]
    assert one_full["sums"] == ([ROWS, ROWS, 2, 2] if one_full["error"] is None else first["sums"])
    assert last == {"error": None, "sums": [ROWS, ROWS, 3, 3]}
    audit(open_storage(uri, minio.options))


def _limit_files(cluster: SparkCluster, full: tuple[int, ...]) -> None:
    """Limit the files of the executors of some workers, and lift the limit of the others."""
    for number, worker in enumerate(cluster.workers):
        limit = FILE_BYTES_MAX if number in full else psutil.RLIM_INFINITY
        for executor in psutil.Process(worker.pid).children(recursive=True):
            executor.rlimit(psutil.RLIMIT_FSIZE, (limit, psutil.RLIM_INFINITY))
