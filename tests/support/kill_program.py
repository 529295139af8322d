"""Run by test_kill.py: writes to a table until it is killed, and says on its output what has been acknowledged.

Its lines: `start <turn>` before a write, `done <turn>` after it.
"""

from __future__ import annotations

import sys
import warnings

import pyarrow as pa

import pyhudi

OPTIONS = {
    "hoodie.index.bloom.num_entries": "200",
    "hoodie.parquet.small.file.limit": "20000",
    # For merge-on-read tables, where they are compacted by the writer by default.
    "hoodie.compact.inline.max.delta.commits": "2",
}
CITIES = ("bern", "oslo", "rome")


def batch(turn: int, ids: range) -> pa.Table:
    """Rows that all carry the number of their write."""
    return pa.table(
        {"id": list(ids), "city": [CITIES[n % 3] for n in ids], "turn": [turn] * len(ids), "pad": ["x" * 40] * len(ids)}
    )


def write(path: str, turn: int) -> None:
    """One write: turns that 3 divides add keys of their own, the others update the same forty."""
    table = pyhudi.HudiTable.for_path(path, hudi_options=OPTIONS)
    if turn % 3 == 0:
        table.bulk_insert(batch(turn, range(1000 * turn, 1000 * turn + 10)))
    else:
        table.upsert(batch(turn, range(40)))


def main(path: str, turn: int) -> None:
    """Write until the end of this process."""
    warnings.simplefilter("error")
    while True:
        print(f"start {turn}", flush=True)  # noqa: T201
        write(path, turn)
        print(f"done {turn}", flush=True)  # noqa: T201
        turn += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
