"""How an upsert grows with the file groups that it touches, and with the splits of its input: `make bench-scale`.

    python benchmarks/growth.py [--groups 100 1000 5000] [--splits 8 200 400] [--engine local spark] [--write-docs]

A table has one file group in each partition, with 20 rows. Each cell is a process of its own, which upserts one row in
each group twice, from so many splits; the second upsert counts. Printed are lines of JSON: seconds, processor seconds
of the process and all that it has started (on Spark the JVM and Python's workers), milliseconds of a processor for
each group, and the memory of the driver, which is the process and on Spark its JVM. `--write-docs` puts them as a
table into `docs/benchmarks.md` and draws `docs/growth.png`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from contestants import BENCH_PYTHON, HOME
from page import DOCS, put_on_page

import pyhudi

HERE = Path(__file__).resolve().parent
RESULTS = HOME / "growth.json"
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
    parser.add_argument("--write-docs", action="store_true", help="record the run in docs/benchmarks.md")
    parser.add_argument("--cell", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell:
        with tempfile.TemporaryDirectory() as folder:
            cell(chosen.engine[0], chosen.groups[0], chosen.splits[0], Path(folder) / "table")
        return
    cells = []
    for engine in chosen.engine:
        for groups in chosen.groups:
            for splits in chosen.splits if engine == "spark" else chosen.splits[:1]:
                numbers = ["--groups", str(groups), "--splits", str(splits)]
                command = [sys.executable, __file__, "--cell", "--engine", engine, *numbers]
                line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
                print(line, flush=True)
                cells.append(json.loads(line))
                HOME.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps(cells, indent=1))  # a run that is stopped keeps what it has
    if chosen.write_docs:
        put_on_page("make bench-scale", table(cells))
        subprocess.run([BENCH_PYTHON, HERE / "growth_chart.py", RESULTS, DOCS / "growth.png"], check=True)


def table(cells: Sequence[dict[str, Any]]) -> str:
    """A run as Markdown."""
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, the second upsert of one row in each of so many file groups of 20 rows:",
        "",
        "![Processor milliseconds of a touched file group](growth.png)",
        "",
        "| engine | file groups | splits of the input | seconds | CPU, s | CPU of a group, ms | driver, MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for found in cells:
        is_local = found["engine"] == "local"
        engine, splits = ("no Spark", "-") if is_local else ("Spark 4", found["splits"])
        figures = [found[name] for name in ("seconds", "cpu", "cpu_ms_per_group", "driver_mib")]
        lines.append(" | ".join(map(str, [f"| {engine}", f"{found['groups']:,}", splits, *figures])) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
