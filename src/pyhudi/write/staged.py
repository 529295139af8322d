"""Upsert, insert, delete and the overwrites: writes that stage all rows before they assign any to a file.

`write_staged` reads like the protocol; `docs/design/architecture.md` describes the steps.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi.config.enums import Arrangement, BucketEngine
from pyhudi.config.option import OptionWarning
from pyhudi.engine.exchange_files import ExchangeFolder
from pyhudi.engine.protocol import Distribution, Exchange, TaskContext
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import WriteConflictError
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.format.schema.type_at import type_at
from pyhudi.format.timeline.instant import Action
from pyhudi.merge.rules import MergeRules
from pyhudi.services.clustering.hash_rings import Resizes, mark_rings, put_rings, renewed_rings, with_buckets
from pyhudi.services.clustering.schedule import roll_back_clusterings
from pyhudi.services.rollback.orphans import remove_orphans
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView, SlicesByPartition, load_view
from pyhudi.table.lister import Lister
from pyhudi.table.plain_partitions import check_names_not_plain
from pyhudi.table.remembered_files import listed_once
from pyhudi.table.state import TableState
from pyhudi.tasks.append_log import AppendTask, append_rows
from pyhudi.tasks.data_file import PreviousVersion, WriteTarget
from pyhudi.tasks.log_writer import WRITE_TOKEN_NUMBERS, SliceToAppend, slice_to_append
from pyhudi.tasks.markers import announce_ahead, task_markers
from pyhudi.tasks.rewrite_base import BaseFileTask, write_base_file
from pyhudi.tasks.settings import log_settings
from pyhudi.tasks.stage import StagedSplit, StageTask, stage_split
from pyhudi.transaction.conflicts.check import check_rows_read
from pyhudi.transaction.conflicts.footprint import Reads
from pyhudi.transaction.transaction import Transaction, mark_inflight
from pyhudi.write.bucket_placement import hashed, make_rings
from pyhudi.write.finish import committed, makes_empty_commit, take_back, without_commit, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.operations import ApplyChanges, Delete, Insert, Overwrite, RowsRead, StagedWrite, Upsert, looks_up
from pyhudi.write.placement import Batch, Placement, searched
from pyhudi.write.plan import FileAssignment, FilePlan
from pyhudi.write.result import WriteResult
from pyhudi.write.stored_texts import check_date_folders


def write_staged(job: WriteJob, rows: Any, write: StagedWrite) -> WriteResult:
    """Run the write, or raise with nothing of it visible.

    Cost: one pass over the input; the key columns of the base files that may hold a key; a rewrite of each touched
    file group. Rows of the input never pass through the driver.
    """
    storage = job.table.storage
    write = _combining(job, write)
    with job.engine.exchange_folder(job.environment.ids.uuid(), job.merging.spill.folder) as folder:
        splits = _stage(job, rows, write, folder)
        check_date_folders(job.table, job.keys, {part.partition_path for split in splits for part in split.partitions})
        replaces = isinstance(write, Overwrite)
        commits_anyway = replaces or makes_empty_commit(job, is_computed=_is_computed(write))
        if not (splits or commits_anyway):
            return without_commit(job, write.operation)
        action = Action.REPLACE_COMMIT if replaces else job.action
        requested = encode_requested_replace_metadata(requested_replace(write.operation)) if replaces else b""
        read = _read(write, splits)
        with (
            write_transaction(job, action, requested) as begun,
            listed_once(storage, begun.base.timeline, job.lister) as lister,
        ):
            _check_rows_read(job, begun, read)
            named = {part.partition_path for split in splits for part in split.partitions}
            view = _view(begun.base, job, named, write, lister)
            for path in sorted(named - view.latest.keys()):
                check_names_not_plain(path, {info.name for info in lister.partitions([path])})
            replaced = _replaced(view.latest, splits, write) if isinstance(write, Overwrite) else None
            if isinstance(write, Overwrite) and write.reads_table:
                _check_rows_read(job, begun, None if write.whole_table else frozenset(replaced or ()))
            rings = _renewed(job, begun, named, replaced)
            batch = Batch(
                job=job, write=write, transaction=begun, view=view, splits=splits, folder=folder, renewed=rings
            )
            placement = searched(batch) if job.buckets is None else hashed(batch, job.buckets)
            plan = placement.plan
            transaction = replace(begun, resizes=placement.resizes)
            _check_targets(transaction, plan)
            replaced = None if replaced is None else with_buckets(replaced, rings)
            roll_back_clusterings(transaction, _changes(plan, replaced))
            mark_inflight(transaction, _profile_metadata(plan, write))
            ahead = [file.number for file in plan.assignments if _is_announced_ahead(begun.base, file)]
            with task_markers(transaction, job.config, job.engine, file_groups=len(ahead)) as markers:
                target = job.target(transaction.instant_time, markers)
                stats = _write_files(batch, target, placement, ahead)
            if not (stats or commits_anyway):
                take_back(transaction, write.operation)
                return without_commit(job, write.operation)
            put_rings(storage, rings)
            result = committed(job, transaction, write.operation, stats, replaced, placement.learned, read)
        mark_rings(storage, rings)
        return result


def _combining(job: WriteJob, write: StagedWrite) -> StagedWrite:
    """The write, which combines rows of one key where the table merges versions of a record."""
    if not isinstance(write, Upsert | Insert | Delete) or not looks_up(write) or job.rules.selects:
        return write
    # A stored row is merged with one row of the batch; to choose one of several would lose the others.
    if not write.combine and not isinstance(write, Delete):
        warnings.warn(
            "hoodie.combine.before.upsert=false has no effect on this table: its merge rule combines all versions "
            "of a record, also within one batch",
            OptionWarning,
            stacklevel=3,
        )
    return replace(write, combine=True)


def _is_computed(write: StagedWrite) -> bool:
    """Whether the write is a merge, an update or a deletion by a condition."""
    return isinstance(write, ApplyChanges) and not write.keys.by_meta_columns


def _renewed(
    job: WriteJob, transaction: Transaction, named: Collection[str], replaced: Mapping[str, Sequence[str]] | None
) -> Resizes:
    """The rings that an overwrite makes, also of new partitions, whose first rings another writer may be filling."""
    if replaced is None or job.buckets is None or job.buckets.engine is not BucketEngine.CONSISTENT_HASHING:
        return {}
    make_rings(transaction.base, job.buckets, named)
    return renewed_rings(transaction.base, replaced, transaction.instant_time, job.environment.ids)


def _stage(job: WriteJob, rows: Any, write: StagedWrite, folder: ExchangeFolder) -> tuple[StagedSplit, ...]:
    keys_only = isinstance(write, Delete)
    by_meta_columns = isinstance(write, Delete) and write.by_meta_columns
    changes = write.keys if isinstance(write, ApplyChanges) else None
    task = StageTask(
        folder=folder,
        keys=job.keys,
        schema=pa.schema([]) if by_meta_columns else job.key_columns if keys_only else job.schema.arrow,
        rules=MergeRules() if keys_only else job.combining_rules,
        combine=write.combine and changes is None and (by_meta_columns or bool(job.keys.record_key_fields)),
        table_wide_keys=job.config.index.index_type.is_global and looks_up(write),
        needs_ordering=job.is_merge_on_read and not keys_only and bool(job.rules.ordering_fields),
        changes=changes,
        by_meta_columns=by_meta_columns,
        codec=job.config.files.codec.arrow_name if _needs_record_size(job, write) else None,
    )
    meets = task.combine or changes is not None
    fields = job.keys.record_key_fields or (RECORD_KEY,)
    distribution = Distribution(Arrangement.NONE, splits=job.config.splits)
    if meets:
        types = tuple(type_at(job.schema.arrow, name) or pa.string() for name in fields)
        by_key = replace(distribution, arrangement=Arrangement.BY_KEY, key_columns=fields, key_types=types)
        distribution = replace(by_key, keeps_order=not keys_only and not task.rules.ordering_fields)
    staged = job.engine.map_splits(
        rows, functools.partial(stage_split, task), distribution=distribution, description="stage rows", folder=folder
    )
    return tuple(split for split in staged if split.rows)


def _needs_record_size(job: WriteJob, write: StagedWrite) -> bool:
    """Whether new rows are distributed over files by the bytes that they will take, and no option says how many."""
    return job.config.files.record_size_estimate is None and job.buckets is None and not isinstance(write, Delete)


def _view(
    table: TableState, job: WriteJob, named: Collection[str], write: StagedWrite, lister: Lister
) -> FileSystemView:
    """The file slices of the partitions of the rows, or of all if a key may be in any partition."""
    overwrites_all = isinstance(write, Overwrite) and (write.whole_table or write.partitions is not None)
    whole = job.config.index.index_type.is_global or job.config.index_remembers
    everywhere = overwrites_all or (looks_up(write) and whole)
    view = load_view(table.storage, table.timeline, None if everywhere else named, lister=lister)
    remove_orphans(view)
    return view


def _read(write: StagedWrite, splits: Sequence[StagedSplit]) -> Reads:
    """The partitions whose rows the write has read to compute its own. Of an overwrite see `Overwrite.reads_table`."""
    if not isinstance(write, ApplyChanges) or write.read is RowsRead.NONE:
        return frozenset()
    if write.read is RowsRead.ALL:
        return None
    return frozenset(partition.partition_path for split in splits for partition in split.partitions)


def _check_rows_read(job: WriteJob, transaction: Transaction, read: Reads) -> None:
    """Give way if rows that the write has read were changed before it began. Cost: a read per write since."""
    if read != frozenset():
        own, base = transaction.instant_time, transaction.base
        check_rows_read(base.timeline, job.table.timeline, base.storage, own=own, read=read)


def _check_targets(transaction: Transaction, plan: FilePlan) -> None:
    """Give way if the newest version of a file group has a later instant: files of this write would be hidden.

    Instant times are taken under the table lock, above all on the timeline, so this needs a writer without that lock.
    """
    own = transaction.instant_time
    for assignment in plan.assignments:
        if assignment.previous is not None and assignment.previous.instant_time > own:
            raise WriteConflictError(
                "the newest version of a file group is of a later instant than this write; nothing of it is visible; "
                "run it again",
                table=transaction.storage.uri,
                instant=own,
                winner=assignment.previous.instant_time,
                file_groups=[f"{assignment.partition_path}/{assignment.file_id}"],
            )


def _profile_metadata(plan: FilePlan, write: StagedWrite) -> CommitMetadata:
    """The workload profile in the form of JVM Hudi's inflight instants."""
    stats: dict[str, list[WriteStat]] = {}
    for assignment in plan.assignments:
        previous = assignment.previous
        stats.setdefault(assignment.partition_path, []).append(
            WriteStat(
                file_id=assignment.file_id if previous else "",
                prev_commit=previous.instant_time if previous else "null",
                num_inserts=assignment.inserts,
                num_update_writes=assignment.updates,
            )
        )
    return CommitMetadata(
        operation=write.operation, stats_by_partition={path: tuple(group) for path, group in stats.items()}
    )


