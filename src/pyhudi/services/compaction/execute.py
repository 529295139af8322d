"""Executing the plan of a compaction: each base file and its logs become a new base file, or some logs become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyhudi.errors import CorruptDataError, SchemaMismatchError
from pyhudi.format.file_names import BaseFileName, LogFileName, is_change_log, parse_data_file
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, stats_by_partition
from pyhudi.format.metadata.compaction import CompactionOperation, CompactionPlan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Instant, InstantState, InstantTime
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.merge.table_rules import check_defaults, check_tombstones, mergers_of, table_rules_of
from pyhudi.services.compaction.schedule import check_merge_on_read
from pyhudi.services.frame.planned_run import FilesOfPlan, planned_run
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.archive.writes import with_archive
from pyhudi.table.committed_files import refuse
from pyhudi.table.file_slice import BaseFile, FileGroupId, LogFile, slice_files
from pyhudi.table.file_system_view import FileSystemView, view_of, with_names_of
from pyhudi.table.lister import Lister
from pyhudi.table.schema import TableSchema, schema_of_run
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_compaction_plan
from pyhudi.tasks.compact import CompactLogsTask, CompactTask, compact_logs, compact_slice
from pyhudi.tasks.data_file import PreviousVersion, WriteTarget
from pyhudi.tasks.log_writer import slice_to_append
from pyhudi.tasks.markers import task_markers
from pyhudi.tasks.settings import log_settings, merge_settings, write_target
from pyhudi.transaction.markers.announcing import TaskMarkers
from pyhudi.transaction.transaction import Transaction, commit_compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did: its instant, file slices compacted, and rows and bytes of the new base files."""

    instant: InstantTime
    slices: int
    rows: int
    updated: int
    inserted: int
    deleted: int
    bytes: int


def run_pending_compactions(call: ServiceCall) -> tuple[Compacted, ...]:
    """Execute the planned compactions, log compactions included, that no other process is executing, oldest first.

    Errors: see `run_compaction`.
    """
    pending = call.reloaded().table.timeline.pending_compactions
    done = [run_compaction(call, instant.requested_time) for instant in pending]
    return tuple(result for result in done if result is not None)


def run_compaction(call: ServiceCall, instant_time: str) -> Compacted | None:
    """Execute a planned compaction; None if another process is executing it, or has completed it.

    Cost: every file that the plan names is read once, and written once. Raises `InvalidRequestError` for an instant
    that is not a planned compaction, `CorruptDataError` for a plan that names missing files, and what reading logs
    raises; then the plan remains, and nothing changes for readers.
    """
    check_merge_on_read(call.reloaded().table)
    storage = call.table.storage
    with planned_run(call, instant_time, kind="compaction", find=_pending_plan, files_of_plan=_files_of_plan) as taken:
        if taken is None:
            return None
        table, instant, number = taken.table, taken.instant, taken.number
        plan = load_compaction_plan(storage, instant, table.version)
        partitions = {operation.partition_path for operation in plan.operations}
        view = view_of(storage, table.timeline, taken.files, partitions)
        view = with_names_of(view, instant.requested_time)
        run = _run_on_logs if plan.is_log_compaction else _run_on_slices
        call = replace(call, table=table)
        transaction = Transaction(table, instant, call.settings, call.environment, call.environment.clock.monotonic())
        with task_markers(transaction, call.config, call.engine, may_conflict=False) as markers:
            shared = _merging(call, instant, markers, number)
            stats = run(call, instant, plan, view, shared)
        commit_compaction(transaction, _metadata(shared.schema, plan, stats), run=number, engine=call.engine)
    return _compacted(instant.requested_time, stats)


def _compacted(instant_time: InstantTime, stats: Sequence[WriteStat]) -> Compacted:
    return Compacted(
        instant=instant_time,
        slices=len(stats),
        rows=sum(stat.num_writes for stat in stats),
        updated=sum(stat.num_update_writes for stat in stats),
        inserted=sum(stat.num_inserts for stat in stats),
        deleted=sum(stat.num_deletes for stat in stats),
        bytes=sum(stat.file_size_in_bytes for stat in stats),
    )


def _pending_plan(table: TableState, instant_time: str) -> Instant | None:
    return next((i for i in table.timeline.pending_compactions if i.requested_time == instant_time), None)


def _files_of_plan(table: TableState, instant: Instant, lister: Lister) -> FilesOfPlan:
    """The files in the partitions of a compaction. Dead executions left those that carry its instant.

    A log of version 6 carries the instant of its slice. The blocks of one that a dead execution left are written again
    with the same instant and the same records.
    """
    plan = load_compaction_plan(table.storage, instant, table.version)
    planned = {FileGroupId(operation.partition_path, operation.file_id) for operation in plan.operations}
    left, others = [], []
    for info in lister.partitions(sorted({group.partition_path for group in planned})):
        name = parse_data_file(info.name)
        is_left = (
            name is not None
            and name.instant_time == instant.requested_time
            and FileGroupId(info.path.rpartition("/")[0], name.file_id) in planned
            and _is_output(name, plan, table)
        )
        if is_left:
            left.append(info.path)
        else:
            others.append(info)
    return FilesOfPlan(tuple(left), tuple(others))


