"""An input that gives other rows each time: a write evaluates it once, so what is stored is one of its answers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import functions as sql

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("value", pa.float64()), ("copy", pa.float64())])
ROWS = 60
KINDS = {
    "bulk insert": ("bulk_insert", {"hoodie.bulkinsert.sort.mode": "NONE"}),
    "bulk insert, sorted in partitions": ("bulk_insert", {"hoodie.bulkinsert.sort.mode": "PARTITION_SORT"}),
    "insert": ("insert", {}),
    "upsert": ("upsert", {}),
    "upsert, BLOOM": ("upsert", {"hoodie.index.type": "BLOOM"}),
    "upsert, GLOBAL_SIMPLE": ("upsert", {"hoodie.index.type": "GLOBAL_SIMPLE"}),
    "upsert, BUCKET": ("upsert", {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}),
    "insert overwrite": ("insert_overwrite", {}),
    "delete": ("delete", {}),
}


def other_each_time(spark: Any, seen: Any) -> Any:
    """Rows whose key, partition and values are made by chance, each time anew; `seen` counts how many were made."""

    chance = sql.udf(lambda _: seen.add(1) or random.random(), "double").asNondeterministic()
    made = spark.range(0, ROWS, 1, 3).select(chance("id").alias("value"))
    return made.selectExpr(
        "cast(value as string) as id", "concat('c', cast(value * 3 as int)) as city", "value", "value as copy"
    )


@pytest.mark.parametrize(("verb", "options"), KINDS.values(), ids=KINDS)
def test_write_evaluates_its_input_once_and_stores_each_row_whole(
    spark: Any, tmp_path: Path, verb: str, options: dict[str, str]
) -> None:
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city", hudi_options=options
    )
    seen = spark.sparkContext.accumulator(0)

    result = getattr(table, verb)(other_each_time(spark, seen))

    assert seen.value == ROWS
    if verb == "delete":
        return
    stored = table.scan().to_arrow().to_pylist()
    assert len(stored) == result.inserted == ROWS
    assert all(row["value"] == row["copy"] == float(row["id"]) for row in stored)
    assert all(row["city"] == f"c{int(row['value'] * 3)}" for row in stored)


def test_global_sort_evaluates_its_input_twice_and_stores_the_rows_of_the_second_time(
    spark: Any, tmp_path: Path
) -> None:
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        hudi_options={"hoodie.bulkinsert.sort.mode": "GLOBAL_SORT"},
    )
    seen = spark.sparkContext.accumulator(0)

    table.bulk_insert(other_each_time(spark, seen))

    assert seen.value == 2 * ROWS
    stored = table.scan().to_arrow().to_pylist()
    assert len(stored) == ROWS
    assert all(row["value"] == row["copy"] == float(row["id"]) for row in stored)


def test_calls_of_workers_come_with_their_results(spark: Any, tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city")
    rows = spark.range(0, 6, 1, 3).selectExpr(
        "cast(id as string) as id", "'c' as city", "1.0D as value", "1.0D as copy"
    )

    result = table.bulk_insert(rows)

    # Each of the workers may put the metadata of the partition, too.
    assert result.files < result.calls["data"]["PUT"] <= 2 * result.files


@pytest.mark.parametrize("joins", [False, True], ids=["by key", "by a join"])
def test_merge_evaluates_its_source_once(spark: Any, tmp_path: Path, joins: bool) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city")
    table.upsert(pa.table({"id": ["a"], "city": ["far"], "value": [1.0], "copy": [1.0]}, schema=SCHEMA))
    seen = spark.sparkContext.accumulator(0)
    merge = table.merge(other_each_time(spark, seen), on=["id", "city"])
    if joins:
        merge = merge.when_matched_update(set={"copy": sql.expr("target.copy + source.copy")})

    merged = merge.when_not_matched_insert_all().execute()

    assert (seen.value, merged.inserted) == (ROWS, ROWS)
    stored = [row for row in table.scan().to_arrow().to_pylist() if row["id"] != "a"]
    assert all(row["value"] == row["copy"] == float(row["id"]) for row in stored)


@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3), reason="Spark before 4.3")
def test_spark_compares_what_it_shuffles_again_unless_it_is_told_not_to(spark: Any) -> None:
    settings = [
        f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
    ]
    assert [spark.conf.get(name) for name in settings] == ["true", "true"]
