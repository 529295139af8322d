"""A writer of a merge-on-read table that never compacts, and a service that compacts for it.

    python examples/compaction_service.py [FOLDER]

In production the two functions run as two jobs. They share nothing but the table, may run at the same time, and may
die at any moment: the next run of the service finishes what a dead one began.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("page", pa.string()), ("views", pa.int64()), ("ts", pa.int64())])
WRITER_OPTIONS = {
    "hoodie.compact.inline": "false",  # this writer runs no compaction,
    "hoodie.compact.schedule.inline": "true",  # and plans one
    "hoodie.compact.inline.max.delta.commits": "3",  # after every third write
}


def main(folder: str) -> None:
    """Write the table `pages` below `folder`, let the service compact it, and print what it did."""
    path = f"{folder}/pages"
    write_pages(path)
    print("log files before:", log_files(path))
    compact_pages(path)
    print("log files after:", log_files(path))


def write_pages(path: str) -> None:
    """The writer's job: each update goes to a log file."""
    pages = pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="page",
        ordering_fields="ts",
        table_type="mor",
        hudi_options=WRITER_OPTIONS,
    )
    pages.insert(pa.table({"page": ["home", "news"], "views": [1, 1], "ts": [0, 0]}))
    for ts in range(1, 6):
        pages.upsert(pa.table({"page": ["home"], "views": [10 * ts], "ts": [ts]}))


def compact_pages(path: str) -> None:
    """The service's job: run what was planned, then compact the rest; readers see the same rows all the time."""
    pages = pyhudi.HudiTable.for_path(path)
    for compaction in pages.services.compact().to_pylist():
        print(f"compacted: {compaction['slices']} file slice, {compaction['updated']} row updated")


def log_files(path: str) -> int:
    """How many log files a reader merges now."""
    return sum(len(logs) for logs in pyhudi.HudiTable.for_path(path).inspect.files()["logs"].to_pylist())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "examples"))
