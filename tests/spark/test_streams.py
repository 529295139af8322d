"""Structured Streaming: from a Hudi table, into a Hudi table, and again after every kind of stop."""

from __future__ import annotations

import json
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

import pyhudi
from pyhudi.errors import ConfigError, TableExistsError, UnsupportedFeatureError
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES
from pyhudi.spark.streams.sink import stopped_quietly

HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None  # from PySpark 4.2 on
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "copy",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "n",
}


def rows(*values: tuple[int, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, value, strict=True)) for value in values], SCHEMA)


def made(path: Path, version: int = 9, table_type: str = "cow") -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        path, schema=SCHEMA, record_key="id", ordering_fields="n", table_version=version, table_type=table_type
    )


def stream_of(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    if not HAS_PYTHON_SOURCES:
        pytest.skip("before PySpark 4.0 no stream reads a Hudi table")
    return spark.readStream.format("hudi").options(**options).load(str(path)).select(*SCHEMA.names)


def run(source: DataFrame, path: Path, checkpoint: Path, **options: str) -> None:
    """Write all that is there, and stop."""
    writer = source.writeStream.format("hudi").options(**OPTIONS).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(path))
    query.awaitTermination()


def contents(path: Path) -> set[tuple[Any, ...]]:
    return {
        tuple(row.values()) for row in pyhudi.HudiTable.for_path(path).scan(columns=SCHEMA.names).to_arrow().to_pylist()
    }


def commits(path: Path) -> int:
    return pyhudi.HudiTable.for_path(path).inspect.history().num_rows


@pytest.mark.parametrize(("version", "table_type"), [(9, "mor"), (6, "cow")])
def test_stream_from_table_to_table_copies_what_each_run_finds(
    spark: SparkSession, tmp_path: Path, version: int, table_type: str
) -> None:
    source, copy, checkpoint = made(tmp_path / "a", version, table_type), tmp_path / "b", tmp_path / "checkpoint"
    source.upsert(rows((1, "oslo", 1), (2, "rome", 1)))
    run(stream_of(spark, tmp_path / "a"), copy, checkpoint)
    assert contents(copy) == {(1, "oslo", 1), (2, "rome", 1)}
    source.upsert(rows((2, "rome", 2), (3, "bonn", 2)))
    source.upsert(rows((3, "bonn", 3)))
    run(stream_of(spark, tmp_path / "a"), copy, checkpoint)
    assert contents(copy) == contents(tmp_path / "a") == {(1, "oslo", 1), (2, "rome", 2), (3, "bonn", 3)}
    before = commits(copy)
    run(stream_of(spark, tmp_path / "a"), copy, checkpoint)
    assert commits(copy) == before


def test_micro_batch_that_spark_sends_again_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    source, copy, checkpoint = made(tmp_path / "a"), tmp_path / "b", tmp_path / "checkpoint"
    insert = {"hoodie.datasource.write.operation": "bulk_insert"}
    for number in range(3):
        source.upsert(rows((number, "oslo", number)))
        run(stream_of(spark, tmp_path / "a"), copy, checkpoint, **insert)
        # As if the query had died after its write, and before it noted the end of the micro-batch.
        noted = checkpoint / "commits" / str(number)
        for file in (noted, noted.with_name(f".{number}.crc")):
            file.unlink(missing_ok=True)
        run(stream_of(spark, tmp_path / "a"), copy, checkpoint, **insert)
        assert commits(copy) == number + 1
    assert pyhudi.HudiTable.for_path(copy).scan().count() == 3


def test_new_query_into_the_same_table_counts_its_batches_anew(spark: SparkSession, tmp_path: Path) -> None:
    source, copy = made(tmp_path / "a"), tmp_path / "b"
    source.upsert(rows((1, "oslo", 1)))
    run(stream_of(spark, tmp_path / "a"), copy, tmp_path / "first")
    source.upsert(rows((2, "rome", 2)))
    run(stream_of(spark, tmp_path / "a"), copy, tmp_path / "second")
    assert contents(copy) == {(1, "oslo", 1), (2, "rome", 2)}


def test_stream_starts_where_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    source = made(tmp_path / "a")
    first = source.upsert(rows((1, "oslo", 1)))
    source.upsert(rows((2, "rome", 2)))
    later = {"hoodie.datasource.streaming.startOffset": first.completion_time}
    run(stream_of(spark, tmp_path / "a", **later), tmp_path / "b", tmp_path / "first")
    assert contents(tmp_path / "b") == {(2, "rome", 2)}
    latest = {"hoodie.datasource.streaming.startOffset": "latest"}
    run(stream_of(spark, tmp_path / "a", **latest), tmp_path / "c", tmp_path / "second")
    source.upsert(rows((3, "bonn", 3)))
    run(stream_of(spark, tmp_path / "a", **latest), tmp_path / "c", tmp_path / "second")
    assert contents(tmp_path / "c") == {(3, "bonn", 3)}


