"""The options of a Hudi table: the same for real Hudi and for pyhudi."""

from __future__ import annotations

from pathlib import Path

from inputs import KEY, ORDERING, PARTITION

TABLE_OPTIONS = {
    "hoodie.table.name": "lineitem",
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": PARTITION,
    "hoodie.datasource.write.precombine.field": ORDERING,
}

MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
}
"""Compaction is an operation of its own here, and no part of another."""


def newest_completion_time(table: Path) -> str:
    """When the newest commit completed: the second time in the names `<instant>_<completion time>.<action>`."""
    # Hadoop puts its checksums beside the files, under hidden names.
    names = [path.name for path in (table / ".hoodie" / "timeline").glob("[0-9]*_*.*")]
    return max(name.partition(".")[0].partition("_")[2] for name in names)
