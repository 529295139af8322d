"""The commit protocol: begin, inflight, commit. All writes and compactions go through it.

`begin` and `commit` hold the table lock for their few requests; data is written between them without it. Readers see
nothing before the last put of `commit`. What follows that put is cleanup, which the next writer can do as well.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Any

from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import (
    CommitOutcomeUnknownError,
    HudiError,
    LockLostError,
    StorageError,
    WriteConflictError,
)
from pyhudi.events import ActionCompleted, ConflictsChecked, FilesFinalized
from pyhudi.format.metadata.commit import CommitMetadata, encode_commit_metadata
from pyhudi.format.schema.internal_schema import INTERNAL_SCHEMA_KEY
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, advanced, parse_instant_time
from pyhudi.metadata_table.before_write import settle_metadata_table, with_kept_partitions
from pyhudi.metadata_table.early_records import Ahead, write_ahead
from pyhudi.metadata_table.file_changes import NOTHING_LEARNED, Change, change_of_commit
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.undo import undo_delta_commit
from pyhudi.metadata_table.update import apply_change
from pyhudi.metadata_table.write_checks import checked_timeline
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.instant_times import completed_now, next_time, table_zone
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.remembered_files import hand_on_files
from pyhudi.table.schema import load_table_schema, schema_of_instant
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, load_timeline, position_of
from pyhudi.table.written_files import remember_written_files
from pyhudi.telemetry.tracing import span
from pyhudi.transaction.carried_metadata import with_carried
from pyhudi.transaction.conflicts.check import (
    check_clusterings,
    check_conflicts,
    check_groups_unchanged,
    check_intents,
    check_nothing_exclusive,
    check_still_ours,
    schema_conflict,
)
from pyhudi.transaction.conflicts.footprint import Heirs, Reads, UniqueKeys, footprint_of, same_columns
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.heartbeat import Heartbeat, Liveness, heartbeat_path, liveness_of
from pyhudi.transaction.idempotence import check_batch_is_new
from pyhudi.transaction.intents import Intent, put_intent, standing_intents, withdraw, withdraw_stale
from pyhudi.transaction.locks.table_lock import HeldLock, table_lock
from pyhudi.transaction.markers.reading import load_markers
from pyhudi.transaction.plan_fencing import begin_run, check_newest_run
from pyhudi.transaction.publish import check_not_undone, put_completed, put_requested
from pyhudi.transaction.same_table import check_same_table
from pyhudi.transaction.schema_history import keep_schema_history
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.transaction.tidying import tidy_up_after_commit
from pyhudi.transaction.waiting_rollbacks import let_jvm_hudi_roll_back

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A write under way. `base` is the table as it was when the write began; it reads from there.

    `began`: when, by the monotonic clock. `resizes`: pending clusterings that are not in its way, as it also writes to
    the file groups that they will make. `run`: the number of this run of a write that another process may go on with
    (`transaction/plan_fencing.py`); None: none may. `goes_on`: it goes on with that of a dead process.
    """

    base: TableState
    instant: Instant
    settings: TransactionSettings
    environment: Environment
    began: float
    resizes: frozenset[str] = frozenset()
    run: int | None = None
    goes_on: bool = False

    @property
    def instant_time(self) -> InstantTime:
        """The requested time: what the write's files and rows carry."""
        return self.instant.requested_time

    @property
    def storage(self) -> Storage:
        """The table's store."""
        return self.base.storage


@dataclass(frozen=True, slots=True)
class _Indexed:
    """What the metadata table gets to know of a commit: the change, and what of it has been written already."""

    change: Change
    ahead: Mapping[str, Ahead]
    engine: Engine | None


