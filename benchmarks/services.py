"""How long table services take on many file groups: `make bench-services`, or `python benchmarks/services.py`.

One table is written with pyhudi: many small file groups, each rewritten several times. Every peer gets its own copy of
it and does the same services on it: a clean that leaves the newest slices, an archiving of all but a few commits, a
clustering that joins the small files, and on a fresh copy one that sorts them, too. Before that it does the same on a
small table: code is loaded and compiled, caches have their size. Beside the clustering stands the time of copying the
files with `cp`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
from contestants import CONTESTANTS, HUDI, PYHUDI, PYHUDI_LOCAL, Contestant

import pyhudi

PEERS = (PYHUDI_LOCAL, PYHUDI, HUDI)
SERVICES = ("clean", "archive", "cluster", "cluster sorted")
PARTITIONS = 20
REWRITES = 3
NO_SERVICES = {"hoodie.table.services.enabled": "false"}
SCHEMA = pa.schema(
    [("id", pa.int64()), ("area", pa.string()), ("price", pa.float64()), ("text", pa.string()), ("ts", pa.int64())]
)


def rows(first: int, count: int, partition: int, ts: int) -> pa.Table:
    """Rows of one file group; prices and texts jump about."""
    keys = range(first, first + count)
    columns = [
        list(keys),
        [f"area-{partition:02}"] * count,
        [(key * 7919 % 100_003) / 100 for key in keys],
        [f"text {key * 104_729 % 1_000_003}" for key in keys],
        [ts] * count,
    ]
    return pa.table(columns, schema=SCHEMA)


def prepare(path: Path, groups: int, rows_each: int) -> None:
    """A table with so many file groups, a bulk insert per group of each partition, and all of them rewritten."""
    table = pyhudi.HudiTable.create(
        str(path),
        schema=SCHEMA,
        record_key="id",
        partition_by="area",
        ordering_fields="ts",
        hudi_options=NO_SERVICES,
    )
    firsts = {n: n * rows_each for n in range(groups)}
    for start in range(0, groups, PARTITIONS):
        batch = [rows(firsts[n], rows_each, n % PARTITIONS, 1) for n in range(start, min(start + PARTITIONS, groups))]
        table.bulk_insert(pa.concat_tables(batch))
    for ts in range(2, REWRITES + 2):
        table.upsert(pa.concat_tables([rows(firsts[n], 1, n % PARTITIONS, ts) for n in range(groups)]))


def measure(contestant: Contestant, home: Path, warm_up: Path, table: Path) -> dict[str, float]:
    """Seconds by service, on copies of the table, in a process of the peer's own Python."""
    work = home / contestant.name
    copies = {}
    for name, source in (("warm_up", warm_up), ("table", table)):
        for turn in ("plain", "sorted"):
            copies[f"{name}_{turn}"] = str(work / f"{name}_{turn}")
            shutil.copytree(source, copies[f"{name}_{turn}"])
    request = {
        "peer": contestant.peer,
        "jars": [str(jar) for jar in contestant.jars],
        "work": str(work),
        "copies": copies,
    }
    worker = Path(__file__).with_name("service_worker.py")
    os.sync()
    done = subprocess.run(
        [str(contestant.python), str(worker), json.dumps(request)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": str(contestant.python)},
    )
    shutil.rmtree(work)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def copying(table: Path, home: Path) -> float:
    """Seconds in which `cp` copies the newest file of each file group."""
    files = pyhudi.HudiTable.for_path(str(table)).inspect.files()["path"].to_pylist()
    (home / "cp").mkdir()
    began = time.perf_counter()
    subprocess.run(["xargs", "cp", "-t", str(home / "cp")], input="\n".join(files), text=True, check=True, cwd=table)
    seconds = time.perf_counter() - began
    shutil.rmtree(home / "cp")
    return seconds


def report(seconds: dict[str, dict[str, list[float]]], copied: list[float]) -> str:
    """A table for people: medians, and how many times as fast as JVM Hudi."""
    titles = {one.name: one.title for one in CONTESTANTS}
    lines = [f"| | {' | '.join(SERVICES)} |", "|---" * (len(SERVICES) + 1) + "|"]
    medians = {name: {s: statistics.median(found[s]) for s in SERVICES} for name, found in seconds.items()}
    for name, found in medians.items():
        lines.append(f"| {titles[name]}, s | {' | '.join(f'{found[s]:.2f}' for s in SERVICES)} |")
    for name, found in medians.items():
        if name != HUDI and HUDI in medians:
            ratios = (f"{medians[HUDI][s] / found[s]:.1f}" for s in SERVICES)
            lines.append(f"| {titles[name]}, times as fast as Hudi | {' | '.join(ratios)} |")
    return "\n".join([*lines, "", f"copying the newest files with `cp`: {statistics.median(copied):.2f} s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000, help="file groups of the table")
    parser.add_argument("--rows", type=int, default=2_000, help="in each file group")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    asked = parser.parse_args()
    chosen = [one for one in CONTESTANTS if one.name in asked.peers]
    seconds: dict[str, dict[str, list[float]]] = {one.name: defaultdict(list) for one in chosen}
    copied = []
    with tempfile.TemporaryDirectory(prefix="pyhudi-services-") as folder:
        home = Path(folder)
        prepare(home / "small", 10 * PARTITIONS, 20)
        prepare(home / "large", asked.groups, asked.rows)
        for _ in range(asked.rounds):
            copied.append(copying(home / "large", home))
            for contestant in chosen:
                found = measure(contestant, home, home / "small", home / "large")
                print(contestant.name, json.dumps(found), file=sys.stderr, flush=True)
                for service, taken in found.items():
                    seconds[contestant.name][service].append(taken)
    print(f"{asked.groups} file groups of {asked.rows} rows, each with {REWRITES + 1} slices; {asked.rounds} rounds\n")
    print(report(seconds, copied))


if __name__ == "__main__":
    main()
