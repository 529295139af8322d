"""Compaction: base files and their logs become new base files, which readers find alone.

*Scheduling* puts a plan on the timeline: the slices that it names, and the instant at which their groups will have a
new base file. From then on whatever is written to the groups belongs to the slices after the plan. *Running* replays
the plan; a run that dies leaves the plan, and the next one begins with removing what the dead one wrote.

Source: `format/timeline.md` 1.4, 7.2; mission rows S1-38 to S1-40, S3-08, S3-09, flow F4.
"""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyhudi.config.enums import FailedWritesPolicy, TableType
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import AlreadyExistsError, CorruptDataError, InvalidRequestError, LockLostError, SchemaMismatchError
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.commit import SCHEMA_KEY, CommitMetadata, WriteStat
from pyhudi.format.metadata.compaction import CompactionOperation, CompactionPlan, encode_compaction_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced
from pyhudi.io.slices.merged import MergeSettings, slice_files
from pyhudi.merge.rules import Merger
from pyhudi.merge.table_rules import check_tombstones, mergers_of, table_rules_of
from pyhudi.services.compaction.plan import PlannedCompaction, plan_compaction, plan_log_compaction
from pyhudi.services.compaction.strategies import CompactionSettings
from pyhudi.services.compaction.triggers import Due, TriggerSettings, is_due, trigger_facts
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.table.committed_files import refuse
from pyhudi.table.features import check_compactable
from pyhudi.table.file_slice import BaseFile, FileGroupId, LogFile
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.instant_times import next_time, table_zone
from pyhudi.table.pending_clusterings import clustered_groups, is_clustering_plan
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_commit_metadata, load_compaction_plan
from pyhudi.tasks.compact_logs import CompactLogsTask, LookIntoLogsTask, compact_logs, have_partial_rows
from pyhudi.tasks.compact_slice import CompactTask, compact_slice
from pyhudi.tasks.data_file import FormerVersion, WriteTarget
from pyhudi.tasks.log_writer import WRITE_TOKEN_NUMBERS, slice_to_append
from pyhudi.tasks.markers import task_markers
from pyhudi.tasks.settings import log_settings, merge_settings, write_target
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Ours
from pyhudi.transaction.heartbeat import Heartbeat, heartbeat_path
from pyhudi.transaction.intents import standing_intents
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.markers.announcing import TaskMarkers
from pyhudi.transaction.plan_fencing import begin_run, check_newest_run, forget_runs, is_running
from pyhudi.transaction.transaction import Transaction, TransactionSettings, commit_compaction

_log = logging.getLogger("pyhudi")
_UNJOINABLE = "its logs have partial updates, or one was written just now"


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """Who runs a table service on what: the table as it was loaded, the options, the engine, the user's mergers."""

    table: TableState
    config: WriteConfig
    settings: TransactionSettings
    engine: Engine
    environment: Environment
    mergers: tuple[Merger, ...] = ()

    def reloaded(self) -> ServiceCall:
        """The same call on the table as it is now."""
        return replace(self, table=self.table.reload())


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


def compaction_due(call: ServiceCall) -> Due:
    """Whether the time for a compaction has come, by the options' trigger.

    Cost: one read per commit that is not older than the last compaction; on a merge-on-read table commits are
    compactions, and bulk inserts of real Hudi.
    """
    options = call.config.compaction
    settings = TriggerSettings(
        trigger=options.trigger,
        max_delta_commits=options.max_delta_commits,
        max_delta_seconds=options.max_delta_seconds,
    )
    table = call.table
    facts = trigger_facts(
        table.timeline,
        _newest_compaction(table),
        now_ms=call.environment.clock.now_ms(),
        zone=table_zone(table.config),
    )
    return is_due(settings, facts)


def planned_compaction(call: ServiceCall) -> PlannedCompaction:
    """The compaction that the options' strategies would plan now. Cost: a listing of the table."""
    _check_type(call.table)
    table, options = call.table, call.config.compaction
    view = load_view(table.storage, table.timeline)
    settings = CompactionSettings(
        strategies=options.strategies,
        target_io_mb=options.target_io_mb,
        log_size_threshold=options.log_size_threshold,
        log_count_threshold=options.log_count_threshold,
        target_partitions=options.target_partitions,
        partition_regex=options.partition_regex,
        base_file_bytes_max=call.config.files.max_file_size,
    )
    zone = table_zone(table.config)
    today = datetime.fromtimestamp(call.environment.clock.now_ms() / 1000, UTC).astimezone(zone).date()
    slices = [one for group in view.latest.values() for one in group]
    return plan_compaction(slices, _held_groups(table, view), settings, today=today)


