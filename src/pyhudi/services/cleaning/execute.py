"""Cleaning: delete the file slices that no retained state of the table needs.

*Scheduling* puts a plan on the timeline: the files to delete. *Executing* deletes them and completes the instant. A run
that dies, or that cannot delete a file, leaves the plan, and the next clean executes it again; a file that is gone
already counts as deleted. So nothing is forgotten, and two processes that execute one plan do no harm.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import (
    AlreadyExistsError,
    CorruptDataError,
    InvalidRequestError,
    NotFoundError,
    StorageError,
    WriteConflictError,
)
from pyhudi.events import ActionCompleted
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.clean import (
    CleanMetadata,
    CleanPlan,
    decode_clean_plan,
    encode_clean_metadata,
    encode_clean_plan,
)
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.timeline.instant import SKELETON_INSTANT, Action, Instant, InstantState, InstantTime, advanced
from pyhudi.io.slices.files import SourceFile
from pyhudi.markup import Shown
from pyhudi.metadata_table.before_write import with_kept_partitions
from pyhudi.metadata_table.file_changes import change_of_clean
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.update import apply_change
from pyhudi.metadata_table.write_checks import checked_timeline
from pyhudi.services.cleaning.plan import PlannedClean, commits_since_clean, plan_clean
from pyhudi.services.cleaning.withdraw import withdraw_clean
from pyhudi.services.frame.service import Due, ServiceCall
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.bootstrap import load_sources
from pyhudi.table.features import check_writable
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.file_system_view import load_view
from pyhudi.table.instant_times import completed_now, next_time, table_zone
from pyhudi.table.remembered_files import hand_on_files
from pyhudi.table.savepoints import load_savepoints
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, instant_path
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.plan_fencing import is_running
from pyhudi.transaction.publish import put_completed, put_requested

_log = logging.getLogger("pyhudi")

FILES_PER_TASK = 500
BYTES_PER_DELETE = 100_000
"""What a delete counts for when an engine asks how large a job is: a request takes as long as reading so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned(Shown):
    """What a clean did: its instant, how many files it deleted, and partitions that ended with it.

    `earliest`: the requested time of the oldest write whose state stays readable; None under a policy that retains no
    states.
    """

    instant: InstantTime
    files: int
    earliest: InstantTime | None = None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteTask:
    """Files of the table to delete."""

    storage: StorageSpec
    paths: tuple[str, ...]


def delete_files(_: TaskContext, task: DeleteTask) -> dict[str, str]:
    """Delete files; those that could not be deleted, with the reason. A file that is gone already is no failure."""
    storage, failed = open_spec(task.storage), {}
    for path in task.paths:
        try:
            storage.delete(path)
        except StorageError as error:
            failed[path] = str(error)
    return failed


def planned_clean(call: ServiceCall, *, explains: bool = True, spares_readers: bool = True) -> PlannedClean:
    """The clean that the options ask for now. Cost and arguments: see `plan_clean`.

    Raises `WriteConflictError` if a write of the table was rolled back meanwhile.
    """
    now_ms = call.environment.clock.now_ms()
    try:
        return plan_clean(
            call.table,
            call.config.cleaning,
            call.engine,
            now_ms=now_ms,
            zone=table_zone(call.table.config),
            explains=explains,
            spares_readers=spares_readers,
        )
    except (InvalidRequestError, NotFoundError) as error:
        if type(error) not in (InvalidRequestError, NotFoundError):
            raise  # a subclass has a cause of its own, such as an unsafe path in a savepoint
        raise WriteConflictError(
            "a write was rolled back while the clean was planned; nothing was deleted, run it again",
            path=call.table.storage.uri,
        ) from error


def clean_due(call: ServiceCall) -> Due:
    """Whether enough writes have completed since the last clean. Cost: nothing."""
    commits, enough = commits_since_clean(call.table.timeline), call.config.cleaning.trigger_commits
    return Due(commits >= enough, f"{commits} of {enough} commits since the last clean")


