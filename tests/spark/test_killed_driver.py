"""The driver of a Spark write is killed between two stages: the next write leaves nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.audit import audit
from tests.support.killed_driver import CALLS, NAMES, PROGRAM_SECONDS_MAX, ROWS, STAGES, data_files, kill_driver

import pyhudi
from pyhudi.storage.local import LocalStorage

CONFIG = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",
}


@pytest.mark.timeout(PROGRAM_SECONDS_MAX + 60)
@pytest.mark.parametrize("calls", CALLS, ids=NAMES)
def test_write_after_a_killed_driver_leaves_nothing_of_its_write(calls: int, tmp_path: Path) -> None:
    folder = tmp_path / "trips"
    table = pyhudi.HudiTable.create(
        folder, schema=ROWS.schema, record_key="id", partition_by="city", ordering_fields="ts"
    )
    table.bulk_insert(ROWS)
    storage = LocalStorage(folder)
    before = data_files(storage)

    kill_driver("local[2]", calls, str(folder), {}, CONFIG, tmp_path)

    assert pyhudi.HudiTable.for_path(folder).scan().to_arrow().select(ROWS.column_names).sort_by("id") == ROWS
    assert (data_files(storage) > before) is (calls == len(STAGES))
    result = pyhudi.HudiTable.for_path(folder).upsert(ROWS.slice(0, 1))
    assert {name for name in data_files(storage) - before if result.instant not in name} == set()
    assert pyhudi.HudiTable.for_path(folder).scan().count() == 20
    audit(storage)