def planned_log_compaction(call: ServiceCall, joinable: frozenset[LogFile] | None = None) -> PlannedCompaction:
    """The log compaction that would be planned now, over `joinable` logs alone. Cost: a listing of the table."""
    _check_type(call.table)
    view = load_view(call.table.storage, call.table.timeline)
    slices = [one for group in view.latest.values() for one in group]
    others = () if joinable is None else (one for one in slices if not joinable.issuperset(one.logs))
    return plan_log_compaction(
        slices,
        _held_groups(call.table, view),
        call.config.compaction.log_blocks_threshold,
        unjoinable=dict.fromkeys((one.group for one in others), _UNJOINABLE),
        base_file_bytes_max=call.config.files.max_file_size,
    )


def _joinable_logs(call: ServiceCall) -> frozenset[LogFile]:
    """The logs of slices that a log compaction would take, without the slices where rows say only some columns.

    Cost: a listing of the table; the headers of these logs' blocks are read. It is done before the lock is taken, so
    that slices which get a log meanwhile wait for the next plan.
    """
    storage = call.table.storage
    slices = [verdict.file_slice for verdict in planned_log_compaction(call.reloaded()).chosen]
    tasks = [LookIntoLogsTask(storage=storage.spec, paths=tuple(log.path for log in one.logs)) for one in slices]
    size = sum(log.size for one in slices for log in one.logs)
    partial = call.engine.map(have_partial_rows, tasks, size_bytes=size, description="look into logs")
    left = [one for one, is_partial in zip(slices, partial, strict=True) if is_partial]
    if left:
        _log.warning(
            "the logs of %d file group(s) have partial updates and are not joined, for example %s: compact the table",
            len(left),
            left[0].logs[0].path,
        )
    return frozenset(log for one in slices if one not in left for log in one.logs)


def _held_groups(table: TableState, view: FileSystemView) -> set[FileGroupId]:
    """The groups of pending plans: what a compaction of logs writes must not fall behind a base file, for example."""
    held = {*view.pending_compactions, *clustered_groups(table.storage, table.timeline)}
    for instant in table.timeline.pending_compactions:
        if instant.action is Action.LOG_COMPACTION:
            operations = load_compaction_plan(table.storage, instant, table.version).operations
            held |= {FileGroupId(operation.partition_path, operation.file_id) for operation in operations}
    return held


def schedule_compaction(call: ServiceCall, *, of_logs: bool = False) -> InstantTime | None:
    """Put a compaction of what is there now on the timeline; None where there is nothing to compact.

    In table version 6 it waits for running writes to end, as their logs carry the names of the slices that the plan
    closes: then it is None, too. Under a lock that can be lost it also is while another writer may stand in its last
    put, which the plan would not know of. Dead writers are rolled back first, if the options want that of writes.
    `of_logs`: a log compaction; logs with partial updates are left out. Cost: a listing of the table, one put, the
    lock; one more listing where that can be lost, and one for a log compaction, which also looks into the logs.
    """
    storage = call.table.storage
    _check_type(call.reloaded().table)
    _recover(call)
    joinable = _joinable_logs(call) if of_logs else frozenset()
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        committing = standing_intents(storage, besides="") if lock.can_be_lost else ()
        call = call.reloaded()
        table = call.table
        check_nothing_exclusive(table.timeline, Ours.COMPACTION_PLAN)
        pending = {one.requested_time for one in table.timeline.pending_writes}
        if any(intent.instant_time in pending for intent in committing):
            return None
        pending_writes = table.timeline.pending_writes
        running = (one for one in pending_writes if not is_clustering_plan(table.storage, table.version, one))
        if not table.version.has_completion_times and any(running):
            return None
        planned = planned_log_compaction(call, joinable) if of_logs else planned_compaction(call)
        if not planned.plan.operations:
            return None
        instant = Instant(
            requested_time=next_time(table.timeline, table.config, call.environment.clock),
            action=Action.LOG_COMPACTION if of_logs else Action.COMPACTION,
            state=InstantState.REQUESTED,
        )
        lock.check_held()
        path = instant_path(instant, table.version)
        storage.put_if_absent(path, encode_compaction_plan(planned.plan))
        try:
            lock.check_held()
        except LockLostError:
            # A write that was completed meanwhile is not in the plan, and would be lost when that is run.
            storage.delete(path)
            raise
        return instant.requested_time


def _recover(call: ServiceCall) -> None:
    if call.config.concurrency.failed_writes_policy is FailedWritesPolicy.EAGER:
        roll_back_failed_writes(
            call.table.reload(), call.settings.heartbeat, call.environment, lock_wait_ms=call.settings.lock_wait_ms
        )