def clean(call: ServiceCall, *, spares_readers: bool = True) -> Cleaned | None:
    """Execute the cleans that were planned before, then plan one more and execute it; None where nothing was to do.

    A clean that another process began to execute less than the heartbeat expiry ago is left to it; then nothing is
    planned, and the result is None. A damaged plan that is older than that goes, with a warning that names it.
    `spares_readers`: see `Retention`. Errors: see `execute_clean`.
    Cost: that of `plan_clean`, one delete per file, and the lock twice.
    """
    return clean_loaded(call.reloaded(), spares_readers=spares_readers)


def clean_loaded(call: ServiceCall, *, spares_readers: bool = True) -> Cleaned | None:
    """`clean` of a table that was loaded a moment ago: each plan is checked again with the lock."""
    storage, version = call.table.storage, call.table.version
    pending = pending_cleans(call.table.timeline)
    for instant in pending:
        # Two processes that complete one clean would be in each other's way, JVM Hudi's above all.
        if is_running(storage, version, instant, call.settings.heartbeat, call.environment):
            return None
        try:
            execute_clean(call, instant)
        except CorruptDataError as error:
            # What it was to delete, the new plan names again: cleans begin where the newest completed one ended.
            _log.warning("a planned clean is damaged, and the table is cleaned without it: %s", error)
            _give_up(call, instant)
    scheduled = _schedule(call.reloaded() if pending else call, spares_readers=spares_readers)
    if scheduled is None:
        return None
    instant, plan = scheduled
    return _execute(call, instant, plan)


def _give_up(call: ServiceCall, instant: Instant) -> None:
    """Remove a damaged plan, which no process can execute, unless its writer may still be alive."""
    storage, heartbeat = call.table.storage, call.settings.heartbeat
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        planned = storage.info(instant_path(replace(instant, state=InstantState.REQUESTED), table.version))
        if planned is None or instant not in table.timeline.instants:
            return
        if call.environment.clock.now_ms() - planned.modified_ms > heartbeat.expiry_ms:
            withdraw_clean(table, instant, heartbeat, call.environment, lock, is_damaged=True)


def pending_cleans(timeline: Timeline) -> tuple[Instant, ...]:
    """Cleans that were planned and not completed, oldest first."""
    return tuple(
        instant
        for instant in timeline.instants
        if instant.action is Action.CLEAN and instant.state is not InstantState.COMPLETED
    )


def schedule_clean(call: ServiceCall) -> InstantTime | None:
    """Put a plan of what is to be deleted on the timeline; None where nothing is, or where another clean is planned.

    The plan is made without the lock. It holds as long as the writes that it counted stand: later ones only add newer
    slices. Raises `WriteConflictError` while JVM Hudi restores the table or builds an index of it.
    """
    scheduled = _schedule(call)
    return None if scheduled is None else scheduled[0].requested_time


def _schedule(call: ServiceCall, *, spares_readers: bool = True) -> tuple[Instant, CleanPlan] | None:
    check_writable(call.table)
    planned = planned_clean(call, explains=False, spares_readers=spares_readers)
    if planned.plan is None:
        return None
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.CLEAN)
        if not _still_holds(planned, call.table.timeline, table.timeline):
            return None
        instant = Instant(
            requested_time=next_time(table.timeline, table.config, call.environment.clock),
            action=Action.CLEAN,
            state=InstantState.REQUESTED,
        )
        body = encode_clean_plan(planned.plan, table_uri=storage.uri)
        put_requested(storage, table.version, instant, body, lock)
    return instant, planned.plan