@contextmanager
def begin(
    table: TableState,
    action: Action,
    *,
    requested: bytes,
    settings: TransactionSettings,
    environment: Environment,
    at: InstantTime | None = None,
    run: int | None = None,
    began: float | None = None,
    engine: Engine | None = None,
) -> Iterator[Transaction]:
    """Take an instant time, announce the write, and keep its heartbeat while the block runs.

    `requested` is the content of the requested instant (empty but for replace commits). `at`: the time that a bootstrap
    has; None: the next one. `run`: a number of this run, for a write that goes on with what a dead process began at
    that time; `WriteConflictError` is raised if that process may be alive. `began`: when the write began, by the
    monotonic clock, if not with this call. `engine` runs the tasks that build indexes of the metadata table, if the
    settings ask for them. Raises `WriteConflictError` while
    JVM Hudi restores the table or builds an index of it, or when it is not written any more as it was when it was
    loaded (`same_table`), and what `put_requested` raises. Cost: one listing, two puts, the lock; one more
    listing under a lock that can be lost.
    """
    storage, version = table.storage, table.version
    began = environment.clock.monotonic() if began is None else began
    with (
        span("begin"),
        table_lock(storage, environment, wait_ms=settings.lock_wait_ms) as lock,
        naming(storage),
    ):
        loaded, table = table, table.reload()
        check_same_table(loaded, table)
        own = Own.OVERWRITE if action is Action.REPLACE_COMMIT else Own.WRITE
        check_nothing_exclusive(table.timeline, own)
        table = settle_metadata_table(
            Source(table, environment, settings.spill, engine),
            settings.metadata_table,
            lock.check_held,
            indexes=settings.indexes,
        )
        instant = Instant(
            requested_time=at or next_time(table.timeline, table.config, environment.clock),
            action=action,
            state=InstantState.REQUESTED,
        )
        begun = None if run is None else _begun_by_the_dead(table, instant, settings, environment)
        heartbeat = Heartbeat(storage, heartbeat_path(instant.requested_time), settings.heartbeat, environment)
        heartbeat.start()
        try:
            if run is not None:
                begin_run(storage, instant.requested_time, run)
            if begun is None:
                put_requested(storage, version, instant, requested, lock)
            else:
                lock.check_held()
        except BaseException:
            heartbeat.stop()
            raise
    try:
        yield Transaction(table, begun or instant, settings, environment, began, run=run, goes_on=begun is not None)
    finally:
        heartbeat.stop()


def _begun_by_the_dead(
    table: TableState, instant: Instant, settings: TransactionSettings, environment: Environment
) -> Instant | None:
    """The pending instant at the time of this one, whose process is dead; None where there is none.

    Raises `WriteConflictError` where it may be alive. Cost: two requests where there is one.
    """
    own = instant.requested_time
    for pending in table.timeline.pending_writes:
        if pending.requested_time == own and pending.action is instant.action:
            beat = heartbeat_path(own)
            if liveness_of(table.storage, beat, settings.heartbeat, environment) is not Liveness.DEAD:
                raise WriteConflictError(
                    "another process is at this write; wait for it. If it is dead, its heartbeat expires soon",
                    instant=own,
                )
            return pending
    return None


def mark_inflight(transaction: Transaction, profile: CommitMetadata) -> None:
    """Put the inflight instant with the workload profile. Cost: one put, and the reads of `check_clusterings`.

    Raises `WriteConflictError`, before any data is written, for file groups of a planned clustering.
    """
    base, own = transaction.base, transaction.instant_time
    if not transaction.settings.passes_clusterings:
        with naming(base.storage):
            check_clusterings(
                base.timeline, base.storage, own=own, mine=footprint_of(profile), resizes=transaction.resizes
            )
    inflight = advanced(transaction.instant, InstantState.INFLIGHT)
    body = encode_commit_metadata(profile, base.version)
    transaction.storage.put_if_absent(instant_path(inflight, base.version), body)


