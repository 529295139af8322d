"""The table of services, in the order in which they run: what each needs, and what the runner calls for it.

Dead writers first, so that what they left is out of the way. Compactions and clusterings then make new files of old
ones, partitions that are past their time are dropped, a clean deletes what is old, and archiving takes from the
timeline what cleaning has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyhudi.config.enums import FailedWritesPolicy, TableType
from pyhudi.config.options_cleaning import ArchivingOptions, CleaningOptions
from pyhudi.errors import InvalidRequestError
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.services.archiving.archive import archive, archiving_due
from pyhudi.services.cleaning.execute import clean_due, clean_loaded, execute_clean, pending_cleans, schedule_clean
from pyhudi.services.clustering.execute import run_clustering
from pyhudi.services.clustering.schedule import clustering_due, schedule_clustering
from pyhudi.services.compaction.execute import run_compaction
from pyhudi.services.compaction.schedule import compaction_due, planned_compaction, schedule_compaction
from pyhudi.services.frame.service import Due, Mode, Service, ServiceCall, Work
from pyhudi.services.metadata_table.run import maintain_metadata_table, metadata_table_due
from pyhudi.services.partition_ttl.expire import expire_partitions, expiry_due
from pyhudi.services.restore.execute import recover
from pyhudi.services.rollback.rollback import has_left_over
from pyhudi.table.pending_clusterings import pending_clusterings
from pyhudi.table.timeline import WRITE_ACTIONS

_ROLLED_BACK: Final = WRITE_ACTIONS | {Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT}
"""What `recover` rolls back or finishes when its process died."""
_NO_LOGS = Due(False, "a copy-on-write table has no logs")


def _rollback_due(call: ServiceCall) -> Due:
    if call.config.concurrency.failed_writes_policy is FailedWritesPolicy.NEVER:
        return Due(False, "hoodie.clean.failed.writes.policy is NEVER")
    pending = [
        instant
        for instant in call.table.timeline.instants
        if instant.action in _ROLLED_BACK and instant.state is not InstantState.COMPLETED
    ]
    if pending:
        return Due(True, f"{len(pending)} pending instant(s), of which those of dead processes are rolled back")
    if has_left_over(call.table, call.settings.heartbeat, call.environment):
        return Due(True, "a process died and left its heartbeat")
    return Due(False, "no write is pending, and no dead process left anything")


def _roll_back(call: ServiceCall) -> tuple[Work, ...]:
    done = recover(call.table, call.settings, call.environment)
    return tuple(Work(instant=clean.instant, files_deleted=clean.files_deleted) for clean in done)


def _is_merge_on_read(call: ServiceCall) -> bool:
    return call.table.config.table_type is TableType.MERGE_ON_READ


def _compaction_mode(call: ServiceCall) -> Mode:
    options = call.config.compaction
    if not _is_merge_on_read(call):
        return Mode.OFF
    if options.runs_inline(call.table.config.table_type):
        return Mode.INLINE
    if options.runs_in_background:
        return Mode.BACKGROUND
    return Mode.PLAN if options.schedule_inline else Mode.OFF


def _compaction_due(call: ServiceCall) -> Due:
    return compaction_due(call) if _is_merge_on_read(call) else _NO_LOGS


def _has_logs_to_merge(call: ServiceCall) -> bool:
    """Inserts are delta commits, too, and leave no logs."""
    return bool(planned_compaction(call).plan.operations)


def _log_compaction_mode(call: ServiceCall) -> Mode:
    options = call.config.compaction
    is_asked_for = options.log_enabled and options.log_inline
    return Mode.INLINE if is_asked_for and _is_merge_on_read(call) else Mode.OFF


def _log_compaction_due(call: ServiceCall) -> Due:
    if not _is_merge_on_read(call):
        return _NO_LOGS
    if not call.config.compaction.log_enabled:
        return Due(False, "hoodie.log.compaction.enable is not set")
    blocks = call.config.compaction.log_blocks_threshold
    return Due(True, f"slices with at least {blocks} log blocks are looked for")


def _plans_of(action: Action, call: ServiceCall) -> tuple[Instant, ...]:
    return tuple(compaction for compaction in call.table.timeline.pending_compactions if compaction.action is action)


def _run_planned(
    plan: Callable[[ServiceCall], str | None], execute: Callable[[ServiceCall, str], Work | None]
) -> Callable[[ServiceCall], tuple[Work, ...]]:
    """Plan, and execute what was planned."""

    def run(call: ServiceCall) -> tuple[Work, ...]:
        planned = plan(call)
        done = None if planned is None else execute(call, planned)
        return () if done is None else (done,)

    return run


def _execute_compaction(call: ServiceCall, instant: str) -> Work | None:
    done = run_compaction(call, instant)
    if done is None:
        return None
    return Work(instant=done.instant, files_written=done.slices, rows=done.rows, bytes=done.bytes)


def _schedule_log_compaction(call: ServiceCall) -> str | None:
    return schedule_compaction(call, of_logs=True)


def _expiry_mode(call: ServiceCall) -> Mode:
    return Mode.INLINE if call.config.expiry.inline and expiry_due(call).is_due else Mode.OFF


def _expire(call: ServiceCall) -> tuple[Work, ...]:
    done = expire_partitions(call)
    return () if done is None else (Work(instant=done.instant, message=f"{len(done.partitions)} partitions dropped"),)


def _clustering_mode(call: ServiceCall) -> Mode:
    options = call.config.clustering
    if options.inline:
        return Mode.INLINE
    if options.schedule_inline:
        return Mode.PLAN
    return Mode.BACKGROUND if options.in_background else Mode.OFF


def _execute_clustering(call: ServiceCall, instant: str) -> Work | None:
    done = run_clustering(call, instant)
    return (
        None if done is None else Work(instant=done.instant, files_written=done.files, rows=done.rows, bytes=done.bytes)
    )


def _automatic_mode(options: CleaningOptions | ArchivingOptions) -> Mode:
    if not options.automatic:
        return Mode.OFF
    return Mode.BACKGROUND if options.in_background else Mode.INLINE


def _clean(call: ServiceCall) -> tuple[Work, ...]:
    done = clean_loaded(call)
    return () if done is None else (Work(instant=done.instant, files_deleted=done.files),)


def _execute_clean(call: ServiceCall, instant: str) -> Work | None:
    planned = next(
        (pending for pending in pending_cleans(call.table.timeline) if pending.requested_time == instant), None
    )
    if planned is None:
        raise InvalidRequestError("there is no planned clean with this instant time", instant=instant)
    done = execute_clean(call, planned)
    return None if done is None else Work(instant=done.instant, files_deleted=done.files)


def _archive(call: ServiceCall) -> tuple[Work, ...]:
    done = archive(call)
    if done is None:
        return ()
    return (Work(instant=None, message=f"{done.instants} instants, {done.first} to {done.last}"),)


SERVICES: Final = (
    Service(name="rollback", mode=lambda _: Mode.OFF, due=_rollback_due, run=_roll_back, is_first=True),
    Service(
        name="compaction",
        mode=_compaction_mode,
        due=_compaction_due,
        has_work=_has_logs_to_merge,
        run=_run_planned(schedule_compaction, _execute_compaction),
        pending=lambda call: _plans_of(Action.COMPACTION, call),
        execute=_execute_compaction,
        plan=schedule_compaction,
        actions=frozenset({Action.COMPACTION, Action.COMMIT}),
    ),
    Service(
        name="log_compaction",
        mode=_log_compaction_mode,
        due=_log_compaction_due,
        run=_run_planned(_schedule_log_compaction, _execute_compaction),
        pending=lambda call: _plans_of(Action.LOG_COMPACTION, call),
        execute=_execute_compaction,
        plan=_schedule_log_compaction,
        actions=frozenset({Action.LOG_COMPACTION}),
    ),
    Service(name="expiry", mode=_expiry_mode, due=expiry_due, run=_expire),
    Service(
        name="clustering",
        mode=_clustering_mode,
        due=clustering_due,
        run=_run_planned(schedule_clustering, _execute_clustering),
        pending=lambda call: pending_clusterings(call.table.storage, call.table.timeline),
        execute=_execute_clustering,
        plan=schedule_clustering,
        actions=frozenset({Action.CLUSTERING, Action.REPLACE_COMMIT}),
    ),
    Service(
        name="clean",
        mode=lambda call: _automatic_mode(call.config.cleaning),
        due=clean_due,
        run=_clean,
        pending=lambda call: pending_cleans(call.table.timeline),
        execute=_execute_clean,
        plan=schedule_clean,
        actions=frozenset({Action.CLEAN}),
    ),
    Service(
        name="metadata_table",
        mode=lambda _: Mode.OFF,
        due=metadata_table_due,
        run=maintain_metadata_table,
    ),
    Service(name="archive", mode=lambda call: _automatic_mode(call.config.archiving), due=archiving_due, run=_archive),
)
"""All services. A write rolls dead writers back and compacts the metadata table (`inline.py`) before it begins, and so
not after its commit."""
