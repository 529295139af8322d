"""Executing the plan of a clustering: the rows of each group go into new file groups, which replace the old ones.

The plan names the slices that it reads. If a write has changed one of their file groups since, the clustering gives up
and rolls its plan back, so that the write stays and a later plan takes the new slices.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from pyhudi.config.enums import BucketEngine
from pyhudi.config.options_clustering import (
    LAYOUT_KEY,
    RUN_PACKAGE,
    ClusteringOptions,
    ClusteringRunStrategy,
    LayoutStrategy,
    read_layout,
)
from pyhudi.errors import (
    CorruptDataError,
    HudiError,
    InvalidRequestError,
    LockLostError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.clustering import ClusteredSlice, ClusteringPlan
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, stats_by_partition
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Instant, InstantState, InstantTime
from pyhudi.index.key_value.hbase_publishing import published
from pyhudi.merge.table_rules import check_defaults, check_tombstones, mergers_of, table_rules_of
from pyhudi.services.clustering.hash_rings import (
    Resizes,
    buckets_of_group,
    hashed_fields,
    heirs_of,
    mark_rings,
    put_rings,
    resizes_of,
)
from pyhudi.services.clustering.schedule import schema_of
from pyhudi.services.frame.planned_run import FilesOfPlan, PlannedRun, planned_run
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.rollback.rollback import roll_back_plan
from pyhudi.table.archive.writes import with_archive
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.features import bucket_engine_of, check_clusterable
from pyhudi.table.file_slice import FileGroupId, FileSlice, slice_files
from pyhudi.table.file_system_view import FileSystemView, view_of, with_names_of
from pyhudi.table.lister import Lister
from pyhudi.table.pending_clusterings import load_clustering_plan, pending_clusterings
from pyhudi.table.schema import TableSchema
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, position_of
from pyhudi.tasks.cluster import ClusterTask, cluster_group, packs
from pyhudi.tasks.markers import task_markers
from pyhudi.tasks.settings import merge_settings, write_target
from pyhudi.tasks.sort_rows import SortOrder, check_sort_columns
from pyhudi.transaction.conflicts.footprint import Heirs, footprint_of, forgotten_heirs
from pyhudi.transaction.markers.announcing import TaskMarkers
from pyhudi.transaction.transaction import Transaction, commit_clustering

_log = logging.getLogger("pyhudi")
_STRATEGIES = {f"{RUN_PACKAGE}{strategy.value}": strategy for strategy in ClusteringRunStrategy}
_UNLIMITED = 2**62
"""The size limit of a file that gets all rows of its group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """What a clustering did: its instant, how many groups it wrote, file groups before and after, rows and bytes."""

    instant: InstantTime
    groups: int
    replaced: int
    files: int
    rows: int
    bytes: int


def run_pending_clusterings(call: ServiceCall) -> tuple[Clustered, ...]:
    """Execute the planned clusterings that no other process is executing, oldest first.

    One that gives way to a write is rolled back and logged as a warning. One that no process has begun and whose plan
    is damaged is passed over with a warning that names it. Other errors: see `run_clustering`.
    """
    call = call.reloaded()
    done = []
    for instant in pending_clusterings(call.table.storage, call.table.timeline):
        if instant.state is InstantState.REQUESTED and _is_damaged(call.table, instant):
            continue
        try:
            done.append(run_clustering(call, instant.requested_time))
        except (WriteConflictError, InvalidRequestError) as error:
            # Another process may have rolled it back, too, since it was found here.
            if _find(call.table.reload(), instant.requested_time) is not None:
                raise
            _log.warning("a planned clustering gave way to a write: %s", error)
    return tuple(result for result in done if result is not None)


def _is_damaged(table: TableState, instant: Instant) -> bool:
    try:
        load_clustering_plan(table.storage, table.version, instant)
    except CorruptDataError as error:
        _log.warning("a planned clustering is passed over: %s", error)
        return True
    return False