def commit(
    transaction: Transaction,
    metadata: CommitMetadata,
    *,
    base_schema: str | None,
    unique_keys: UniqueKeys,
    engine: Engine | None = None,
    learned: Mapping[str, Any] = NOTHING_LEARNED,
    read: Reads = frozenset(),
) -> InstantTime:
    """Make the write visible, or raise with nothing visible. Returns its position for incremental reads.

    `base_schema` is the Avro schema of the table that the write began from, `unique_keys` what the write guarantees.
    `engine` runs the tasks that keep indexes of the metadata table, and `learned` is what its tasks found out for them
    (`pyhudi.metadata_table.file_changes.Change`). `read`: the partitions from whose rows the write was computed.

    Raises `WriteConflictError` when it must give way by the table of conflicts (`conflicts/table.py`), or a write of
    the same batch was completed (`idempotence.py`); `LockLostError` when another writer rolled this write back because
    its heartbeat had expired, or the lock is gone; and `CommitOutcomeUnknownError` when the store does not say whether
    the last put succeeded.

    Cost: one listing, one put and the lock; one read for each write that was completed, and each plan that was made,
    since this one began; under a lock that can be lost one more put, one delete and two listings; two listings of
    markers where tasks may have written more than they say.
    """
    storage, base, own = transaction.storage, transaction.base, transaction.instant_time
    # Files that no stat names are of tasks that ran again, or of a process whose write this one goes on with.
    all_named = transaction.run is None and engine is not None and not engine.repeats_tasks
    with _finalizing_observed(transaction, metadata):
        if not all_named:
            delete_lost_attempts(transaction, metadata)
    mine = footprint_of(metadata, unique_keys, read)
    change = change_of_commit(own, metadata, learned)
    ahead = write_ahead(_source(transaction, base, engine), change)
    _let_earlier_writes_begin(transaction)
    with (
        span("commit", instant=transaction.instant_time),
        _metadata_table_corrected_on_loss(transaction),
        naming(storage),
        table_lock(storage, transaction.environment, wait_ms=transaction.settings.lock_wait_ms) as lock,
        _announced(transaction, Intent(own, metadata, unique_keys, read), lock) as rivals,
    ):
        now = base.reload()
        check_nothing_exclusive(now.timeline, mine.as_own, base=base.timeline)
        check_still_ours(now.timeline, base.timeline, storage, own)
        _check_run(transaction)
        check_batch_is_new(now, metadata.extra, known=base.timeline.completed_times)
        with _conflicts_observed(transaction.environment):
            check_conflicts(
                now.timeline,
                base.timeline,
                storage,
                own=own,
                mine=mine,
                base_schema=base_schema,
                passes_clusterings=transaction.settings.passes_clusterings,
                resizes=transaction.resizes,
            )
            check_intents(now.timeline, rivals, own=own, metadata=metadata, mine=mine)
        withdraw_stale(storage, rivals, _pending_times(now))
        metadata = _with_columns_of_now(transaction, metadata, now)
        metadata = _with_carried(transaction, metadata, now)
        completed = _complete(transaction, now, metadata, lock, _Indexed(change, ahead, engine), run=transaction.run)
        announced = lock.can_be_lost
    has_runs = transaction.run is not None
    tidy_up_after_commit(storage, own, metadata, has_runs=has_runs, all_named=all_named, announced=announced)
    _observe_completed(transaction, metadata)
    return position_of(completed)


@contextmanager
def _finalizing_observed(transaction: Transaction, metadata: CommitMetadata) -> Iterator[None]:
    environment = transaction.environment
    began = environment.clock.monotonic()
    yield
    files = sum(len(stats) for stats in metadata.stats_by_partition.values())
    environment.observe(FilesFinalized(files=files, seconds=environment.clock.monotonic() - began))


@contextmanager
def _conflicts_observed(environment: Environment) -> Iterator[None]:
    began = environment.clock.monotonic()

    def checked(*, is_resolved: bool) -> ConflictsChecked:
        return ConflictsChecked(is_resolved=is_resolved, seconds=environment.clock.monotonic() - began)

    try:
        yield
    except WriteConflictError:
        environment.observe(checked(is_resolved=False))
        raise
    environment.observe(checked(is_resolved=True))


