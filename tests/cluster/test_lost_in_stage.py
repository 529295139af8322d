"""Executors that are killed while their tasks write files or shuffle rows; the table is on an S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.killing import PROGRAM_SECONDS_MAX, told_by_program
from tests.cluster.lost_in_stage_program import ROWS, STEPS
from tests.support.audit import audit
from tests.support.minio import Minio, minio
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

from pyhudi.storage.open import open_storage

__all__ = ["cluster", "minio"]
PROGRAM = Path(__file__).with_name("lost_in_stage_program.py")
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)


@pytest.mark.parametrize("table_type", STEPS)
def test_executor_lost_inside_a_stage_neither_loses_nor_doubles_rows(
    table_type: str, cluster: SparkCluster, minio: Minio, tmp_path: Path
) -> None:
    """The input gives other values each time, and one of its tasks fails half-way: each row is of one evaluation."""
    uri = minio.new_root()
    settings = {"uri": uri, "store": minio.options, "table_type": table_type, "config": dict(APPLICATION)}
    steps = STEPS[table_type]
    told = told_by_program(PROGRAM, cluster, tmp_path, settings, [places for _, places in steps])
    for number, seen in enumerate(told):
        assert seen["sums"] == [ROWS, ROWS, ROWS, ROWS // 2 if number else ROWS], number
        assert (seen["failed"], seen["commits"]) == (True, number + 1)
        # A task that was killed at its end had written its file.
        assert (seen["removed"] > 0) == any(
            place[1] == "end" and place[0] != "stage rows" for place in steps[number][1]
        )
    audit(open_storage(uri, minio.options))
