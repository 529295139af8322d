"""An upsert of many keys into a table without partitions, on one core and on two, by four executors.

    python benchmarks/many_keys.py [10000000] [--write-docs]

A Spark standalone cluster of two workers with two executors each runs on so many cores of this machine. The table has
as many rows, and the upsert changes each. Printed is a line of JSON for each number of cores: seconds, processor
seconds of all processes, files of the table, and how often the write read from these; then how many times as fast two
cores are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from contestants import REPOSITORY
from growth import processor_seconds
from page import put_on_page

import pyhudi

sys.path.insert(0, str(REPOSITORY))
from tests.support import spark_cluster  # the one that the tests use

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.float64())])
SPLITS = 8
COMMAND = "python benchmarks/many_keys.py --write-docs"


def measured(cores: int, keys: int, folder: Path) -> dict[str, Any]:
    """Run a cluster on so many cores, and upsert the keys by it."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))  # those that it starts inherit it
    with spark_cluster.running_cluster(folder) as cluster:
        spark = pyhudi.spark_session(master=cluster.master, config=dict(spark_cluster.APPLICATION))
        table = pyhudi.HudiTable.create(folder / "table", schema=SCHEMA, record_key="id", ordering_fields="ts")

        def rows(count: int, turn: int) -> Any:
            # A file has keys of the whole range, so that each key may be in each file.
            key = "lpad(string((id * 7919) % 1000000007), 12, '0') id"
            return spark.range(0, count, 1, SPLITS).selectExpr(key, f"{turn}L ts", f"rand() + {turn} v")

        table.bulk_insert(rows(keys, 0))
        files = table.refresh().inspect.files().num_rows
        table.upsert(rows(1_000, 1))  # whose workers start and import
        began, used = time.perf_counter(), processor_seconds()
        result = table.upsert(rows(keys, 2))
        line = {"cores": cores, "keys": keys, "seconds": round(time.perf_counter() - began, 1)}
        line |= {"cpu": round(processor_seconds() - used, 1), "updated": result.updated, "files": files}
        line["reads_of_files"] = result.calls["data"]["GET"]
        spark.stop()
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", type=int, nargs="?", default=10_000_000)
    parser.add_argument("--write-docs", action="store_true", help="record the run in docs/benchmarks.md")
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cores:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measured(chosen.cores, chosen.keys, Path(folder))), flush=True)
        return
    lines = []
    for cores in ("1", "2"):
        command = [sys.executable, __file__, str(chosen.keys), "--cores", cores]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        print(text, flush=True)
        lines.append(json.loads(text))
    print(json.dumps({"times_as_fast": times_as_fast(lines)}))
    if chosen.write_docs:
        put_on_page(COMMAND, table(lines))


def times_as_fast(lines: Sequence[dict[str, Any]]) -> float:
    """How many times as fast the last of the runs is as the first."""
    return round(float(lines[0]["seconds"] / lines[-1]["seconds"]), 2)


def table(lines: Sequence[dict[str, Any]]) -> str:
    """The runs as Markdown."""
    keys, files = lines[0]["keys"], lines[0]["files"]
    rows = [
        f"{datetime.now(UTC):%Y-%m-%d}, an upsert of {keys:,} keys, all of them in {files} files:",
        "",
        "| cores | seconds | CPU, s | reads of files |",
        "| ---: | ---: | ---: | ---: |",
        *(f"| {run['cores']} | {run['seconds']} | {run['cpu']} | {run['reads_of_files']} |" for run in lines),
        "",
        f"{times_as_fast(lines)} times as fast on two cores (goal 1.6).",
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    main()
