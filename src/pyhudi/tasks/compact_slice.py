"""Compaction of one file slice: its base file and logs become the next base file of the group.

Records keep the commit time and the sequence number of their write.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.metadata.commit import NO_PREVIOUS_COMMIT, WriteStat
from pyhudi.io.log.changes import merge_logs
from pyhudi.io.log.records import LogVersions, read_log_versions
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergedRows, MergeSettings, merge_base
from pyhudi.merge.control_columns import BY_COMMIT_TIME, DELETED
from pyhudi.storage.open import open_spec
from pyhudi.tasks.data_file import (
    COPIED_META_COLUMNS,
    DataFile,
    DataFileSpec,
    FormerVersion,
    SequenceNumbers,
    WriteTarget,
    ensure_partition,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """Write the base file of one group from its previous base file, if any, and its logs.

    `run` replaces the task's stage number in the write token.
    """

    target: WriteTarget
    partition_path: str
    file_id: str
    former: FormerVersion | None
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
    return _with_log_counts(_written(context, task, pieces, _deletes(task, versions)), task, versions)


def _deletes(task: CompactTask, versions: LogVersions) -> pa.RecordBatch | None:
    """The deletes with ordering values that are the last versions of their records, if the footer keeps deletes."""
    if task.target.tombstones_since is None:
        return None
    changes = merge_logs(task.merging.rules, versions).merged
    return changes.filter(pc.and_not(changes.column(DELETED), pc.fill_null(changes.column(BY_COMMIT_TIME), False)))


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
            former=task.former,
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
        prev_commit=task.former.instant_time if task.former else NO_PREVIOUS_COMMIT,
        total_log_records=versions.rows.num_rows,
        total_log_files=len(task.files.logs),
        total_log_files_compacted=len(task.files.logs),
        total_log_blocks=versions.blocks,
        total_log_size_compacted=task.log_bytes,
        total_updated_records_compacted=stat.num_update_writes,
        total_corrupt_log_block=versions.corrupt_blocks,
        total_rollback_blocks=versions.rollback_blocks,
    )
