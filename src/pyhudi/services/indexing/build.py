"""Building an index: one of records while writers go on, one of files under the table lock.

The first files of the index have the records of the table as it was when the run began. Then the run follows the
actions that were completed meanwhile, first without the lock, the last ones under it. Nothing of this counts before the
properties of the table name the index, which is the last step but for the `indexing` instant, the note of it on the
timeline. From then on each commit maintains the index. Statistics of files are small, and their definition is a file
that all indexes share: they are built in one go, under the lock.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from pyhudi.config.enums import TableType
from pyhudi.errors import (
    CorruptDataError,
    HistoryNotRetainedError,
    InvalidRequestError,
    LockLostError,
    NotFoundError,
    WriteConflictError,
)
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.clean import decode_clean_metadata
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata.indexing import encode_index_metadata, encode_index_plan
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced
from pyhudi.markup import Shown
from pyhudi.metadata_table.before_write import settle_metadata_table
from pyhudi.metadata_table.complete_indexes import noted_complete
from pyhudi.metadata_table.file_changes import Change, change_of_clean, change_of_commit
from pyhudi.metadata_table.file_group import FIRST_TASK, GroupTarget, by_file_group, write_log
from pyhudi.metadata_table.folders import inner_version, partition_folder
from pyhudi.metadata_table.index_plans import IndexPlan, delete_plan, load_plan, put_plan
from pyhudi.metadata_table.initialize import (
    InitialFiles,
    commit_initial,
    define_as_built,
    next_initial_time,
    write_initial_files,
)
from pyhudi.metadata_table.partitions.protocol import (
    LargePartition,
    MetadataPartition,
    PlacedPartition,
    Source,
)
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.definitions import fence_of, is_being_built
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.index_definitions import load_index_definitions, put_index_definitions
from pyhudi.table.instant_times import completed_now, next_time
from pyhudi.table.metadata_partitions import FILES, SECONDARY_INDEX_PREFIX
from pyhudi.table.metadata_table import PARTITIONS_KEY
from pyhudi.table.state import TableState, update_properties
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, instant_path, load_rollback_plan, load_timeline, position_of
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.heartbeat import Heartbeat, heartbeat_path
from pyhudi.transaction.locks.table_lock import HeldLock, table_lock
from pyhudi.transaction.plan_fencing import begin_run, check_newest_run, forget_runs

_log = logging.getLogger("pyhudi")

TRIES: Final = 3
"""How often an index is built beside writers; the last time it is built under the table lock."""
STEPS_UNDER_LOCK: Final = 2
"""How many actions may be left to follow when the lock is taken."""
_DRIVER: Final = "0-0-1"
"""The write token of logs that are not written by tasks."""


class CannotCatchUpError(Exception):
    """Something happened that no index follows: it is built again from the table as it is now."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action that was completed meanwhile, and the table as it was when the action was about to complete."""

    change: Change
    table: TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIndex(Shown):
    """An index that was built: its name, file groups, bytes, and the `indexing` instant; None where it was there."""

    name: str
    instant: InstantTime | None
    file_groups: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a build. `number`: what tells it from other runs."""

    call: ServiceCall
    partition: MetadataPartition
    plan: IndexPlan
    number: int
    definition: IndexDefinition | None


def build_index(
    call: ServiceCall, partition: MetadataPartition, definition: IndexDefinition | None = None
) -> BuiltIndex:
    """Build a partition of the metadata table, or go on with a build that died.

    `definition`: of an index of which a table may have several; it is put right before the index counts. A table
    without a metadata table gets one. Cost: the records of the partition once, those of the writes that are completed
    meanwhile, some fifteen puts, and the table lock twice or more.

    Raises `WriteConflictError` while another process builds the index, or a restore is under way; `InvalidRequestError`
    where the index is there; `LockLostError` where another process, or a write whose options ask for the index, took
    the build over.
    """
    first = 1 if isinstance(partition, LargePartition) else TRIES
    with _run_of(call, partition, definition) as run:
        for number in range(first, TRIES + 1):
            try:
                return _build(run, holds_lock=number == TRIES)
            except (CannotCatchUpError, NotFoundError, HistoryNotRetainedError) as error:
                if number == TRIES:
                    raise
                _log.info("the index %s is built again: %s", partition.name, error)
    raise AssertionError


@contextmanager
def _run_of(call: ServiceCall, partition: MetadataPartition, definition: IndexDefinition | None) -> Iterator[_Run]:
    """Begin a run, which has a heartbeat until it ends. What a run that died has left is overwritten."""
    storage, environment, fence = call.table.storage, call.environment, fence_of(partition.name)
    heartbeat = Heartbeat(storage, heartbeat_path(fence), call.settings.heartbeat, environment)
    number = uuid.UUID(environment.ids.uuid()).int % 2**31
    with table_lock(storage, environment, wait_ms=call.settings.lock_wait_ms) as lock, naming(storage):
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.INDEX_CHANGE)
        if partition.name in table.config.metadata_partitions:
            delete_plan(storage, partition.name)  # of a run that died when nothing else was left to do
            raise InvalidRequestError("the table has this index: refresh builds it again", index=partition.name)
        if is_being_built(storage, partition.name, call.settings.heartbeat, environment):
            raise WriteConflictError("another process is building this index", index=partition.name)
        begun = next_time(table.timeline, table.config, environment.clock)
        plan = load_plan(storage, partition.name) or IndexPlan(partition=partition.name, begun=begun)
        settle_metadata_table(call.source_of(table), True, lock.check_held)
        lock.check_held()
        heartbeat.start()
        try:
            begin_run(storage, fence, number)
            put_plan(storage, plan)
        except BaseException:
            heartbeat.stop()
            raise
    try:
        yield _Run(call, partition, plan, number, definition)
    finally:
        heartbeat.stop()
        storage.delete(heartbeat_path(fence))


def _check_buildable(table: TableState) -> None:
    check_nothing_exclusive(table.timeline, Own.INDEX_CHANGE)
    if FILES not in table.config.metadata_partitions:
        raise WriteConflictError("another process dropped the metadata table while an index of it was built")


def _build(run: _Run, *, holds_lock: bool) -> BuiltIndex:
    """One try. Raises `CannotCatchUpError` or `NotFoundError` where the table has changed too much meanwhile."""
    call = run.call
    settings = call.settings
    if holds_lock:
        with table_lock(call.table.storage, call.environment, wait_ms=settings.lock_wait_ms) as lock:
            table, number = _begin_try(run, lock)
            return _finish(run, lock, table.timeline, _write(run, table, number))
    with table_lock(call.table.storage, call.environment, wait_ms=settings.lock_wait_ms) as lock:
        table, number = _begin_try(run, lock)
    try:
        built, seen = _follow(run, table.timeline, _write(run, table, number))
    except (InvalidRequestError, CorruptDataError):
        # What looks like damage may be a write that was rolled back while its files were read.
        for _ in steps_between(table.timeline, table.reload()):
            pass
        raise
    with table_lock(call.table.storage, call.environment, wait_ms=settings.lock_wait_ms) as lock:
        return _finish(run, lock, seen, built)


@dataclass(frozen=True, slots=True)
class _Built:
    """Files that were written so far. `upto`: the newest write in the first of them.

    `logs`: how many steps followed.
    """

    files: InitialFiles
    upto: str
    logs: int = 0


def _begin_try(run: _Run, lock: HeldLock) -> tuple[TableState, int]:
    """The table to build from, and the instant of the metadata table as a number that no run has used."""
    storage = run.call.table.storage
    table = run.call.table.reload()
    _check_buildable(table)
    check_newest_run(storage, fence_of(run.partition.name), run.number)
    inner = load_timeline(storage, inner_version(table.version))
    plan = _plan_of(run)
    number = max(int(next_initial_time(inner)), plan.number + 1)
    lock.check_held()
    put_plan(storage, replace(plan, number=number))
    # With the lock still held: a run that was taken for dead must not delete the files of the one that came after it.
    storage.delete_folder(partition_folder(run.partition.name))
    return table, number


def _plan_of(run: _Run) -> IndexPlan:
    """The plan, unless a write has built the index meanwhile because its options ask for it, and removed the plan.

    Under the table lock, so no other run is at work where there is no plan.
    """
    plan = load_plan(run.call.table.storage, run.partition.name)
    if plan is None:
        forget_runs(run.call.table.storage, fence_of(run.partition.name))
        raise LockLostError("a write has built this index meanwhile; there is nothing left to do")
    return plan


def _write(run: _Run, table: TableState, number: int) -> _Built:
    files = write_initial_files(run.partition, run.call.source_of(table), f"{number:017d}")
    return _Built(files, max(table.timeline.completed_times, default=""))


def _follow(run: _Run, seen: Timeline, built: _Built) -> tuple[_Built, Timeline]:
    """Follow what is completed, until little is left; the timeline up to which this was done."""
    while True:
        now = run.call.table.reload()
        steps = list(steps_between(seen, now))
        if len(steps) <= STEPS_UNDER_LOCK:
            return built, seen
        for step in steps:
            built = _followed(run, step, built)
        seen = now.timeline


def _followed(run: _Run, step: Step, built: _Built) -> _Built:
    """Write the logs of one step: the first log of a file group has number 1, and those of steps count up from 2."""
    partition, call = run.partition, run.call
    source = call.source_of(step.table)
    target = built.files.target
    if isinstance(partition, PlacedPartition):
        target = partition.with_groups(step.change, source, target, first_instant=target.instant_time)
    files = replace(built.files, target=target)
    number = built.logs + 2
    target = replace(target, names_slice=dict.fromkeys(target.file_ids, (target.instant_time, number)))
    stats: tuple[WriteStat, ...]
    if isinstance(partition, LargePartition) and target.version.has_completion_times:
        stats = partition.write_ahead(step.change, source, target)
    else:
        stats = _write_logs(partition, step.change, source, target)
    files = replace(files, stats=(*files.stats, *stats))
    return replace(built, files=files, logs=built.logs + 1)


def _write_logs(
    partition: MetadataPartition, change: Change, source: Source, target: GroupTarget
) -> tuple[WriteStat, ...]:
    batches = [batch for batch in partition.records_of(change, source) if batch.num_rows]
    if not batches:
        return ()
    records = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    parts = by_file_group(partition.hashed(records.column(KEY)), records, len(target.file_ids))
    return tuple(write_log(source.storage, target, group, part, _DRIVER) for group, part in parts)


def _finish(run: _Run, lock: HeldLock, seen: Timeline, built: _Built) -> BuiltIndex:
    """Follow what is left, and let the index count. Under the table lock."""
    storage, name = run.call.table.storage, run.partition.name
    now = run.call.table.reload()
    _check_buildable(now)
    if now.version != built.files.target.version:
        raise WriteConflictError("the version of the table was changed while the index was built", index=name)
    for step in steps_between(seen, now):
        built = _followed(run, step, built)
    check_newest_run(storage, fence_of(name), run.number)
    _plan_of(run)
    lock.check_held()
    _keep_named_files(storage, built)
    commit_initial(now, built.files.target.instant_time, built.files.stats, run.call.environment)
    lock.check_held()
    define_as_built(now, run.partition)
    if run.definition is not None:
        put_index_definitions(now, {**load_index_definitions(now), name: _noted(run.definition, now)}.values())
        lock.check_held()
    names = {*now.config.metadata_partitions, name}
    update_properties(storage, {PARTITIONS_KEY: ",".join(sorted(names))})
    instant = _note(run, now, built.upto)
    delete_plan(storage, name)
    forget_runs(storage, fence_of(name))
    size = sum(stat.file_size_in_bytes or 0 for stat in built.files.stats)
    return BuiltIndex(name=name, instant=instant, file_groups=len(built.files.target.file_ids), bytes=size)


def _noted(definition: IndexDefinition, table: TableState) -> IndexDefinition:
    is_secondary = definition.name.startswith(SECONDARY_INDEX_PREFIX)
    return noted_complete(definition, table) if is_secondary else definition


def _keep_named_files(storage: Storage, built: _Built) -> None:
    """Delete what lost task attempts left of this try, which readers would count, and what a run that died wrote late.

    Raises `CannotCatchUpError` where files are missing: who drops the metadata table deletes them. Cost: one listing.
    """
    target, folder = built.files.target, partition_folder(built.files.target.partition)
    wanted = {stat.path.rpartition("/")[2] for stat in built.files.stats}
    names = storage.list_names(folder)
    if not wanted.issubset(names):
        raise CannotCatchUpError("files of the index were deleted")
    for name in names:
        parsed = parse_data_file(name)
        is_own = parsed is not None and parsed.instant_time == target.instant_time
        is_first = (
            is_own and isinstance(parsed, LogFileName) and parsed.write_token == FIRST_TASK and parsed.version == 1
        )
        if parsed is not None and not is_first and name not in wanted:
            storage.delete(f"{folder}/{name}")


def _note(run: _Run, table: TableState, upto: str) -> InstantTime:
    """Put the `indexing` instant, completed first: a pending one would keep all other writers waiting."""
    storage, clock = table.storage, run.call.environment.clock
    requested = Instant(next_time(table.timeline, table.config, clock), Action.INDEXING, InstantState.REQUESTED)
    inflight = advanced(requested, InstantState.INFLIGHT)
    taken = Timeline(table.version, (*table.timeline.instants, requested))
    completed = completed_now(inflight, taken, table.config, clock)
    storage.put_if_absent(instant_path(completed, table.version), encode_index_metadata(run.partition.name, upto))
    storage.put_if_absent(instant_path(inflight, table.version), b"")
    storage.put_if_absent(instant_path(requested, table.version), encode_index_plan(run.partition.name, upto))
    return requested.requested_time


def steps_between(before: Timeline, now: TableState) -> Iterator[Step]:
    """The actions that were completed since `before`, in the order in which they were completed.

    Raises `CannotCatchUpError` after a restore, the rollback of a completed write, or when writes that `before` does
    not have were archived. Cost: a read per action.
    """
    _check_whole(before, now)
    known = {_identity(instant) for instant in before.instants if instant.state is InstantState.COMPLETED}
    late = [
        instant
        for instant in now.timeline.instants
        if instant.state is InstantState.COMPLETED and _identity(instant) not in known
    ]
    late.sort(key=lambda write: (position_of(write), write.requested_time))
    for number, instant in enumerate(late):
        if instant.action in WRITE_ACTIONS:
            metadata = load_commit_metadata(now.storage, instant, now.version)
            change = change_of_commit(instant.requested_time, metadata)
        elif instant.action is Action.CLEAN:
            path = instant_path(instant, now.version)
            cleaned = read_decoded(now.storage, path, CONTAINER_BYTES_MAX, decode_clean_metadata)
            change = change_of_clean(instant.requested_time, cleaned)
        else:
            continue
        yield Step(change, now.with_timeline(_without(before, now, late[number:])))


def _check_whole(before: Timeline, now: TableState) -> None:
    restored = {instant.requested_time for instant in before.instants if instant.action is Action.RESTORE}
    if any(
        instant.action is Action.RESTORE and instant.requested_time not in restored for instant in now.timeline.instants
    ):
        raise CannotCatchUpError("the table was restored")
    if before.latest_time and now.timeline.starts_after(before.latest_time):
        raise CannotCatchUpError("writes that are not in the index were archived")
    ended = {_identity(instant) for instant in before.instants if instant.state is InstantState.COMPLETED}
    for rollback in now.timeline.instants:
        if rollback.action is Action.ROLLBACK and _identity(rollback) not in ended:
            undone = load_rollback_plan(now.storage, rollback, now.version).instant_time
            if undone in before.completed_times:
                raise CannotCatchUpError("a completed write was rolled back")
    gone = before.completed_times - now.timeline.completed_times
    if any(not now.timeline.starts_after(time) for time in gone):
        raise CannotCatchUpError("a completed write is no longer there")


def _without(before: Timeline, now: TableState, late: list[Instant]) -> Timeline:
    """The timeline of now, with the late actions still pending."""
    pending = {_identity(instant): _pending(before, now, instant) for instant in late}
    instants = tuple(pending.get(_identity(instant), instant) for instant in now.timeline.instants)
    return Timeline(now.version, instants, now.timeline.foreign)


def _pending(before: Timeline, now: TableState, completed: Instant) -> Instant:
    """An action before it was completed, which may have changed the word for it."""
    for instant in before.instants:
        if instant.requested_time == completed.requested_time and instant.state is not InstantState.COMPLETED:
            return instant
    is_compaction = completed.action is Action.COMMIT and now.config.table_type is TableType.MERGE_ON_READ
    action = Action.COMPACTION if is_compaction else completed.action
    return replace(completed, action=action, state=InstantState.INFLIGHT, completion_time=None)


def _identity(instant: Instant) -> tuple[str, Action]:
    return instant.requested_time, instant.action
