"""The driver of a Spark write is killed between two stages: the next write leaves nothing of it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.audit import audit

import pyhudi
from pyhudi.storage.local import LocalStorage

PROGRAM = Path(__file__).with_name("killed_driver_program.py")
PROGRAM_SECONDS_MAX = 240
ROWS = pa.table(
    {"id": range(20), "city": [f"c{number % 4}" for number in range(20)], "ts": [1] * 20, "fare": range(20)}
)
#: The calls of the engine that an upsert makes.
STAGES = {"staging": "map_splits", "listing": "map", "look-up": "map", "files": "exchange"}


def data_files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*.parquet") if ".hoodie" not in path.parts}


@pytest.mark.timeout(PROGRAM_SECONDS_MAX + 60)
@pytest.mark.parametrize("calls", range(1, len(STAGES) + 1), ids=[f"after {stage}" for stage in STAGES])
def test_write_after_a_killed_driver_leaves_nothing_of_its_write(calls: int, tmp_path: Path) -> None:
    folder = tmp_path / "trips"
    table = pyhudi.HudiTable.create(
        folder, schema=ROWS.schema, record_key="id", partition_by="city", ordering_fields="ts"
    )
    table.bulk_insert(ROWS)
    before = data_files(folder)

    killed = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), str(calls)],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
        cwd=tmp_path,
    )

    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    assert killed.stdout.split() == list(STAGES.values())[:calls]
    assert pyhudi.HudiTable.for_path(folder).scan().to_arrow().select(ROWS.column_names).sort_by("id") == ROWS
    assert (data_files(folder) > before) is (calls == len(STAGES))
    result = pyhudi.HudiTable.for_path(folder).upsert(ROWS.slice(0, 1))
    assert {name for name in data_files(folder) - before if result.instant not in name} == set()
    assert pyhudi.HudiTable.for_path(folder).scan().count() == 20
    audit(LocalStorage(str(folder)))