def _is_announced_ahead(table: TableState, assignment: FileAssignment) -> bool:
    """Whether its first file can be announced before its task runs.

    JVM Hudi 0.15 puts a rollback block into each log of version 6 that a dead write has announced. Where the log was
    not begun, it then misses the rows that it writes next to the file group.
    """
    return assignment.expects_rows and (table.version.has_completion_times or not assignment.appends)


def _write_files(batch: Batch, target: WriteTarget, placement: Placement, ahead: Sequence[int]) -> list[WriteStat]:
    """Send the staged rows to their files, and write those that get any. Cost: one exchange.

    `ahead`: the numbers of the assignments whose first files are announced before.
    """
    job, splits, assignments = batch.job, batch.splits, placement.plan.assignments
    staged_bytes = sum(split.bytes for split in splits)
    row_bytes = staged_bytes / max(1, sum(split.rows for split in splits))
    spill = job.merging.spill
    tasks = [_task_of(batch, target, assignment, spill) for assignment in assignments]
    announce_ahead(batch.transaction, target.markers, job.engine, {number: tasks[number] for number in ahead})
    written = job.engine.exchange(
        Exchange(
            send=placement.send,
            senders=placement.senders,
            receive=write_file_group,
            receivers=tasks,
            sizes=[_size(assignment, row_bytes) for assignment in assignments],
            sent_bytes=2 * staged_bytes,
            spill=spill,
            description="write files",
            files=placement.files,
        )
    )
    return [stat for stats in written for stat in stats]