def _still_holds(planned: PlannedClean, base: Timeline, now: Timeline) -> bool:
    """Whether a plan may still be executed that was made by the timeline `base`.

    Not where a write that it counted was rolled back, for then an older slice is the newest of its group again; nor
    where a savepoint or another clean has come, which the plan does not know.
    """
    known = {(instant.requested_time, instant.action) for instant in base.instants}
    new = (instant for instant in now.instants if (instant.requested_time, instant.action) not in known)
    if any(instant.action in {Action.CLEAN, Action.SAVEPOINT, Action.ROLLBACK, Action.RESTORE} for instant in new):
        return False
    return all(time in now.completed_times or now.starts_after(time) for time in planned.counted)


def execute_clean(call: ServiceCall, instant: Instant) -> Cleaned | None:
    """Delete the files of a planned clean and complete it; None where another process has completed it.

    Raises `StorageError` if a file could not be deleted, and `CorruptDataError` naming a damaged plan: the clean stays
    planned then, and can be executed again.
    """
    check_writable(call.table)
    plan = load_clean_plan(call.table.storage, instant, call.table)
    if plan is None:
        return None
    _check_plan(call, plan, instant)
    return _execute(call, instant, plan)


def _execute(call: ServiceCall, instant: Instant, plan: CleanPlan) -> Cleaned | None:
    storage, version = call.table.storage, call.table.version
    started = call.environment.clock.monotonic()
    if instant.state is InstantState.REQUESTED:
        # In table version 6 the archiver of JVM Hudi reads the plan there, too, and fails where there is none.
        body = b"" if version.has_completion_times else encode_clean_plan(plan, table_uri=storage.uri)
        instant = advanced(instant, InstantState.INFLIGHT)
        try:
            storage.put_if_absent(instant_path(instant, version), body)
        except AlreadyExistsError:
            _log.info("another process is executing the clean %s as well", instant.requested_time)
        if storage.info(instant_path(replace(instant, state=InstantState.REQUESTED), version)) is None:
            # It was withdrawn, or is completed; see `withdraw_clean`.
            storage.delete(instant_path(instant, version))
            return None
    sources = sources_to_delete(storage, plan)
    _delete(call, plan)
    for uris in sources.values():
        for source in uris:
            open_spec(source.storage).delete(source.path)
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.CLEAN)
        if instant not in table.timeline.instants:
            return None
        ended = _end_partitions(table, plan)
        table = with_kept_partitions(table, lock.check_held)
        metadata = CleanMetadata(
            start_time=instant.requested_time,
            time_taken_ms=int((call.environment.clock.monotonic() - started) * 1000),
            policy=plan.policy,
            earliest=plan.earliest[0] if plan.earliest is not None else "",
            last_completed=plan.last_completed,
            deleted=plan.files,
            sources={path: tuple(source.uri for source in found) for path, found in sources.items()},
            deleted_partitions=ended,
            extra=plan.extra,
        )
        change, clock = change_of_clean(instant.requested_time, metadata), call.environment.clock
        inner = checked_timeline(table)
        found_in = Source(table, call.environment, call.settings.spill)
        indexed_at = apply_change(found_in, change, lock.check_held, inner=inner)
        completed = completed_now(instant, table.timeline, table.config, clock, after=indexed_at)
        put_completed(storage, version, completed, encode_clean_metadata(metadata), lock)
    hand_on_files(storage, table.timeline, completed, added={}, removed=change.removed)
    earliest = InstantTime(plan.earliest[0]) if plan.earliest is not None else None
    call.environment.observe(
        ActionCompleted(
            action=Action.CLEAN,
            instant=instant.requested_time,
            base_path=storage.uri,
            completed_ms=clock.now_ms(),
            seconds=clock.monotonic() - started,
            files_deleted=len(plan.paths),
        )
    )
    return Cleaned(instant=instant.requested_time, files=len(plan.paths), earliest=earliest, partitions=ended)


def load_clean_plan(storage: Storage, instant: Instant, table: TableState) -> CleanPlan | None:
    """The plan of a clean; None where it is gone. Cost: one read. Raises `CorruptDataError` naming a damaged one."""
    path = instant_path(replace(instant, state=InstantState.REQUESTED), table.version)
    try:
        return read_decoded(storage, path, CONTAINER_BYTES_MAX, decode_clean_plan)
    except NotFoundError:
        return None


