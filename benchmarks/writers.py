"""How commits add up when several processes write one table: `make bench-writers`, or `python benchmarks/writers.py`.

Each writer upserts a batch of known keys into a partition of its own, again and again, through `HudiTable` and the
local engine. All begin together and are measured for the same seconds. What is reported for each number of writers:
commits and rows per second of all of them together; and per commit: seconds of the clock, processor seconds, and the
calls of the store by kind.

On a machine with two cores eight writers wait for a core most of the time. So what says whether they are in one
another's way is what a commit costs: its processor time and its calls. How many cores others used is said, too.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.support import minio  # the server that the tests use

PROCESSES = multiprocessing.get_context("spawn")
WARM_UP_COMMITS = 3
SCHEMA = pa.schema([("id", pa.int64()), ("area", pa.string()), ("turn", pa.int64()), ("text", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What each writer does: batches of `batch` rows into a partition of `rows` rows, for `seconds`."""

    path: str
    rows: int
    batch: int
    seconds: float
    threads: int
    options: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one writer did while it was measured. Seconds are the sums over its commits."""

    commits: int
    seconds: float
    cpu_seconds: float
    calls: Mapping[str, int]


def batch(area: str, turn: int, keys: range) -> pa.Table:
    texts = [f"{turn}-{key % 97}-some-text" for key in keys]
    return pa.table([list(keys), [area] * len(keys), [turn] * len(keys), texts], schema=SCHEMA)


def write(load: Load, number: int, barrier: Barrier, results: Any) -> None:
    """One writer, in its own process."""
    store = FaultStorage(open_storage(load.path, load.options))
    options = {**load.options, "hoodie.compact.inline": "false"}
    table = pyhudi.HudiTable(TableHandle(load_table(store), options, LocalEngine(parallelism=load.threads)))

    def commit(turn: int) -> None:
        first = (turn * load.batch) % load.rows
        keys = range(first, min(first + load.batch, load.rows))
        table.upsert(batch(f"area-{number}", turn, keys))

    for turn in range(WARM_UP_COMMITS):
        commit(turn)
    barrier.wait()
    store.operations.clear()
    began, cpu_began, turn = time.monotonic(), time.process_time(), WARM_UP_COMMITS
    while time.monotonic() - began < load.seconds:
        commit(turn)
        turn += 1
    seconds, cpu_seconds = time.monotonic() - began, time.process_time() - cpu_began
    calls = Counter(one.name for one in store.operations)
    results.put(Work(commits=turn - WARM_UP_COMMITS, seconds=seconds, cpu_seconds=cpu_seconds, calls=dict(calls)))


def measure(load: Load, writers: int) -> dict[str, Any]:
    """Let so many writers work at once on the table; what they did together, and what a commit cost."""
    barrier, results = PROCESSES.Barrier(writers + 1), PROCESSES.Queue()
    crew = [PROCESSES.Process(target=write, args=(load, n, barrier, results)) for n in range(writers)]
    for process in crew:
        process.start()
    try:
        barrier.wait(timeout=300)
        busy = psutil.cpu_times()
        done: list[Work] = [results.get(timeout=load.seconds + 300) for _ in crew]
        foreign = _busy_seconds(psutil.cpu_times()) - _busy_seconds(busy) - sum(one.cpu_seconds for one in done)
    finally:
        for process in crew:
            process.join(timeout=10)
            process.kill()
    commits = sum(one.commits for one in done)
    per_second = sum(one.commits / one.seconds for one in done)
    calls = sum((Counter(one.calls) for one in done), Counter())
    return {
        "writers": writers,
        "commits": commits,
        "commits_per_second": per_second,
        "rows_per_second": per_second * load.batch,
        "seconds_per_commit": sum(one.seconds for one in done) / commits,
        "cpu_seconds_per_commit": sum(one.cpu_seconds for one in done) / commits,
        "calls_per_commit": sum(calls.values()) / commits,
        "calls": {name: round(count / commits, 2) for name, count in calls.most_common()},
        "cores_of_others": max(foreign, 0.0) / max(one.seconds for one in done),
    }


def _busy_seconds(times: Any) -> float:
    return float(times.user + times.system + times.nice)


def prepare(path: str, rows: int, areas: int, options: Mapping[str, str], kind: str) -> None:
    """A table with one file in each partition."""
    table = pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="area",
        table_type=kind[:3],
        table_version=int(kind[3:]),
        hudi_options=options,
    )
    table.bulk_insert(pa.concat_tables([batch(f"area-{n}", 0, range(rows)) for n in range(areas)]))


def report(found: list[dict[str, Any]]) -> str:
    """A table for people."""
    head = "| writers | commits/s | rows/s | times one | s/commit | CPU s/commit | calls/commit | cores of others |"
    lines = [head, "| ---: " * 8 + "|"]
    one = found[0]["commits_per_second"]
    for row in found:
        cells = [
            str(row["writers"]),
            f"{row['commits_per_second']:.2f}",
            f"{row['rows_per_second']:,.0f}",
            f"{row['commits_per_second'] / one:.2f}",
            f"{row['seconds_per_commit']:.3f}",
            f"{row['cpu_seconds_per_commit']:.3f}",
            f"{row['calls_per_commit']:.1f}",
            f"{row['cores_of_others']:.1f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    asked = _arguments()
    counts = [int(text) for text in asked.writers.split(",")]
    with (
        tempfile.TemporaryDirectory(prefix="pyhudi-writers-") as home,
        _root(asked.store, Path(home)) as (root, options),
    ):
        found = []
        for writers in counts:
            path = f"{root}/{writers}"
            prepare(path, asked.rows, max(counts), options, asked.table)
            load = Load(
                path=path,
                rows=asked.rows,
                batch=asked.batch,
                seconds=asked.seconds,
                threads=asked.threads,
                options=options,
            )
            found.append(measure(load, writers))
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    print(f"{asked.table} on {asked.store}, batches of {asked.batch} rows into files of {asked.rows}\n")
    print(report(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", default="1,2,8", help="numbers of processes, separated by commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="for which each number is measured")
    parser.add_argument("--rows", type=int, default=20_000, help="in each partition, which is one file")
    parser.add_argument("--batch", type=int, default=1_000, help="rows of a commit")
    parser.add_argument("--threads", type=int, default=1, help="of each writer")
    parser.add_argument("--table", default="cow9", help="cow6, cow9, mor9, …")
    parser.add_argument("--store", choices=("local", "s3"), default="local")
    return parser.parse_args()


@contextlib.contextmanager
def _root(store: str, home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if store == "local":
        yield str(home), {}
        return
    (home / "data" / minio.BUCKET).mkdir(parents=True)
    with minio.running(minio.server_program(), home) as server:
        yield server.new_root(), server.options


if __name__ == "__main__":
    main()