def _is_output(name: BaseFileName | LogFileName, plan: CompactionPlan, table: TableState) -> bool:
    if isinstance(name, BaseFileName):
        return not plan.is_log_compaction
    return plan.is_log_compaction and table.version.has_completion_times


@dataclass(frozen=True, slots=True)
class _Merging:
    """What all tasks of a compaction share. `run` is in their write tokens, so names of files are unique per run."""

    schema: TableSchema
    target: WriteTarget
    settings: MergeSettings
    run: int


def _merging(call: ServiceCall, instant: Instant, markers: TaskMarkers, run: int) -> _Merging:
    table = call.table
    schema = schema_of_run(table, instant.requested_time)
    if schema is None:
        raise SchemaMismatchError("no commit of the table has its schema, so the table cannot be compacted")
    rules = table_rules_of(table.config, (*call.mergers, *mergers_of(call.config.merging)))
    check_tombstones(table.config, rules, hours=call.config.input.tombstone_hours)
    check_defaults(table.config, schema.avro)
    target = write_target(table, call.config, instant.requested_time, schema, rules.with_base, markers)
    settings = merge_settings(table, call.config, schema, rules)
    return _Merging(schema, target, settings, run)


def _run_on_slices(
    call: ServiceCall, instant: Instant, plan: CompactionPlan, view: FileSystemView, shared: _Merging
) -> list[WriteStat]:
    tasks, size = [], 0
    for operation in plan.operations:
        base, logs = _planned_files(call.table, instant, operation, view)
        log_bytes = sum(log.size for log in logs)
        size += log_bytes + (base.size if base else 0)
        tasks.append(
            CompactTask(
                target=shared.target,
                partition_path=operation.partition_path,
                file_id=operation.file_id,
                previous=PreviousVersion.of(base) if base else None,
                files=slice_files(base, logs),
                merging=replace(shared.settings, blocks=with_archive(shared.settings.blocks, view.archived)),
                log_bytes=log_bytes,
                run=shared.run,
            )
        )
    return call.engine.map(compact_slice, tasks, size_bytes=size, description="compact")


def _run_on_logs(
    call: ServiceCall, instant: Instant, plan: CompactionPlan, view: FileSystemView, shared: _Merging
) -> list[WriteStat]:
    latest = {file_slice.group: file_slice for slices in view.latest.values() for file_slice in slices}
    tasks = []
    for operation in plan.operations:
        _, logs = _planned_files(call.table, instant, operation, view)
        group = FileGroupId(operation.partition_path, operation.file_id)
        tasks.append(
            CompactLogsTask(
                target=shared.target,
                logs=log_settings(call.table, call.config),
                to=replace(slice_to_append(view, latest[group], instant.requested_time), stage=shared.run),
                files=slice_files(None, logs),
                merging=replace(shared.settings, blocks=with_archive(shared.settings.blocks, view.archived)),
                log_bytes=sum(log.size for log in logs),
            )
        )
    size = sum(task.log_bytes for task in tasks)
    results = call.engine.map(compact_logs, tasks, size_bytes=size, description="join logs")
    return [stat for stats in results for stat in stats]


def _planned_files(
    table: TableState, instant: Instant, operation: CompactionOperation, view: FileSystemView
) -> tuple[BaseFile | None, list[LogFile]]:
    """The files that an operation names, logs in merge order, after checking that they are complete.

    JVM Hudi also names the change data logs of the group, which have nothing to merge.
    """
    group_id = FileGroupId(operation.partition_path, operation.file_id)
    group = view.groups.get(group_id)
    bases = {str(base.name): base for base in group.base_files} if group else {}
    named = {name for name in operation.delta_files if not is_change_log(name)}
    logs = [log for log in group.logs if str(log.name) in named] if group else []
    wanted = {*named, *([operation.data_file] if operation.data_file else [])}
    missing = wanted - bases.keys() - {str(log.name) for log in logs}
    if missing:
        raise CorruptDataError(
            "a compaction plan names files that are missing, or whose writes are not completed; nothing was changed",
            plan=instant_path(replace(instant, state=InstantState.REQUESTED), table.version),
            partition_path=operation.partition_path,
            missing=sorted(missing)[:10],
        )
    sizes = {str(log.name): log.size for log in logs} | {name: bases[name].size for name in bases.keys() & wanted}
    if cut_off := view.committed.cut_off(group_id, sizes):
        refuse(table.storage, table.timeline, cut_off, only_warn=False)
    return (bases[operation.data_file] if operation.data_file else None), logs


def _metadata(schema: TableSchema, plan: CompactionPlan, stats: Sequence[WriteStat]) -> CommitMetadata:
    return CommitMetadata(
        operation=WriteOperation.LOG_COMPACT if plan.is_log_compaction else WriteOperation.COMPACT,
        stats_by_partition=stats_by_partition(stats),
        extra=schema.extra_metadata(schema, ""),
        compacted=True,
    )
