"""What a plain `where`, a join and a plan cost on Spark in a table of many files: `benchmarks/many_files.py [10000]`

The table has ten files in each partition, with a column that rises from file to file and one that does not; once
without a metadata table, and once with column statistics. For each query: seconds, the median of five turns after the
first one, and the processor time of one turn, of this process and of Spark's JVM together. `load` resolves the files
anew; the others ask one DataFrame.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import pyhudi

TURNS = 5
FILES_PER_PARTITION = 10
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string()), ("v", pa.int64()), ("note", pa.int64())])
STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "v,note",
}


def new_table(path: Path, files: int, options: dict[str, str]) -> pyhudi.HudiTable:
    """Ten bulk inserts, each of which puts one row into a new file of each partition."""
    table = pyhudi.HudiTable.create(str(path), schema=SCHEMA, record_key="id", partition_by="day", hudi_options=options)
    partitions = files // FILES_PER_PARTITION
    days = pa.array([f"d{number:05}" for number in range(partitions)])
    for number in range(FILES_PER_PARTITION):
        ids = np.arange(number * partitions, (number + 1) * partitions)
        table.bulk_insert(pa.table([ids, days, ids, ids * 7919 % files], schema=SCHEMA), hudi_options=options)
        table = table.refresh()
    return table


def processor_seconds() -> float:
    """Of this process and all that it started."""
    here = psutil.Process()
    used = [one.cpu_times() for one in [here, *here.children(recursive=True)]]
    return float(sum(one.user + one.system for one in used))


def measure(name: str, act: Callable[[], object]) -> None:
    began = time.monotonic()
    found = act()
    first = time.monotonic() - began
    seconds, before = [], processor_seconds()
    for _ in range(TURNS):
        began = time.monotonic()
        act()
        seconds.append(time.monotonic() - began)
    used = (processor_seconds() - before) / TURNS
    print(
        f"{name:<44} {found!s:>7} rows  first {first:.2f} s  then {statistics.median(seconds):.2f} s  "
        f"processor {used:.2f} s  load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def ask(spark: Any, path: Path, files: int) -> None:
    def load() -> Any:
        return spark.read.format("hudi").load(str(path))

    measure("load", lambda: len(load().columns))
    rows = load()
    middle = files // 2
    measure("where day = …", lambda: rows.where(f"day = 'd{files // 20:05}'").count())
    measure("load, where day = …", lambda: load().where(f"day = 'd{files // 20:05}'").count())
    measure("where v between …", lambda: rows.where(f"v between {middle} and {middle + 2}").count())
    measure("where note = …, which does not rise", lambda: rows.where(f"note = {middle}").count())
    measure("where day like '%7' and v < 3", lambda: rows.where("day like '%7' and v < 3").count())
    days = spark.createDataFrame(
        [(f"d{number:05}", number) for number in range(files // FILES_PER_PARTITION)], "d string, x int"
    )
    days.write.mode("overwrite").parquet(f"{path}-days")
    days = spark.read.parquet(f"{path}-days").where("x = 7")
    for pruning in ("true", "false"):
        spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", pruning)
        measure(f"join on day, dynamic pruning {pruning}", lambda: rows.join(days, rows.day == days.d).count())
    spark.conf.set("spark.sql.optimizer.dynamicPartitionPruning.enabled", "true")
    measure("all rows", lambda: rows.selectExpr("sum(v)").first()[0])


def main(files: int) -> None:
    spark = pyhudi.spark_session(master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp())
    try:
        for name, options in (("plain", {}), ("statistics", STATISTICS)):
            began, used = time.monotonic(), processor_seconds()
            new_table(folder / name, files, options)
            wall = time.monotonic() - began
            print(
                f"{name}: {files} files written in {wall:.0f} s, processor {processor_seconds() - used:.0f} s",
                flush=True,
            )
            ask(spark, folder / name, files)
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
