"""Scheduling a compaction: its plan goes onto the timeline, with the files that it will read and its instant.

From then on everything that is written to the file groups of the plan belongs to the slices after it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from pyhudi.config.enums import CompactionTrigger, FailedWritesPolicy, TableType
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.compaction import encode_compaction_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, parse_instant_time
from pyhudi.services.compaction.plan import PlannedCompaction, plan_compaction, plan_log_compaction
from pyhudi.services.compaction.strategies import CompactionSettings
from pyhudi.services.frame.service import Due, ServiceCall
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.features import check_compactable
from pyhudi.table.file_slice import FileGroupId, LogFile
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.instant_times import next_time, table_zone
from pyhudi.table.pending_clusterings import clustered_groups, is_clustering_plan
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, load_compaction_plan, position_of
from pyhudi.tasks.compact import LookIntoLogsTask, have_partial_rows
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.intents import standing_intents
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.publish import put_plan

_log = logging.getLogger("pyhudi")
_UNJOINABLE = "its logs have partial updates, or a log was written just now"
_MS_PER_SECOND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSettings:
    """When to compact: after so many delta commits, or seconds. A limit counts as soon as it is reached."""

    trigger: CompactionTrigger = CompactionTrigger.NUM_COMMITS
    max_delta_commits: int = 5
    max_delta_seconds: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFacts:
    """What the triggers decide by.

    `delta_commits`: those completed after the last completed compaction was planned. `delta_commits_after_request`:
    those that began after the newest pending plan, or after the last completed compaction if no plan is pending.
    `since`: the instant that time counts from, which is the last compaction, or else the first delta commit; None
    without either. `seconds`: passed since then; None if `since` is not a calendar time.
    """

    delta_commits: int
    delta_commits_after_request: int
    since: str | None
    seconds: int | None


def check_merge_on_read(table: TableState) -> None:
    """Raise `InvalidRequestError` for a copy-on-write table, and what `check_compactable` raises."""
    check_compactable(table)
    if table.config.table_type is not TableType.MERGE_ON_READ:
        raise InvalidRequestError("a copy-on-write table has no logs to compact", table=table.config.name)


def compaction_due(call: ServiceCall) -> Due:
    """Whether a compaction is due, by the options' trigger.

    Cost: one read per commit since the last compaction; on a merge-on-read table commits are compactions, and bulk
    inserts of JVM Hudi.
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
        newest_compaction(table),
        now_ms=call.environment.clock.now_ms(),
        zone=table_zone(table.config),
    )
    return is_due(settings, facts)


def planned_compaction(call: ServiceCall) -> PlannedCompaction:
    """The compaction that the options' strategies would plan now. Cost: a listing of the table."""
    check_merge_on_read(call.table)
    table, options = call.table, call.config.compaction
    view = load_view(table.storage, table.timeline, lister=call.lister)
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
    slices = [file_slice for group in view.latest.values() for file_slice in group]
    return plan_compaction(slices, _held_groups(table, view), settings, today=today)


def planned_log_compaction(call: ServiceCall, joinable: frozenset[LogFile] | None = None) -> PlannedCompaction:
    """The log compaction that would be planned now, over `joinable` logs alone. Cost: a listing of the table."""
    check_merge_on_read(call.table)
    view = load_view(call.table.storage, call.table.timeline, lister=call.lister)
    slices = [file_slice for group in view.latest.values() for file_slice in group]
    others = (
        () if joinable is None else (file_slice for file_slice in slices if not joinable.issuperset(file_slice.logs))
    )
    return plan_log_compaction(
        slices,
        _held_groups(call.table, view),
        call.config.compaction.log_blocks_threshold,
        unjoinable=dict.fromkeys((file_slice.group for file_slice in others), _UNJOINABLE),
        base_file_bytes_max=call.config.files.max_file_size,
    )


def _joinable_logs(call: ServiceCall) -> frozenset[LogFile]:
    """The logs of the slices that a log compaction would choose, without slices with partial updates.

    Runs before the lock is taken, so slices that get a log meanwhile are left for the next plan. Cost: a listing of the
    table, and the headers of the blocks of these logs.
    """
    storage = call.table.storage
    slices = [choice.file_slice for choice in planned_log_compaction(call.reloaded()).chosen]
    tasks = [
        LookIntoLogsTask(storage=storage.spec, paths=tuple(log.path for log in file_slice.logs))
        for file_slice in slices
    ]
    size = sum(log.size for file_slice in slices for log in file_slice.logs)
    partial = call.engine.map(have_partial_rows, tasks, size_bytes=size, description="look into logs")
    left = [file_slice for file_slice, is_partial in zip(slices, partial, strict=True) if is_partial]
    if left:
        _log.warning(
            "the logs of %d file group(s) have partial updates and are not compacted, such as %s: compact the table",
            len(left),
            left[0].logs[0].path,
        )
    return frozenset(log for file_slice in slices if file_slice not in left for log in file_slice.logs)


