"""Upsert, insert, delete and the overwrites: writes that look at all of their rows before they place any.

`write_staged` reads like the protocol; `docs/design/architecture.md` tells it in words. Flow F1 of the mission.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.config.enums import Arrangement, DuplicatePolicy
from pyhudi.config.option import OptionWarning
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Distribution
from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.format.file_names import file_id
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action
from pyhudi.index.lookup import Lookup, Tagged, look_up
from pyhudi.index.tombstones import bar_late_rows
from pyhudi.merge.rules import MergeRules
from pyhudi.services.orphans import remove_orphans
from pyhudi.table.block_filter import with_archive
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import FileSystemView, SlicesByPartition, load_view
from pyhudi.table.pending_clusterings import clustered_groups
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_commit_metadata
from pyhudi.tasks.append_log import AppendTask, append_rows
from pyhudi.tasks.data_file import FormerVersion, WriteTarget
from pyhudi.tasks.exchange import Segment
from pyhudi.tasks.log_writer import slice_to_append
from pyhudi.tasks.markers import task_markers
from pyhudi.tasks.rewrite_base import BucketTask, write_bucket
from pyhudi.tasks.route import RouteTask, route_split
from pyhudi.tasks.settings import log_settings
from pyhudi.tasks.stage import StagedSplit, StageTask, stage_split
from pyhudi.transaction.transaction import Transaction, mark_inflight
from pyhudi.write.exchange_folder import exchange_folder
from pyhudi.write.finish import committed, write_transaction
from pyhudi.write.inserts_in_logs import groups_with_inserts_in_logs
from pyhudi.write.job import WriteJob
from pyhudi.write.plan import Bucket, BucketPlan, Profile, Sizing, plan_buckets, record_size_estimate
from pyhudi.write.result import WriteResult
from pyhudi.write.stored_texts import check_date_folders

_RECENT_COMMITS = 5
"""Commits looked at for the size of a record, as in Hudi."""


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """How the operations differ.

    `looks_up`: search the table for the keys. `writes_new`, `writes_known`: whether rows are written whose key was not
    found, or found. `deletes`: found records are removed. `packs`: new rows may join small files. `replaces`: file
    groups of the touched partitions (or of all, `whole_table`) give way to the new rows. `refuses_known`: a row whose
    key was found makes the write fail.
    """

    operation: WriteOperation
    combine: bool
    looks_up: bool
    writes_new: bool = True
    writes_known: bool = True
    deletes: bool = False
    packs: bool = True
    replaces: bool = False
    whole_table: bool = False
    refuses_known: bool = False


def staged_write_of(config: WriteConfig) -> StagedWrite:
    """The flow that the options ask for."""
    operation = config.operation
    match operation:
        case WriteOperation.UPSERT:
            return StagedWrite(operation, combine=config.combines_input, looks_up=True)
        case WriteOperation.DELETE:
            return StagedWrite(operation, combine=config.combines_input, looks_up=True, writes_new=False, deletes=True)
        case WriteOperation.INSERT:
            policy = config.duplicate_policy
            return StagedWrite(
                operation,
                combine=config.combines_input or policy is DuplicatePolicy.DROP,
                looks_up=policy is not DuplicatePolicy.NONE,
                writes_known=False,
                refuses_known=policy is DuplicatePolicy.FAIL,
            )
        case WriteOperation.BULK_INSERT:
            return StagedWrite(operation, combine=True, looks_up=False, packs=False)
        case _:
            return StagedWrite(
                operation,
                combine=config.combines_input,
                looks_up=False,
                packs=False,
                replaces=True,
                whole_table=config.replaces_whole_table,
            )


def write_staged(job: WriteJob, rows: Any, kind: StagedWrite) -> WriteResult:
    """Run the write, or raise with nothing of it visible.

    Cost: one pass over the input; the key columns of the base files that may hold a key; a rewrite of each touched
    file group. Rows of the input never pass through the driver.
    """
    storage, settings = job.table.storage, job.transaction_settings
    if kind.looks_up and not job.rules.selects:
        # A stored row meets one row of the batch; to choose one of several would lose what a merge makes of them.
        if not kind.combine and not kind.deletes:
            warnings.warn(
                "hoodie.combine.before.upsert=false has no effect on this table: its rule makes one row of the versions"
                " of a record, those of one batch too",
                OptionWarning,
                stacklevel=2,
            )
        kind = replace(kind, combine=True)
    with exchange_folder(storage, settings.heartbeat, job.environment) as folder:
        splits = _stage(job, rows, kind, folder)
        check_date_folders(job.table, job.keys, {part.partition_path for one in splits for part in one.partitions})
        action = Action.REPLACE_COMMIT if kind.replaces else job.action
        requested = encode_requested_replace_metadata(requested_replace(kind.operation)) if kind.replaces else b""
        with write_transaction(job, action, requested) as transaction:
            view = _view(transaction.base, job, splits, kind)
            tagged = _tag(job, transaction, splits, view, kind, folder)
            plan = _plan(job, transaction, splits, tagged, view, kind)
            _check_targets(transaction, plan)
            mark_inflight(transaction, _profile_metadata(plan, kind))
            segments = _route(job, splits, tagged, plan, kind, folder)
            with task_markers(transaction, job.config, job.engine) as markers:
                target = job.target(transaction.instant_time, markers)
                stats = _write_buckets(job, target, view, plan, segments, kind, splits)
            replaced = _replaced(view.latest, splits, kind) if kind.replaces else None
            return committed(job, transaction, kind.operation, stats, replaced)


def _stage(job: WriteJob, rows: Any, kind: StagedWrite, folder: str) -> tuple[StagedSplit, ...]:
    keys_only = kind.deletes
    task = StageTask(
        storage=job.table.storage.spec,
        folder=folder,
        row_id=folder.rpartition("/")[2],
        keys=job.keys,
        schema=job.key_columns if keys_only else job.schema.arrow,
        rules=MergeRules() if keys_only else job.combining_rules,
        combine=kind.combine and bool(job.keys.record_key_fields),
        table_wide_keys=job.config.index.index_type.is_global and kind.looks_up,
        needs_ordering=job.is_merge_on_read and not keys_only and bool(job.rules.ordering_fields),
    )
    distribution = Distribution(
        Arrangement.BY_KEY if task.combine else Arrangement.NONE,
        key_columns=job.keys.record_key_fields if task.combine else (),
        splits=job.config.splits,
    )
    staged = job.engine.map_splits(
        rows, functools.partial(stage_split, task), distribution=distribution, description="stage rows"
    )
    return tuple(split for split in staged if split.rows)


def _view(table: TableState, job: WriteJob, splits: Sequence[StagedSplit], kind: StagedWrite) -> FileSystemView:
    """The file slices of the partitions that the write looks at: of all where a key may be anywhere."""
    everywhere = kind.whole_table or (kind.looks_up and job.config.index.index_type.is_global)
    paths = None if everywhere else {p.partition_path for split in splits for p in split.partitions}
    view = load_view(table.storage, table.timeline, paths)
    remove_orphans(view)
    return view


def _tag(
    job: WriteJob,
    transaction: Transaction,
    splits: tuple[StagedSplit, ...],
    view: FileSystemView,
    kind: StagedWrite,
    folder: str,
) -> Tagged:
    slices = [one for group in view.latest.values() for one in group]
    if not kind.looks_up or not slices or not splits:
        return Tagged()
    index, merging = job.config.index, job.merging
    lookup = Lookup(
        storage=job.table.storage.spec,
        folder=folder,
        splits=splits,
        merging=replace(merging, blocks=with_archive(merging.blocks, view.archived)),
        inserts_in_logs=groups_with_inserts_in_logs(transaction.base, slices),
        ordering_fields=() if kind.deletes else job.rules.ordering_fields,
        table_wide=index.index_type.is_global,
        move=job.config.moves_partition and kind.writes_known and not kind.deletes,
        bloom=index.index_type.uses_bloom_filters,
        prune_by_ranges=index.prune_by_ranges,
        keys_repeat=not kind.combine,
        key_patterns=job.key_patterns,
    )
    tagged = look_up(job.engine, lookup, slices)
    if job.config.input.tombstone_hours and kind.writes_new:
        tagged = bar_late_rows(job.engine, lookup, slices, tagged)
    if kind.refuses_known and tagged.known_rows:
        raise InvalidRequestError(
            "rows of this insert have keys that are in the table already; nothing was written: use upsert, or set "
            "hoodie.datasource.insert.dup.policy to drop or none",
            rows=sum(tagged.known_rows.values()),
        )
    return tagged


def _plan(
    job: WriteJob,
    transaction: Transaction,
    splits: Sequence[StagedSplit],
    tagged: Tagged,
    view: FileSystemView,
    kind: StagedWrite,
) -> BucketPlan:
    new_rows = {
        (number, partition.partition_path): max(
            0, partition.rows - tagged.known_rows.get((number, partition.partition_path), 0)
        )
        for number, split in enumerate(splits)
        for partition in split.partitions
        if kind.writes_new
    }
    updates = tagged.updates if kind.writes_known else {}
    ids = job.environment.ids
    return plan_buckets(
        Profile(new_rows, updates),
        _packable(view, clustered_groups(job.table.storage, view.timeline)) if kind.packs else {},
        _sizing(job, transaction.base, has_new_rows=any(new_rows.values())),
        lambda: file_id(ids.uuid(), 0),
        appends=job.is_merge_on_read,
    )


def _check_targets(transaction: Transaction, plan: BucketPlan) -> None:
    """Give way where a file group's newest version is above this write: what it writes would lie below, and be hidden.

    Times are given out under the table lock, above all that are on the timeline, so that this takes a writer which is
    kept apart by no lock.
    """
    own = transaction.instant_time
    for bucket in plan.buckets:
        if bucket.former is not None and bucket.former.instant_time > own:
            raise WriteConflictError(
                "the newest version of a file group is of a later instant than this write; nothing of it is visible, "
                "run it again",
                table=transaction.storage.uri,
                instant=own,
                winner=bucket.former.instant_time,
                file_groups=[f"{bucket.partition_path}/{bucket.file_id}"],
            )


def _packable(view: FileSystemView, clustered: frozenset[FileGroupId]) -> SlicesByPartition:
    """The slices that may be rewritten with new records: not those with logs, nor those that a plan has as its input.

    Rewriting them would merge logs that readers count on, or race with the compaction for the group's next base file;
    and what is written into `clustered` groups, which real Hudi is about to replace, would be lost.
    """
    held = clustered.union(view.pending_compactions)
    return {
        path: tuple(one for one in slices if not one.logs and one.group not in held)
        for path, slices in view.latest.items()
    }


def _sizing(job: WriteJob, table: TableState, *, has_new_rows: bool) -> Sizing:
    """How large files become. Only new records make files grow: without any nobody asks how large a record is."""
    files = job.config.files
    recent = reversed(table.timeline.completed_writes[-_RECENT_COMMITS:] if has_new_rows else ())
    record_size = record_size_estimate(
        (load_commit_metadata(table.storage, instant, table.version) for instant in recent),
        default=files.record_size_estimate,
        threshold_bytes=files.record_size_threshold * files.small_file_limit,
    )
    small_files_max = job.config.logs.small_file_candidates if job.is_merge_on_read else None
    return Sizing(files.max_file_size, files.small_file_limit, record_size, small_files_max=small_files_max)


def _profile_metadata(plan: BucketPlan, kind: StagedWrite) -> CommitMetadata:
    """The workload profile as real Hudi writes it into the inflight instant."""
    stats: dict[str, list[WriteStat]] = {}
    for bucket in plan.buckets:
        former = bucket.former
        stats.setdefault(bucket.partition_path, []).append(
            WriteStat(
                file_id=bucket.file_id if former else "",
                prev_commit=former.instant_time if former else "null",
                num_inserts=bucket.inserts,
                num_update_writes=bucket.updates,
            )
        )
    return CommitMetadata(
        operation=kind.operation, stats_by_partition={path: tuple(group) for path, group in stats.items()}
    )


def _route(
    job: WriteJob,
    splits: Sequence[StagedSplit],
    tagged: Tagged,
    plan: BucketPlan,
    kind: StagedWrite,
    folder: str,
) -> Mapping[int, list[Segment]]:
    """Sort the rows by bucket; the segments of each bucket's rows."""
    bucket_of = {bucket.former: bucket.number for bucket in plan.buckets if bucket.former is not None}
    tasks = [
        RouteTask(
            storage=job.table.storage.spec,
            folder=folder,
            split=split,
            tags=tagged.segments.get(number, ()),
            bucket_of_file={n: bucket_of[one] for n, one in enumerate(tagged.slices) if one in bucket_of},
            quotas=plan.quotas.get(number, {}) if kind.writes_new else None,
            writes_tagged=kind.writes_known,
            delete_tagged=kind.deletes,
        )
        for number, split in enumerate(splits)
    ]
    routed = job.engine.map(
        route_split,
        tasks,
        size_bytes=2 * sum(split.bytes for split in splits),
        description="sort rows by file group",
    )
    segments: dict[int, list[Segment]] = {}
    for result in routed:
        for bucket, segment in result.segments:
            segments.setdefault(bucket, []).append(segment)
    return segments


