"""How an upsert grows with the file groups that it touches, and with the splits of its input: `make bench-scale`.

    python benchmarks/growth.py [--groups 100 1000 5000] [--splits 8 200 400] [--engine local spark] [--write-docs]
    python benchmarks/growth.py --engine cluster [--write-docs]

A table has one file group in each partition, with 20 rows. Each cell is a process of its own, which upserts one row in
each group twice, from so many splits; the second upsert counts. Printed are lines of JSON: seconds, processor seconds
of the process and all that it has started (on Spark the JVM and Python's workers), milliseconds of a processor for
each group, and the memory of the driver, which is the process and on Spark its JVM. `cluster` is a Spark standalone
cluster of two workers with two executors each, and a table on an S3 server, whose own processor time does not count.
`--write-docs` puts them as a table into `docs/benchmarks.md` and draws `docs/growth.png`; a run of the cluster alone
has a table of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from contestants import BENCH_PYTHON, HOME, REPOSITORY
from page import DOCS, put_on_page

import pyhudi

sys.path.insert(0, str(REPOSITORY))
from tests.support import minio, spark_cluster  # those that the tests use

HERE = Path(__file__).resolve().parent
ENGINES = {"local": "no Spark", "spark": "Spark 4", "cluster": "Spark 4 on two workers"}
CHART = "![Processor milliseconds of a touched file group](growth.png)"
CLUSTER_COMMAND = "python benchmarks/growth.py --engine cluster --write-docs"
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
    """This one and those that it has started, but for the S3 server."""
    here = psutil.Process()
    return [here, *(started for started in here.children(recursive=True) if not _is_server(started))]


def _is_server(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "minio" in process.name()
    return False


def processor_seconds() -> float:
    """Of this process and its children, those that have ended as well."""
    seconds = 0.0
    for process in processes():
        with suppress(psutil.Error):  # it has ended: its parent has its seconds
            seconds += sum(process.cpu_times()[:4])
    return seconds


def driver_mib() -> int:
    """Of this process, and of the JVM that it has started for its session."""
    size = psutil.Process().memory_info().rss
    for started in processes():
        with suppress(psutil.Error):  # some have ended
            if "org.apache.spark.deploy.SparkSubmit" in started.cmdline():
                size += started.memory_info().rss
    return int(size) >> 20


@contextmanager
def home_of(engine: str, folder: Path) -> Iterator[tuple[str, dict[str, str], Any]]:
    """Where the table is to be, the options of its store, and the session; None without Spark."""
    if engine == "local":
        yield str(folder / "table"), {}, None
        return
    with ExitStack() as stack:
        path, options, master, config = str(folder / "table"), {}, "local[2]", {}
        if engine == "cluster":
            (folder / "data" / minio.BUCKET).mkdir(parents=True)
            server = stack.enter_context(minio.running(minio.server_program(), folder))
            path, options = server.new_root("s3a"), server.options
            master = stack.enter_context(spark_cluster.running_cluster(folder)).master
            config = dict(spark_cluster.APPLICATION)
        spark = pyhudi.spark_session(master=master, config=config)
        stack.callback(spark.stop)
        yield path, options, spark


def cell(engine: str, groups: int, splits: int, folder: Path) -> None:
    """Measure one cell, and print its line."""
    with home_of(engine, folder) as (path, options, spark):
        pyhudi.HudiTable.create(
            path, schema=SCHEMA, record_key="id", partition_by="part", ordering_fields="ts", hudi_options=options
        ).bulk_insert(rows(groups, ROWS_OF_GROUP, 1))
        line: dict[str, Any] = {"engine": engine, "groups": groups, "splits": splits}
        for turn in (2, 3):
            changed = rows(groups, 1, turn)
            began, used = time.perf_counter(), processor_seconds()
            if spark is None:
                pyhudi.HudiTable.for_path(path).upsert(changed)
            else:
                changed_rows = spark.createDataFrame(changed.to_pandas()).repartition(splits)
                changed_rows.write.format("hudi").options(**options).mode("append").save(path)
            seconds, cpu = time.perf_counter() - began, processor_seconds() - used
        line["driver_mib"] = driver_mib()
    line |= {
        "seconds": round(seconds, 2),
        "cpu": round(cpu, 2),
        "cpu_ms_per_group": round(1000 * cpu / groups, 2),
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--splits", type=int, nargs="+", default=[8, 200, 400])
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=["local", "spark"])
    parser.add_argument("--write-docs", action="store_true", help="record the run in docs/benchmarks.md")
    parser.add_argument("--cell", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell:
        with tempfile.TemporaryDirectory() as folder:
            cell(chosen.engine[0], chosen.groups[0], chosen.splits[0], Path(folder))
        return
    cells = []
    for engine in chosen.engine:
        for groups in chosen.groups:
            for splits in chosen.splits[:1] if engine == "local" else chosen.splits:
                numbers = ["--groups", str(groups), "--splits", str(splits)]
                command = [sys.executable, __file__, "--cell", "--engine", engine, *numbers]
                line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
                print(line, flush=True)
                cells.append(json.loads(line))
                HOME.mkdir(exist_ok=True)
                RESULTS.write_text(json.dumps(cells, indent=1))  # a run that is stopped keeps what it has
    if chosen.write_docs and chosen.engine == ["cluster"]:
        put_on_page(CLUSTER_COMMAND, table(cells))
    elif chosen.write_docs:
        put_on_page("make bench-scale", f"{CHART}\n\n{table(cells)}")
        subprocess.run([BENCH_PYTHON, HERE / "growth_chart.py", RESULTS, DOCS / "growth.png"], check=True)


def table(cells: Sequence[dict[str, Any]]) -> str:
    """A run as Markdown."""
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, the second upsert of one row in each of so many file groups of 20 rows:",
        "",
        "| engine | file groups | splits of the input | seconds | CPU, s | CPU of a group, ms | driver, MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for found in cells:
        engine, splits = ENGINES[found["engine"]], "-" if found["engine"] == "local" else found["splits"]
        figures = [found[name] for name in ("seconds", "cpu", "cpu_ms_per_group", "driver_mib")]
        lines.append(" | ".join(map(str, [f"| {engine}", f"{found['groups']:,}", splits, *figures])) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
