"""How an upsert grows with the file groups that it touches, and with the splits of its input: `make bench-scale`.

    python benchmarks/growth.py [--groups 100 1000 5000] [--splits 8 200 400] [--engine local spark]

A table has one file group in each partition, with 20 rows. Each cell is a process of its own, which upserts one row in
each group twice, from so many splits; the second upsert counts. Printed are lines of JSON: seconds, processor seconds
of the process and all that it has started (on Spark the JVM and Python's workers), milliseconds of a processor for
each group, and the memory of the driver, which is the process and on Spark its JVM.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import pyhudi

ROWS_OF_GROUP = 20
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])


def rows(groups: int, of_group: int, turn: int) -> pa.Table:
    """So many rows of each group, in the order of groups."""
    part = np.repeat(np.arange(groups), of_group)
    ids = part * ROWS_OF_GROUP + np.tile(np.arange(of_group), groups)
    names = pa.array(np.char.add("p", np.char.zfill(part.astype(str), 6)))
    same = np.full(len(ids), turn)
    return pa.table([pa.array(ids), names, pa.array(ids * turn), pa.array(same)], schema=SCHEMA)


def processes() -> list[psutil.Process]:
    here = psutil.Process()
    return [here, *here.children(recursive=True)]


def processor_seconds() -> float:
    """Of this process and its children, those that have ended as well."""
    times = [process.cpu_times() for process in processes()]
    return float(sum(sum(used[:4]) for used in times))


def driver_mib() -> int:
    """Of this process, and of the JVM that it has started."""
    drivers = [process for process in processes() if process.pid == psutil.Process().pid or process.name() == "java"]
    return int(sum(process.memory_info().rss for process in drivers)) >> 20


def cell(engine: str, groups: int, splits: int, folder: Path) -> None:
    """Measure one cell, and print its line."""
    pyhudi.HudiTable.create(
        folder, schema=SCHEMA, record_key="id", partition_by="part", ordering_fields="ts"
    ).bulk_insert(rows(groups, ROWS_OF_GROUP, 1))
    spark = pyhudi.spark_session(master="local[2]") if engine == "spark" else None
    line: dict[str, Any] = {"engine": engine, "groups": groups, "splits": splits}
    for turn in (2, 3):
        changed = rows(groups, 1, turn)
        began, used = time.perf_counter(), processor_seconds()
        if spark is None:
            pyhudi.HudiTable.for_path(folder).upsert(changed)
        else:
            changed_rows = spark.createDataFrame(changed.to_pandas()).repartition(splits)
            changed_rows.write.format("hudi").mode("append").save(str(folder))
        seconds, cpu = time.perf_counter() - began, processor_seconds() - used
    line |= {
        "seconds": round(seconds, 2),
        "cpu": round(cpu, 2),
        "cpu_ms_per_group": round(1000 * cpu / groups, 2),
        "driver_mib": driver_mib(),
    }
    print(json.dumps(line), flush=True)
    if spark is not None:
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--splits", type=int, nargs="+", default=[8, 200, 400])
    parser.add_argument("--engine", nargs="+", choices=["local", "spark"], default=["local", "spark"])
    parser.add_argument("--cell", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell:
        with tempfile.TemporaryDirectory() as folder:
            cell(chosen.engine[0], chosen.groups[0], chosen.splits[0], Path(folder) / "table")
        return
    for engine in chosen.engine:
        for groups in chosen.groups:
            for splits in chosen.splits if engine == "spark" else chosen.splits[:1]:
                numbers = ["--groups", str(groups), "--splits", str(splits)]
                subprocess.run([sys.executable, __file__, "--cell", "--engine", engine, *numbers], check=True)


if __name__ == "__main__":
    main()