def test_limits_and_available_now_make_several_micro_batches_and_a_restart_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = made(tmp_path / "a")
    for number in range(3):
        source.upsert(rows((number, "oslo", number)))
    pytest.importorskip("pyspark.sql.streaming.datasource")
    limit = {"maxCommitsPerTrigger": "2"}
    run(stream_of(spark, tmp_path / "a", **limit), tmp_path / "b", tmp_path / "c")
    assert commits(tmp_path / "b") == 2
    source.upsert(rows((9, "rome", 9)))
    run(stream_of(spark, tmp_path / "a", **limit), tmp_path / "b", tmp_path / "c")
    assert commits(tmp_path / "b") == 3
    assert contents(tmp_path / "b") == contents(tmp_path / "a")


@pytest.mark.skipif(not HAS_PYTHON_SOURCES, reason="before PySpark 4.0 no stream reads a Hudi table")
def test_stream_of_change_data_brings_deletes_to_who_follows_the_table(spark: SparkSession, tmp_path: Path) -> None:
    source = pyhudi.HudiTable.create(
        tmp_path / "a", schema=SCHEMA, record_key="id", hudi_options={"hoodie.table.cdc.enabled": "true"}
    )
    followed: dict[int, tuple[Any, ...]] = {}

    def follow(changes: DataFrame, _: int) -> None:
        for change in changes.orderBy("ts_ms").collect():
            row = json.loads(change.after) or json.loads(change.before)
            if change.op == "d":
                del followed[row["id"]]
            else:
                followed[row["id"]] = tuple(row[name] for name in SCHEMA.names)

    def catch_up() -> set[tuple[Any, ...]]:
        stream = spark.readStream.format("hudi").option("hoodie.datasource.query.type", "incremental")
        changes = stream.option("hoodie.datasource.query.incremental.format", "cdc").load(str(tmp_path / "a"))
        writer = changes.writeStream.option("checkpointLocation", str(tmp_path / "c")).foreachBatch(follow)
        writer.trigger(availableNow=True).start().awaitTermination()
        return set(followed.values())

    source.upsert(rows((1, "oslo", 1), (2, "rome", 1)))
    assert catch_up() == contents(tmp_path / "a")
    source.upsert(rows((2, "rome", 2), (3, "bonn", 2)))
    source.delete([1])
    assert catch_up() == contents(tmp_path / "a") == {(2, "rome", 2), (3, "bonn", 2)}


def test_table_with_other_columns_stops_the_query_and_a_restarted_one_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, checkpoint = made(tmp_path / "a"), tmp_path / "checkpoint"
    source.upsert(rows((1, "oslo", 1)))
    stream = stream_of(spark, tmp_path / "a")
    run(stream, tmp_path / "b", checkpoint)
    source.upsert(rows((2, "rome", 2)).append_column("more", [[5]]))
    with pytest.raises(Exception, match="other columns"):
        run(stream, tmp_path / "b", checkpoint)
    run(stream_of(spark, tmp_path / "a"), tmp_path / "b", checkpoint)
    assert contents(tmp_path / "b") == {(1, "oslo", 1), (2, "rome", 2)}


def test_output_mode_complete_replaces_the_table(spark: SparkSession, tmp_path: Path) -> None:
    source, copy, checkpoint = made(tmp_path / "a"), tmp_path / "b", tmp_path / "checkpoint"
    for batch in (rows((1, "oslo", 1), (2, "rome", 1)), rows((3, "oslo", 5))):
        source.upsert(batch)
        counts = stream_of(spark, tmp_path / "a").groupBy("city").count().selectExpr("city as id", "count as n")
        writer = counts.writeStream.format("hudi").options(**OPTIONS).outputMode("complete")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(copy))
        query.awaitTermination()
    found = pyhudi.HudiTable.for_path(copy).scan(columns=["id", "n"]).to_arrow().to_pylist()
    assert {row["id"]: row["n"] for row in found} == {"oslo": 2, "rome": 1}


def test_options_that_a_stream_sets_or_cannot_keep_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path / "a").upsert(rows((1, "oslo", 1)))
    stream = stream_of(spark, tmp_path / "a")
    with pytest.raises(ConfigError, match="numbers its batches"):
        run(stream, tmp_path / "b", tmp_path / "c", **{"hoodie.write.batch.id": "x"})
    with pytest.raises(UnsupportedFeatureError, match="would be lost"):
        run(stream, tmp_path / "b", tmp_path / "c", **{"hoodie.datasource.write.streaming.ignore.failed.batch": "true"})
    other = spark.readStream.format("rate").load().writeStream.format("memory").queryName("untouched").start()
    other.stop()


