"""The write loop: recover, prepare, run, and run again from the input when another writer won."""

from __future__ import annotations

import functools
import itertools
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pyhudi.catalogs.after_write import sync_after_write
from pyhudi.config.enums import Arrangement, FailedWritesPolicy
from pyhudi.config.table_config import check_against_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Distribution, Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import (
    HistoryNotRetainedError,
    HudiError,
    InvalidRequestError,
    NotFoundError,
    WriteConflictError,
)
from pyhudi.events import TimelineLoaded
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.merge.rules import Merger
from pyhudi.services.cdc.switch import switch_capture
from pyhudi.services.frame.inline import compact_before_write, run_inline_services
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.restore.execute import finish_what_died
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.storage.metered import counting_workers
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import Storage
from pyhudi.table.bootstrap import check_bootstrapped
from pyhudi.table.features import check_writable
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import position_of
from pyhudi.tasks.stage import partition_paths_in
from pyhudi.telemetry.tracing import span
from pyhudi.transaction.idempotence import find_batch
from pyhudi.transaction.presence import only_writer_if_needed
from pyhudi.transaction.settings import equipped, metered, transaction_settings
from pyhudi.write.bulk_insert import bulk_insert
from pyhudi.write.delete_partition import delete_partitions, truncate
from pyhudi.write.job import WriteJob, check_columns, prepare
from pyhudi.write.operations import ApplyChanges, Overwrite, overwrite_of, staged_write_of
from pyhudi.write.result import WriteResult, result_of
from pyhudi.write.staged import write_staged

_log = logging.getLogger("pyhudi")
_OVERWRITING = frozenset({WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.BULK_INSERT})
"""The operations by which mode overwrite replaces a table."""
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.1, 10.0


@dataclass(frozen=True, slots=True)
class ComputedChanges:
    """Changes that are computed from the table, anew for each attempt (`tasks/row_changes.py`).

    `rows`: from the write, whose table is read, to the rows, of a kind that the engine accepts, and how to apply them.
    """

    rows: Callable[[WriteJob], tuple[Any, ApplyChanges]]


