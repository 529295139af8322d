"""One real Hudi in one process: JSON requests on stdin, JSON answers on stdout, one per line.

Run by the oracle's own Python (`.oracle/venv`), never by pyhudi's, so that its Spark 3.5 and jars cannot leak into
what they judge. Rows travel as Parquet files, paths in the messages.

Requests (`op` and its fields), each answered by `{"ok": true, ...}` or `{"ok": false, "error": ..., "trace": ...}`:

    write   path, input (Parquet), options, mode           `df.write.format("hudi")`
    read    path, options, output (Parquet)                `spark.read.format("hudi")`, every column; answers rows
    sql     statement                                      answers rows as lists of text
    stream  source (format, schema, path, columns), source_options,
            path, options, checkpoint, mode                `readStream` to `writeStream.format("hudi")`, all there is
    commit  path                                           what the newest commit says: its checkpoint, event times
    stop                                                   answers and exits

Spark's own output and ours goes to stderr; the client sends that to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

#: Judges run side by side on small machines: neither may keep a core busy compiling or collecting.
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -Duser.timezone=UTC"
#: Readers of logs measure objects with JOL, which would start a second JVM that stops this one for many seconds.
READER_OPTIONS = "-Djol.skipHotspotSAAttach=true -Djol.skipDynamicAttach=true"

SESSION_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} {READER_OPTIONS}",
}


class HudiServer:
    """Answers requests with one Spark session."""

    def __init__(self, jar: Path, scratch: Path, settings: Path | None) -> None:
        builder = SparkSession.builder.master("local[2]").appName(f"oracle {jar.stem}")
        for key, value in SESSION_SETTINGS.items():
            builder = builder.config(key, value)
        # Not spark.jars: Avro looks Hudi's record classes up in its own class loader, which does not see those.
        class_path = [str(path) for path in (settings, jar) if path is not None]
        builder = builder.config("spark.driver.extraClassPath", ":".join(class_path))
        builder = builder.config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.scratch = scratch

    def write(self, request: dict[str, Any]) -> dict[str, Any]:
        rows = self.spark.read.parquet(request["input"])
        rows.write.format("hudi").options(**request["options"]).mode(request["mode"]).save(request["path"])
        return {}

    def read(self, request: dict[str, Any]) -> dict[str, Any]:
        # Listings and footers of an earlier read of the same path must not answer for this one.
        self.spark.catalog.clearCache()
        rows = self.spark.read.format("hudi").options(**request["options"]).load(request["path"])
        table = self._collect(rows)
        pq.write_table(table, request["output"])
        return {"rows": table.num_rows}

    def _collect(self, rows: Any) -> pa.Table:
        """All rows as Arrow, by way of Parquet files: the one hand-over that keeps every type."""
        folder = tempfile.mkdtemp(dir=self.scratch)
        # Only here: what Hudi itself writes must not see this setting.
        self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        try:
            rows.write.mode("overwrite").parquet(folder)
            parts = [pq.read_table(part) for part in sorted(Path(folder).glob("*.parquet"))]
        finally:
            self.spark.conf.unset("spark.sql.parquet.outputTimestampType")
            shutil.rmtree(folder)
        if not parts:
            return to_arrow_schema(rows.schema).empty_table()
        return pa.concat_tables(parts)

    def sql(self, request: dict[str, Any]) -> dict[str, Any]:
        result = self.spark.sql(request["statement"])
        return {"columns": result.columns, "rows": [[_text(value) for value in row] for row in result.collect()]}

    def stream(self, request: dict[str, Any]) -> dict[str, Any]:
        source = self.spark.readStream.format(request["source"]["format"]).options(**request["source_options"])
        if request["source"]["schema"] is not None:
            source = source.schema(request["source"]["schema"])
        rows = source.load(request["source"]["path"]).selectExpr(*request["source"]["columns"])
        writer = rows.writeStream.format("hudi").options(**request["options"]).outputMode(request["mode"])
        query = writer.option("checkpointLocation", request["checkpoint"]).trigger(availableNow=True)
        running = query.start(request["path"])
        running.awaitTermination()
        return {"id": running.id, "batches": [progress["batchId"] for progress in running.recentProgress]}

    def commit(self, request: dict[str, Any]) -> dict[str, Any]:
        hudi, session = self.spark._jvm.org.apache.hudi, self.spark._jsc.hadoopConfiguration()
        client = hudi.common.table.HoodieTableMetaClient.builder()
        client = (
            client.setConf(hudi.hadoop.fs.HadoopFSUtils.getStorageConf(session)).setBasePath(request["path"]).build()
        )
        timeline = client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        instant = timeline.lastInstant().get()
        metadata = hudi.common.table.timeline.TimelineUtils.getCommitMetadata(instant, timeline)
        times = metadata.getMinAndMaxEventTime()
        checkpoint = hudi.common.table.checkpoint.CheckpointUtils.getCheckpoint(metadata)
        return {
            "checkpoint": checkpoint.getCheckpointKey(),
            "smallest": times.getLeft().orElse(None),
            "largest": times.getRight().orElse(None),
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        operations = {
            "write": self.write,
            "read": self.read,
            "sql": self.sql,
            "stream": self.stream,
            "commit": self.commit,
        }
        try:
            return {"ok": True, **operations[request["op"]](request)}
        except Exception as error:  # noqa: BLE001 - whatever Hudi throws is an answer, not a crash of the judge
            return {"ok": False, "error": _first_cause(error), "trace": traceback.format_exc()}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _first_cause(error: Exception) -> str:
    """The innermost message of a Java error, which says more than the outermost one."""
    java_error = getattr(error, "java_exception", None)
    if java_error is None:
        return str(error)
    while java_error.getCause() is not None:
        java_error = java_error.getCause()
    return str(java_error.toString())


def _claim_stdout() -> TextIO:
    """The real stdout for answers; whatever else this process or the JVM prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    return answers


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jar", type=Path, required=True)
    parser.add_argument("--settings", type=Path, help="a folder of XML files that come before those in the jar")
    arguments = parser.parse_args()
    answers = _claim_stdout()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    scratch = Path(tempfile.mkdtemp(prefix="pyhudi-oracle-"))
    os.chdir(scratch)
    try:
        server = HudiServer(arguments.jar, scratch, arguments.settings)
        print(json.dumps({"ok": True, "spark": server.spark.version}), file=answers)
        for line in sys.stdin:
            request = json.loads(line)
            if request["op"] == "stop":
                print(json.dumps({"ok": True}), file=answers)
                break
            print(json.dumps(server.answer(request)), file=answers)
        server.spark.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
