"""An input that gives other rows each time: a write evaluates it once, so what is stored is one of its answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import functions as sql
from tests.support.spark import temporarily

import pyhudi
from pyhudi.index import search
from pyhudi.spark import engine

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
    return by_chance(spark.range(0, ROWS, 1, 3), seen)


def by_chance(rows: Any, seen: Any) -> Any:
    chance = sql.udf(lambda _: seen.add(1) or random.random(), "double").asNondeterministic()
    made = rows.select(chance("id").alias("value"))
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


def test_calls_of_tasks_that_send_rows_come_with_the_results_of_those_that_get_them(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city")
    rows = spark.range(0, 6, 1, 3).selectExpr(
        "cast(id as string) as id", "'c' as city", "1.0D as value", "1.0D as copy"
    )
    files = table.bulk_insert(rows).files
    monkeypatch.setattr(engine, "IN_PROCESS_BYTES_MAX", 0)
    monkeypatch.setattr(search, "READ_KEYS_MAX", 0)
    monkeypatch.setattr(search, "JOIN_COSTS", 0)

    result = table.upsert(rows)

    # Each file is read by a task that sends its keys, and by the one that writes its next version.
    assert result.calls["data"]["GET"] == 2 * files


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


def test_merge_whose_clauses_name_no_side_evaluates_its_source_once(spark: Any, tmp_path: Path) -> None:
    """Of each kind of clause the rows are found by themselves, because names of both sides are not clear to all."""
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id")
    stored = [{"id": f"{number:02}", "city": "c", "value": 2.0, "copy": 2.0} for number in range(ROWS)]
    table.upsert(pa.Table.from_pylist(stored, SCHEMA))
    seen = spark.sparkContext.accumulator(0)
    source = other_each_time(spark, seen).selectExpr(
        # Half of the rows are stored already, whichever the chance chooses.
        "if(value < 0.5, lpad(cast(rint(copy * 1e9) % 60 as int), 2, '0'), id) id",
        "city",
        "value",
        "copy",
    )
    merge = table.merge(source.dropDuplicates(["id"]), on="target.id = source.id")
    merge = merge.when_matched_update(set={"value": "source.value", "copy": "source.copy"})

    merged = merge.when_not_matched_insert(values={name: f"`{name}`" for name in SCHEMA.names}).execute()

    assert seen.value == ROWS
    rows = table.scan().to_arrow().to_pylist()
    assert all(row["value"] == row["copy"] for row in rows)
    changed = [row for row in rows if row["value"] < 1]
    assert len(rows) == ROWS + merged.inserted
    assert len(changed) == merged.inserted + merged.updated


@pytest.fixture(params=["true", "false"], ids=["ansi", "not ansi"])
def trips(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[pyhudi.HudiTable]:
    """A table of SQL, in a session with and without ANSI."""
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city")
    stored = [{"id": f"{number}", "city": f"c{number % 3}", "value": 2.0, "copy": 2.0} for number in range(ROWS)]
    table.upsert(pa.Table.from_pylist(stored, SCHEMA))
    with temporarily(spark, {"spark.sql.ansi.enabled": request.param}):
        pyhudi.enable(spark).sql(f"CREATE TABLE trips_by_chance USING hudi LOCATION '{tmp_path / 't'}'")
        yield table
        spark.sql("DROP TABLE trips_by_chance")


#: A null half of the time: where a value is evaluated a second time, to look at it, it is another one.
CHANCE = "if(rand() < 0.5, null, 1)"


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE trips_by_chance SET value = {CHANCE}, copy = 1",
        (
            "MERGE INTO trips_by_chance t USING (SELECT DISTINCT id FROM trips_by_chance) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET value = {CHANCE}, copy = 1"
        ),
    ],
    ids=["update", "merge"],
)
def test_value_set_by_chance_is_evaluated_once_for_each_row(spark: Any, trips: Any, statement: str) -> None:
    spark.sql(statement)

    stored = trips.refresh().scan().to_arrow().to_pylist()
    assert len(stored) == ROWS
    assert {row["copy"] for row in stored} == {1.0}
    assert {row["value"] for row in stored} == {1.0, None}


def test_condition_by_chance_is_evaluated_once_for_each_row(spark: Any, trips: Any) -> None:
    spark.sql("UPDATE trips_by_chance SET value = 3, copy = 3 WHERE rand() < 0.5")
    rows = trips.refresh().scan().to_arrow().to_pylist()
    assert {(row["value"], row["copy"]) for row in rows} == {(2.0, 2.0), (3.0, 3.0)}

    spark.sql(
        "MERGE INTO trips_by_chance t USING (SELECT id FROM trips_by_chance) s ON t.id = s.id "
        "WHEN MATCHED AND rand() < 0.5 THEN DELETE WHEN MATCHED THEN UPDATE SET value = 4, copy = 4"
    )
    rows = trips.refresh().scan().to_arrow().to_pylist()
    assert {(row["value"], row["copy"]) for row in rows} == {(4.0, 4.0)}
    assert 0 < len(rows) < ROWS

    spark.sql("DELETE FROM trips_by_chance WHERE rand() < 0.5")
    assert 0 < trips.refresh().scan().count() < len(rows)


@pytest.mark.parametrize("by", ["the sink", "foreachBatch"])
def test_micro_batch_is_evaluated_once(spark: Any, tmp_path: Path, by: str) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path / "t"), schema=SCHEMA, record_key="id", partition_by="city")
    spark.range(0, ROWS, 1, 3).write.parquet(str(tmp_path / "in"))
    seen = spark.sparkContext.accumulator(0)
    source = by_chance(spark.readStream.schema("id long").parquet(str(tmp_path / "in")), seen)
    writer = source.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    if by == "the sink":
        options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
        options["hoodie.datasource.write.partitionpath.field"] = "city"
        query = writer.format("hudi").options(**options).start(str(tmp_path / "t"))
    else:
        query = writer.foreachBatch(lambda rows, _: table.upsert(rows)).start()
    query.awaitTermination()

    assert seen.value == ROWS
    stored = table.refresh().scan().to_arrow().to_pylist()
    assert len(stored) == ROWS
    assert all(row["value"] == row["copy"] == float(row["id"]) for row in stored)


@pytest.mark.skipif(tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3), reason="Spark before 4.3")
def test_spark_compares_what_it_shuffles_again_unless_it_is_told_not_to(spark: Any) -> None:
    settings = [
        f"spark.sql.shuffle.orderIndependentChecksum.{name}" for name in ("enabled", "enableFullRetryOnMismatch")
    ]
    assert [spark.conf.get(name) for name in settings] == ["true", "true"]