@dataclass(frozen=True, slots=True)
class RowsOfTable:
    """Rows that a query finds in the table itself, anew for each attempt.

    An overwrite with them gives way to others that have changed what it replaces since. `rows`: of a kind that the
    engine accepts, from the newest state of the table.
    """

    rows: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Rows that a write of its own kind finds elsewhere. `schema`: their columns. `write`: what writes them."""

    schema: pa.Schema
    write: Callable[[WriteJob], WriteResult]


def write(
    rows: Any,
    storage: Storage,
    *,
    config: WriteConfig,
    options: Mapping[str, str],
    engine: Engine,
    environment: Environment = SYSTEM,
    mergers: Sequence[Merger] = (),
    overwrite: bool = False,
    known: Collection[str] = (),
) -> WriteResult:
    """Run one write operation on an existing table (`_written`), and then sync the catalog if the options ask for it.

    Raises `CatalogError` behind the commit if the sync fails.
    """
    result = _written(
        rows,
        storage,
        config=config,
        options=options,
        engine=engine,
        environment=environment,
        mergers=mergers,
        overwrite=overwrite,
        known=known,
    )
    sync_after_write(storage, config)
    return result


def _written(
    rows: Any,
    storage: Storage,
    *,
    config: WriteConfig,
    options: Mapping[str, str],
    engine: Engine,
    environment: Environment,
    mergers: Sequence[Merger],
    overwrite: bool,
    known: Collection[str],
) -> WriteResult:
    """Run one write operation on an existing table, again from the input when it lost against another writer.

    `rows` of a kind that the engine accepts, `ComputedChanges`, `RowsOfTable`, or `OwnRows`.
    How often again: `hoodie.write.num.retries.on.conflict.failures`, after pauses that grow. `mergers`: those among
    which the table's own is found, besides those that the options name. A batch whose id (`hoodie.write.batch.id`) is
    that of a completed write is not written again: the result is that of the completed write. `known`: instant times
    of writes that are known to be of other batches. Raises `UnsupportedFeatureError` for a second writer on a store
    that allows only one (`transaction/presence.py`).
    """
    retries = config.concurrency.conflict_retries
    if retries and isinstance(rows, pa.RecordBatchReader):
        # A stream can be read once; a second attempt would find it empty and lose its rows.
        rows = rows.read_all()
    storage = metered(storage, config)
    table = load_table(storage)
    check_writable(table)
    check_bootstrapped(table)
    settings = transaction_settings(config)
    environment = equipped(environment, config, table.config.name, storage.uri)
    environment.observe(TimelineLoaded(instants=table.timeline.instants))
    with (
        span(config.operation.value, table=table.config.name),
        counting_workers(storage.meter),
        only_writer_if_needed(table, settings.heartbeat, environment) as environment,
        naming(storage),
    ):
        for attempt in itertools.count(1):
            table = _recovered(table, config, environment)
            if (done := _already_done(table, config, known)) is not None:
                return done
            table = _capturing_if_asked(ServiceCall(table, config, settings, engine, environment))
            compact_before_write(ServiceCall(table, config, settings, engine, environment))
            given = rows.rows() if isinstance(rows, RowsOfTable) else rows
            job = _prepared(given, table, config, options, engine, environment, mergers, overwrite=overwrite)
            try:
                reads_table = isinstance(rows, RowsOfTable)
                result = (
                    rows.write(job)
                    if isinstance(rows, OwnRows)
                    else _run(job, given, overwrite=overwrite, reads_table=reads_table)
                )
                break
            except HudiError as error:
                conflict = _conflict_of(error, rows, job)
                if conflict is None:
                    raise
                if (done := _already_done(table.reload(), config, known)) is not None:
                    return done
                if attempt > retries:
                    raise conflict from (None if conflict is error else error)
            environment.clock.sleep(_pause_seconds(attempt, environment))
            table = table.reload()
        run_inline_services(ServiceCall(job.table, config, settings, engine, environment, tuple(mergers)))
        _recover_afterwards(job.table, config, environment)
        return replace(result, calls=storage.meter.calls())


def _conflict_of(error: HudiError, rows: Any, job: WriteJob) -> WriteConflictError | None:
    """The conflict for which a write is run again; None for other errors.

    A write that computes its rows cannot read on where others roll back what it reads, or clean it away.
    """
    if isinstance(error, WriteConflictError):
        return error
    is_of_read = isinstance(error, InvalidRequestError | NotFoundError | HistoryNotRetainedError)
    if not isinstance(rows, ComputedChanges | RowsOfTable) or not is_of_read:
        return None
    read, now = job.table.timeline, job.table.reload().timeline
    times = (instant.requested_time for instant in read.completed_writes)
    is_taken_back = any(not now.is_committed(time) and not now.starts_after(time) for time in times)
    if not is_taken_back and (isinstance(error, InvalidRequestError) or now.instants == read.instants):
        return None
    return WriteConflictError(
        "files that this write was reading have been rolled back, or replaced and cleaned, meanwhile; nothing of this "
        "write is visible; run it again",
        table=job.table.storage.uri,
    )


def _pause_seconds(attempt: int, environment: Environment) -> float:
    """How long to wait after a lost attempt, counted from 1: longer each time, and by a random part different."""
    longest = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(attempt - 1, 10), _LAST_PAUSE_SECONDS)
    chance = uuid.UUID(environment.ids.uuid()).int % 1024 / 1024
    return longest * (0.5 + chance / 2)


def _already_done(table: TableState, config: WriteConfig, known: Collection[str]) -> WriteResult | None:
    """The result of the completed write of the same batch, if there is one."""
    if config.what.batch_id is None:
        return None
    found = find_batch(table, config.what.batch_id, known=known)
    if found is None:
        return None
    instant, metadata = found
    return result_of(metadata, instant.requested_time, position_of(instant), 0.0)


def _recovered(table: TableState, config: WriteConfig, environment: Environment) -> TableState:
    """The table after finishing restores, and rolling dead writers back if the policy asks for that before a write."""
    settings = transaction_settings(config)
    policy = config.concurrency.failed_writes_policy
    with span("recover"):
        table = finish_what_died(table, settings, environment)
        if policy is not FailedWritesPolicy.EAGER:
            return table
        done = roll_back_failed_writes(table, settings, environment)
    return table.reload() if done else table


def _capturing_if_asked(call: ServiceCall) -> TableState:
    """The table, which captures its changes from this write on if the options ask for it (`switch_capture`)."""
    asked, table = call.config.table, call.table
    if not asked.cdc_enabled or table.config.cdc_enabled:
        return table
    check_against_table(call.config, table.config)
    switch_capture(call, on=True, mode=asked.change_data_mode)
    return table.reload()


def _recover_afterwards(table: TableState, config: WriteConfig, environment: Environment) -> None:
    """With the policy LAZY: roll dead writers back after the commit, as the cleaner of JVM Hudi does."""
    if config.concurrency.failed_writes_policy is not FailedWritesPolicy.LAZY:
        return
    settings = transaction_settings(config)
    try:
        roll_back_failed_writes(table.reload(), settings, environment)
    except HudiError as error:
        _log.warning("the write is committed, but rolling dead writers back after it failed: %s", error)


def _prepared(
    rows: Any,
    table: TableState,
    config: WriteConfig,
    options: Mapping[str, str],
    engine: Engine,
    environment: Environment,
    mergers: Sequence[Merger],
    *,
    overwrite: bool,
) -> WriteJob:
    computed = isinstance(rows, ComputedChanges)
    given = None
    if not computed and config.operation is not WriteOperation.DELETE_PARTITION:
        given = rows.schema if isinstance(rows, OwnRows) else engine.schema_of(rows)
    is_delete = config.operation is WriteOperation.DELETE and not computed
    job = prepare(
        table,
        config,
        None if is_delete else given,
        engine=engine,
        environment=environment,
        options=options,
        mergers=mergers,
        replaces_all=overwrite and config.operation in _OVERWRITING,
        keys_are_given=computed,
        names=() if given is None else tuple(given.names),
    )
    if is_delete and given is not None and not job.keys.has_auto_keys:
        check_columns(given, job.keys, ())
    return job


def _run(job: WriteJob, rows: Any, *, overwrite: bool, reads_table: bool) -> WriteResult:
    config = job.config
    if isinstance(rows, ComputedChanges):
        changes, applied = rows.rows(job)
        return write_staged(job, changes, applied)
    if config.operation is WriteOperation.DELETE_PARTITION:
        named = config.what.partitions_to_delete
        if named is None:
            return delete_partitions(job, _partitions_of(job, rows), patterns=False)
        return delete_partitions(job, named, patterns=True) if named else truncate(job)
    if config.operation is WriteOperation.BULK_INSERT and not config.combines_input and job.buckets is None:
        return bulk_insert(job, rows, overwrite=overwrite)
    if overwrite and config.operation in _OVERWRITING:
        return write_staged(job, rows, overwrite_of(config))
    staged = staged_write_of(config, by_meta_columns=job.keys.has_auto_keys)
    if reads_table and isinstance(staged, Overwrite):
        staged = replace(staged, reads_table=True)
    return write_staged(job, rows, staged)


def _partitions_of(job: WriteJob, rows: Any) -> tuple[str, ...]:
    """The partition paths that rows are in, for a deletion of whole partitions by example."""
    found = job.engine.map_splits(
        rows,
        functools.partial(partition_paths_in, job.keys),
        distribution=Distribution(Arrangement.NONE),
        description="find partitions",
    )
    return tuple(sorted({path for paths in found for path in paths}))