def run_pending_compactions(call: ServiceCall) -> tuple[Compacted, ...]:
    """Run the compactions on the timeline that nobody else is running, oldest first, those of logs among them.

    Errors: see `run_compaction`.
    """
    pending = call.reloaded().table.timeline.pending_compactions
    done = [run_compaction(call, instant.requested_time) for instant in pending]
    return tuple(result for result in done if result is not None)


def run_compaction(call: ServiceCall, instant_time: str) -> Compacted | None:
    """Run a planned compaction to its end; None where another process is running it, or has ended it.

    Cost: every file that the plan names is read once, and written once. Raises `InvalidRequestError` for an instant
    that is no planned compaction, `CorruptDataError` for a plan that names missing files, and what reading logs
    raises; the plan stays then, and so does everything that readers see.
    """
    _check_type(call.reloaded().table)
    storage = call.table.storage
    with _taken(call, instant_time) as taken:
        if taken is None:
            return None
        table, instant, number = taken
        plan = load_compaction_plan(storage, instant, table.version)
        view = load_view(storage, table.timeline, {operation.partition_path for operation in plan.operations})
        run = _run_on_logs if plan.is_log_compaction else _run_on_slices
        call = replace(call, table=table)
        transaction = Transaction(table, instant, call.settings, call.environment)
        with task_markers(transaction, call.config, call.engine, may_conflict=False) as markers:
            shared = _merging(call, instant, markers, number)
            stats = run(call, instant, plan, view, shared)
        commit_compaction(transaction, _metadata(shared.schema, plan, stats), run=number)
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


def _check_type(table: TableState) -> None:
    check_compactable(table)
    if table.config.table_type is not TableType.MERGE_ON_READ:
        raise InvalidRequestError("a copy-on-write table has no logs to compact", table=table.config.name)


def _newest_compaction(table: TableState) -> str | None:
    """The instant time of the newest completed compaction: a commit that says so."""
    for instant in reversed(table.timeline.completed_writes):
        if instant.action is Action.COMMIT:
            metadata = load_commit_metadata(table.storage, instant, table.version)
            if metadata.operation is WriteOperation.COMPACT:
                return instant.requested_time
    return None


@contextmanager
def _taken(call: ServiceCall, instant_time: str) -> Iterator[tuple[TableState, Instant, int] | None]:
    """The compaction for this process alone: marked inflight, without what a dead run left. None if it is taken.

    With it, the number of this run (`pyhudi.transaction.plan_fencing`).
    """
    storage, environment = call.table.storage, call.environment
    heartbeat = Heartbeat(storage, heartbeat_path(instant_time), call.settings.heartbeat, environment)
    run = uuid.UUID(environment.ids.uuid()).int % WRITE_TOKEN_NUMBERS
    with table_lock(storage, environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        instant = next((i for i in table.timeline.pending_compactions if i.requested_time == instant_time), None)
        if instant is None and not table.timeline.is_committed(instant_time):
            raise InvalidRequestError("there is no planned compaction with this instant time", instant=instant_time)
        settings = call.settings.heartbeat
        if instant is None or is_running(storage, table.version, instant, settings, environment):
            inflight = None
        else:
            inflight = _marked_inflight(table, instant)
            heartbeat.start()
            try:
                begin_run(storage, instant_time, run)
                # Who still has the lock now is the only one: all who come later see the heartbeat.
                lock.check_held()
            except BaseException:
                heartbeat.stop()
                raise
    if inflight is None:
        yield None
        return
    try:
        _remove_former_run(call, table, inflight, run)
        yield table, inflight, run
    finally:
        heartbeat.stop()
        if not call.table.reload().timeline.is_committed(instant_time):
            with suppress(LockLostError):
                check_newest_run(storage, instant_time, run)
                forget_runs(storage, instant_time)
                heartbeat.stop_for_good()


def _marked_inflight(table: TableState, plan: Instant) -> Instant:
    """The plan as one that is being run."""
    if plan.state is InstantState.INFLIGHT:
        return plan
    inflight = advanced(plan, InstantState.INFLIGHT)
    try:
        table.storage.put_if_absent(instant_path(inflight, table.version), b"")
    except AlreadyExistsError:
        _log.info("compaction %s was inflight already", plan.requested_time)
    return inflight


def _remove_former_run(call: ServiceCall, table: TableState, instant: Instant, run: int) -> None:
    """Delete what dead runs of a plan left: their files, and then the markers that announced them.

    Cost: one listing per partition path. Raises `LockLostError`, with nothing deleted, where another
    run has begun meanwhile.
    """
    found = _files_of_former_run(table, instant)
    if not found:
        return
    # After the listing: if this is the newest run now, what was there is of runs that are over.
    with table_lock(table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        check_newest_run(table.storage, instant.requested_time, run)
        lock.check_held()
    for path in found:
        table.storage.delete(path)
    table.storage.delete_folder(marker_folder(instant.requested_time))


def _files_of_former_run(table: TableState, instant: Instant) -> list[str]:
    """The files that carry the instant of a pending compaction.

    A log of version 6 carries that of its slice; one that a dead run left has blocks of an instant that others write
    again, with the same records.
    """
    plan = load_compaction_plan(table.storage, instant, table.version)
    planned = {FileGroupId(operation.partition_path, operation.file_id) for operation in plan.operations}
    found = []
    for partition_path in sorted({group.partition_path for group in planned}):
        for info in table.storage.list_folder(partition_path).files:
            name = parse_data_file(info.name)
            if name is None or name.instant_time != instant.requested_time:
                continue
            if FileGroupId(partition_path, name.file_id) in planned and _is_output(name, plan, table):
                found.append(info.path)
    return found


def _is_output(name: BaseFileName | LogFileName, plan: CompactionPlan, table: TableState) -> bool:
    if isinstance(name, BaseFileName):
        return not plan.is_log_compaction
    return plan.is_log_compaction and table.version.has_completion_times


@dataclass(frozen=True, slots=True)
class _Merging:
    """What all tasks of a compaction share. `run` is in their write tokens: no other run names a file as this one."""

    schema: TableSchema
    target: WriteTarget
    settings: MergeSettings
    run: int


def _merging(call: ServiceCall, instant: Instant, markers: TaskMarkers, run: int) -> _Merging:
    table = call.table
    schema = load_table_schema(table)
    if schema is None:
        raise SchemaMismatchError("no commit of the table says what its columns are, so it cannot be compacted")
    rules = table_rules_of(table.config, (*call.mergers, *mergers_of(call.config.merging)))
    check_tombstones(table.config, rules, hours=call.config.input.tombstone_hours)
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
                former=FormerVersion(base.path, str(base.name), base.instant_time) if base else None,
                files=slice_files(base, logs),
                merging=shared.settings.with_archive(view.archived),
                log_bytes=log_bytes,
                run=shared.run,
            )
        )
    return call.engine.map(compact_slice, tasks, size_bytes=size, description="compact")


