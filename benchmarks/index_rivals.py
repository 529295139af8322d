"""Indexes beside JVM Hudi's, in writes and lookups: `make bench-indexes`, or `python benchmarks/index_rivals.py`.

Each peer bulk inserts rows into a table with a record index, upserts 100,000 of their keys by that index, looks up ten
keys, and commits ten times 100 rows to a small table with files, column and partition statistics. Before that it does
the same on a small table, so that code is loaded and compiled. Reported are processor seconds of the peer's processes,
JVM and workers among them, which a busy machine changes little, and seconds on the clock, which it changes much:
medians of lookups and small commits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from contestants import CONTESTANTS, HUDI_METADATA, PYHUDI, PYHUDI_LOCAL, Contestant
from indexes import rows
from processes import cpu_seconds_of_tree

PEERS = (PYHUDI_LOCAL, PYHUDI, HUDI_METADATA)
OPERATIONS = ("bulk insert", "upsert by record index", "lookup", "small commit")
TURNS = 10
Taken = dict[str, list[tuple[float, float]]]
"""By operation: processor seconds, and seconds."""


def put_inputs(folder: Path, number: int, some: int) -> dict[str, object]:
    chance = np.random.default_rng(1)
    folder.mkdir()
    numbers = chance.permutation(number)
    known = chance.choice(number, some, replace=False)
    few = [folder / f"few-{turn}.parquet" for turn in range(TURNS)]
    pq.write_table(rows(numbers, 8), folder / "all.parquet")
    pq.write_table(rows(known, 8, ts=2), folder / "some.parquet")
    pq.write_table(rows(np.arange(10_000), 4), folder / "small.parquet")
    for turn, path in enumerate(few):
        pq.write_table(rows(np.arange(100 * turn, 100 * turn + 100), 4, ts=turn + 2), path)
    named = {name: str(folder / f"{name}.parquet") for name in ("all", "some", "small")}
    return {**named, "few": list(map(str, few)), "keys": [f"key-{each}" for each in known[:TURNS].tolist()]}


def measure(contestant: Contestant, home: Path, inputs: Mapping[str, object]) -> Taken:
    work = home / contestant.name
    request = {
        "peer": contestant.peer, "jars": [str(jar) for jar in contestant.jars], "work": str(work), "inputs": inputs,
    }  # fmt: skip
    worker = Path(__file__).with_name("index_worker.py")
    command = [str(contestant.python), str(worker), json.dumps(request)]
    taken: Taken = defaultdict(list)
    environment = {**os.environ, "PYSPARK_PYTHON": str(contestant.python)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        began = used = 0.0
        for line in process.stdout:
            turn, operation, point = json.loads(line)
            now, processor = time.perf_counter(), cpu_seconds_of_tree(process.pid)
            if point == "begin":
                began, used = now, processor
            elif turn == "table":
                taken[operation].append((processor - used, now - began))
    if process.returncode:
        raise SystemExit(f"{contestant.name} failed")
    return taken


def report(taken: dict[str, Taken]) -> str:
    titles = {one.name: one.title for one in CONTESTANTS}
    lines = [f"| | {' | '.join(OPERATIONS)} |", "|---" + "|---:" * len(OPERATIONS) + "|"]
    for number, unit in enumerate(("processor s", "s")):
        medians = {
            name: {one: statistics.median(each[number] for each in found[one]) for one in OPERATIONS}
            for name, found in taken.items()
        }
        lines += [
            f"| {titles[name]}, {unit} | {' | '.join(f'{found[one]:.3g}' for one in OPERATIONS)} |"
            for name, found in medians.items()
        ]
        for name, found in medians.items():
            if name != HUDI_METADATA and HUDI_METADATA in medians:
                ratios = (f"{medians[HUDI_METADATA][one] / found[one]:.1f}" for one in OPERATIONS)
                lines.append(f"| {titles[name]}, times as fast by {unit} | {' | '.join(ratios)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--keys", type=int, default=100_000, help="that the upsert has")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyhudi-indexes-") as folder:
        home = Path(folder)
        inputs = {
            "warm_up": put_inputs(home / "few", 10_000, 1_000),
            "table": put_inputs(home / "many", asked.rows, asked.keys),
        }
        taken = {}
        for contestant in (one for one in CONTESTANTS if one.name in asked.peers):
            taken[contestant.name] = measure(contestant, home, inputs)
            print(contestant.name, json.dumps(taken[contestant.name]), file=sys.stderr, flush=True)
    print(f"{asked.rows} rows, {asked.keys} keys; load {os.getloadavg()[0]:.1f}\n\n{report(taken)}")


if __name__ == "__main__":
    main()
