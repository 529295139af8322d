"""Writes on a cluster: rows, keys and tags between their tasks make no calls of the table's store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.kept_program import INDEXES
from tests.cluster.killing import PROGRAM_SECONDS_MAX, told_by_program
from tests.support.audit import audit
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

from pyhudi.storage.local import LocalStorage

__all__ = ["cluster"]
PROGRAM = Path(__file__).with_name("kept_program.py")
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)
#: The rows 100 to 199 are of the insert, 200 to 549 of the upsert, 550 to 649 of the merge.
SEEN = [550, 550, 100 * 1 + 350 * 2 + 100 * 4]
PURPOSES = {"data", "markers", "heartbeats", "locks", "timeline", "metadata_table", "archive"}


def test_writes_with_all_indexes_keep_what_their_tasks_hand_on_off_the_store(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    *told, last = told_by_program(PROGRAM, cluster, tmp_path, {"config": dict(APPLICATION)}, [])

    assert {seen["index"]: seen["sums"] for seen in told} == dict.fromkeys(INDEXES, SEEN)
    for seen in told:
        # An index of the metadata table is built by a plan, which is no matter of its rows.
        others = {"coordination"} if seen["index"] == "RECORD_INDEX" else set()
        assert set(seen["purposes"]) <= PURPOSES | others, seen
        assert not [path for path in (tmp_path / seen["index"]).rglob("*") if ".exchange" in path.name]
        audit(LocalStorage(tmp_path / seen["index"]))
    assert last["kept"] == 0
