"""The one way onto the timeline: begin, inflight, commit.

`begin` and `commit` hold the table lock for their few requests; data is written between them without it. Everything
before the last put of `commit` is invisible to readers, everything after it is tidying that the next writer can do.

Source: `format/timeline.md` sections 1 and 8; mission rows S5-27 to S5-35 (flow F7); DESIGN D3, D10, D11.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyhudi.errors import (
    AlreadyExistsError,
    CommitOutcomeUnknownError,
    LockLostError,
    StorageError,
    UnavailableError,
    WriteConflictError,
)
from pyhudi.format.commit_metadata import CommitMetadata, encode_commit_metadata
from pyhudi.format.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.markers import marker_folder, parse_marker_path
from pyhudi.storage.protocol import Storage
from pyhudi.table.batches import check_batch_is_new
from pyhudi.table.conflicts import Footprint, UniqueKeys, footprint_of, ground_of_plan, shared_ground
from pyhudi.table.environment import Environment
from pyhudi.table.heartbeat import Heartbeat, HeartbeatSettings, heartbeat_path
from pyhudi.table.instant_times import completed_now, next_time
from pyhudi.table.locks import HeldLock, table_lock
from pyhudi.table.metadata_table import drop_metadata_table
from pyhudi.table.state import TableState
from pyhudi.table.timeline import (
    Timeline,
    instant_path,
    load_commit_metadata,
    load_compaction_plan,
    load_rollback_plan,
    position_of,
)

_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """How long to wait for the table lock, in milliseconds, and how the heartbeat is kept."""

    lock_wait_ms: int = 60_000
    heartbeat: HeartbeatSettings = field(default_factory=HeartbeatSettings)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A write under way. `base` is the table as it was when the write began; it reads from there."""

    base: TableState
    instant: Instant
    settings: TransactionSettings
    environment: Environment

    @property
    def instant_time(self) -> InstantTime:
        """The requested time: what the write's files and rows carry."""
        return self.instant.requested_time

    @property
    def storage(self) -> Storage:
        """The table's store."""
        return self.base.storage


@contextmanager
def begin(
    table: TableState,
    action: Action,
    *,
    requested: bytes,
    settings: TransactionSettings,
    environment: Environment,
) -> Iterator[Transaction]:
    """Take an instant time, announce the write, and keep its heartbeat while the block runs.

    `requested` is the content of the requested instant (empty but for replace commits). Cost: one listing, two puts,
    the lock.
    """
    storage, version = table.storage, table.version
    with table_lock(storage, environment, wait_ms=settings.lock_wait_ms) as lock:
        table = table.reload()
        instant = Instant(
            requested_time=next_time(table.timeline, table.config, environment.clock),
            action=action,
            state=InstantState.REQUESTED,
        )
        heartbeat = Heartbeat(storage, heartbeat_path(instant.requested_time), settings.heartbeat)
        lock.check_held()
        heartbeat.start()
        try:
            storage.put_if_absent(instant_path(instant, version), requested)
        except BaseException:
            heartbeat.stop()
            raise
    try:
        yield Transaction(table, instant, settings, environment)
    finally:
        heartbeat.stop()


def mark_inflight(transaction: Transaction, profile: CommitMetadata) -> None:
    """Say what the write is about to change. Cost: one put."""
    version = transaction.base.version
    inflight = replace(transaction.instant, state=InstantState.INFLIGHT)
    body = encode_commit_metadata(profile, version)
    transaction.storage.put_if_absent(instant_path(inflight, version), body)


def commit(
    transaction: Transaction, metadata: CommitMetadata, *, base_schema: str | None, unique_keys: UniqueKeys
) -> InstantTime:
    """Make the write visible, or raise with nothing visible. Returns its position for incremental reads.

    `base_schema` is the Avro schema of the table that the write began from, `unique_keys` what the write promises.

    Raises `WriteConflictError` when a write that completed meanwhile changed the same file groups or was of the same
    batch (`table/batches.py`), `LockLostError` when this write was rolled back by another writer who took it for dead,
    and `CommitOutcomeUnknownError` when the store does not say whether the last put succeeded.
    """
    storage, environment = transaction.storage, transaction.environment
    _delete_lost_attempts(storage, transaction.instant_time, metadata)
    with table_lock(storage, environment, wait_ms=transaction.settings.lock_wait_ms) as lock:
        now = transaction.base.reload()
        _check_still_pending(transaction, now.timeline)
        check_batch_is_new(now, metadata.extra, known=transaction.base.timeline.completed_times)
        mine = footprint_of(metadata, unique_keys)
        _check_conflicts(transaction, now.timeline, mine, base_schema)
        _check_plans(transaction, now.timeline, mine)
        drop_metadata_table(now)
        completed = completed_now(transaction.instant, now.timeline, now.config, environment.clock)
        _put_completed(transaction, completed, encode_commit_metadata(metadata, now.version), lock)
    _tidy_up_after_commit(transaction)
    return position_of(completed)