def _observe_completed(transaction: Transaction, metadata: CommitMetadata) -> None:
    environment = transaction.environment
    environment.observe(
        ActionCompleted(
            action=transaction.instant.action,
            instant=transaction.instant_time,
            base_path=transaction.storage.uri,
            completed_ms=environment.clock.now_ms(),
            seconds=environment.clock.monotonic() - transaction.began,
            metadata=metadata,
        )
    )


def _let_earlier_writes_begin(transaction: Transaction) -> None:
    """Wait until a writer of JVM Hudi that took an earlier instant time than this write has loaded the timeline.

    In table version 6 the newest file of a group is that of the latest instant time. So a write with an earlier time
    must not be based on one with a later time: its files would be hidden. JVM Hudi 0.15 takes its instant time first,
    without the lock, then puts its requested instant, and then loads the timeline. A write of ours that completed in
    between would be its base; one that completes afterwards is a conflict to it.
    """
    base, environment = transaction.base, transaction.environment
    settling_ms = transaction.settings.settling_ms
    if base.version.has_completion_times or settling_ms == 0:
        return
    taken_ms = parse_instant_time(transaction.instant_time, table_zone(base.config))
    age_ms = 0 if taken_ms is None else max(0, environment.clock.now_ms() - taken_ms)
    if age_ms < settling_ms:
        environment.clock.sleep((settling_ms - age_ms) / 1000)


def commit_compaction(
    transaction: Transaction, metadata: CommitMetadata, *, run: int, engine: Engine | None = None
) -> InstantTime:
    """Complete a compaction: its base files replace the slices that were planned.

    `run`: the number of the execution that wrote them (`transaction/plan_fencing.py`).

    It gives way to no write: writes that overlap with it have to respect its plan, which came first. The columns of
    the table stay as they are now, even if they were different when it began.

    Raises `LockLostError`, with nothing visible, when another process completed the compaction, or started it again
    and deleted files of this execution; `WriteConflictError` when a write that the plan contains was rolled back; and
    `CommitOutcomeUnknownError` like `commit`. Cost: that of a commit, and one listing per partition path.
    """
    storage = transaction.storage
    change = change_of_commit(transaction.instant_time, metadata)
    ahead = write_ahead(_source(transaction, transaction.base, engine), change)
    with (
        span("commit", instant=transaction.instant_time),
        _metadata_table_corrected_on_loss(transaction),
        naming(storage),
        table_lock(storage, transaction.environment, wait_ms=transaction.settings.lock_wait_ms) as lock,
    ):
        now = _checked_run(transaction, Own.COMPACTION, run)
        metadata = _with_schema_of_now(transaction, metadata, now)
        metadata = _with_carried(transaction, metadata, now)
        completed = _complete(transaction, now, metadata, lock, _Indexed(change, ahead, engine), run=run)
    tidy_up_after_commit(storage, transaction.instant_time, metadata, has_runs=True)
    _observe_completed(transaction, metadata)
    return position_of(completed)


def commit_clustering(
    transaction: Transaction,
    metadata: CommitMetadata,
    *,
    run: int,
    heirs: Heirs = MappingProxyType({}),
    engine: Engine | None = None,
) -> InstantTime:
    """Complete a clustering: its files replace the file groups that were planned.

    `run` as for `commit_compaction`, and the same holds of the columns of the table. A write that changed a file group
    of the plan since the run began is not lost: the clustering gives way to it. That of a bucket that is resized does
    not, if the write changed the `heirs` of the bucket, too.

    Raises `WriteConflictError` for that, and otherwise what `commit_compaction` raises. Cost: that of a commit; one
    read for each write that was completed since the run began.
    """
    storage, base, own = transaction.storage, transaction.base, transaction.instant_time
    mine = footprint_of(metadata)
    change = change_of_commit(own, metadata)
    ahead = write_ahead(_source(transaction, base, engine), change)
    with (
        span("commit", instant=transaction.instant_time),
        _metadata_table_corrected_on_loss(transaction),
        naming(storage),
        table_lock(storage, transaction.environment, wait_ms=transaction.settings.lock_wait_ms) as lock,
        _announced(transaction, Intent(own, metadata, UniqueKeys.NOWHERE), lock) as rivals,
    ):
        now = _checked_run(transaction, Own.CLUSTERING, run)
        check_groups_unchanged(now.timeline, base.timeline, storage, own=own, mine=mine, heirs=heirs)
        check_intents(now.timeline, rivals, own=own, metadata=metadata, mine=mine)
        withdraw_stale(storage, rivals, _pending_times(now))
        metadata = _with_schema_of_now(transaction, metadata, now)
        metadata = _with_carried(transaction, metadata, now)
        completed = _complete(transaction, now, metadata, lock, _Indexed(change, ahead, engine), run=run)
    tidy_up_after_commit(storage, transaction.instant_time, metadata, has_runs=True)
    _observe_completed(transaction, metadata)
    return position_of(completed)


