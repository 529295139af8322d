"""Checks of a rollback on request: of the newest completed write, a pending write, or a planned service. Only reads.

A completed write can be rolled back while no later write depends on it and the files before it still exist. A later
write depends on it not only if it changed the same file groups: it may have found a key absent that the rollback brings
back. So only the newest completed write can be rolled back, and then the one before it.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError, NotFoundError
from pyhudi.format.file_names import BaseFileName, LogFileName, is_change_log, parse_data_file
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.compaction import CompactionPlan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.table.archive.history import has_archive
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import FileSystemView, load_view
from pyhudi.table.lister import list_data_files
from pyhudi.table.pending_clusterings import is_clustering_plan
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, load_compaction_plan, position_of
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.plan_fencing import is_running

SERVICES = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
"""The actions of services that are planned first and executed later, as they are called while they are pending."""


def instant_to_roll_back(table: TableState, instant_time: str) -> Instant:
    """The write or plan of the timeline with this instant time.

    Raises `InvalidRequestError` where there is none, or more than one.
    """
    of_time = [instant for instant in table.timeline.instants if instant.requested_time == instant_time]
    cleans = [
        instant for instant in of_time if instant.action is Action.CLEAN and instant.state is not InstantState.COMPLETED
    ]
    found = [instant for instant in of_time if instant.action in WRITE_ACTIONS | SERVICES] or cleans
    if len(found) > 1:
        raise InvalidRequestError(
            "several actions have this instant time, and their files cannot be told apart; nothing was changed",
            instant=instant_time,
            actions=[f"{instant.action.value} ({instant.state.name.lower()})" for instant in found],
        )
    if found:
        return found[0]
    raise InvalidRequestError(
        "no write and no plan of the active timeline has this instant time; nothing was changed", instant=instant_time
    )


def planned_service(table: TableState, instant_time: str) -> Instant:
    """The pending plan of the timeline with this instant time. Raises `InvalidRequestError` where there is none.

    Also where another action has the same time, because the files of both carry it.
    """
    found = [instant for instant in table.timeline.instants if instant.requested_time == instant_time]
    if len(found) == 1 and found[0].state is not InstantState.COMPLETED:
        (plan,) = found
        if plan.action in SERVICES or is_clustering_plan(table.storage, table.version, plan):
            return plan
    raise InvalidRequestError("there is no planned service with this instant time", instant=instant_time)


def check_rollback(table: TableState, instant: Instant, settings: HeartbeatSettings, environment: Environment) -> None:
    """Raise `InvalidRequestError`, which names the reason, unless the instant may be rolled back.

    Cost: for a pending write nothing; for a plan a few requests; for a completed write, its metadata and a listing of
    its partitions.
    """
    if instant.state is InstantState.COMPLETED:
        _check_completed(table, instant)
    elif instant.action in SERVICES or is_clustering_plan(table.storage, table.version, instant):
        _check_service(table, instant, settings, environment)


def _check_completed(table: TableState, instant: Instant) -> None:
    timeline = table.timeline
    for other in timeline.completed_writes:
        if position_of(other) > position_of(instant):
            raise _refused("a later write is completed: roll that one back first", instant, later=other.requested_time)
    for other in timeline.instants:
        if other.action is Action.SAVEPOINT and other.requested_time == instant.requested_time:
            raise _refused("a savepoint keeps this write: delete the savepoint first", instant)
        if other.state is not InstantState.COMPLETED and other.requested_time > instant.requested_time:
            raise _refused(
                "an action that began after this write is pending, and may depend on it: complete it, or roll it back",
                instant,
                pending=other.requested_time,
                action=other.action.value,
            )
    if len(timeline.completed_writes) == 1 and has_archive(table.storage, table.version):
        # Archived writes are visible because they are older than the oldest write of the active timeline.
        raise _refused("the writes before this one are archived, so it cannot be rolled back", instant)
    _check_previous_state(table, instant)


def _check_previous_state(table: TableState, instant: Instant) -> None:
    """Refuse if a cleaner has removed files that the table had before the write."""
    metadata = load_commit_metadata(table.storage, instant, table.version)
    before = Timeline(table.version, tuple(other for other in table.timeline.instants if other != instant))
    replaced = metadata.replaced_file_ids or {}
    view = load_view(table.storage, before, {*metadata.stats_by_partition, *replaced})
    missing = [
        *_missing_versions(view, metadata),
        *(
            file_id
            for path, ids in replaced.items()
            for file_id in ids
            if FileGroupId(path, file_id) not in view.groups
        ),
    ]
    if metadata.operation is WriteOperation.COMPACT or metadata.compacted:
        missing += _missing_of_plan(view, _plan_of(table, instant))
        _check_nothing_follows(table, instant)
    if missing:
        raise _refused(
            "a cleaner has removed files that this write replaced, so it cannot be rolled back",
            instant,
            missing=sorted(missing)[:10],
        )


def _missing_versions(view: FileSystemView, metadata: CommitMetadata) -> list[str]:
    """Groups whose base file before this write is gone."""
    missing = []
    for path, stats in metadata.stats_by_partition.items():
        for stat in stats:
            is_base = isinstance(parse_data_file(stat.path.rpartition("/")[2]), BaseFileName)
            if not is_base or metadata.compacted or stat.prev_commit in ("", "null"):
                continue
            group = view.groups.get(FileGroupId(path, stat.file_id))
            if group is None or all(base.instant_time != stat.prev_commit for base in group.base_files):
                missing.append(stat.file_id)
    return missing


def _plan_of(table: TableState, instant: Instant) -> CompactionPlan:
    for action in (Action.COMPACTION, Action.LOG_COMPACTION):
        try:
            return load_compaction_plan(table.storage, replace(instant, action=action), table.version)
        except NotFoundError:
            continue
    raise _refused("the plan of this compaction is gone, so the files before it are not known", instant)


def _missing_of_plan(view: FileSystemView, plan: CompactionPlan) -> list[str]:
    """Files that a compaction read and that no longer exist."""
    missing: list[str] = []
    for operation in plan.operations:
        group = view.groups.get(FileGroupId(operation.partition_path, operation.file_id))
        there = {str(base.name) for base in group.base_files} if group else set()
        there |= {str(log.name) for log in group.logs} if group else set()
        logs = {name for name in operation.delta_files if not is_change_log(name)}
        wanted = {*logs, *([operation.data_file] if operation.data_file else [])}
        missing += wanted - there
    return missing


def _check_service(table: TableState, instant: Instant, settings: HeartbeatSettings, environment: Environment) -> None:
    if is_running(table.storage, table.version, instant, settings, environment):
        raise _refused("another process is executing this plan: let it end first", instant, action=instant.action.value)
    if table.version.has_completion_times:
        return
    if instant.action not in SERVICES:
        # Of the resize of a consistent bucket index: JVM Hudi writes to the buckets that it will make.
        _check_nothing_follows(table, instant)
        return
    for pending in table.timeline.pending_writes:
        raise _refused(
            "a pending write may append to the slices that this plan begins: complete it, or roll it back, first",
            instant,
            pending=pending.requested_time,
        )
    _check_nothing_follows(table, instant)


def _check_nothing_follows(table: TableState, compaction: Instant) -> None:
    """Refuse, in table version 6, if writes have appended to the slices that a compaction or resize begins.

    These logs carry the instant of the plan, and would be deleted with it, or be seen without it.
    """
    if table.version.has_completion_times:
        return
    for info in list_data_files(table.storage):
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName) and name.instant_time == compaction.requested_time:
            raise _refused(
                "writes have appended to the file slices that this plan begins: it can only be completed",
                compaction,
                path=info.path,
            )


def _refused(reason: str, instant: Instant, **context: object) -> InvalidRequestError:
    return InvalidRequestError(f"{reason}; nothing was changed", instant=instant.requested_time, **context)
