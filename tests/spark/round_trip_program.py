"""What `test_other_sessions.py` runs in a process of its own: `round_trip_program.py <kind> <folder>`.

Writes and reads a table on the session that `kind` names and prints what it saw as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

warnings.filterwarnings("ignore", category=FutureWarning)

OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}


def session(kind: str) -> Any:
    import pyhudi

    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    if kind == "cluster":
        return pyhudi.spark_session(master="local-cluster[2,1,1024]", config=local)
    from pyspark.sql import SparkSession

    from pyhudi.sql.session import prepare_process

    prepare_process()
    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**local, **quiet}.items():
        builder = builder.config(name, value)
    return pyhudi.enable(builder.getOrCreate())


def life(spark: Any, path: str, **options: str) -> dict[str, Any]:
    """Load a table of 1000 trips, change a tenth of them, and read it."""
    trips = spark.range(0, 1000, 1, 4).selectExpr(
        "cast(id as string) uuid", "concat('c', id % 2) city", "id * 1.5 fare", "1L ts"
    )
    write = {"mode": "append", "format": "hudi"}
    options = {**OPTIONS, **options}
    trips.write.save(path, **write, **options, **{"hoodie.datasource.write.operation": "bulk_insert"})
    changed = trips.where("id % 10 = 0").selectExpr("uuid", "city", "-1.0 as fare", "2L ts")
    changed.write.options(**options).option("hoodie.datasource.write.operation", "upsert").save(path, **write)
    read = spark.read.format("hudi").load(path)
    seen = read.groupBy("city").agg({"*": "count"}).collect()
    return {
        "rows": sum(row[1] for row in seen),
        "changed": read.where("fare = -1.0").count(),
        "cities": sorted(row.city for row in seen),
    }


def compacted(spark: Any, path: str) -> int:
    """How many changes a reader sees without logs, after one more commit, which compacts."""
    one = spark.range(1, 2).selectExpr("cast(id as string) uuid", "'c1' city", "-1.0 as fare", "2L ts")
    options = {**OPTIONS, "hoodie.compact.inline.max.delta.commits": "2"}
    one.write.save(path, mode="append", format="hudi", **options)
    return read_optimized(spark, path)


def read_optimized(spark: Any, path: str) -> int:
    """How many changes a reader sees who leaves the logs out."""
    frame = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized").load(path)
    return int(frame.where("fare = -1.0").count())


def streamed(spark: Any, folder: str) -> dict[str, Any]:
    """Two runs of a stream from the table of trips into another, the second after its last batch was forgotten."""
    from pathlib import Path

    meta = [f"_hoodie_{name}" for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")]
    for _ in range(2):
        source = spark.readStream.format("hudi").load(f"{folder}/trips").select("uuid", "city", "fare", "ts")
        writer = source.writeStream.format("hudi").options(**OPTIONS).option("checkpointLocation", f"{folder}/point")
        writer.option("hoodie.datasource.write.operation", "insert")
        query = writer.trigger(availableNow=True).start(f"{folder}/streamed")
        query.awaitTermination()
        for file in (Path(folder) / "point" / "commits").glob("*0*"):
            file.unlink()
    query = spark.readStream.format("hudi").load(f"{folder}/streamed").drop(*meta).writeStream
    query.option("checkpointLocation", f"{folder}/second").trigger(availableNow=True).format("hudi")
    query.options(**OPTIONS).option("path", f"{folder}/named").toTable("named").awaitTermination()
    assert spark.sql("SELECT * FROM named").count() == 1000
    read = spark.read.format("hudi").load(f"{folder}/streamed")
    return {"rows": read.count(), "changed": read.where("fare = -1.0").count()}


def statements(spark: Any, folder: str) -> dict[str, Any]:
    """A table in statements of SQL: made, changed, altered, and asked for what happened to it."""
    from pyhudi.errors import SqlStatementError, UnsupportedFeatureError

    for statement in (
        f"""CREATE TABLE fares (id INT, city STRING, fare DOUBLE, ts BIGINT) USING hudi PARTITIONED BY (city)
            TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', 'hoodie.table.cdc.enabled' = 'true')
            LOCATION '{folder}/fares'""",
        "INSERT INTO fares SELECT id, 1.5D * id, 1L, concat('c', id % 2) FROM range(10)",
        "UPDATE fares SET fare = fare + 100 WHERE id = 3",
        """MERGE INTO fares t USING (SELECT 4 id, 'c0' city, -4D fare, 2L ts UNION ALL SELECT 12, 'c0', 12D, 2L) s
            ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *""",
        "DELETE FROM fares WHERE fare < 3 AND city = 'c0'",
        "ALTER TABLE fares ADD COLUMNS (tip DOUBLE)",
        f"""CREATE TABLE dear USING hudi TBLPROPERTIES (primaryKey = 'id') LOCATION '{folder}/dear'
            AS SELECT id, fare, city FROM fares WHERE fare > 12""",
    ):
        spark.sql(statement)
    changes = spark.sql("SELECT op FROM hudi_table_changes('fares', 'cdc', 'earliest')").collect()
    more = spark.sql("SELECT 'c1' AS city, 9D AS fare, 21 AS id")
    more.writeTo("made").using("hudi").tableProperty("primaryKey", "id").create()
    more.selectExpr("id + 1 AS id", "city", "fare").writeTo("made").append()
    spark.table("dear").writeTo("made").overwritePartitions()
    spark.sql("CREATE TABLE few USING hudi TBLPROPERTIES (primaryKey = 'id') AS SELECT id, 0D AS fare FROM range(5)")
    for statement in (
        "DELETE FROM few WHERE id IN (SELECT id FROM fares WHERE id < 3)",
        "UPDATE few f SET fare = (SELECT max(fare) FROM few) + 1 WHERE EXISTS (SELECT 1 FROM fares WHERE id = f.id)",
        """MERGE INTO few USING (SELECT 4L id) s ON few.id = s.id
            WHEN MATCHED AND NOT EXISTS (SELECT 1 FROM fares WHERE id = s.id) THEN UPDATE SET fare = -1""",
    ):
        spark.sql(statement)
    refused = None
    try:
        spark.sql("UPDATE fares SET faree = 1")
    except SqlStatementError as error:
        refused = f"at {error.context['column']}"
    views = None
    try:
        spark.sql("CREATE TEMPORARY VIEW seen AS SELECT id FROM fares")
    except UnsupportedFeatureError as error:
        views = "temporary" in str(error)
    return {
        "rows": [list(row) for row in spark.sql("SELECT id, fare, tip FROM fares ORDER BY id").collect()],
        "copied": [row.id for row in spark.table("dear").select("id").orderBy("id").collect()],
        "changes": sorted(row.op for row in changes),
        "commits": len(spark.sql("CALL show_commits(table => 'fares')").collect()),
        "made": [row.id for row in spark.sql("SELECT default.made.id FROM default.made ORDER BY id").collect()],
        "changed by queries": [list(row) for row in spark.sql("SELECT id, fare FROM few ORDER BY id").collect()],
        "refused": refused,
        "refused views": views,
    }


def odd_folders(spark: Any, folder: str) -> list[str]:
    """The values of a partition column that a pattern of paths would have a meaning for, as they are read back."""
    values = ["{x}", "{x,y}", "[x]", "[!a]", "{", "[", "a*b", "a?b", "a1b", "a b", "x"]
    rows = spark.createDataFrame(
        [(str(number), value, 1.0, 1) for number, value in enumerate(values)],
        "uuid string, city string, fare double, ts bigint",
    )
    plain = {"hoodie.datasource.write.hive_style_partitioning": "true"}
    rows.write.save(f"{folder}/odd", mode="append", format="hudi", **OPTIONS, **plain)
    read = spark.read.format("hudi").load(f"{folder}/odd").select("uuid", "city").collect()
    return [row.city for row in sorted(read, key=lambda row: int(row.uuid))]


def followed(spark: Any, folder: str) -> dict[str, Any]:
    """The changes of the table of fares, from a stream that stops before the last one and then goes on from there."""

    def follow() -> None:
        asked = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.query.incremental.format": "cdc"}
        source = spark.readStream.format("hudi").options(**asked).load(f"{folder}/fares")
        writer = source.writeStream.format("json").option("checkpointLocation", f"{folder}/follower")
        writer.trigger(availableNow=True).start(f"{folder}/changes").awaitTermination()

    follow()
    spark.sql("UPDATE fares SET fare = -7 WHERE id = 7")
    follow()
    changes = spark.read.json(f"{folder}/changes").orderBy("ts_ms").collect()
    rows: dict[int, float] = {}
    for change in changes:
        before, after = (None if image is None else json.loads(image) for image in (change.before, change.after))
        assert before is None or rows.pop(before["id"]) == before["fare"]
        if after is not None:
            rows[after["id"]] = after["fare"]
    return {"changes": len(changes), "rows": sorted([key, fare] for key, fare in rows.items())}


def ingested(spark: Any, folder: str) -> dict[str, Any]:
    """Two batches of a streamer with a query, whose columns the second one is not given, and a file that is no JSON."""
    from pathlib import Path

    import pyhudi.streamer
    from pyhudi.errors import SourceError

    landing = Path(folder) / "landing"
    landing.mkdir()
    config: dict[str, Any] = {
        "source_class": "JsonDFSSource",
        "source_ordering_fields": "ts",
        "transformer_class": "SqlQueryBasedTransformer,FlatteningTransformer",
        "hoodie_conf": {
            "hoodie.streamer.source.dfs.root": str(landing),
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.streamer.transformer.sql": "SELECT *, id * 2 AS twice FROM <SRC> WHERE note != '{'",
        },
        "spark": spark,
    }
    refused = None
    first, second = '{"id": 1, "ts": 1, "note": "a", "by": {"name": "x"}}', '{"id": 2, "ts": 1, "note": "b"}'
    for number, text in enumerate((first, second, "{")):
        (landing / f"{number}.json").write_text(text)
        try:
            pyhudi.streamer.run(f"{folder}/ingested", **config)
        except SourceError as error:
            refused = error.context["path"].rpartition("/")[2]
    rows = spark.read.format("hudi").load(f"{folder}/ingested").orderBy("id").select("id", "twice", "by_name").collect()
    return {"rows": [list(row) for row in rows], "refused": refused}


def in_stages(spark: Any, path: str) -> dict[str, Any]:
    """The same life with each step in tasks of Spark, as those of large writes are; and rows that are exchanged."""
    import pyarrow as pa

    from pyhudi.engine.protocol import AddressedRows, Exchange, TaskContext
    from pyhudi.spark import engine

    def send(_: TaskContext, number: int) -> Iterator[AddressedRows]:
        rows = pa.record_batch({"row": pa.array([10 * number, 10 * number + 1], pa.int64())})
        yield AddressedRows(rows, np.array([0, 2]))

    def receive(_: TaskContext, number: int, batches: Iterator[pa.RecordBatch]) -> tuple[int, int, list[int]]:
        return os.getpid(), number, [row for batch in batches for row in batch.column(0).to_pylist()]

    before, engine.IN_PROCESS_BYTES_MAX = engine.IN_PROCESS_BYTES_MAX, 0
    try:
        lived = life(spark, path)
        random = spark.range(100).selectExpr("cast(id as string) uuid", "'c0' city", "rand() fare", "2L ts")
        random.withColumn("copy", random.fare).write.format("hudi").options(**OPTIONS).mode("append").save(
            f"{path}-random"
        )
        evaluated = spark.read.format("hudi").load(f"{path}-random")
        step = Exchange(
            send=send,
            senders=[1, 2, 3],
            receive=receive,
            receivers=[0, 1, 2],
            sizes=[1] * 3,
            sent_bytes=1,
            description="t",
        )
        arrived = engine.SparkEngine(spark).exchange(step)
    finally:
        engine.IN_PROCESS_BYTES_MAX = before
    return {
        **lived,
        "evaluated once": evaluated.where("fare = copy").count(),
        "exchanged": [[number, rows] for _, number, rows in arrived],
        "exchanged elsewhere": all(process != os.getpid() for process, _, _ in arrived),
    }


def main(kind: str, folder: str) -> None:
    from pyhudi.engine.protocol import TaskContext
    from pyhudi.errors import RecordKeyError
    from pyhudi.spark.engine import IN_PROCESS_BYTES_MAX, SparkEngine

    spark = session(kind)
    on_write = life(spark, f"{folder}/trips")
    merge_on_read = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    on_read = life(spark, f"{folder}/logs", **merge_on_read)
    on_read["changed without logs"] = read_optimized(spark, f"{folder}/logs")
    on_read["changed when compacted"] = compacted(spark, f"{folder}/logs")

    staged = in_stages(spark, f"{folder}/stages")
    stream = streamed(spark, folder) if kind == "connect" else None
    sql = statements(spark, folder) if kind == "connect" else None
    changes = followed(spark, folder) if kind == "connect" else None
    batches = ingested(spark, folder)
    folders = odd_folders(spark, folder)

    refused = None
    no_keys = spark.sql("select cast(null as string) uuid, 'c0' city, cast(1.5 as decimal(23, 1)) fare, 1L ts")
    try:
        no_keys.write.options(**OPTIONS).save(f"{folder}/trips", format="hudi", mode="append")
    except RecordKeyError:
        refused = "RecordKeyError"

    def process(_: TaskContext, __: int) -> str:
        return f"{os.getpid()} {os.environ.get('SPARK_EXECUTOR_DIRS', '')}"

    engine = SparkEngine(spark)
    places = engine.map(process, [1, 2, 3, 4], size_bytes=IN_PROCESS_BYTES_MAX, description="where")
    seen = {
        "copy on write": on_write,
        "merge on read": on_read,
        "in stages of Spark": staged,
        "streamed": stream,
        "SQL": sql,
        "followed": changes,
        "ingested": batches,
        "odd folders": folders,
        "refused": refused,
        "parallelism": engine.parallelism,
        "elsewhere": str(os.getpid()) not in {place.split()[0] for place in places},
        "executors": len({place.split(" ", 1)[1] for place in places}),
    }
    sys.stdout.write(json.dumps(seen) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
