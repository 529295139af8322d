"""MERGE of a tenth of the rows, UPDATE and DELETE by condition: pyhudi, JVM Hudi and Delta on Spark, in one run.

    python benchmarks/row_changes.py [ROWS] [cow|mor]

Each runs the same statements on the same rows in a process of its own, twice; the second time counts. Prints seconds
per statement, and how many times longer than pyhudi's the others take. Needs what `make bench` fetches.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ORACLE = ROOT / ".oracle"
JARS = {
    "JVM Hudi": [ORACLE / "jars" / "hudi-spark3.5-bundle_2.12-1.2.0.jar"],
    "Delta": sorted((ROOT / ".bench" / "jars").glob("delta-*.jar")),
}
SETTINGS = {
    "JVM Hudi": {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    },
    "Delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "pyhudi": {},
}
COMMON = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
ROWS = (
    "select id, concat('name ', id) name, id * 0.5D price, cast(id % 97 as int) quantity, id ts, concat('p', id % 8) p "
    "from (select id * {step} id from range(0, {count}))"
)
STATEMENTS = {
    "merge": "merge into t using ({source}) s on t.id = s.id and t.p = s.p when matched then update set * "
    "when not matched then insert *",
    "merge with values of the target": "merge into t using ({source}) s on t.id = s.id and t.p = s.p when matched then "
    "update set price = t.price + s.price, ts = s.ts, name = s.name",
    "update": "update t set price = price * 2, ts = ts + 1 where quantity = 5 and p in ('p1', 'p2')",
    "delete": "delete from t where quantity = 7",
}


ONLY_COPY_ON_WRITE = {"merge with values of the target"}
"""JVM Hudi 1.2.0 does not run it on merge-on-read: the partial update may use columns of the source alone."""


def session(name: str, folder: Path) -> Any:
    """A session of two cores; pyhudi's is the newest Spark, that of the others the one that their jars are for."""
    config = {**COMMON, **SETTINGS[name], "spark.sql.warehouse.dir": str(folder / "warehouse")}
    if name == "pyhudi":
        import pyhudi

        return pyhudi.enable(pyhudi.spark_session(master="local[2]", config=config))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    config["spark.driver.extraClassPath"] = os.pathsep.join(str(jar) for jar in JARS[name])
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def create(spark: Any, name: str, rows: int, kind: str, folder: Path) -> None:
    """The table `t` of so many rows in eight partitions."""
    made = spark.sql(ROWS.format(step=1, count=rows))
    if name == "Delta":
        made.write.format("delta").partitionBy("p").save(str(folder / "t"))
        spark.sql(f"create table t using delta location '{folder / 't'}'")
        return
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE" if kind == "cow" else "MERGE_ON_READ",
        "hoodie.datasource.write.hive_style_partitioning": "true",
    }
    made.write.format("hudi").options(**options).mode("overwrite").save(str(folder / "t"))
    spark.sql(f"create table t using hudi location '{folder / 't'}'")


def worker(name: str, rows: int, kind: str, folder: Path) -> None:
    """Run the statements, and print seconds by statement as JSON on the last line."""
    spark = session(name, folder)
    spark.sparkContext.setLogLevel("ERROR")
    create(spark, name, rows, kind, folder)
    seconds: dict[str, float] = {}
    for turn in range(2):
        # Every tenth record, and a tenth as many new ones, each time newer.
        old = ROWS.format(step=10, count=rows // 10)
        new = ROWS.format(step=1, count=rows // 100).replace("select id *", f"select {rows + turn * rows} + id *")
        source = f"select id, name, price, quantity, ts + {rows * (turn + 2)} ts, p from ({old} union all {new})"
        for title, text in STATEMENTS.items():
            if kind == "mor" and title in ONLY_COPY_ON_WRITE:
                continue
            began = time.perf_counter()
            spark.sql(text.format(source=source)).collect()
            seconds[title] = time.perf_counter() - began
    seconds["rows left"] = float(spark.sql("select count(*) n from t").first()[0])
    seconds["sum of prices"] = float(spark.sql("select sum(price) n from t").first()[0])
    print(json.dumps(seconds))
    spark.stop()


def run_worker(
    program: str, python: str | Path, name: str, rows: int, kind: str, folder: str
) -> subprocess.CompletedProcess[str]:
    """Run a program as the worker of one peer, in this folder."""
    return subprocess.run(
        [str(python), program, "--worker", name, str(rows), kind, folder],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        check=False,
    )


def main(rows: int, kind: str) -> None:
    """Run all of them, one after the other, and print what they took."""
    pythons: dict[str, str | Path] = {"pyhudi": sys.executable, "JVM Hudi": ORACLE / "venv" / "bin" / "python"}
    pythons["Delta"] = pythons["JVM Hudi"]
    found: dict[str, dict[str, float]] = {}
    for name, python in pythons.items():
        with tempfile.TemporaryDirectory() as folder:
            done = run_worker(__file__, python, name, rows, kind, folder)
        if done.returncode:
            print(f"{name} failed: {done.stderr[-2000:]}", file=sys.stderr)
            continue
        found[name] = json.loads(done.stdout.splitlines()[-1])
    for title in found["pyhudi"]:
        ours = found["pyhudi"][title]
        others = "  ".join(f"{name} {of[title]:.1f} ({of[title] / ours:.1f}x)" for name, of in found.items() if ours)
        print(f"{title:40} {others}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, sys.argv[2] if len(sys.argv) > 2 else "cow")
