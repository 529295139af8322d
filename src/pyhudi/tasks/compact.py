"""Compaction of one file slice: its base file and logs become the next base file of the group.

Records keep the commit time and the sequence number of their write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.log.blocks import BlockHeader
from pyhudi.format.metadata.commit import NO_PREVIOUS_COMMIT, WriteStat
from pyhudi.format.pieces import cuts
from pyhudi.format.schema.meta_columns import FILE_NAME, RECORD_KEY
from pyhudi.io.log.changes import LogChanges, merge_logs, ordered_deletes
from pyhudi.io.log.records import LogVersions, read_log_versions
from pyhudi.io.log.scan import scan_blocks
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergedRows, MergeSettings, merge_base
from pyhudi.merge.control_columns import BY_COMMIT_TIME, FRESH
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.tasks.data_file import (
    COPIED_META_COLUMNS,
    DataFile,
    DataFileSpec,
    PreviousVersion,
    SequenceNumbers,
    WriteTarget,
    ensure_partition,
)
from pyhudi.tasks.log_writer import LogSettings, LogWriter, SliceToAppend

SAMPLE_ROWS = 1_000
"""How many rows are measured to estimate the number of rows per block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactLogsTask:
    """Write one log for those of a slice; `log_bytes` is their size."""

    target: WriteTarget
    logs: LogSettings
    to: SliceToAppend
    files: SliceFiles
    merging: MergeSettings
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LookIntoLogsTask:
    """Read the block headers of the logs of a slice, by their paths."""

    storage: StorageSpec
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Write the base file of one group from its previous base file, if any, and its logs.

    `run` replaces the task's stage number in the write token.
    """

    target: WriteTarget
    partition_path: str
    file_id: str
    previous: PreviousVersion | None
    files: SliceFiles
    merging: MergeSettings
    log_bytes: int
    run: int


def compact_slice(context: TaskContext, task: CompactTask) -> WriteStat:
    """Write the base file and return its stat. Memory: a row group, and the slice's log records (`SpillSettings`)."""
    storage = open_spec(task.target.storage)
    ensure_partition(storage, task.partition_path, task.target.instant_time)
    columns = [*COPIED_META_COLUMNS, *task.target.schema.names]
    schema = task.merging.needed_for(columns)
    versions = read_log_versions(
        storage,
        task.files.logs,
        schema,
        task.merging.rules.in_logs,
        blocks=task.files.judged_by(task.merging.blocks),
        spill=task.merging.spill,
        names=task.files.names,
    )
    pieces = merge_base(storage, task.files, versions, task.merging, schema, columns)
    keeps_deletes = task.target.tombstones_since is not None
    deletes = ordered_deletes(task.merging.rules, versions) if keeps_deletes else None
    return _with_log_counts(_written(context, task, pieces, deletes), task, versions)


def _written(
    context: TaskContext, task: CompactTask, pieces: Iterator[MergedRows], deletes: pa.RecordBatch | None
) -> WriteStat:
    with DataFile(
        open_spec(task.target.storage),
        DataFileSpec(
            target=task.target,
            context=replace(context, stage=task.run),
            partition_path=task.partition_path,
            file_id=task.file_id,
            previous=task.previous,
        ),
        SequenceNumbers(task.target.instant_time, context),
    ) as file:
        if deletes is not None:
            file.bury(deletes)
        for piece in pieces:
            if piece.stored.num_rows:
                file.copy(piece.stored)
            file.carry(piece.updated, piece.inserted)
            file.forget(piece.deleted)
        return file.close()


def _with_log_counts(stat: WriteStat, task: CompactTask, versions: LogVersions) -> WriteStat:
    return replace(
        stat,
        prev_commit=task.previous.instant_time if task.previous else NO_PREVIOUS_COMMIT,
        total_log_records=versions.rows.num_rows,
        total_log_files=len(task.files.logs),
        total_log_files_compacted=len(task.files.logs),
        total_log_blocks=versions.blocks,
        total_log_size_compacted=task.log_bytes,
        total_updated_records_compacted=stat.num_update_writes,
        total_corrupt_log_block=versions.corrupt_blocks,
        total_rollback_blocks=versions.rollback_blocks,
    )