def _task_of(
    batch: Batch, target: WriteTarget, assignment: FileAssignment, spill: SpillSettings
) -> BaseFileTask | AppendTask:
    job, write = batch.job, batch.write
    if not assignment.appends:
        return BaseFileTask(
            target=target,
            partition_path=assignment.partition_path,
            file_id=assignment.file_id,
            previous=_previous(assignment),
            spill=spill,
        )
    return AppendTask(
        target=target,
        logs=log_settings(job.table, job.config),
        to=_slice_to_append(batch.view, assignment, target),
        keys_repeat=not write.combine,
        starts_group=assignment.previous is None,
        columns=write.columns if isinstance(write, ApplyChanges) else None,
    )


def _size(assignment: FileAssignment, row_bytes: float) -> int:
    """About the bytes that the task of an assignment reads and writes."""
    rewritten = assignment.previous.size if assignment.previous is not None and not assignment.appends else 0
    return rewritten + int(row_bytes * (assignment.updates + assignment.inserts))


def write_file_group(
    context: TaskContext, task: BaseFileTask | AppendTask, incoming: Iterator[pa.RecordBatch]
) -> list[WriteStat]:
    """Write the files of one file group, and return their stats."""
    if isinstance(task, AppendTask):
        return append_rows(context, task, incoming)
    return write_base_file(context, task, incoming)