def _run_on_logs(
    call: ServiceCall, instant: Instant, plan: CompactionPlan, view: FileSystemView, shared: _Merging
) -> list[WriteStat]:
    latest = {one.group: one for slices in view.latest.values() for one in slices}
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
                merging=shared.settings.with_archive(view.archived),
                log_bytes=sum(log.size for log in logs),
            )
        )
    size = sum(task.log_bytes for task in tasks)
    results = call.engine.map(compact_logs, tasks, size_bytes=size, description="join logs")
    return [stat for stats in results for stat in stats]


def _planned_files(
    table: TableState, instant: Instant, operation: CompactionOperation, view: FileSystemView
) -> tuple[BaseFile | None, list[LogFile]]:
    """The files that an operation names, logs in merge order, whole as their writes left them."""
    group_id = FileGroupId(operation.partition_path, operation.file_id)
    group = view.groups.get(group_id)
    bases = {str(base.name): base for base in group.base_files} if group else {}
    logs = [log for log in group.logs if str(log.name) in operation.delta_files] if group else []
    wanted = {*operation.delta_files, *([operation.data_file] if operation.data_file else [])}
    missing = wanted - bases.keys() - {str(log.name) for log in logs}
    if missing:
        raise CorruptDataError(
            "a compaction plan names files that are not there, or whose writes are not completed; nothing was changed",
            plan=instant_path(replace(instant, state=InstantState.REQUESTED), table.version),
            partition_path=operation.partition_path,
            missing=sorted(missing)[:10],
        )
    sizes = {str(log.name): log.size for log in logs} | {name: bases[name].size for name in bases.keys() & wanted}
    if cut_off := view.committed.cut_off(group_id, sizes):
        refuse(table.storage, table.timeline, cut_off, only_warn=False)
    return (bases[operation.data_file] if operation.data_file else None), logs


def _metadata(schema: TableSchema, plan: CompactionPlan, stats: Sequence[WriteStat]) -> CommitMetadata:
    by_partition: dict[str, list[WriteStat]] = defaultdict(list)
    for stat in stats:
        by_partition[stat.partition_path].append(stat)
    return CommitMetadata(
        operation=WriteOperation.LOG_COMPACT if plan.is_log_compaction else WriteOperation.COMPACT,
        stats_by_partition={path: tuple(group) for path, group in sorted(by_partition.items())},
        extra={SCHEMA_KEY: schema.avro},
        compacted=True,
    )