def _check_plan(call: ServiceCall, plan: CleanPlan, instant: Instant) -> None:
    """Raise `CorruptDataError` for a plan that names what the table needs now: its newest slices, or a savepoint's.

    No plan of Hudi's writers does; a damaged one may, and one that was made before later writes were rolled back.
    """
    table = call.table
    view = load_view(table.storage, table.timeline, plan.files, lister=call.lister)
    newest = (file_slice for slices in view.latest.values() for file_slice in slices)
    needed = {
        file.path for files in newest for file in (*files.logs, *((files.base,) if files.base is not None else ()))
    }
    needed.update(*(savepoint.paths for savepoint in load_savepoints(table.storage, table.timeline).values()))
    if wrong := sorted(needed & plan.paths):
        raise CorruptDataError(
            "the plan of a clean names files that the table needs; nothing was deleted: remove the plan",
            path=instant_path(replace(instant, state=InstantState.REQUESTED), table.version),
            files=wrong[:10],
        )


def _delete(call: ServiceCall, plan: CleanPlan) -> None:
    paths = sorted(plan.paths)
    tasks = [
        DeleteTask(call.table.storage.spec, tuple(paths[at : at + FILES_PER_TASK]))
        for at in range(0, len(paths), FILES_PER_TASK)
    ]
    if not tasks:
        return
    size = len(paths) * BYTES_PER_DELETE
    results = call.engine.map(delete_files, tasks, size_bytes=size, description="delete old file slices")
    failed = {path: reason for result in results for path, reason in result.items()}
    if failed:
        path, reason = min(failed.items())
        raise StorageError(
            f"{len(failed)} file(s) of the clean could not be deleted; the clean stays planned, and the next one tries"
            f" again: {reason}",
            path=path,
        )


def _end_partitions(table: TableState, plan: CleanPlan) -> tuple[str, ...]:
    """Remove what is left of the partitions that the plan ends, under the table lock; those that are gone then.

    A write that is pending may be about to add to one of them, and would find the partition's metadata file, so then
    they stay as they are.
    """
    if not plan.partitions_to_delete or table.timeline.pending_writes or table.timeline.pending_compactions:
        return ()
    ended = []
    for partition in plan.partitions_to_delete:
        listing = table.storage.list_folder(partition)
        names = {info.name for info in listing.files}
        if listing.folders or not names <= {PARTITION_METADATA_FILE, f"{PARTITION_METADATA_FILE}.parquet"}:
            continue
        table.storage.delete_folder(partition)
        ended.append(partition)
    return tuple(ended)


def sources_to_delete(storage: Storage, plan: CleanPlan) -> Mapping[str, tuple[SourceFile, ...]]:
    """The files of the source that a plan names, by partition path.

    Of these only such as the bootstrap index has for skeleton files of the same plan, so that a plan that was tampered
    with deletes no file that the table still needs, nor one outside the source. Cost: none for a plan without any;
    else what `load_sources` costs.
    """
    if not plan.sources:
        return {}
    named = {uri for uris in plan.sources.values() for uri in uris}
    known = load_sources(storage, plan.sources)
    found: dict[str, list[SourceFile]] = defaultdict(list)
    for group in _skeletons(plan.paths):
        source = known.get(group)
        if source is not None and source.uri in named:
            found[group.partition_path].append(source)
    return {path: tuple(files) for path, files in sorted(found.items())}


def _skeletons(paths: Iterable[str]) -> list[FileGroupId]:
    """The file groups of the skeleton files among these."""
    found = []
    for path in sorted(paths):
        folder, _, file = path.rpartition("/")
        name = parse_data_file(file)
        if isinstance(name, BaseFileName) and name.instant_time == SKELETON_INSTANT:
            found.append(FileGroupId(folder, name.file_id))
    return found
