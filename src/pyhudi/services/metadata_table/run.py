"""The services of the metadata table in their order: compaction, cleaning, archiving, all under one table lock."""

from __future__ import annotations

from pyhudi.metadata_table.folders import inner_version
from pyhudi.metadata_table.maintained import kept_partitions
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.services.call import ServiceCall
from pyhudi.services.due import Due
from pyhudi.services.metadata_table.archive import archive_instants
from pyhudi.services.metadata_table.clean import delete_old_slices
from pyhudi.services.metadata_table.compact import (
    compact,
    delta_commits_since_compaction,
    finish_compactions,
    in_the_way,
)
from pyhudi.services.service import Work
from pyhudi.table.features import check_writable
from pyhudi.table.timeline import load_timeline
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock


def metadata_table_due(call: ServiceCall) -> Due:
    """Whether the metadata table has enough delta commits since its last compaction. Cost: a listing, if it has one."""
    if not kept_partitions(call.table):
        return Due(False, "the table has no metadata table")
    enough = call.config.metadata_table.compact_after
    inner = load_timeline(call.table.storage, inner_version(call.table.version))
    commits = delta_commits_since_compaction(inner)
    reason = f"{commits} of {enough} delta commits of the metadata table since its last compaction"
    if inner.pending_compactions:
        return Due(True, reason)
    waits_for = in_the_way(call.table, inner)
    if commits >= enough and waits_for is not None:
        return Due(False, f"{reason}, which waits for the pending action {waits_for}")
    return Due(commits >= enough, reason)


def maintain_metadata_table(call: ServiceCall) -> tuple[Work, ...]:
    """Compact, clean and archive the metadata table; nothing where it is not due under the lock.

    Raises `LockLostError` where the lock is lost, and `WriteConflictError` while JVM Hudi restores the table or builds
    an index. Cost: that of `compact`, `delete_old_slices` and `archive_instants`, and the lock.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        call = call.reloaded()
        check_nothing_exclusive(call.table.timeline, Own.ARCHIVING)
        if not metadata_table_due(call).is_due:
            return ()
        finish_compactions(call, lock.check_held)
        state = load_metadata_state(call.table)
        if in_the_way(call.table, state.timeline) is not None:
            return ()
        done = compact(call, lock.check_held)
        lock.check_held()
        state = load_metadata_state(call.table)
        deleted = delete_old_slices(state)
        archived = archive_instants(call, state.timeline, lock.check_held)
    if done is None:
        return ()
    return (Work(instant=done, files_deleted=deleted, message=f"{archived} instants of the metadata table archived"),)
