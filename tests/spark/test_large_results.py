"""Results of tasks that take more than the driver collects at once: a table of many file groups is not bound by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.spark import results_at_most

import pyhudi
from pyhudi.spark import engine, outcomes

GROUPS, SPLITS = 5, 8
SCHEMA = pa.schema({"id": pa.int64(), "city": pa.int64(), "version": pa.int64()})
OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.metadata.enable": "false"}
VERSIONS = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


def test_writes_reads_and_cleans_are_not_bound_by_what_the_driver_collects_at_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", 0)  # each stage is one of Spark
    monkeypatch.setattr(outcomes, "RESULT_BYTES", 2_000)
    rows = spark.range(0, 4 * GROUPS, 1, SPLITS).selectExpr("id", f"id % {GROUPS} city", "0L version")
    table = pyhudi.HudiTable.create(
        tmp_path / "t", schema=SCHEMA, record_key="id", partition_by="city", hudi_options=OPTIONS
    )

    with results_at_most(spark, "4k"):
        assert table.bulk_insert(rows).inserted == 4 * GROUPS
        assert table.upsert(rows.selectExpr("id", "city", "1L version")).updated == 4 * GROUPS
        assert table.scan(where=[("version", "==", 1)]).count() == table.scan().count() == 4 * GROUPS
        assert table.services.clean(hudi_options=VERSIONS) is not None

    assert table.scan().count() == 4 * GROUPS
