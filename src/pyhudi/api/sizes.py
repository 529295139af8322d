"""Sizes of a table's files, and what its writes cost: small files, logs, skew, write amplification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.result_tables import table_of
from pyhudi.format.timeline.instant import Instant
from pyhudi.markup import Shown
from pyhudi.table.file_system_view import SlicesByPartition

_REWRITES = frozenset({WriteOperation.COMPACT, WriteOperation.LOG_COMPACT, WriteOperation.CLUSTER})
"""Services write rows again that writes have changed: bytes without a change of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSizes(Shown):
    """How a table's newest file slices are cut. Sizes are in bytes.

    Attributes:
        file_groups: how many file groups there are.
        base_files: how many of them have a base file.
        base_bytes: the size of all base files.
        logs: how many log files readers merge.
        log_bytes: their size.
        log_ratio: `log_bytes` over `base_bytes`; None without base files. Reads of a merge-on-read table cost more the
            larger it is; a compaction makes it 0.
        small_files: how many base files are below `small_file_limit`, so that inserts fill them up and clustering puts
            them together.
        small_file_limit: `hoodie.parquet.small.file.limit`.
        smallest: the size of the smallest base file; None without any.
        median: that of the middle one.
        largest: that of the largest one.
        partitions: how many partitions have files.
        largest_partition: the path of the largest one; None without any.
        skew: the size of the largest partition over that of an average one: 1 where all are alike.
    """

    file_groups: int
    base_files: int
    base_bytes: int
    logs: int
    log_bytes: int
    log_ratio: float | None
    small_files: int
    small_file_limit: int
    smallest: int | None
    median: int | None
    largest: int | None
    partitions: int
    largest_partition: str | None
    skew: float | None


def sizes_of(latest: SlicesByPartition, small_file_limit: int) -> TableSizes:
    """The sizes of these file slices."""
    slices = [file_slice for group in latest.values() for file_slice in group]
    bases = np.array([file_slice.base.size for file_slice in slices if file_slice.base is not None], dtype=np.int64)
    log_bytes = sum(log.size for file_slice in slices for log in file_slice.logs)
    of_partitions = {path: sum(file_slice.size for file_slice in group) for path, group in latest.items()}
    largest_partition = max(of_partitions, key=lambda path: (of_partitions[path], path), default=None)
    mean = sum(of_partitions.values()) / len(of_partitions) if of_partitions else 0.0
    return TableSizes(
        file_groups=len(slices),
        base_files=len(bases),
        base_bytes=int(bases.sum()),
        logs=sum(len(file_slice.logs) for file_slice in slices),
        log_bytes=log_bytes,
        log_ratio=round(log_bytes / int(bases.sum()), 3) if bases.sum() else None,
        small_files=int((bases < small_file_limit).sum()),
        small_file_limit=small_file_limit,
        smallest=int(bases.min()) if len(bases) else None,
        median=int(np.median(bases)) if len(bases) else None,
        largest=int(bases.max()) if len(bases) else None,
        partitions=len(of_partitions),
        largest_partition=largest_partition,
        skew=round(of_partitions[largest_partition] / mean, 2) if largest_partition is not None and mean else None,
    )


def amplification_table(writes: Iterable[tuple[Instant, CommitMetadata]]) -> pa.Table:
    """A row per write: what it changed, and what it wrote for that. See `Inspect.write_amplification`."""
    return table_of(_COLUMNS, (_row(instant, metadata) for instant, metadata in writes))


def _row(instant: Instant, metadata: CommitMetadata) -> dict[str, Any]:
    stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
    written = sum(stat.total_write_bytes or 0 for stat in stats)
    changed_rows, changed = 0, 0.0
    if metadata.operation not in _REWRITES:
        rows_of_all = sum(stat.num_writes or 0 for stat in stats)
        for stat in stats:
            rows = (stat.num_inserts or 0) + (stat.num_update_writes or 0) + (stat.num_deletes or 0)
            if stat.num_writes:
                changed += rows * (stat.total_write_bytes or 0) / stat.num_writes
            elif rows_of_all:  # all rows of the file were deleted
                changed += rows * written / rows_of_all
            changed_rows += rows
    return {
        "instant": instant.requested_time,
        "operation": metadata.operation.value,
        "rows_changed": changed_rows,
        "rows_written": sum(stat.num_writes or 0 for stat in stats),
        "bytes_changed": round(changed),
        "bytes_written": written,
        "amplification": round(written / changed, 2) if changed else None,
    }


_COLUMNS = (
    "instant string, operation string, rows_changed int64, rows_written int64, bytes_changed int64, "
    "bytes_written int64, amplification double"
)
