"""Bootstrapped tables on Spark: made by its tasks, and read by its own Parquet reader."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from tests.interop.compare import assert_same_rows
from tests.support.sources import SOURCE_SCHEMA, parquet_source

import pyhudi
from pyhudi.errors import CorruptDataError
from pyhudi.spark.frames import frame_of_arrow

META = ["_hoodie_commit_time", "_hoodie_record_key", "_hoodie_file_name"]


@pytest.fixture(scope="module")
def boot(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> pyhudi.HudiTable:
    folder = tmp_path_factory.mktemp("boot with blanks, 100% true")
    source = parquet_source(folder / "source")
    return pyhudi.HudiTable.bootstrap(source, folder / "table", record_key="id", spark=spark, table_type="mor")


def loaded(spark: SparkSession, table: pyhudi.HudiTable) -> DataFrame:
    return spark.read.format("hudi").load(table.handle.state.storage.uri)


def test_spark_reads_the_same_rows_as_without_spark(spark: SparkSession, boot: pyhudi.HudiTable) -> None:
    assert_same_rows(boot.scan().to_arrow(), loaded(spark, boot).toArrow())
    assert loaded(spark, boot).count() == 20


@pytest.mark.parametrize(
    "condition",
    ["n > 2", "city = 'b'", "x is null", "_hoodie_record_key in ('a01', 'b14')", "n = 1 and city = 'a'", "ts = 11"],
)
def test_filters_on_either_side_find_the_rows_that_they_find_without_pruning(
    spark: SparkSession, boot: pyhudi.HudiTable, condition: str
) -> None:
    expected = frame_of_arrow(spark, boot.scan().to_arrow()).where(condition)
    rows = loaded(spark, boot).where(condition)
    assert_same_rows(expected.toArrow(), rows.toArrow(), hint=condition)
    assert rows.select("id").count() == expected.count()


def test_random_filters_and_projections_find_what_they_find_without_pruning(
    spark: SparkSession, tmp_path: Path
) -> None:
    rng, count = random.Random(16), 400
    for city in "ab":
        (tmp_path / "source" / f"city={city}").mkdir(parents=True)
        numbers = sorted(rng.choices([*range(-5, 40), None], k=count), key=lambda value: -9 if value is None else value)
        table = pa.table(
            {
                "id": [f"{city}{row:03}" for row in range(count)],
                "n": pa.array(numbers, pa.int32()),
                "x": pa.array(rng.choices([0.0, -0.0, 1.5, math.nan, None], k=count), pa.float64()),
                "s": pa.array(rng.choices(["", "b", "é", "\U0001f600", None], k=count)),
                "cost": pa.array([None if n is None else Decimal(n) for n in numbers], pa.decimal128(9, 2)),
                "when": pa.array([None if n is None else n * 3_600_000_000 for n in numbers]).cast(
                    pa.timestamp("us", tz="UTC")
                ),
            }
        )
        pq.write_table(table, tmp_path / "source" / f"city={city}" / "0.parquet", row_group_size=25)
    boot = pyhudi.HudiTable.bootstrap(tmp_path / "source", tmp_path / "table", record_key="id")
    rows = loaded(spark, boot)
    everything = frame_of_arrow(spark, boot.scan().to_arrow()).cache()
    conditions = [
        *(f"n {sign} {n}" for sign in ("=", "<>", "<", ">=") for n in (-5, 7, 39)),
        "n is null",
        "n not in (1, 2)",
        "x = 0",
        "x > 1",
        "isnan(x)",
        "x <=> null",
        "s > 'b'",
        "s in ('', 'é')",
        "s like 'b%'",
        "cost < 3.5",
        "when >= timestamp '1970-01-01 12:00:00Z'",
        "city = 'b'",
        "_hoodie_record_key > 'a350'",
        "_hoodie_file_name like '%a%'",
        "_hoodie_partition_path = 'city=a'",
    ]
    for _ in range(12):
        some = rng.sample(conditions, rng.randint(1, 3))
        first, *more = (f"{rng.choice(['', 'not '])}({one})" for one in some)
        where = " ".join([first, *(f"{rng.choice(['and', 'or'])} {one}" for one in more)])
        columns = rng.sample(rows.columns, rng.randint(1, 5))
        expected, found = (of.where(where).select(columns).toArrow() for of in (everything, rows))
        assert rows_in_order(found) == rows_in_order(expected), (where, columns)


def rows_in_order(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def test_query_of_data_columns_calls_no_function_and_one_of_meta_columns_opens_no_source(
    spark: SparkSession, boot: pyhudi.HudiTable
) -> None:
    plan = str(loaded(spark, boot).select("id", "n")._jdf.queryExecution().executedPlan())  # type: ignore[operator]
    assert "ArrowEval" not in plan
    of_skeletons = boot.scan(columns=META).to_df(spark)
    assert not [path for path in of_skeletons.inputFiles() if "/source/" in path]
    assert_same_rows(boot.scan(columns=META).to_arrow(), of_skeletons.toArrow())


def test_rows_with_logs_and_rewritten_rows_are_read_beside_bootstrapped_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = parquet_source(tmp_path / "source")
    for kind in ("cow", "mor"):
        table = pyhudi.HudiTable.bootstrap(source, tmp_path / kind, record_key="id", spark=spark, table_type=kind)
        rows = table.scan(columns=["id", "n", "x", "ts", "when", "city"], where=[("id", "==", "a01")]).to_arrow()
        table.upsert(spark.createDataFrame(rows.set_column(1, "n", [[99]])).withColumn("n", sql.col("n").cast("int")))
        table = table.refresh()
        assert_same_rows(table.scan().to_arrow(), loaded(spark, table).toArrow(), hint=kind)
        assert loaded(spark, table).where("n = 99").count() == 1


def test_source_file_of_another_size_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    source = parquet_source(tmp_path / "source")
    table = pyhudi.HudiTable.bootstrap(source, tmp_path / "table", record_key="id")
    file = source / "city=a" / "part-0.parquet"
    file.write_bytes(file.read_bytes() + b"more")
    # PySpark 4.0 has no functions over Arrow: there a task finds it, and Spark says so.
    with pytest.raises((CorruptDataError, PySparkException), match="was changed"):
        loaded(spark, table).collect()


def test_partition_of_a_bootstrapped_table_is_loaded_by_its_path(spark: SparkSession, boot: pyhudi.HudiTable) -> None:
    uri = boot.handle.state.storage.uri
    expected = boot.scan(where=[("city", "==", "b")]).to_arrow()
    assert_same_rows(expected, spark.read.format("hudi").load(f"{uri}/city=b").toArrow())


def test_plain_partitions_are_read_beside_those_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    path = parquet_source(tmp_path / "mixed, 50% true")
    (path / "city=a" / "part-1.parquet").rename(path / "city=a" / "part 1.parquet")
    style = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    schema = pa.schema([*SOURCE_SCHEMA, ("city", pa.string())])
    table = pyhudi.HudiTable.create(path, schema=schema, record_key="id", partition_by="city", hudi_options=style)
    table.upsert(pa.Table.from_pylist([{"id": "c00", "city": "c"}], schema))
    union = {"hoodie.pyhudi.read.plain.partitions": "true"}

    rows = spark.read.format("hudi").options(**union).load(str(path))

    expected = pyhudi.HudiTable.for_path(path, hudi_options=union).scan().to_arrow()
    assert expected.num_rows == 21
    assert_same_rows(expected, rows.toArrow())
    assert rows.where("city = 'b'").count() == 10
    assert spark.read.format("hudi").options(**union).load(f"{path}/city=a").count() == 10
    assert spark.read.format("hudi").load(str(path)).count() == 1
