"""Begin, roll back and commit: shared by all write operations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyhudi.config.enums import ConcurrencyMode, DuplicatePolicy, IndexType
from pyhudi.config.option import OptionWarning
from pyhudi.config.write_config import WriteConfig
from pyhudi.format.bloom import BloomFilterType, rate_for_keys
from pyhudi.format.metadata.commit import WRITER_KEY, CommitMetadata, WriteStat, stats_by_partition
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.index.key_value.hbase_publishing import published
from pyhudi.metadata_table.file_changes import NOTHING_LEARNED
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.services.rollback.rollback import undone_on_failure
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.timeline import instant_path
from pyhudi.table.watermarks import WATERMARK_KEY, advanced, largest_times, load_source_times, times_to_text
from pyhudi.transaction.conflicts.check import schema_conflict
from pyhudi.transaction.conflicts.footprint import Reads, UniqueKeys, same_columns
from pyhudi.transaction.idempotence import check_batch_is_new
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.tidying import tidy_up
from pyhudi.transaction.transaction import Transaction, begin, commit, delete_lost_attempts, own_version
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult, result_of
from pyhudi.write.validators import validate


@contextmanager
def write_transaction(job: WriteJob, action: Action, requested: bytes) -> Iterator[Transaction]:
    """A transaction for the job; if the block fails, its files are rolled back before the error is raised.

    If the outcome of the commit is unknown, nothing is rolled back: the commit may be visible.
    """
    settings = job.transaction_settings
    with (
        begin(
            job.table,
            action,
            requested=requested,
            settings=settings,
            environment=job.environment,
            began=job.started,
            engine=job.engine,
        ) as transaction,
        undone_on_failure(transaction),
    ):
        _check_schema_unchanged(job, transaction)
        check_batch_is_new(transaction.base, job.extra_metadata, known=job.table.timeline.completed_times)
        yield transaction


def makes_empty_commit(job: WriteJob, *, is_computed: bool) -> bool:
    """Whether a write without rows makes a commit. `is_computed`: it searched the table for the rows to change."""
    allowed = job.config.what.allows_empty_commit
    if allowed is not None or not is_computed:
        return allowed is not False
    return bool(job.extra_metadata) or job.event_time is not None


def take_back(transaction: Transaction, operation: WriteOperation) -> None:
    """Remove the instant of a write whose tasks have written no rows, as if it had never begun.

    There is nothing to roll back then. If the process dies before the end, others roll the write back like any other.
    Raises `LockNotAcquiredError` and `LockLostError`. Cost: the lock, and six requests.
    """
    storage, instant, version = transaction.storage, transaction.instant, transaction.base.version
    delete_lost_attempts(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
    # Under the lock, so that no other write gets its time before all of it is gone.
    with table_lock(storage, transaction.environment, wait_ms=transaction.settings.lock_wait_ms) as lock:
        lock.check_held()
        for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
            storage.delete(instant_path(replace(instant, state=state), version))
        tidy_up(storage, instant.requested_time)


def without_commit(job: WriteJob, operation: WriteOperation) -> WriteResult:
    """The result of a write that had no rows and made no commit."""
    seconds = job.environment.clock.monotonic() - job.started
    return result_of(CommitMetadata(operation=operation, stats_by_partition={}), None, None, seconds)


def committed(
    job: WriteJob,
    transaction: Transaction,
    operation: WriteOperation,
    stats: Sequence[WriteStat],
    replaced: Mapping[str, tuple[str, ...]] | None,
    learned: Mapping[str, Any] = NOTHING_LEARNED,
    read: Reads = frozenset(),
) -> WriteResult:
    """Commit the files that were written, and return the result of the write. `learned`: see `Change.learned`.

    `read`: see `commit`. Raises what `commit` raises, and `ValidationError` where a validator refuses.
    """
    metadata = CommitMetadata(
        operation=operation,
        stats_by_partition=stats_by_partition(stats),
        extra={
            **_watermark(job, transaction, stats),
            **job.extra_metadata,
            **job.schema.extra_metadata(job.previous_schema, transaction.instant_time),
            WRITER_KEY: own_version(),
        },
        replaced_file_ids=replaced,
    )
    validate(job, transaction, metadata)
    base_schema = job.previous_schema.avro if job.previous_schema else None
    source = Source(transaction.base, job.environment, job.merging.spill, job.engine)
    with published(job.config.index, source, transaction.instant_time, metadata):
        completion_time = commit(
            transaction,
            metadata,
            base_schema=base_schema,
            unique_keys=_unique_keys(job.config, operation),
            engine=job.engine,
            learned=learned,
            read=read,
        )
    _warn_of_full_filters(job.config, stats)
    seconds = job.environment.clock.monotonic() - job.started
    return result_of(metadata, transaction.instant_time, completion_time, seconds)


def _watermark(job: WriteJob, transaction: Transaction, stats: Sequence[WriteStat]) -> dict[str, str]:
    """How far the sources have come with this write, if commits are to keep it."""
    if job.event_time is None or WATERMARK_KEY in job.extra_metadata:
        return {}
    _, previous = load_source_times(transaction.base)
    written = largest_times(stats, job.config.input.event_time_source)
    return {WATERMARK_KEY: times_to_text(advanced(previous, written, job.environment.clock.now_ms()))}


def _warn_of_full_filters(config: WriteConfig, stats: Sequence[WriteStat]) -> None:
    """Warn if the index uses bloom filters, and some have more keys than they are sized for."""
    bloom = config.bloom
    if not (config.index.index_type.uses_bloom_filters and bloom.enabled):
        return
    is_dynamic = bloom.filter_type is BloomFilterType.DYNAMIC_V0
    entries = max(bloom.num_entries, bloom.dynamic_max_entries) if is_dynamic else bloom.num_entries
    keys = max((stat.num_writes for stat in stats if stat.log_version is None), default=0)
    if keys <= entries:
        return
    option = "hoodie.bloom.index.filter.dynamic.max.entries" if is_dynamic else "hoodie.index.bloom.num_entries"
    rate = rate_for_keys(
        bloom.filter_type,
        keys,
        num_entries=bloom.num_entries,
        fpp=bloom.false_positive_rate,
        max_entries=bloom.dynamic_max_entries,
    )
    warnings.warn(
        f"a file has {keys} records and a bloom filter for {entries}, so its false positive rate is {rate:.2g} "
        f"(asked: {bloom.false_positive_rate:g}), and lookups open files without need: raise {option}, or lower "
        "hoodie.parquet.max.file.size",
        OptionWarning,
        stacklevel=2,
    )


def _unique_keys(config: WriteConfig, operation: WriteOperation) -> UniqueKeys:
    policy = config.duplicate_policy
    looks_up = operation is WriteOperation.UPSERT or (
        operation is WriteOperation.INSERT and policy is not DuplicatePolicy.NONE
    )
    if config.concurrency.mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL:
        return UniqueKeys.LOCK_LESS
    if config.index.index_type is IndexType.BUCKET:
        return UniqueKeys.IN_BUCKET
    if not looks_up:
        return UniqueKeys.NOWHERE
    return UniqueKeys.IN_TABLE if config.index.index_type.is_global else UniqueKeys.IN_PARTITION


def _check_schema_unchanged(job: WriteJob, transaction: Transaction) -> None:
    """Raise if another writer changed the schema between preparing the job and beginning the transaction."""
    base, loaded = transaction.base, job.table
    is_same_history = base.timeline.completed_times == loaded.timeline.completed_times
    if is_same_history and base.config.create_schema == loaded.config.create_schema:
        return
    now = load_table_schema(base)
    if not any(_is_same(now, schema) for schema in (job.previous_schema, job.schema)):
        raise schema_conflict(transaction.instant_time, winner=None)


def _is_same(one: TableSchema | None, other: TableSchema | None) -> bool:
    """Whether two schemas have the same columns, by ids where they have ids: a column made anew is another one."""
    if one is None or other is None:
        return one is other
    ids = [None if schema.columns is None else schema.columns.columns for schema in (one, other)]
    return ids[0] == ids[1] and same_columns(one.avro, other.avro)
