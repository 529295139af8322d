"""A long life: many small commits with no option set, and what the table is like at the end.

    python benchmarks/long_life.py 10000 [cow|mor] [FOLDER]

Prints a line per tenth of the commits: the median of a commit and of opening the table in milliseconds, instants on the
active timeline, files below the table outside and inside `.hoodie`, and the peak memory of the process in MiB. At the
end, every state within the retention is compared with a model.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("ts", pa.int64())])
KEYS, ROWS, RETAINED = 1_000, 100, 9


def batch(turn: int) -> pa.Table:
    ids = [(turn * ROWS + n) % KEYS for n in range(ROWS)]
    return pa.table({"id": ids, "note": [f"{turn}"] * ROWS, "ts": [turn] * ROWS}, schema=SCHEMA)


def state_of(table: pyhudi.HudiTable, as_of: str | None = None) -> dict[int, str]:
    rows = table.scan(["id", "note"], as_of=as_of).to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["note"].to_pylist(), strict=True))


def files_below(path: Path) -> tuple[int, int]:
    files = [file for file in path.rglob("*") if file.is_file()]
    inside = sum(".hoodie" in file.parts for file in files)
    return len(files) - inside, inside


def main(commits: int, table_type: str, path: Path) -> None:
    table = pyhudi.HudiTable.create(
        str(path), schema=SCHEMA, record_key="id", ordering_fields="ts", table_type=table_type
    )
    model: dict[int, str] = {}
    states: deque[tuple[str, dict[int, str]]] = deque(maxlen=RETAINED)
    writing: list[float] = []
    opening: list[float] = []
    print("commits  commit_ms  open_ms  active  data_files  metadata_files  rss_mib", flush=True)
    for turn in range(commits):
        rows = batch(turn)
        began = time.perf_counter()
        done = table.upsert(rows)
        writing.append(time.perf_counter() - began)
        model.update(zip(rows["id"].to_pylist(), rows["note"].to_pylist(), strict=True))
        states.append((done.instant, dict(model)))
        if turn % 10 == 0:
            began = time.perf_counter()
            opened = pyhudi.HudiTable.for_path(str(path))
            opening.append(time.perf_counter() - began)
        if (turn + 1) % max(1, commits // 10) == 0:
            data, metadata = files_below(path)
            print(
                f"{turn + 1:7} {statistics.median(writing) * 1000:10.1f} {statistics.median(opening) * 1000:8.2f}"
                f" {opened.inspect.timeline().num_rows:7} {data:11} {metadata:15}"
                f" {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f}",
                flush=True,
            )
            writing, opening = [], []
    end = pyhudi.HudiTable.for_path(str(path))
    assert state_of(end) == model
    for instant, state in states:
        assert state_of(end, instant) == state, instant
    known = end.inspect.history().num_rows
    print(f"now and {len(states)} states of the past equal the model; {known} commits are known")


if __name__ == "__main__":
    count, kind = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cow"
    if len(sys.argv) > 3:
        main(count, kind, Path(sys.argv[3]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(count, kind, Path(folder) / "table")