def run_clustering(call: ServiceCall, instant_time: str) -> Clustered | None:
    """Execute a planned clustering; None if another process is executing it, or has completed it.

    Cost: every file that the plan names is read once, and its rows are written once. Raises `InvalidRequestError` for
    an instant that is no planned clustering; `WriteConflictError` if a write has changed a file group of the plan,
    which is rolled back then; and, with the plan as it is, `CorruptDataError` for a plan that names missing files,
    `ConfigError` for a sort column that the table no longer has, and `UnsupportedFeatureError` for a plan that this
    release cannot execute.
    """
    table = call.reloaded().table
    check_clusterable(table)
    if (planned := _find(table, instant_time)) is not None:
        # Before it is marked inflight: a damaged plan that a process has begun holds up all writes.
        load_clustering_plan(table.storage, table.version, planned)
    try:
        with planned_run(
            call,
            instant_time,
            kind="clustering",
            find=_find,
            files_of_plan=_files_of_plan,
        ) as run:
            return None if run is None else _run(replace(call, table=run.table), run)
    except WriteConflictError:
        with suppress(HudiError):
            # The heartbeat has ended with the run, so that the plan can be rolled back like any other.
            roll_back_plan(call.table.reload(), instant_time, call.settings, call.environment)
        raise


def _find(table: TableState, instant_time: str) -> Instant | None:
    pending = pending_clusterings(table.storage, table.timeline)
    return next((instant for instant in pending if instant.requested_time == instant_time), None)


def _run(call: ServiceCall, run: PlannedRun) -> Clustered:
    plan = _plan_of(call.table, run.instant)
    schema = schema_of(call.table, run.instant.requested_time)
    order = SortOrder(plan.sort_columns, _layout_of(plan, call.config.clustering))
    check_sort_columns(schema.arrow, order)
    partitions = {file_slice.partition_path for file_slice in plan.slices}
    view = view_of(call.table.storage, call.table.timeline, run.files, partitions)
    view = with_names_of(view, run.instant.requested_time)
    path = instant_path(replace(run.instant, state=InstantState.REQUESTED), call.table.version)
    of_buckets = _strategy_of(plan).is_of_buckets
    resizes = resizes_of(call.table, run.instant, plan) if of_buckets else {}
    heirs = heirs_of(plan, path) if of_buckets else {}
    groups = planned_slices(call.table, run.instant, plan, view, heirs)
    transaction = Transaction(
        call.table, run.instant, call.settings, call.environment, call.environment.clock.monotonic()
    )
    with task_markers(transaction, call.config, call.engine, may_conflict=False) as markers:
        tasks = _tasks(call, run, plan, schema, order, view, groups, resizes, markers)
        size = 2 * sum(task.stored_bytes for task in tasks)
        results = call.engine.map(cluster_group, tasks, size_bytes=size, description="cluster")
    stats = [stat for result in results for stat in result]
    put_rings(call.table.storage, resizes)
    metadata = _metadata(schema, plan, stats)
    with published(call.config.index, call.source_of(call.table), run.instant.requested_time, metadata):
        commit_clustering(transaction, metadata, run=run.number, heirs=heirs, engine=call.engine)
    mark_rings(call.table.storage, resizes)
    return Clustered(
        instant=run.instant.requested_time,
        groups=len(groups),
        replaced=len(plan.slices),
        files=len(stats),
        rows=sum(stat.num_writes for stat in stats),
        bytes=sum(stat.file_size_in_bytes for stat in stats),
    )


def _plan_of(table: TableState, instant: Instant) -> ClusteringPlan:
    """The plan, after checking that this release can execute it."""
    plan = load_clustering_plan(table.storage, table.version, instant)
    path = instant_path(replace(instant, state=InstantState.REQUESTED), table.version)
    if plan is None and table.storage.info(path) is None:
        raise LockLostError("another process rolled this clustering back", instant=instant.requested_time)
    if plan is None:
        raise CorruptDataError("the plan of a clustering is empty; roll the instant back", plan=path)
    if plan.strategy_class is not None and plan.strategy_class not in _STRATEGIES:
        raise UnsupportedFeatureError(
            f"the plan of a clustering is for {plan.strategy_class}, which this release does not have: execute it with "
            "JVM Hudi, or roll it back",
            plan=path,
        )
    if (bucket_engine_of(table) is BucketEngine.CONSISTENT_HASHING) is not _strategy_of(plan).is_of_buckets:
        raise UnsupportedFeatureError(
            "the plan of a clustering is not for the index of this table: roll it back (recovery.rollback)",
            plan=path,
            strategy=plan.strategy_class,
        )
    if plan.keeps_meta is False:
        raise UnsupportedFeatureError(
            "the plan of a clustering gives rows new commit times: execute it with JVM Hudi, or roll it back",
            plan=path,
        )
    return plan


