"""Tables with buckets for simulations: written without locks, or with rings that are resized beside writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.table.timeline import Timeline

LOCK_LESS: Final = "lockless"
"""Simple buckets, and writers that append to the same logs at once: none may give way to another."""
RINGED: Final = "ringed"
"""Consistent buckets, so small that each clustering splits them."""

_BUCKETS: Final = {"hoodie.index.type": "BUCKET"}
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    LOCK_LESS: {
        **_BUCKETS,
        # The key that is new is alone in its bucket.
        "hoodie.bucket.index.num.buckets": "3",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        # A second attempt would hide that the first one gave way.
        "hoodie.write.num.retries.on.conflict.failures": "0",
    },
    RINGED: {
        **_BUCKETS,
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.max.num.buckets": "2",
        "hoodie.parquet.max.file.size": "1",
    },
}
"""The options of such a table and its writes, beside those of all."""

ROLES_OF: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    LOCK_LESS: (
        ("update", "update"),
        ("update", "both", "new"),
        ("update", "delete"),
        ("new", "insert"),
        ("both", "update", "compact"),
        ("both", "delete", "compact"),
        ("new", "new", "schedule", "compact"),
        ("update", "compact", "read"),
        ("update", "new", "follow"),
        ("update", "both", "late"),
        ("update", "compact", "clean"),
    ),
    RINGED: (
        ("update", "cluster"),
        ("both", "cluster"),
        ("new", "cluster"),
        ("delete", "cluster"),
        ("update", "new", "cluster"),
        ("both", "cluster", "cluster"),
        ("update", "cluster", "read"),
        ("update", "cluster", "follow"),
        ("both", "cluster", "late"),
        ("both", "cluster", "compact"),
        ("update", "cluster", "clean"),
        ("cluster", "undo", "update"),
        ("overwrite", "both"),
        ("overwrite", "cluster"),
        ("drop", "new"),
        ("overwrite", "drop"),
        ("overwrite", "update", "clean"),
    ),
}
"""The actors that are tried on each."""


def resize_of(path: str, resizes: Collection[str]) -> str | None:
    """The one of `resizes` that makes the bucket of a log; its rows are in an old bucket, too."""
    name = parse_data_file(path.rpartition("/")[2])
    return name.instant_time if isinstance(name, LogFileName) and name.instant_time in resizes else None


def is_of_undone_resize(path: str, time: str, timeline: Timeline) -> bool:
    """Whether a log is in a bucket that a resize has not made in the end. Its rows are in an old bucket, too."""
    name = parse_data_file(path.rpartition("/")[2])
    if not isinstance(name, LogFileName) or name.instant_time == time or not timeline.version.has_completion_times:
        return False
    return not timeline.is_committed(name.instant_time) and not timeline.starts_after(name.instant_time)
