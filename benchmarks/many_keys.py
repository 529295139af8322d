"""An upsert of many keys into a table without partitions, on one core and on two: `many_keys.py [10000000]`.

A Spark standalone cluster of two workers with two executors each runs on so many cores of this machine. The table has
as many rows, and the upsert changes each. Printed is a line of JSON for each number of cores: seconds, processor
seconds of all processes, files of the table, and how often the write read files of the table (once to look keys up, and
once to rewrite) and files of staged rows, keys and tags; then how many times as fast two cores are.
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

import pyarrow as pa
from contestants import REPOSITORY
from growth import processor_seconds

import pyhudi

sys.path.insert(0, str(REPOSITORY))
from tests.support import spark_cluster  # the one that the tests use

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.float64())])
SPLITS = 8


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
        line |= {"data_get": result.calls.get("data", {}).get("GET", 0)}
        line |= {"calls": sum(sum(calls.values()) for calls in result.calls.values())}
        spark.stop()
    return line


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measured(int(sys.argv[2]), keys, Path(folder))), flush=True)
        return
    seconds = []
    for cores in ("1", "2"):
        command = [sys.executable, __file__, str(keys), cores]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        print(text, flush=True)
        seconds.append(json.loads(text)["seconds"])
    print(json.dumps({"times_as_fast": round(seconds[0] / seconds[1], 2)}))


if __name__ == "__main__":
    main()