def _layout_of(plan: ClusteringPlan, options: ClusteringOptions) -> LayoutStrategy:
    """The layout that the plan says, as pyhudi's do, or else the options, as in JVM Hudi."""
    text = plan.strategy_params.get(LAYOUT_KEY)
    try:
        return options.layout if text is None else read_layout(text)
    except ValueError as error:
        raise UnsupportedFeatureError(
            "the plan of a clustering has an unknown layout: roll it back", layout=text, option=LAYOUT_KEY
        ) from error


def _strategy_of(plan: ClusteringPlan) -> ClusteringRunStrategy:
    return _STRATEGIES.get(plan.strategy_class or "", ClusteringRunStrategy.SORT_AND_SIZE)


def _tasks(
    call: ServiceCall,
    run: PlannedRun,
    plan: ClusteringPlan,
    schema: TableSchema,
    order: SortOrder,
    view: FileSystemView,
    groups: Sequence[Sequence[FileSlice]],
    resizes: Resizes,
    markers: TaskMarkers,
) -> list[ClusterTask]:
    table, config = call.table, call.config
    rules = table_rules_of(table.config, (*call.mergers, *mergers_of(config.merging)))
    check_tombstones(table.config, rules, hours=config.input.tombstone_hours)
    check_defaults(table.config, schema.avro)
    target = write_target(table, config, run.instant.requested_time, schema, rules.with_base, markers)
    strategy = _strategy_of(plan)
    is_single = strategy is ClusteringRunStrategy.SINGLE_FILE or strategy.is_of_buckets
    size = _UNLIMITED if is_single else config.clustering.target_file_bytes
    fields = hashed_fields(table, config.buckets)
    merging = merge_settings(table, config, schema, rules)
    merging = replace(merging, blocks=with_archive(merging.blocks, view.archived))
    # What is sorted is sorted as a whole; else each file is written by a task of its own.
    whole = size if order.columns else _UNLIMITED
    return [
        ClusterTask(
            # Slices that were put together by their size stay in one file, whatever becomes of it.
            target=replace(target, files=replace(target.files, max_file_size=size if len(part) == 1 else whole)),
            partition_path=part[0].partition_path,
            seed=call.environment.ids.uuid(),
            slices=tuple(slice_files(file_slice.base, file_slice.logs) for file_slice in part),
            merging=merging,
            order=order,
            stored_bytes=sum(file_slice.size for file_slice in part),
            run=run.number,
            copies=strategy.copies,
            sample_rows=config.clustering.sample_rows,
            buckets=buckets_of_group(resizes, planned, fields),
        )
        for group, planned in zip(groups, plan.groups, strict=True)
        for part in packs(group, [file_slice.size for file_slice in group], _UNLIMITED if order.columns else size)
    ]


def _files_of_plan(table: TableState, instant: Instant, lister: Lister) -> FilesOfPlan:
    """The files in the partitions of a clustering. Only its executions write base files that carry its instant."""
    plan = load_clustering_plan(table.storage, table.version, instant)
    left, others = [], []
    for info in lister.partitions(sorted({file_slice.partition_path for file_slice in plan.slices} if plan else ())):
        name = parse_data_file(info.name)
        if isinstance(name, BaseFileName) and name.instant_time == instant.requested_time:
            left.append(info.path)
        else:
            others.append(info)
    return FilesOfPlan(tuple(left), tuple(others))


