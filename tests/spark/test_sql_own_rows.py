"""Statements that compute new rows from those that they replace, while another process writes to the same table."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType

import pyhudi
from pyhudi.errors import WriteConflictError

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
RETRIES = "hoodie.write.num.retries.on.conflict.failures"
OTHER = (2, "oslo", 20.0)
STATEMENTS = {
    # The statement, and the rows after it and the other process: whichever was first, neither is lost.
    "insert overwrite trips select id, beside(fare) + 1 as fare, city from trips": [11.0, 21.0],
    "insert overwrite trips partition (city = 'oslo') select id, beside(fare) + 1 from trips": [11.0, 21.0],
    "merge into trips t using (select id, beside(fare) + 1 as fare, city from trips) s "
    "on t.id = s.id and t.city = s.city when matched then update set *": [11.0, 21.0],
    "with doubled as (select id, beside(fare) * 2 as fare from trips) merge into trips t using doubled s "
    "on t.id = s.id when matched then update set fare = s.fare": [20.0, 40.0],
    "insert overwrite trips select id, beside(fare) + 1 as fare, city from seen": [11.0, 21.0],
    "merge into trips t using (select id, beside(fare) + 1 as fare, city from stored) s "
    "on t.id = s.id and t.city = s.city when matched then update set *": [11.0, 21.0],
    "update trips set fare = (select max(beside(fare)) from trips) + 1 where id = 1": [21.0, 20.0],
}


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A table `trips` with two rows, and a function `beside`, which has another process change one of them, once."""
    pyhudi.enable(spark)
    folder, done = tmp_path / "t", tmp_path / "done"

    def beside(fare: float) -> float:
        try:
            os.close(os.open(done, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return fare
        changed = pa.table([[value] for value in OTHER], schema=SCHEMA)
        pyhudi.HudiTable.for_path(folder).upsert(changed)
        return fare

    spark.udf.register("beside", beside, DoubleType())
    yield folder
    for one in ("VIEW IF EXISTS seen", "VIEW IF EXISTS stored", "TABLE IF EXISTS trips"):
        spark.sql(f"DROP {one}")
    spark.conf.unset(RETRIES)


def made(spark: SparkSession, folder: Path) -> None:
    table = pyhudi.HudiTable.create(folder, schema=SCHEMA, record_key="id", partition_by="city")
    table.insert(pa.table([[1, 2], ["oslo", "oslo"], [10.0, 5.0]], schema=SCHEMA))
    spark.sql(f"CREATE TABLE trips USING hudi LOCATION '{folder}'")
    spark.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM trips")
    spark.sql("CREATE VIEW stored AS SELECT * FROM trips")


def fares(folder: Path) -> list[Any]:
    rows = pyhudi.HudiTable.for_path(folder).scan(["id", "fare"]).to_arrow().sort_by("id")
    return rows.column("fare").to_pylist()


@pytest.mark.parametrize(
    "statement", STATEMENTS, ids=["all rows", "partition", "upsert", "join", "view", "stored view", "query as value"]
)
def test_rows_of_the_table_itself_that_another_changes_meanwhile_are_read_again(
    spark: SparkSession, path: Path, statement: str
) -> None:
    made(spark, path)
    spark.conf.set(RETRIES, "2")

    spark.sql(statement)

    assert fares(path) == STATEMENTS[statement]


def test_overwrite_of_rows_that_another_has_changed_gives_way(spark: SparkSession, path: Path) -> None:
    made(spark, path)

    with pytest.raises(WriteConflictError, match="changed rows that this write read"):
        spark.sql(next(iter(STATEMENTS)))

    assert fares(path) == [10.0, 20.0]