def test_stream_into_a_table_by_name_makes_it_and_goes_on_with_what_the_catalog_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = made(tmp_path / "a")
    source.upsert(rows((1, "oslo", 1), (2, "rome", 1)))
    options = {name: text for name, text in OPTIONS.items() if name != "hoodie.table.name"}
    try:
        for turn in range(2):
            writer = stream_of(spark, tmp_path / "a").writeStream.trigger(availableNow=True)
            writer = writer.option("checkpointLocation", str(tmp_path / "c"))
            named = {"format": "hudi", "partitionBy": "city", **options} if turn == 0 else {}
            writer.toTable("streamed_copy", **named).awaitTermination()
            found = spark.sql("SELECT id, city, n FROM streamed_copy").collect()
            assert {tuple(row) for row in found} == contents(tmp_path / "a")
            source.upsert(rows((2, "rome", 5), (3, "bonn", 2)))
        spark.range(1).write.saveAsTable("streamed_elsewhere", format="parquet")
        elsewhere = stream_of(spark, tmp_path / "a").writeStream.format("hudi")
        with pytest.raises(TableExistsError, match="streamed_elsewhere"):
            elsewhere.toTable("streamed_elsewhere")
    finally:
        for name in ("streamed_copy", "streamed_elsewhere"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


@pytest.mark.skipif(not HAS_PYTHON_SOURCES, reason="before PySpark 4.0 no stream reads a Hudi table")
def test_stream_of_a_table_by_name_goes_on_under_its_next_name(spark: SparkSession, tmp_path: Path) -> None:
    columns = "(id BIGINT, city STRING, n BIGINT) USING hudi"
    spark.sql(f"CREATE TABLE followed {columns} TBLPROPERTIES (primaryKey = 'id') LOCATION '{tmp_path / 'a'}'")
    spark.sql("INSERT INTO followed VALUES (1, 'oslo', 1), (2, 'rome', 1)")
    spark.sql("INSERT INTO followed VALUES (3, 'bonn', 1)")
    try:
        late = spark.readStream.option("hoodie.datasource.streaming.startOffset", "latest").table("default.followed")
        run(late.select(*SCHEMA.names), tmp_path / "late", tmp_path / "late-checkpoint")
        for name in ("followed", "followed_on"):
            run(spark.readStream.table(name).select(*SCHEMA.names), tmp_path / "b", tmp_path / "c")
            assert contents(tmp_path / "b") == contents(tmp_path / "a")
            if name == "followed":
                spark.sql("ALTER TABLE followed RENAME TO followed_on")
                spark.sql("INSERT INTO followed_on VALUES (4, 'york', 1)")
        assert commits(tmp_path / "b") == 2
        with pytest.raises(UnsupportedFeatureError, match=r"schema\(\)"):
            spark.readStream.schema("id BIGINT").table("followed_on")
        limits = {"maxCommitsPerTrigger": 1} if HAS_LIMITS else {}
        run(spark.readStream.options(**limits).table("followed_on").select(*SCHEMA.names),
            tmp_path / "d", tmp_path / "d-checkpoint")  # fmt: skip
        assert contents(tmp_path / "d") == contents(tmp_path / "a")
        spark.range(3).write.saveAsTable("streamed_plain", format="parquet")
        assert spark.readStream.table("streamed_plain").isStreaming
    finally:
        for name in ("followed", "followed_on", "streamed_plain"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_services_of_the_sink_run_beside_the_stream_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    source = made(tmp_path / "a")
    merging = {
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.parquet.small.file.limit": "0",
    }
    beside = {"hoodie.datasource.compaction.async.enable": "true", "hoodie.clustering.async.enabled": "true"}
    beside["hoodie.clustering.async.max.commits"] = "2"
    never = {"hoodie.datasource.write.streaming.disable.compaction": "true"}
    for turn in range(3):
        source.upsert(rows((1, "oslo", turn), (turn, "rome", turn)))
        run(stream_of(spark, tmp_path / "a"), tmp_path / "beside", tmp_path / "c1", **merging, **beside)
        run(stream_of(spark, tmp_path / "a"), tmp_path / "never", tmp_path / "c2", **merging, **never)
    table = pyhudi.HudiTable.for_path(tmp_path / "beside")
    table.services.wait()
    done = {
        name: pyhudi.HudiTable.for_path(tmp_path / name).inspect.history()["operation"].to_pylist()
        for name in ("beside", "never")
    }
    assert {"compact", "cluster"} <= set(done["beside"])
    assert set(done["never"]) == {"upsert"}
    assert contents(tmp_path / "beside") == contents(tmp_path / "never") == contents(tmp_path / "a")


def test_stop_in_the_midst_of_a_batch_is_told_to_spark_in_one_line(spark: SparkSession) -> None:
    jvm = spark._jvm

    def fail(error: Any) -> Any:
        return jvm.java.util.concurrent.CompletableFuture.failedFuture(error).join()

    interruption = jvm.java.lang.RuntimeException(jvm.java.lang.InterruptedException())
    with pytest.raises(Exception, match="InterruptedException") as stopped, stopped_quietly():
        fail(interruption)
    told = "".join(traceback.format_exception(stopped.value))
    # What Spark looks for, in an order without a stack trace between.
    assert "py4j.protocol.Py4JJavaError: An error occurred while calling the driver.\n: java.lang.Interrupted" in told
    assert "\tat " not in told
    with pytest.raises(Py4JJavaError, match="another matter"), stopped_quietly():
        fail(jvm.java.lang.IllegalStateException("another matter"))