def commit_compaction(transaction: Transaction, metadata: CommitMetadata) -> InstantTime:
    """Make the base files of a compaction take the place of the slices that it was planned for.

    It conflicts with nothing: writes that overlap with it have to respect its plan, which came before it.

    Raises `LockLostError`, with nothing visible, when another process has finished the compaction, or began it anew
    and removed files of this run; and `CommitOutcomeUnknownError` like `commit`. Cost: one listing per partition path
    beside what a commit costs.
    """
    storage, environment = transaction.storage, transaction.environment
    with table_lock(storage, environment, wait_ms=transaction.settings.lock_wait_ms) as lock:
        now = transaction.base.reload()
        pending = {instant.requested_time for instant in now.timeline.pending_compactions}
        found = {info.path for path in metadata.stats_by_partition for info in storage.list_folder(path).files}
        if transaction.instant_time not in pending or not metadata.paths() <= found:
            raise LockLostError(
                "this compaction was taken over by another process, who took it for dead; there is nothing to do",
                instant=transaction.instant_time,
            )
        drop_metadata_table(now)
        completed = completed_now(transaction.instant, now.timeline, now.config, environment.clock)
        _put_completed(transaction, completed, encode_commit_metadata(metadata, now.version), lock)
    _delete_lost_attempts(storage, transaction.instant_time, metadata)
    _tidy_up_after_commit(transaction)
    return position_of(completed)


def _tidy_up_after_commit(transaction: Transaction) -> None:
    try:
        tidy_up(transaction.storage, transaction.instant_time)
    except StorageError as error:
        # The commit stands; raising would make the caller run it again.
        _log.warning("markers and heartbeat of a commit stay for a later write to remove: %s", error)


def tidy_up(storage: Storage, instant_time: str) -> None:
    """Remove what a finished write leaves beside its data: markers and heartbeat."""
    storage.delete_folder(marker_folder(instant_time))
    storage.delete(heartbeat_path(instant_time))


def _check_still_pending(transaction: Transaction, timeline: Timeline) -> None:
    storage, version = transaction.storage, timeline.version
    pending = any(instant.requested_time == transaction.instant_time for instant in timeline.pending_writes)
    begun = (load_rollback_plan(storage, rollback, version) for rollback in timeline.pending_rollbacks)
    # A rollback that was interrupted has removed files already, though the instant is still there.
    if pending and all(plan.instant_time != transaction.instant_time for plan in begun):
        return
    raise LockLostError(
        "this write was rolled back by another writer, who took it for dead; run it again",
        instant=transaction.instant_time,
    )


def _check_conflicts(transaction: Transaction, timeline: Timeline, mine: Footprint, base_schema: str | None) -> None:
    base = transaction.base.timeline
    # A compaction whose plan was there when the write began was respected by it.
    known = base.completed_times | {instant.requested_time for instant in base.pending_compactions}
    for instant in timeline.completed_writes:
        if instant.requested_time in known:
            continue
        their_metadata = load_commit_metadata(transaction.storage, instant, timeline.version)
        if their_metadata.extra.get("schema") not in (None, "", base_schema, mine.schema):
            raise WriteConflictError(
                "another writer changed the table's schema; nothing of this write is visible, run it again",
                instant=transaction.instant_time,
                winner=instant.requested_time,
            )
        if shared := shared_ground(mine, footprint_of(their_metadata), timeline.version):
            raise WriteConflictError(
                "another writer changed the same file groups first; nothing of this write is visible, run it again",
                instant=transaction.instant_time,
                winner=instant.requested_time,
                shared=sorted(str(item) for item in shared)[:10],
            )


def _check_plans(transaction: Transaction, timeline: Timeline, mine: Footprint) -> None:
    """A compaction that was planned while the write ran will not see what the write did to its groups."""
    known = {instant.requested_time for instant in transaction.base.timeline.pending_compactions}
    for instant in timeline.pending_compactions:
        if instant.requested_time in known:
            continue
        plan = load_compaction_plan(transaction.storage, instant, timeline.version)
        if shared := ground_of_plan(plan, timeline.version, mine):
            raise WriteConflictError(
                "a compaction was planned meanwhile for file groups that this write changed; nothing of the write is "
                "visible, run it again",
                instant=transaction.instant_time,
                winner=instant.requested_time,
                shared=sorted(str(item) for item in shared)[:10],
            )


def _put_completed(transaction: Transaction, completed: Instant, body: bytes, lock: HeldLock) -> None:
    path = instant_path(completed, transaction.base.version)
    lock.check_held()
    try:
        transaction.storage.put_if_absent(path, body)
    except UnavailableError as error:
        raise CommitOutcomeUnknownError(
            "the store did not say whether the commit was written; look at the table's history before writing again",
            path=path,
            instant=completed.requested_time,
        ) from error
    except AlreadyExistsError:
        raise
    except StorageError as error:
        if transaction.storage.info(path) is None:
            raise
        raise CommitOutcomeUnknownError(
            "the commit can be seen, but the store did not say that it will last; look at the table's history before "
            "writing again",
            path=path,
            instant=completed.requested_time,
        ) from error


def _delete_lost_attempts(storage: Storage, instant_time: str, metadata: CommitMetadata) -> None:
    """Remove files of task attempts whose result did not count: retried or speculative tasks of Spark."""
    listed = metadata.paths()
    folder = marker_folder(instant_time)
    for marker in storage.list_recursive(folder):
        data_path = parse_marker_path(marker.path, instant_time)
        if data_path is not None and data_path not in listed:
            storage.delete(data_path)
