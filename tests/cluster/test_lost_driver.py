"""A driver that is killed between two stages, on a cluster: the next write leaves nothing of its write on the store.

The tasks run elsewhere, so what they hand on is on the table's store until the write ends.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.minio import Minio, minio
from tests.support.spark_cluster import APPLICATION, SparkCluster, cluster

import pyhudi
from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage

__all__ = ["cluster", "minio"]
PROGRAM = Path(__file__).with_name("lost_driver_program.py")
PROGRAM_SECONDS_MAX = 300
ROWS = pa.table(
    {"id": range(20), "city": [f"c{number % 4}" for number in range(20)], "ts": [1] * 20, "fare": range(20)}
)
#: The calls of the engine that an upsert makes.
STAGES = {"staging": "map_splits", "listing": "map", "look-up": "map", "files": "exchange"}
HANDED_ON = ".hoodie/.aux/.exchange"
pytestmark = pytest.mark.timeout(PROGRAM_SECONDS_MAX + 200)


def data_files(storage: Storage) -> set[str]:
    return {
        info.path for info in storage.list_recursive("") if parse_data_file(info.name) and ".hoodie" not in info.path
    }


@pytest.mark.parametrize("calls", range(1, len(STAGES) + 1), ids=[f"after {stage}" for stage in STAGES])
def test_write_after_a_lost_driver_leaves_nothing_of_its_write_on_the_store(
    calls: int, cluster: SparkCluster, minio: Minio, tmp_path: Path
) -> None:
    uri = minio.new_root()
    table = pyhudi.HudiTable.create(
        uri, schema=ROWS.schema, record_key="id", partition_by="city", ordering_fields="ts", hudi_options=minio.options
    )
    table.bulk_insert(ROWS)
    storage = open_storage(uri, minio.options)
    before = data_files(storage)

    settings = json.dumps({"uri": uri, "store": minio.options, "config": dict(APPLICATION)})
    killed = subprocess.run(
        [sys.executable, str(PROGRAM), cluster.master, str(calls), settings],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
        cwd=tmp_path,
    )

    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    assert killed.stdout.split() == list(STAGES.values())[:calls]
    assert storage.list_recursive(HANDED_ON)
    table.refresh()
    assert table.scan().to_arrow().select(ROWS.column_names).sort_by("id") == ROWS
    assert (data_files(storage) > before) is (calls == len(STAGES))
    result = table.upsert(ROWS.slice(0, 1))
    assert {name for name in data_files(storage) - before if result.instant not in name} == set()
    assert table.scan().count() == 20
    assert not storage.list_recursive(HANDED_ON)
    audit(storage)