def _checked_run(transaction: Transaction, own: Own, run: int) -> TableState:
    """The table as it is now, if the execution of a plan may still be completed on it."""
    storage, base = transaction.storage, transaction.base
    now = base.reload()
    check_nothing_exclusive(now.timeline, own, base=base.timeline)
    check_still_ours(now.timeline, base.timeline, storage, transaction.instant_time)
    check_newest_run(storage, transaction.instant_time, run)
    return now


def _with_schema_of_now(transaction: Transaction, metadata: CommitMetadata, now: TableState) -> CommitMetadata:
    """The metadata of an execution with the columns of now; with column ids, with those of its instant.

    Raises `WriteConflictError` if these changed while it ran: its files would be read by the wrong names.
    """
    schema, own = load_table_schema(now), transaction.instant_time
    if schema is None:
        return metadata
    if schema.columns is not None:
        schema, before = schema_of_instant(now, own), schema_of_instant(transaction.base, own)
        if schema is None or before is None or before.columns != schema.columns:
            raise schema_conflict(own, winner=None)
    return replace(metadata, extra={**metadata.extra, **schema.extra_metadata(schema, own)})


def _with_columns_of_now(transaction: Transaction, metadata: CommitMetadata, now: TableState) -> CommitMetadata:
    """The metadata of a write that leaves the columns as they are, with ids and comments as they are now."""
    began, newest = load_table_schema(transaction.base), load_table_schema(now)
    mine = metadata.extra.get(INTERNAL_SCHEMA_KEY)
    if newest is None or newest.columns is None or not same_columns(newest.avro, metadata.schema):
        return metadata
    if began is not None and mine != began.extra_metadata(began, "").get(INTERNAL_SCHEMA_KEY):
        return metadata
    return replace(metadata, extra={**metadata.extra, **newest.extra_metadata(newest, "")})


def _with_carried(transaction: Transaction, metadata: CommitMetadata, now: TableState) -> CommitMetadata:
    settings = transaction.settings
    if not settings.carried_keys:
        return metadata
    return with_carried(metadata, now, settings.carried_keys, commits=settings.carried_from)


def _pending_times(table: TableState) -> set[str]:
    """The instants that may have an intent: pending writes and clusterings."""
    timeline = table.timeline
    return {instant.requested_time for instant in (*timeline.pending_writes, *timeline.pending_clusterings)}


@contextmanager
def _announced(transaction: Transaction, intent: Intent, lock: HeldLock) -> Iterator[tuple[Intent, ...]]:
    """Store the intent while the block runs; gives the intents of other writers (`transaction/intents.py`).

    It is removed when the block fails, unless the outcome of the last put is unknown: that put may still take effect.
    When the block succeeds, the cleanup after the commit removes it.
    """
    if not lock.can_be_lost:
        yield ()
        return
    storage, version = transaction.storage, transaction.base.version
    put_intent(storage, intent, version)
    try:
        yield standing_intents(storage, besides=intent.instant_time)
    except CommitOutcomeUnknownError:
        raise
    except BaseException:
        # If this fails too, the rollback of the write removes it.
        with suppress(StorageError):
            withdraw(storage, intent.instant_time)
        raise


