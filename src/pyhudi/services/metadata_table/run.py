"""The services of the metadata table in their order: compaction, cleaning, archiving, all under one table lock.

Between two compactions its logs are joined, if the options ask for it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.metadata_table.undo import withdraw_compactions
from pyhudi.metadata_table.write_checks import problem_for_writes
from pyhudi.services.archiving.archive import files_of_instants
from pyhudi.services.archiving.into_history import add_to_history, tidy_history
from pyhudi.services.archiving.into_logs import add_to_logs
from pyhudi.services.frame.service import Due, ServiceCall, Work
from pyhudi.services.metadata_table.compaction import (
    compact,
    delta_commits_since_compaction,
    finish_compactions,
    in_the_way,
)
from pyhudi.services.metadata_table.log_compaction import join_logs, logs_may_be_due
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.features import check_writable
from pyhudi.table.timeline import Timeline, position_of
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock

COMMITS_MIN = 20
COMMITS_MAX = 30
"""JVM Hudi's defaults for the metadata table."""
SLICES_KEPT = 2
ADDED_BY_A_WRITE = 3
"""Delta commits of a write, of the compaction or clustering after it, and of the clean."""


def metadata_table_due(call: ServiceCall) -> Due:
    """Whether the metadata table has enough delta commits since its last compaction, or logs that may be joined.

    Cost: a listing, if it has one.
    """
    if not kept_partitions(call.table):
        return Due(False, "the table has no metadata table")
    state = load_metadata_state(call.table)
    enough, commits = _enough(call), delta_commits_since_compaction(state.timeline)
    reason = f"{commits} of {enough} delta commits of the metadata table since its last compaction"
    if state.timeline.pending_compactions:
        return Due(True, reason)
    is_due = commits >= enough
    if not is_due and _logs_may_be_due(call, state):
        is_due, reason = True, f"{reason}, and its logs may be joined"
    waits_for = in_the_way(call.table, state.timeline)
    if is_due and waits_for is not None:
        return Due(False, f"{reason}, which waits for the pending action {waits_for}")
    return Due(is_due, reason)


def _enough(call: ServiceCall) -> int:
    """How many delta commits are compacted: so few that there are not as many as the option says after the next write.

    A rollback of JVM Hudi first compacts a metadata table that has so many, and then refuses a write that it has merged
    with it.
    """
    return max(call.config.metadata_table.compact_after - ADDED_BY_A_WRITE, 1)


def _logs_may_be_due(call: ServiceCall, state: MetadataState) -> bool:
    options = call.config.metadata_table
    return options.joins_logs and logs_may_be_due(state, options.join_logs_at)


def maintain_metadata_table(call: ServiceCall) -> tuple[Work, ...]:
    """Compact, clean and archive the metadata table, or join logs of it; nothing where it is not due under the lock.

    One that must not be gone on from is left as it is: the next write drops it, as long as its timeline shows why.
    Raises `LockLostError` where the lock is lost, and `WriteConflictError` while JVM Hudi restores the table or builds
    an index. Cost: that of `compact`, `delete_old_slices` and `archive_instants`, or of `join_logs`; and the lock.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        call = call.reloaded()
        check_nothing_exclusive(call.table.timeline, Own.ARCHIVING)
        if not metadata_table_due(call).is_due or problem_for_writes(call.table) is not None:
            return ()
        lock.check_held()
        withdraw_compactions(call.table)
        finished = finish_compactions(call, lock.check_held)
        state = load_metadata_state(call.table)
        if in_the_way(call.table, state.timeline) is not None:
            return ()
        if not finished and delta_commits_since_compaction(state.timeline) < _enough(call):
            return _join(call, state, lock.check_held)
        done = compact(call, lock.check_held)
        lock.check_held()
        state = load_metadata_state(call.table)
        deleted = delete_old_slices(state)
        archived = archive_instants(call, state.timeline, lock.check_held)
    if done is None:
        return ()
    return (Work(instant=done, files_deleted=deleted, message=f"{archived} instants of the metadata table archived"),)


def _join(call: ServiceCall, state: MetadataState, check_held: CheckHeld) -> tuple[Work, ...]:
    done = join_logs(call, check_held) if _logs_may_be_due(call, state) else None
    return () if done is None else (Work(instant=done, message="logs of the metadata table joined"),)


def archive_instants(call: ServiceCall, inner: Timeline, check_held: CheckHeld) -> int:
    """Move the oldest instants of the metadata table into its archive, under the table lock; how many."""
    instants = archivable_instants(call.table.timeline, inner)
    if not instants:
        return 0
    table = call.table.with_timeline(inner)
    files = files_of_instants(table, instants)
    check_held()
    if inner.version.has_completion_times:
        add_to_history(table, files)
    else:
        add_to_logs(table, files)
    for instant in instants:
        check_held()
        for info in files[instant]:
            table.storage.delete(info.path)
    if inner.version.has_completion_times:
        tidy_history(replace(call, table=table))
    return len(instants)


def archivable_instants(timeline: Timeline, inner: Timeline) -> tuple[Instant, ...]:
    """The instants that may leave, oldest first. Pure."""
    writes = inner.completed_writes
    compactions = sorted(write.requested_time for write in writes if write.action is Action.COMMIT)
    if len(writes) <= COMMITS_MAX or len(compactions) < 2:
        return ()
    kept_slice = compactions[-2]
    bounds = [
        kept_slice,
        writes[-COMMITS_MIN].requested_time,
        *(write.requested_time for write in writes if position_of(write) >= kept_slice),
        *(instant.requested_time for instant in inner.instants if instant.state is not InstantState.COMPLETED),
        *(instant.requested_time for instant in timeline.instants),
    ]
    bound = min(bounds)
    return tuple(instant for instant in inner.instants if instant.requested_time < bound)


def delete_old_slices(state: MetadataState) -> int:
    """Delete the files of older slices, under the table lock; how many. Cost: a listing per partition, the deletes."""
    deleted = 0
    for partition in kept_partitions(state.table):
        groups: dict[str, list[FileInfo]] = defaultdict(list)
        for info in state.storage.list_folder(partition_folder(partition.name)).files:
            name = parse_data_file(info.name)
            if name is not None:
                groups[name.file_id].append(info)
        for files in groups.values():
            for path in sorted(_old(state, files)):
                state.storage.delete(path)
                deleted += 1
    return deleted


def _old(state: MetadataState, files: list[FileInfo]) -> set[str]:
    """The files of a group before its newest slices."""
    named = [(parse_data_file(info.name), info.path) for info in files]
    bases = sorted(
        {name.instant_time for name, _ in named if isinstance(name, BaseFileName) and state.counts(name.instant_time)}
    )
    if len(bases) <= SLICES_KEPT:
        return set()
    kept = bases[-SLICES_KEPT]
    old = {path for name, path in named if isinstance(name, BaseFileName) and name.instant_time < kept}
    logs = ((name, path) for name, path in named if isinstance(name, LogFileName))
    return old | {path for name, path in logs if _place(name.instant_time, state.timeline) < kept}


def _place(instant_time: str, inner: Timeline) -> str:
    """Where a log stands among base files; one that is not on the timeline was archived, or belongs to a pending write.

    Instants are archived before the oldest kept slice only (`archive.py`), so the name of such a log is enough.
    """
    by_name: dict[str, str] = {write.requested_time: position_of(write) for write in inner.completed_writes}
    if instant_time in by_name:
        return by_name[instant_time]
    return instant_time if inner.starts_after(instant_time) else "9"