def _slice_to_append(view: FileSystemView, assignment: FileAssignment, target: WriteTarget) -> SliceToAppend:
    """Where an assignment appends: to its slice, or to the first one of a file group that begins with a log."""
    own = target.instant_time
    new = FileSlice(FileGroupId(assignment.partition_path, assignment.file_id), own, None)
    to = slice_to_append(view, assignment.previous or new, own, names_slice=target.change_data is not None)
    series = assignment.log_series
    if series is None:
        return to
    # Two writes at one time may take the same version; then only their write tokens differ.
    stage = int(own) % WRITE_TOKEN_NUMBERS
    return replace(to, name_time=series.instant_time, first_version=series.version, stage=stage)


def _previous(assignment: FileAssignment) -> PreviousVersion | None:
    if assignment.previous is None or assignment.previous.base is None:
        return None
    return PreviousVersion.of(assignment.previous.base)


def _changes(plan: FilePlan, replaced: Mapping[str, Sequence[str]] | None) -> list[FileGroupId]:
    """The file groups that the write changes or replaces."""
    rewritten = [
        FileGroupId(assignment.partition_path, assignment.file_id)
        for assignment in plan.assignments
        if assignment.previous
    ]
    return rewritten + [FileGroupId(path, file_id) for path, ids in (replaced or {}).items() for file_id in ids]


def _replaced(latest: SlicesByPartition, splits: Sequence[StagedSplit], write: Overwrite) -> dict[str, tuple[str, ...]]:
    """The replaced file groups by partition path, including overwritten partitions without file groups."""
    touched = {partition.partition_path for split in splits for partition in split.partitions}
    paths = touched | {path for path in latest if write.replaces(path)}
    return {path: tuple(file_slice.file_id for file_slice in latest.get(path, ())) for path in sorted(paths)}
