"""A consumer that keeps a copy of a table up to date by pulling what changed since it last looked.

    python examples/incremental_pull.py [FOLDER]

The consumer stores one text between its runs: the completion time of the last commit that it has seen.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("order", pa.int64()), ("state", pa.string()), ("ts", pa.int64())])


def main(folder: str) -> None:
    """Write the table `orders` below `folder`, and print what the consumer pulls after each write."""
    path, checkpoint = f"{folder}/orders", Path(folder) / "checkpoint.txt"
    orders = pyhudi.HudiTable.create(path, schema=SCHEMA, record_key="order", ordering_fields="ts")
    copy: dict[int, str] = {}

    orders.insert(pa.table({"order": [1, 2], "state": ["open", "open"], "ts": [1, 1]}))
    pull(path, checkpoint, copy)

    orders.upsert(pa.table({"order": [2, 3], "state": ["paid", "open"], "ts": [2, 2]}))
    orders.upsert(pa.table({"order": [2], "state": ["sent"], "ts": [3]}))
    pull(path, checkpoint, copy)
    pull(path, checkpoint, copy)

    print("the copy:", copy)


def pull(path: str, checkpoint: Path, copy: dict[int, str]) -> None:
    """Apply the changes since the checkpoint to `copy`, then move the checkpoint."""
    orders = pyhudi.HudiTable.for_path(path)  # one moment: the changes and the new checkpoint belong together
    newest = orders.inspect.position()
    seen = checkpoint.read_text() if checkpoint.exists() else None
    changes = orders.changes(begin=seen, end=newest, columns=["order", "state"]).to_arrow()
    copy.update((row["order"], row["state"]) for row in changes.sort_by("order").to_pylist())
    checkpoint.write_text(newest or "000")
    print(f"pulled {changes.num_rows} changed rows")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "examples"))
