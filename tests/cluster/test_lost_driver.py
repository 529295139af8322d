"""A driver that is killed between two stages, on a cluster: what tasks handed on is not on the table's store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.audit import audit
from tests.support.killed_driver import CALLS, NAMES, PROGRAM_SECONDS_MAX, ROWS, STAGES, data_files, kill_driver
from tests.support.minio import Minio, minio
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

import pyhudi
from pyhudi.storage.open import open_storage

__all__ = ["cluster", "minio"]
WRITERS_KEEP = tuple(f".hoodie/{name}/" for name in (".temp", ".heartbeat", ".locks", "timeline", ".aux/.intents"))
"""What a write begins with: its instant, its markers and its heartbeat."""
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)


@pytest.mark.parametrize("calls", CALLS, ids=NAMES)
def test_write_after_a_lost_driver_leaves_nothing_of_its_write_on_the_store(
    calls: int, cluster: SparkCluster, minio: Minio, tmp_path: Path
) -> None:
    uri = minio.new_root()
    table = pyhudi.HudiTable.create(
        uri, schema=ROWS.schema, record_key="id", partition_by="city", ordering_fields="ts", hudi_options=minio.options
    )
    table.bulk_insert(ROWS)
    storage = open_storage(uri, minio.options)
    before, all_before = data_files(storage), {info.path for info in storage.list_recursive("")}

    kill_driver(cluster.master, calls, uri, minio.options, APPLICATION, tmp_path)

    left = {info.path for info in storage.list_recursive(".hoodie")} - all_before
    assert {path for path in left if storage.read(path, length=6) == b"ARROW1"} == set()
    assert {path for path in left if not path.startswith(WRITERS_KEEP)} == set()
    table.refresh()
    assert table.scan().to_arrow().select(ROWS.column_names).sort_by("id") == ROWS
    assert (data_files(storage) > before) is (calls == len(STAGES))
    result = table.upsert(ROWS.slice(0, 1))
    assert {name for name in data_files(storage) - before if result.instant not in name} == set()
    assert table.scan().count() == 20
    audit(storage)
