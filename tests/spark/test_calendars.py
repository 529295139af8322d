"""Old dates and times in base files, in a session that takes those of other files for ones of the Julian calendar."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyhudi

OLD = [dt.date(1580, 1, 1), dt.date(1, 1, 1), dt.date(1582, 10, 15)]
MODES = {f"spark.sql.parquet.{name}RebaseModeInRead": "LEGACY" for name in ("datetime", "int96")}


@pytest.fixture
def julian(spark: SparkSession) -> Iterator[SparkSession]:
    for name, mode in MODES.items():
        spark.conf.set(name, mode)
    yield spark
    for name in MODES:
        spark.conf.unset(name)


def test_old_dates_are_what_they_are_whatever_calendar_the_session_has(julian: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": OLD, "note": ["a", "b", "c"]})
    table = pyhudi.HudiTable.create(tmp_path, schema=rows.schema, record_key="id")
    table.insert(rows)
    julian.sql(f"CREATE TABLE old_days USING hudi LOCATION '{tmp_path}'")
    try:
        found = julian.sql("SELECT day FROM old_days ORDER BY id").collect()
        assert [row.day for row in found] == OLD
        assert julian.sql("SELECT id FROM old_days WHERE day = DATE'1580-01-01'").collect() == [(1,)]
        julian.sql("UPDATE old_days SET note = 'x' WHERE id < 3")
    finally:
        julian.sql("DROP TABLE old_days")
    stored = table.refresh().scan(["id", "day"]).to_arrow().sort_by("id")
    assert stored["day"].to_pylist() == OLD
