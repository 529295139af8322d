"""An upsert in which half of the rows are versions of one key, by pyhudi on Spark and by JVM Hudi: `hot_key.py`.

    python benchmarks/hot_key.py [3000000]

The table has half as many rows. One upsert has each of its keys once and as many versions of one of them, another one
as many rows with keys of their own, of which half are new. Each runs in a process of its own, on two cores, after one
of 1,000 rows. Printed is a line of JSON for each: seconds, processor seconds of all processes, and what the JVM and
the largest Python worker held at the most, in MiB. An upsert is stopped after ten minutes, and its line says so: JVM
Hudi 1.2 with the hot key did not end before in two tries.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from contestants import CONTESTANTS, HUDI, PYHUDI, Contestant
from inputs import KEY, ORDERING, PARTITION

PEERS = (PYHUDI, HUDI)
CASES = ("distinct", "hot")
PARTITIONS, WARM_UP_ROWS = 4, 1_000
LIMIT_SECONDS = 600


def put_inputs(folder: Path, rows: int) -> None:
    """The files that the peers read."""
    import numpy as np
    import pyarrow.parquet as pq

    half = rows // 2
    hot = np.where(np.arange(rows) % 2 == 0, np.arange(rows) // 2, half // 2)
    numbers = {"table": np.arange(half), "few": np.arange(WARM_UP_ROWS), "distinct": np.arange(rows), "hot": hot}
    for turn, (name, keys) in enumerate(numbers.items()):
        pq.write_table(rows_of(keys, turn * rows), folder / f"{name}.parquet", row_group_size=100_000)


def rows_of(keys: Any, first_version: int) -> Any:
    """A row of each key, each a later version than the one before it."""
    import numpy as np
    import pyarrow as pa

    versions = first_version + np.arange(len(keys))
    columns = {
        KEY: pa.array(np.char.add("key-", np.char.zfill(keys.astype(str), 9))),
        PARTITION: pa.array(np.char.add("p", (keys % PARTITIONS).astype(str))),
        ORDERING: versions,
        "price": versions / 8,
        "comment": pa.array(np.char.add("a comment of version ", versions.astype(str))),
    }
    return pa.table(columns)


def work(request: dict[str, Any]) -> None:
    """One peer's upsert, in a process of its own."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    module, _, name = request["peer"].partition(":")
    folder, table = Path(request["inputs"]), Path(request["work"]) / "table"
    peer = getattr(importlib.import_module(module), name)(Path(request["work"]), request["jars"])
    peer.start()
    peer.bulk_insert(table, folder / "table.parquet")
    peer.upsert(table, folder / "few.parquet")
    print("begin", file=out, flush=True)
    peer.upsert(table, folder / f"{request['case']}.parquet")
    print("end", file=out, flush=True)
    sys.stdin.readline()  # until the parent has looked at the processes
    found = peer.frame(table).selectExpr("count(*)", f"count(distinct {KEY})", f"max({ORDERING})").first()
    print(json.dumps(list(found)), file=out, flush=True)
    peer.stop()


def measured(contestant: Contestant, case: str, inputs: Path, home: Path) -> dict[str, Any]:
    """Run one peer on one case."""
    from processes import cpu_seconds_of_tree, end_tree

    jars = [str(jar) for jar in contestant.jars]
    request = {"peer": contestant.peer, "jars": jars, "inputs": str(inputs), "work": str(home), "case": case}
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    with subprocess.Popen(
        [str(contestant.python), __file__, "--work", json.dumps(request)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n", f"{contestant.name} failed"
        began, used = time.perf_counter(), cpu_seconds_of_tree(process.pid)
        limit = threading.Timer(LIMIT_SECONDS, end_tree, [process.pid])
        limit.start()
        ended = process.stdout.readline() == "end\n"
        limit.cancel()
        if not ended:
            assert time.perf_counter() - began >= LIMIT_SECONDS, f"{contestant.name} failed"
            return {"peer": contestant.name, "case": case, "stopped_after_seconds": LIMIT_SECONDS}
        line = {
            "peer": contestant.name,
            "case": case,
            "seconds": round(time.perf_counter() - began, 1),
            "cpu": round(cpu_seconds_of_tree(process.pid) - used, 1),
            **peaks(process.pid),
        }
        process.stdin.write("\n")
        process.stdin.flush()
        line["rows"], line["keys"], line["newest"] = json.loads(process.stdout.readline())
    return line


def peaks(pid: int) -> dict[str, int]:
    """What the largest JVM and the largest Python worker below a process held at the most, in MiB."""
    import psutil

    found = {"jvm_mib": 0, "worker_mib": 0}
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(OSError, psutil.Error):
            kind = "worker_mib" if child.name().startswith("python") else "jvm_mib"
            held = Path(f"/proc/{child.pid}/status").read_text().partition("VmHWM:")[2].split()
            found[kind] = max([found[kind], *(int(kib) >> 10 for kib in held[:1])])  # one that has ended holds nothing
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=3_000_000)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(json.loads(asked.work))
        return
    with tempfile.TemporaryDirectory(prefix="pyhudi-hot-key-") as folder:
        inputs = Path(folder) / "inputs"
        inputs.mkdir()
        put_inputs(inputs, asked.rows)
        for contestant in (one for one in CONTESTANTS if one.name in asked.peers):
            if missing := [str(path) for path in (contestant.python, *contestant.jars) if not path.exists()]:
                print(f"{contestant.title} is left out: there is no {', '.join(missing)}", file=sys.stderr)
                continue
            for case in CASES:
                home = Path(folder) / f"{contestant.name}-{case}"
                home.mkdir()
                print(json.dumps(measured(contestant, case, inputs, home)), flush=True)


if __name__ == "__main__":
    main()
