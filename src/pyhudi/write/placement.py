"""Placing the rows of a write: which files it writes, and which rows go into each.

Either an index finds the file groups of stored records, and the plan packs new ones into files (`searched`); or the
file group of every record is computed (`write/bucket_placement.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi.config.enums import DuplicatePolicy
from pyhudi.engine.exchange_files import ExchangeFolder, TaskFiles
from pyhudi.engine.protocol import AddressedRows, TaskContext
from pyhudi.errors import InvalidRequestError
from pyhudi.events import KeysLookedUp
from pyhudi.format.file_names import file_id
from pyhudi.format.metadata.commit import WRITER_KEY
from pyhudi.format.timeline.instant import Action
from pyhudi.index.protocol import Lookup, Tagged
from pyhudi.index.selection import index_of, scope_of
from pyhudi.index.tombstones import bar_late_rows, tag_returning_rows
from pyhudi.metadata_table.file_changes import NOTHING_LEARNED
from pyhudi.metadata_table.partitions.record_index import LEARNED_BY_INDEX
from pyhudi.services.clustering.hash_rings import Resizes
from pyhudi.table.archive.writes import with_archive
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView, SlicesByPartition
from pyhudi.table.pending_clusterings import clustered_groups
from pyhudi.table.state import TableState
from pyhudi.tasks.route import RouteTask, send_routed
from pyhudi.tasks.stage import StagedSplit
from pyhudi.transaction.transaction import Transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.operations import ApplyChanges, Delete, Insert, StagedWrite, Upsert, looks_up
from pyhudi.write.plan import FilePlan, Profile, Sizing, plan_files, record_size_estimate

_RECENT_COMMITS = 5
"""How many commits are searched for the size of a record, as in JVM Hudi."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The staged rows of one write, and the slices that they meet. `renewed`: the rings that an overwrite makes."""

    job: WriteJob
    write: StagedWrite
    transaction: Transaction
    view: FileSystemView
    splits: tuple[StagedSplit, ...]
    folder: ExchangeFolder
    renewed: Resizes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placement:
    """The files of a write. `send` and `senders`: the tasks that send the staged rows to them (`Exchange`), by `files`.

    `resizes`: pending clusterings whose old and new file groups both get the rows, so that they are not in the way.
    `learned`: what the indexes of the metadata table are to know of the lookup (`Change.learned`).
    """

    plan: FilePlan
    send: Callable[[TaskContext, Any], Iterator[AddressedRows]]
    senders: Sequence[Any]
    files: TaskFiles[Any]
    resizes: frozenset[str] = frozenset()
    learned: Mapping[str, Any] = field(default_factory=lambda: NOTHING_LEARNED)


def searched(batch: Batch) -> Placement:
    """Look the keys up, and pack new records into small files. Cost: that of the index, and a round of tasks."""
    clock = batch.job.environment.clock
    began = clock.monotonic()
    tagged = look_up(batch)
    batch.job.environment.observe(KeysLookedUp(seconds=clock.monotonic() - began))
    plan = _plan(batch, tagged)
    learned = {LEARNED_BY_INDEX: True} if tagged.by_record_index else NOTHING_LEARNED
    assignment_of = {
        assignment.previous: assignment.number for assignment in plan.assignments if assignment.previous is not None
    }
    assignment_of_file = {
        number: assignment_of[file_slice]
        for number, file_slice in enumerate(tagged.slices)
        if file_slice in assignment_of
    }
    send = functools.partial(send_routed, assignment_of_file)
    files = TaskFiles(batch.folder, RouteTask.reads, writes=False)
    return Placement(plan, send, _route_tasks(batch, tagged, plan), files, learned=learned)


def look_up(batch: Batch, *, in_buckets: bool = False) -> Tagged:
    """Tags of the rows whose keys are stored, or come back where they were; none if the write does not look keys up.

    `in_buckets`: the key tells the file group, so that any log may have any record, and a record comes back by itself.
    """
    job, write = batch.job, batch.write
    slices = [file_slice for group in batch.view.latest.values() for file_slice in group]
    if not looks_up(write) or not slices or not batch.splits:
        return Tagged()
    merging = job.merging
    lookup = Lookup(
        storage=job.table.storage.spec,
        folder=batch.folder,
        splits=batch.splits,
        merging=replace(merging, blocks=with_archive(merging.blocks, batch.view.archived)),
        decided_by_logs=frozenset(file_slice.group for file_slice in slices)
        if in_buckets
        else groups_with_decisive_logs(batch.transaction.base, slices),
        ordering_fields=() if isinstance(write, Delete) else job.rules.ordering_fields,
        scope=scope_of(job.config, may_move=isinstance(write, Upsert | ApplyChanges)),
        keys_repeat=not write.combine,
        key_patterns=job.key_patterns,
        view=batch.view,
        instant_time=batch.transaction.instant_time,
    )
    tagged = index_of(job.config, batch.transaction.base).tag(job.engine, lookup, slices)
    if _may_return(write) and not (in_buckets or tagged.by_record_index or lookup.scope.is_table_wide):
        tagged = tag_returning_rows(job.engine, lookup, slices, tagged)
    if job.config.input.tombstone_hours and not isinstance(write, Delete):
        tagged = bar_late_rows(job.engine, lookup, slices, tagged)
    if isinstance(write, Insert) and write.on_known is DuplicatePolicy.FAIL and tagged.known_rows:
        raise InvalidRequestError(
            "rows of this insert have keys that are in the table already; nothing was written: use upsert, or set "
            "hoodie.datasource.insert.dup.policy to drop or none",
            rows=sum(tagged.known_rows.values()),
        )
    return tagged