def _metadata(schema: TableSchema, plan: ClusteringPlan, stats: Sequence[WriteStat]) -> CommitMetadata:
    replaced: dict[str, list[str]] = defaultdict(list)
    for file_slice in plan.slices:
        replaced[file_slice.partition_path].append(file_slice.file_id)
    return CommitMetadata(
        operation=WriteOperation.CLUSTER,
        stats_by_partition=stats_by_partition(stats),
        replaced_file_ids={path: tuple(ids) for path, ids in sorted(replaced.items())},
        extra=schema.extra_metadata(schema, ""),
    )


def planned_slices(
    table: TableState,
    instant: Instant,
    plan: ClusteringPlan,
    view: FileSystemView,
    heirs: Heirs,
) -> list[list[FileSlice]]:
    """The slices of each group, after checking that they are complete and still the newest of their file groups.

    Those of buckets that are resized may have more logs by now, which stay out: the same rows are in `heirs`, the
    buckets to come. Cost: for a resize a read per write that completed since it was planned.
    """
    latest = {file_slice.group: file_slice for slices in view.latest.values() for file_slice in slices}
    groups: list[list[FileSlice]] = []
    for group in plan.groups:
        groups.append([])
        for planned in group.slices:
            group_id = FileGroupId(planned.partition_path, planned.file_id)
            newest = latest.get(group_id)
            found = view.groups.get(group_id)
            there = {str(base.name) for base in found.base_files} if found else set()
            there |= {str(log.name) for log in found.logs} if found else set()
            if newest is not None and (missing := planned.file_names - there):
                raise CorruptDataError(
                    "a clustering plan names files that are missing, or whose writes are not completed; nothing was "
                    f'changed: give the plan up by recovery.rollback("{instant.requested_time}")',
                    plan=instant_path(replace(instant, state=InstantState.REQUESTED), table.version),
                    partition_path=planned.partition_path,
                    missing=sorted(missing)[:10],
                )
            if newest is None or not _is_as_planned(newest, planned, may_have_grown=group_id in heirs):
                raise _changed(table, instant, [group_id])
            logs = (log for log in newest.logs if group_id not in heirs or str(log.name) in planned.file_names)
            groups[-1].append(replace(newest, logs=tuple(logs)))
    if heirs:
        _check_heirs(table, instant, heirs)
    return groups


def _is_as_planned(newest: FileSlice, planned: ClusteredSlice, *, may_have_grown: bool) -> bool:
    """Whether a slice has the rows that it had when it was planned; if it may have grown, and others in more logs.

    In table version 6 it may have more logs, without rows of a completed write: those of failed writes, and what rolls
    them back.
    """
    bases = {str(newest.base.name)} if newest.base else set()
    logs = {str(log.name): any(part.end > part.start for part in log.committed) for log in newest.logs}
    if not planned.file_names <= bases | logs.keys():
        return False
    return bases <= planned.file_names and (
        may_have_grown or not any(has_rows for name, has_rows in logs.items() if name not in planned.file_names)
    )


def _check_heirs(table: TableState, resize: Instant, heirs: Heirs) -> None:
    """Check that all writes since a resize was planned went to the buckets that it makes, too."""
    for write in table.timeline.completed_writes:
        if position_of(write) <= resize.requested_time:
            continue
        theirs = footprint_of(load_commit_metadata(table.storage, write, table.version))
        if not theirs.changed & heirs.keys():
            continue
        if forgotten := forgotten_heirs(theirs, heirs):
            raise _changed(table, resize, forgotten)
        if not table.version.has_completion_times:
            raise UnsupportedFeatureError(
                "JVM Hudi wrote to the buckets of a planned resize, and in a table of version 6 its rows cannot be "
                "told from those that were there: execute the plan with JVM Hudi",
                instant=resize.requested_time,
                write=write.requested_time,
            )


def _changed(table: TableState, instant: Instant, groups: Iterable[FileGroupId]) -> WriteConflictError:
    return WriteConflictError(
        "file groups of a planned clustering have changed since, so it is rolled back; nothing of it is visible; plan "
        "it again",
        table=table.storage.uri,
        instant=instant.requested_time,
        file_groups=[f"{group.partition_path}/{group.file_id}" for group in groups],
    )
