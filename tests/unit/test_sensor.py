"""The sensor of Airflow; with Airflow itself where it is installed."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.pages import ROOT, blocks, run_block

import pyhudi
from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError
from pyhudi.sensor import HudiPartitionSensor

has_airflow = importlib.util.find_spec("airflow") is not None
needs_airflow = pytest.mark.skipif(not has_airflow, reason="needs Airflow, which has an environment of its own")


def write(path: Path, minute: int) -> pyhudi.HudiTable:
    at = datetime(2026, 11, 22, 9, tzinfo=UTC) + timedelta(minutes=minute)
    rows = pa.table({"id": [minute], "at": [at], "hour": [f"{at:%Y-%m-%d/%H}"]})
    options = {
        "hoodie.table.name": "events",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "hour",
        "hoodie.write.track.event.time.watermark": "true",
        "hoodie.payload.event.time.field": "at",
    }
    pyhudi.save(rows, path, hudi_options=options)
    return pyhudi.HudiTable.for_path(path)


def sensor(path: Path, **given: Any) -> HudiPartitionSensor:
    return HudiPartitionSensor(task_id="wait", table_path=str(path), partition="2026-11-22/09", **given)


@pytest.mark.skipif(has_airflow, reason="Airflow is there")
def test_sensor_without_airflow_says_what_is_missing(tmp_path: Path):
    with pytest.raises(UnsupportedFeatureError, match="airflow"):
        sensor(tmp_path)


@needs_airflow
def test_sensor_is_done_when_the_partition_is_complete_and_gives_the_write(tmp_path: Path):
    path = tmp_path / "events"
    assert not sensor(path).poke({}).is_done  # no table yet
    write(path, 10)
    assert not sensor(path).poke({}).is_done
    table = write(path, 62)
    done = sensor(path).poke({})
    assert done.is_done
    assert done.xcom_value == table.watermark().instant
    assert not sensor(path, lateness=timedelta(minutes=3)).poke({}).is_done
    later = write(path, 59)
    assert later.inspect.late_rows("2026-11-22/09", done.xcom_value) == 1


@needs_airflow
def test_sensor_runs_as_a_task_of_airflow(tmp_path: Path):
    path = tmp_path / "events"
    table = write(path, 62)
    waiting = sensor(path, poke_interval=0.1, timeout=5)
    assert waiting.execute({}) == table.watermark().instant
    assert set(waiting.template_fields) == {"table_path", "partition"}


@needs_airflow
def test_sensor_refuses_a_partition_that_is_no_span_of_time(tmp_path: Path):
    path = tmp_path / "events"
    write(path, 62)
    waiting = HudiPartitionSensor(task_id="wait", table_path=str(path), partition="city=oslo")
    with pytest.raises(InvalidRequestError, match="no hour"):
        waiting.poke({})


@needs_airflow
def test_block_of_the_page_makes_a_sensor(tmp_path: Path):
    (block,) = (block for block in blocks(ROOT / "docs" / "ingestion.md") if "HudiPartitionSensor" in block.code)
    run_block(block, {"timedelta": timedelta}, folder=tmp_path)