def _may_return(write: StagedWrite) -> bool:
    """Whether rows of this write may be of records that were deleted, and bring them back."""
    return isinstance(write, Upsert) or (isinstance(write, ApplyChanges) and write.asks_whether_stored)


def _plan(batch: Batch, tagged: Tagged) -> FilePlan:
    job, write, view = batch.job, batch.write, batch.view
    new_rows = {
        (number, partition.partition_path): max(
            0, partition.rows - tagged.known_rows.get((number, partition.partition_path), 0)
        )
        for number, split in enumerate(batch.splits)
        for partition in split.partitions
        if not isinstance(write, Delete)
    }
    updates = {} if isinstance(write, Insert) else tagged.updates
    ids = job.environment.ids
    return plan_files(
        Profile(new_rows, updates),
        _packable(view, clustered_groups(job.table.storage, view.timeline))
        if isinstance(write, (Upsert, Insert, ApplyChanges))
        else {},
        _sizing(batch, has_new_rows=any(new_rows.values())),
        lambda: file_id(ids.uuid(), 0),
        appends=job.is_merge_on_read,
    )


def _packable(view: FileSystemView, clustered: frozenset[FileGroupId]) -> SlicesByPartition:
    """The slices whose base files may take new records: those without logs that are not input of a pending plan.

    To rewrite the others would merge logs, or conflict with the compaction of the group. Rows written into `clustered`
    groups, which JVM Hudi is about to replace, would be lost.
    """
    held = clustered.union(view.pending_compactions)
    return {
        path: tuple(file_slice for file_slice in slices if not file_slice.logs and file_slice.group not in held)
        for path, slices in view.latest.items()
    }


def _sizing(batch: Batch, *, has_new_rows: bool) -> Sizing:
    """File-size targets of this write: only inserts make files grow."""
    job = batch.job
    files = job.config.files
    small_files_max = job.config.logs.small_file_candidates if job.is_merge_on_read else None
    record_size = _record_size(batch) if has_new_rows else 1
    return Sizing(files.max_file_size, files.small_file_limit, record_size, small_files_max=small_files_max)


def _record_size(batch: Batch) -> int:
    """Bytes of a stored record: as the rows of the write show them, or by JVM Hudi's rule if an option says how many.

    Cost: none; by JVM Hudi's rule up to `_RECENT_COMMITS` reads.
    """
    files, table = batch.job.config.files, batch.transaction.base
    if files.record_size_estimate is None:
        rows = sum(split.rows for split in batch.splits)
        return max(1, math.ceil(sum(split.rows * split.record_bytes for split in batch.splits) / max(1, rows)))
    recent = reversed(table.timeline.completed_writes[-_RECENT_COMMITS:])
    return record_size_estimate(
        (load_commit_metadata(table.storage, instant, table.version) for instant in recent),
        default=files.record_size_estimate,
        threshold_bytes=files.record_size_threshold * files.small_file_limit,
    )


def _route_tasks(batch: Batch, tagged: Tagged, plan: FilePlan) -> list[RouteTask]:
    write = batch.write
    return [
        RouteTask(
            folder=batch.folder,
            split=split,
            tags=tagged.segments.get(number, ()),
            quotas=plan.quotas.get(number, {}) if not isinstance(write, Delete) else None,
            writes_tagged=not isinstance(write, Insert),
            delete_tagged=isinstance(write, Delete),
            changes=write.keys if isinstance(write, ApplyChanges) else None,
        )
        for number, split in enumerate(batch.splits)
    ]


def groups_with_decisive_logs(table: TableState, slices: Iterable[FileSlice]) -> frozenset[FileGroupId]:
    """The file groups whose logs may decide which records they hold.

    Most logs of pyhudi hold new versions of stored records only: its commits have `WRITER_KEY`, and their stats count
    inserts and deletes of each log. A log with either is decisive, and so is a log of another writer: some indexes of
    JVM Hudi write new records into logs, and its stats count all rows of a log as updates.
    Cost: one read per delta commit that wrote one of the logs; in version 6, where names of logs do not show their
    write, per delta commit since the oldest slice with logs began. Nothing if no slice has both a base file and logs.
    """
    with_logs = [file_slice for file_slice in slices if file_slice.base is not None and file_slice.logs]
    if not with_logs:
        return frozenset()
    decisive = {log.path for file_slice in with_logs for log in file_slice.logs}
    named = {log.instant_time for file_slice in with_logs for log in file_slice.logs}
    oldest = min(file_slice.instant_time for file_slice in with_logs)
    for instant in reversed(table.timeline.completed_writes):
        if not decisive or instant.requested_time < oldest:
            break
        by_name = table.version.has_completion_times
        if instant.action is Action.DELTA_COMMIT and (instant.requested_time in named or not by_name):
            metadata = load_commit_metadata(table.storage, instant, table.version)
            if WRITER_KEY in metadata.extra:
                decisive -= {
                    stat.path
                    for stats in metadata.stats_by_partition.values()
                    for stat in stats
                    if not stat.num_inserts and not stat.num_deletes
                }
    return frozenset(
        file_slice.group for file_slice in with_logs if any(log.path in decisive for log in file_slice.logs)
    )