def _held_groups(table: TableState, view: FileSystemView) -> set[FileGroupId]:
    """File groups that a pending compaction, log compaction or clustering plan already claims.

    New plans must exclude them: a log compaction, for example, would write a log that sorts before the pending base
    file.
    """
    held = {*view.pending_compactions, *clustered_groups(table.storage, table.timeline)}
    for instant in table.timeline.pending_compactions:
        if instant.action is Action.LOG_COMPACTION:
            operations = load_compaction_plan(table.storage, instant, table.version).operations
            held |= {FileGroupId(operation.partition_path, operation.file_id) for operation in operations}
    return held


def schedule_compaction(call: ServiceCall, *, of_logs: bool = False) -> InstantTime | None:
    """Put the plan of a compaction of the newest slices on the timeline; None if there is nothing to compact.

    Also None in table version 6 while a write is running, because its logs carry the instant of a slice that the plan
    closes; and, under a lock that can be lost, while another writer may be in its last put, which the plan would miss.
    Dead writers are rolled back first, if the options ask for that. `of_logs`: a log compaction; logs with partial
    updates are left out. Cost: a listing of the table, one put, the lock; one more listing if the lock can be lost, and
    one for a log compaction, which also reads the headers of log blocks.
    """
    storage = call.table.storage
    check_merge_on_read(call.reloaded().table)
    _recover(call)
    joinable = _joinable_logs(call) if of_logs else frozenset()
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        committing = standing_intents(storage, besides="") if lock.can_be_lost else ()
        call = call.reloaded()
        table = call.table
        check_nothing_exclusive(table.timeline, Own.COMPACTION_PLAN)
        pending = {write.requested_time for write in table.timeline.pending_writes}
        if any(intent.instant_time in pending for intent in committing):
            return None
        pending_writes = table.timeline.pending_writes
        running = (write for write in pending_writes if not is_clustering_plan(table.storage, table.version, write))
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
        put_plan(storage, table.version, instant, encode_compaction_plan(planned.plan), lock)
        return instant.requested_time


def _recover(call: ServiceCall) -> None:
    if call.config.concurrency.failed_writes_policy is FailedWritesPolicy.EAGER:
        roll_back_failed_writes(call.table.reload(), call.settings, call.environment)


def newest_compaction(table: TableState) -> str | None:
    """The instant time of the newest completed compaction: a commit whose operation is a compaction."""
    for instant in reversed(table.timeline.completed_writes):
        if instant.action is Action.COMMIT:
            metadata = load_commit_metadata(table.storage, instant, table.version)
            if metadata.operation is WriteOperation.COMPACT:
                return instant.requested_time
    return None


def trigger_facts(timeline: Timeline, last_compaction: str | None, *, now_ms: int, zone: tzinfo | None) -> TriggerFacts:
    """What the triggers decide by, from the active timeline of a merge-on-read table.

    `last_compaction`: the instant time of the newest completed compaction. Names on the timeline do not show it, as a
    bulk insert completes as a commit too. `now_ms` is in milliseconds since the epoch, `zone` the table's.

    Only completed delta commits count. JVM Hudi counts pending ones too in two cases: after a request, and as the first
    delta commit. A write that is never committed leaves nothing to compact.
    """
    deltas = [write for write in timeline.completed_writes if write.action is Action.DELTA_COMMIT]
    last = last_compaction or ""
    planned = (i.requested_time for i in timeline.pending_compactions if i.action is Action.COMPACTION)
    last_request = max(planned, default=last)
    since = last or (deltas[0].requested_time if deltas else None)
    since_ms = None if since is None else parse_instant_time(since, zone)
    return TriggerFacts(
        # By completion: a delta commit that was running when the compaction was planned is not part of the plan.
        delta_commits=sum(position_of(delta) > last for delta in deltas),
        delta_commits_after_request=sum(delta.requested_time > last_request for delta in deltas),
        since=since,
        seconds=None if since_ms is None else now_ms // _MS_PER_SECOND - since_ms // _MS_PER_SECOND,
    )


def is_due(settings: TriggerSettings, facts: TriggerFacts) -> Due:
    """Whether a compaction is to be planned now."""
    if facts.since is None:
        return Due(False, "there is no delta commit yet")
    if settings.trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST:
        return _commits_due(settings, facts.delta_commits_after_request, "the last planned compaction")
    commits = _commits_due(settings, facts.delta_commits, "the last compaction")
    if settings.trigger is CompactionTrigger.NUM_COMMITS:
        return commits
    elapsed = _time_due(settings, facts)
    if settings.trigger is CompactionTrigger.TIME_ELAPSED:
        return elapsed
    if settings.trigger is CompactionTrigger.NUM_AND_TIME:
        return Due(commits.is_due and elapsed.is_due, f"{commits.reason}, and {elapsed.reason}")
    return Due(commits.is_due or elapsed.is_due, f"{commits.reason}, or {elapsed.reason}")


def _commits_due(settings: TriggerSettings, commits: int, since: str) -> Due:
    limit = settings.max_delta_commits
    return Due(commits >= limit, f"{commits} of {limit} delta commits since {since}")


def _time_due(settings: TriggerSettings, facts: TriggerFacts) -> Due:
    if facts.seconds is None:
        return Due(False, f"the instant {facts.since} is not a calendar time")
    limit = settings.max_delta_seconds
    return Due(facts.seconds >= limit, f"{facts.seconds} of {limit} seconds since the instant {facts.since}")
