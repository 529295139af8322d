"""Reads of change data: pyhudi and JVM Hudi on Spark, of tables that each wrote itself, in one run.

    python benchmarks/change_data.py [ROWS] [cow|mor]

Each makes a table that captures changes, updates a tenth of its rows three times and deletes some, and reads all
changes, twice; the second time counts. Prints seconds, and how many times longer JVM Hudi takes. Needs what
`make bench-services` fetches.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from row_changes import ORACLE, ROWS, run_worker, session

READ = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
    "hoodie.datasource.read.begin.instanttime": "0",
}


def create(spark: Any, rows: int, kind: str, path: Path) -> None:
    """The table with its changes; no compaction and no clean, so that both sides read the same commits."""
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE" if kind == "cow" else "MERGE_ON_READ",
        "hoodie.table.cdc.enabled": "true",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
    }

    def write(query: str, operation: str, mode: str = "append") -> None:
        more = {**options, "hoodie.datasource.write.operation": operation}
        spark.sql(query).write.format("hudi").options(**more).mode(mode).save(str(path))

    write(ROWS.format(step=1, count=rows), "bulk_insert", "overwrite")
    changed = ROWS.format(step=10, count=rows // 10)
    for turn in range(1, 4):
        write(f"select id, name, price, quantity, ts + {turn * rows} ts, p from ({changed})", "upsert")
    write(ROWS.format(step=100, count=rows // 100), "delete")


def worker(name: str, rows: int, kind: str, folder: Path) -> None:
    """Write and read, and print seconds and the numbers of changes as JSON on the last line."""
    spark = session(name, folder)
    spark.sparkContext.setLogLevel("ERROR")
    create(spark, rows, kind, folder / "t")
    found: dict[str, float] = {}
    for _ in range(2):
        began = time.perf_counter()
        changes = spark.read.format("hudi").options(**READ).load(str(folder / "t"))
        counted = changes.selectExpr("op", "length(before) + length(after) size").groupBy("op").count().collect()
        found = {f"changes {row[0]}": float(row[1]) for row in counted}
        found["seconds"] = time.perf_counter() - began
    print(json.dumps(found))
    spark.stop()


def main(rows: int, kind: str) -> None:
    """Run both, one after the other, and print what they took."""
    pythons = {"pyhudi": Path(sys.executable), "JVM Hudi": ORACLE / "venv" / "bin" / "python"}
    found: dict[str, dict[str, float]] = {}
    for name, python in pythons.items():
        with tempfile.TemporaryDirectory() as folder:
            done = run_worker(__file__, python, name, rows, kind, folder)
        done.check_returncode()
        found[name] = json.loads(done.stdout.splitlines()[-1])
        print(name, found[name])
    print(f"JVM Hudi takes {found['JVM Hudi']['seconds'] / found['pyhudi']['seconds']:.1f} times as long")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 500_000, sys.argv[2] if sys.argv[2:] else "cow")