def _complete(
    transaction: Transaction,
    now: TableState,
    metadata: CommitMetadata,
    lock: HeldLock,
    indexed: _Indexed,
    *,
    run: int | None = None,
) -> Instant:
    """Put the completed instant, which makes everything visible, after all checks have passed.

    `run`: the number of the execution, of a write that another process may go on with.
    """
    storage, environment = transaction.storage, transaction.environment
    now = with_kept_partitions(now, lock.check_held)
    timeline = now.timeline
    if lock.can_be_lost:
        timeline = load_timeline(storage, now.version)
        check_still_ours(timeline, transaction.base.timeline, storage, transaction.instant_time)
    change, ahead = indexed.change, indexed.ahead
    source, inner = _source(transaction, now, indexed.engine), checked_timeline(now)
    indexed_at = apply_change(source, change, lock.check_held, ahead=ahead, inner=inner)
    (pending,) = (i for i in timeline.instants if i.requested_time == transaction.instant_time)
    completed = completed_now(pending, timeline, now.config, environment.clock, after=indexed_at)
    keep_schema_history(now, completed, metadata)
    let_jvm_hudi_roll_back(storage, timeline, completed)
    put_completed(storage, now.version, completed, encode_commit_metadata(metadata, now.version), lock)
    if lock.can_be_lost:
        check_not_undone(storage, now.version, completed, lock, run=run)
    remember_written_files(storage, now.version, completed, metadata)
    hand_on_files(storage, timeline, completed, added=_files_of(change), removed={})
    return completed


def _source(transaction: Transaction, table: TableState, engine: Engine | None) -> Source:
    return Source(table, transaction.environment, transaction.settings.spill, engine)


def _files_of(change: Change) -> dict[str, list[FileInfo]]:
    """The files that a change added, by partition path."""
    return {
        path: [FileInfo(f"{path}/{file.name}" if path else file.name, file.size, 0) for file in files]
        for path, files in change.added.items()
    }


@contextmanager
def _metadata_table_corrected_on_loss(transaction: Transaction) -> Iterator[None]:
    """If the lock was lost in the block, give the metadata table what the timeline says of our instant.

    Another process may have rolled it back before we wrote its delta commit, or have completed another run of it.
    """
    try:
        yield
    except LockLostError:
        with suppress(HudiError):
            _correct_metadata_table(transaction)
        raise


def _correct_metadata_table(transaction: Transaction) -> None:
    """See `_metadata_table_corrected_on_loss`. Of an instant that is pending, its rollback undoes the delta commit."""
    storage, environment, own = transaction.storage, transaction.environment, transaction.instant_time
    if not has_metadata_table(transaction.base):
        return
    with table_lock(storage, environment, wait_ms=transaction.settings.lock_wait_ms) as lock:
        now = transaction.base.reload()
        found = next((instant for instant in now.timeline.instants if instant.requested_time == own), None)
        if found is None:
            undo_delta_commit(now, own, own)
        elif found.state is InstantState.COMPLETED:
            metadata = load_commit_metadata(storage, found, now.version)
            apply_change(_source(transaction, now, None), change_of_commit(own, metadata), lock.check_held)


def delete_lost_attempts(transaction: Transaction, metadata: CommitMetadata) -> None:
    """Delete files of task attempts whose result was not used: retried or speculative tasks of Spark."""
    storage = transaction.storage
    lost = load_markers(storage, transaction.instant_time) - metadata.paths()
    _check_run(transaction)  # after the listing: so none of them is of a process that goes on with this write
    for data_path in sorted(lost):
        storage.delete(data_path)


def _check_run(transaction: Transaction) -> None:
    """Raise `LockLostError` where another process goes on with this write. Cost: one read, if others may."""
    if transaction.run is not None:
        check_newest_run(transaction.storage, transaction.instant_time, transaction.run)


@functools.cache
def own_version() -> str:
    """The version of pyhudi. Cached, because looking it up takes longer than the rest of a small commit."""
    return version("pyhudi")