def have_partial_rows(_: TaskContext, task: LookIntoLogsTask) -> bool:
    """Whether any of the logs has partial updates. Cost: the headers of its blocks are read."""
    storage = open_spec(task.storage)
    return any(block.is_partial for path in task.paths for block in scan_blocks(storage, path))


def compact_logs(context: TaskContext, task: CompactLogsTask) -> list[WriteStat]:
    """Write the log and return its stats. Memory: the slice's log records (`SpillSettings`).

    Raises `UnsupportedFeatureError` for logs with partial updates: the missing columns are in the base file only.
    """
    storage = open_spec(task.target.storage)
    merging = task.merging
    rules = merging.rules.in_logs
    versions = read_log_versions(
        storage,
        task.files.logs,
        merging.schema,
        rules,
        blocks=task.files.judged_by(merging.blocks),
        spill=merging.spill,
        names=task.files.names,
    )
    if versions.column_sets:
        raise UnsupportedFeatureError(
            "logs with partial updates cannot be joined to one, so this plan cannot be executed: undo it with "
            f"table.recovery.rollback({task.target.instant_time!r}); then run table.services.compact()",
            instant=task.target.instant_time,
            logs=list(task.files.logs),
        )
    changes = merge_logs(merging.rules, versions)
    deleted = changes.deleted.to_numpy(zero_copy_only=False)
    headers = {BlockHeader.COMPACTED_BLOCK_TIMES: ",".join(sorted(versions.instants))}
    with LogWriter(storage, task.target, task.logs, task.to, context, headers) as writer:
        for rows in _pieces(changes, np.flatnonzero(~deleted), task.logs):
            if FRESH in rows.schema.names:
                _write_deletes(writer, rows.filter(rows.column(FRESH)), [], counted=False)
            writer.write_rows(_stored(rows, task))
        for rows in _pieces(changes, np.flatnonzero(deleted), task.logs):
            by_commit_time = pc.fill_null(rows.column(BY_COMMIT_TIME), False)
            _write_deletes(writer, rows.filter(by_commit_time), [])
            _write_deletes(writer, rows.filter(pc.invert(by_commit_time)), list(rules.ordering_fields))
        stats = writer.close()
    return [
        replace(
            stat,
            total_log_records=versions.rows.num_rows,
            total_log_blocks=versions.blocks,
            total_log_files_compacted=len(task.files.logs),
            total_log_size_compacted=task.log_bytes,
            total_corrupt_log_block=versions.corrupt_blocks,
            total_rollback_blocks=versions.rollback_blocks,
        )
        for stat in stats
    ]


def _pieces(changes: LogChanges, numbers: npt.NDArray[np.int64], logs: LogSettings) -> Iterator[pa.RecordBatch]:
    """The rows of these numbers, about a block at a time, estimated from the size of the first rows."""
    if len(numbers) == 0:
        return
    sizes = changes.sizes()[numbers]
    sample = changes.take(numbers[: max(1, min(SAMPLE_ROWS, next(cuts(sizes))[1]))])
    count = max(1, int(logs.rows_size * sample.num_rows / max(sample.nbytes, 1)))
    for start in range(0, len(numbers), count):
        block = numbers[start : start + count]
        for low, high in cuts(sizes[start : start + count]):
            yield changes.take(block[low:high])


def _write_deletes(
    writer: LogWriter, rows: pa.RecordBatch, ordering_fields: list[str], *, counted: bool = True
) -> None:
    ordering = [rows.column(name) for name in ordering_fields]
    writer.write_deletes(rows.column(RECORD_KEY), ordering, counted=counted)


def _stored(rows: pa.RecordBatch, task: CompactLogsTask) -> pa.RecordBatch:
    schema = task.merging.schema
    columns = [
        pa.repeat(task.to.file_id, rows.num_rows) if name == FILE_NAME else rows.column(name) for name in schema.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
