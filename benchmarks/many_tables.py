"""One process that ingests into many tables: `make bench-ingestion`, or `python benchmarks/many_tables.py 6000 100`.

Each table has a folder of its own with one JSON file of so many rows. Printed are, of a round of every table, its time,
its commits, and the memory of the process after it: of the first one, in which all tables are made; of one in which a
tenth of the tables has a new file; of idle rounds; and of one in which a table fails.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from pyhudi.streamer import StreamerConfig
from pyhudi.streamer.many import Turn, tables_at_a_time, take_turns, turn_of

IDLE_ROUNDS = 3


def put(folder: Path, name: str, first: int, rows: int) -> None:
    """A file with rows."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": number, "note": f"note {number}", "ts": first}) for number in range(first, first + rows)]
    (folder / name).write_text("\n".join(lines))


def config(home: Path, number: int) -> StreamerConfig:
    """The streamer of a table."""
    return StreamerConfig(
        str(home / "tables" / str(number)),
        source_ordering_fields="ts",
        hoodie_conf={
            "hoodie.streamer.source.dfs.root": str(home / "landing" / str(number)),
            "hoodie.datasource.write.recordkey.field": "id",
        },
    )


def measure(name: str, turns: Sequence[Turn]) -> None:
    """A round of each table, and what it took."""
    before = sum(turn.result.batches for turn in turns)
    began, cpu = time.perf_counter(), time.process_time()
    results = take_turns(turns, continuous=False, ends=None, threads=tables_at_a_time())
    seconds = time.perf_counter() - began
    commits = sum(found.result.batches for found in results) - before
    line = {
        "round": name,
        "seconds": round(seconds, 2),
        "commits": commits,
        "commits_per_second": round(commits / seconds, 1),
        "ms_per_table": round(1000 * seconds / len(turns), 2),
        "cpu_ms_per_table": round(1000 * (time.process_time() - cpu) / len(turns), 2),
        "failed": sum(found.error is not None for found in results),
        "rss_mib": round(psutil.Process().memory_info().rss / 2**20),
    }
    print(json.dumps(line), flush=True)


def main(tables: int, rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for number in range(tables):
            put(home / "landing" / str(number), "1.json", 0, rows)
        turns = [turn_of(config(home, number)) for number in range(tables)]
        measure("first", turns)
        for number in range(0, tables, 10):
            put(home / "landing" / str(number), "2.json", 0, rows)
        measure("a tenth has a new file", turns)
        for _ in range(IDLE_ROUNDS):
            measure("idle", turns)
        (home / "landing" / "0" / "3.json").write_text("{")
        put(home / "landing" / "1", "3.json", 0, rows)
        measure("one fails beside one with a new file", turns)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
