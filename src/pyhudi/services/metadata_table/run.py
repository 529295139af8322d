"""The services of the metadata table in their order: compaction, cleaning, archiving, all under one table lock.

Between two compactions its logs are joined, if the options ask for it.
"""

from __future__ import annotations

from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.metadata_table.undo import withdraw_log_compactions
from pyhudi.services.frame.service import Due, ServiceCall, Work
from pyhudi.services.metadata_table.archive import archive_instants
from pyhudi.services.metadata_table.clean import delete_old_slices
from pyhudi.services.metadata_table.compaction import (
    compact,
    delta_commits_since_compaction,
    finish_compactions,
    in_the_way,
)
from pyhudi.services.metadata_table.log_compaction import join_logs, logs_may_be_due
from pyhudi.table.features import check_writable
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock


def metadata_table_due(call: ServiceCall) -> Due:
    """Whether the metadata table has enough delta commits since its last compaction, or logs that may be joined.

    Cost: a listing, if it has one.
    """
    if not kept_partitions(call.table):
        return Due(False, "the table has no metadata table")
    state = load_metadata_state(call.table)
    enough = call.config.metadata_table.compact_after
    commits = delta_commits_since_compaction(state.timeline)
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


def _logs_may_be_due(call: ServiceCall, state: MetadataState) -> bool:
    options = call.config.metadata_table
    return options.joins_logs and logs_may_be_due(state, options.join_logs_at)


def maintain_metadata_table(call: ServiceCall) -> tuple[Work, ...]:
    """Compact, clean and archive the metadata table, or join logs of it; nothing where it is not due under the lock.

    Raises `LockLostError` where the lock is lost, and `WriteConflictError` while JVM Hudi restores the table or builds
    an index. Cost: that of `compact`, `delete_old_slices` and `archive_instants`, or of `join_logs`; and the lock.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        call = call.reloaded()
        check_nothing_exclusive(call.table.timeline, Own.ARCHIVING)
        if not metadata_table_due(call).is_due:
            return ()
        lock.check_held()
        withdraw_log_compactions(call.table)
        finished = finish_compactions(call, lock.check_held)
        state = load_metadata_state(call.table)
        if in_the_way(call.table, state.timeline) is not None:
            return ()
        enough = call.config.metadata_table.compact_after
        if not finished and delta_commits_since_compaction(state.timeline) < enough:
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