def _write_buckets(
    job: WriteJob,
    target: WriteTarget,
    view: FileSystemView,
    plan: BucketPlan,
    segments: Mapping[int, list[Segment]],
    kind: StagedWrite,
    splits: Sequence[StagedSplit],
) -> list[WriteStat]:
    staged_bytes = sum(split.bytes for split in splits)
    written = [bucket for bucket in plan.buckets if bucket.number in segments]
    appended = [bucket for bucket in written if bucket.appends and bucket.former is not None]
    rewritten = [bucket for bucket in written if bucket not in appended]
    written_files = job.engine.map(
        write_bucket,
        [
            BucketTask(
                target=target,
                partition_path=bucket.partition_path,
                file_id=bucket.file_id,
                former=_former(bucket),
                segments=tuple(segments[bucket.number]),
                spill=job.merging.spill,
            )
            for bucket in rewritten
        ],
        size_bytes=sum(bucket.former.size for bucket in rewritten if bucket.former) + staged_bytes,
        description="write base files",
    )
    logs = job.engine.map(
        append_rows,
        [
            AppendTask(
                target=target,
                logs=log_settings(job.table, job.config),
                to=slice_to_append(view, bucket.former, target.instant_time),
                segments=tuple(segments[bucket.number]),
                keys_repeat=not kind.combine,
                tasks_before=len(rewritten),
            )
            for bucket in appended
            if bucket.former is not None
        ],
        size_bytes=staged_bytes,
        description="append to logs",
    )
    return [stat for group in (*written_files, *logs) for stat in group]


def _former(bucket: Bucket) -> FormerVersion | None:
    if bucket.former is None or bucket.former.base is None:
        return None
    base = bucket.former.base
    return FormerVersion(base.path, str(base.name), base.instant_time)


def _replaced(
    latest: SlicesByPartition, splits: Sequence[StagedSplit], kind: StagedWrite
) -> dict[str, tuple[str, ...]]:
    """File groups that give way, by partition path; an overwritten partition without any is named all the same."""
    touched = {partition.partition_path for split in splits for partition in split.partitions}
    paths = touched | set(latest) if kind.whole_table else touched
    return {path: tuple(one.file_id for one in latest.get(path, ())) for path in sorted(paths)}
