"""Scheduling a clustering: its plan goes onto the timeline, and writes to its file groups give way, or roll it back."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pyhudi.config.enums import FailedWritesPolicy
from pyhudi.errors import HudiError, InvalidRequestError, SchemaMismatchError
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_clustering
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.clustering.plan import PlannedClustering, plan_clustering
from pyhudi.services.clustering.resizes import has_rings, planned_resizes
from pyhudi.services.frame.service import Due, ServiceCall
from pyhudi.services.rollback.rollback import roll_back_failed_writes, roll_back_plan
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.features import check_clusterable
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.instant_times import next_time, table_zone
from pyhudi.table.pending_clusterings import load_clustering_plans
from pyhudi.table.schema import TableSchema, load_table_schema, schema_of_run
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_compaction_plan
from pyhudi.tasks.sort_rows import SortOrder, check_sort_columns
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.footprint import footprint_of
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.intents import standing_intents
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.publish import put_plan
from pyhudi.transaction.transaction import Transaction

_IN_COMPACTION = "a pending compaction or log compaction holds its file group"
_IN_CLUSTERING = "a pending clustering holds its file group"
_IN_WRITE = "a running write is about to change its file group"


def planned_clustering(call: ServiceCall) -> PlannedClustering:
    """The clustering that the options would plan now. Cost: a listing of the table, and a read per pending action.

    Raises `ConfigError` for a sort column that the table does not have, or that has no order.
    """
    table, options = call.table, call.config.clustering
    check_clusterable(table)
    check_sort_columns(schema_of(table).arrow, SortOrder(options.sort_columns, options.layout))
    of_buckets = has_rings(table, options)
    view = load_view(table.storage, table.timeline, lister=call.lister)
    now = datetime.fromtimestamp(call.environment.clock.now_ms() / 1000, UTC).astimezone(table_zone(table.config))
    if of_buckets:
        return planned_resizes(call, view, _held_groups(table, view), hour=now.hour)
    return plan_clustering(
        [file_slice for group in view.latest.values() for file_slice in group],
        _held_groups(table, view),
        options,
        hour=now.hour,
        base_file_bytes_max=call.config.files.max_file_size,
    )


def schema_of(table: TableState, instant_time: str | None = None) -> TableSchema:
    """The schema of the table's rows, for the run of a plan if its instant is given.

    Raises `SchemaMismatchError` where no commit has one.
    """
    schema = load_table_schema(table) if instant_time is None else schema_of_run(table, instant_time)
    if schema is None:
        raise SchemaMismatchError("no commit of the table has its schema, so the table cannot be clustered")
    return schema


def schedule_clustering(call: ServiceCall) -> InstantTime | None:
    """Put the plan of a clustering of the newest slices on the timeline; None if there is nothing to cluster.

    Also None, under a lock that can be lost, while another writer may be in its last put, which the plan would miss.
    File groups that a running write has announced to change are left out. Dead writers are rolled back first, if the
    options ask for that. Cost: a listing of the table, one put, the lock; a read per pending action.
    """
    storage = call.table.storage
    check_clusterable(call.reloaded().table)
    if call.config.concurrency.failed_writes_policy is FailedWritesPolicy.EAGER:
        roll_back_failed_writes(call.table.reload(), call.settings, call.environment)
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        committing = standing_intents(storage, besides="") if lock.can_be_lost else ()
        call = call.reloaded()
        table = call.table
        check_nothing_exclusive(table.timeline, Own.CLUSTERING_PLAN)
        pending = {write.requested_time for write in table.timeline.pending_writes}
        if any(intent.instant_time in pending for intent in committing):
            return None
        planned = planned_clustering(call)
        if not planned.plan.groups:
            return None
        instant = Instant(
            requested_time=next_time(table.timeline, table.config, call.environment.clock),
            action=Action.CLUSTERING if table.version.has_clustering_action else Action.REPLACE_COMMIT,
            state=InstantState.REQUESTED,
        )
        body = encode_requested_replace_metadata(requested_clustering(planned.plan), table_uri=storage.uri)
        put_plan(storage, table.version, instant, body, lock)
        return instant.requested_time


def clustering_due(call: ServiceCall) -> Due:
    """Whether as many writes have completed since the last clustering was planned as the options ask for.

    Cost: a read per pending clustering, and per replace commit among so many of the newest writes.
    """
    table, options = call.table, call.config.clustering
    if not options.is_asked_for:
        return Due(False, "no option asks for it, such as hoodie.clustering.inline")
    planned = [instant.requested_time for instant, _ in load_clustering_plans(table.storage, table.timeline)]
    last = max(planned, default="")
    limit, commits = options.commits_between, 0
    for write in table.timeline.completed_writes[: -limit - 1 : -1]:
        if write.requested_time < last or _is_clustering(table, write):
            break
        commits += 1
    return Due(commits == limit, f"{commits} of {limit} commits since the last clustering was planned")


def _is_clustering(table: TableState, write: Instant) -> bool:
    if write.action is not Action.REPLACE_COMMIT:
        return False
    return load_commit_metadata(table.storage, write, table.version).operation is WriteOperation.CLUSTER


def _held_groups(table: TableState, view: FileSystemView) -> dict[FileGroupId, str]:
    """The file groups that must not be clustered now, and why."""
    held = dict.fromkeys(_groups_of_running_writes(table), _IN_WRITE)
    held |= dict.fromkeys(view.pending_compactions, _IN_COMPACTION)
    for instant in table.timeline.pending_compactions:
        operations = load_compaction_plan(table.storage, instant, table.version).operations
        groups = (FileGroupId(operation.partition_path, operation.file_id) for operation in operations)
        held |= dict.fromkeys(groups, _IN_COMPACTION)
    for _, clustered in load_clustering_plans(table.storage, table.timeline):
        held |= dict.fromkeys(clustered, _IN_CLUSTERING)
    return held


def _groups_of_running_writes(table: TableState) -> frozenset[FileGroupId]:
    """The groups in the workload profiles of running writes: a plan with one of them would make the write fail.

    Not every writer has a profile, so that one that cannot be read says nothing. Cost: one read for each.
    """
    found: set[FileGroupId] = set()
    for write in table.timeline.pending_writes:
        if write.state is InstantState.INFLIGHT:
            try:
                found |= footprint_of(load_commit_metadata(table.storage, write, table.version)).changed
            except HudiError:
                continue
    return frozenset(found)


def roll_back_clusterings(transaction: Transaction, changes: Iterable[FileGroupId]) -> None:
    """With SparkAllowUpdateStrategy: roll back the planned clusterings of file groups that this write changes.

    One that is running stays, and the write fails when it is marked inflight. Cost: a read per pending clustering;
    that of a rollback for each that is in the way.
    """
    if not transaction.settings.rolls_back_clusterings:
        return
    table, changed = transaction.base, frozenset(changes)
    for instant, groups in load_clustering_plans(table.storage, table.timeline):
        if not groups & changed:
            continue
        try:
            roll_back_plan(table.reload(), instant.requested_time, transaction.settings, transaction.environment)
        except InvalidRequestError:
            # It is running, or has ended; the checks of the write find it in either case.
            continue
