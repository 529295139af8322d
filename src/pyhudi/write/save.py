"""The one door to a table for rows: `df.write.format("hudi")` and `HudiTable` both end here."""

from __future__ import annotations

import enum
import functools
import itertools
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pyhudi.config.enums import Arrangement, FailedWritesPolicy
from pyhudi.config.table_config import check_against_table, new_table_properties
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Distribution, Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import (
    ConfigError,
    CorruptDataError,
    HudiError,
    TableExistsError,
    TableNotFoundError,
    WriteConflictError,
)
from pyhudi.format.keys.generator import key_generator_from_table
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE, decode_partition_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.properties import table_checksum
from pyhudi.format.safe_paths import METADATA_FOLDER
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.timeline.instant import Action
from pyhudi.merge.mergers import merger_to_properties
from pyhudi.merge.rules import Merger
from pyhudi.merge.table_rules import merger_of_new_table
from pyhudi.services.compaction.execute import ServiceCall
from pyhudi.services.inline import run_inline_services
from pyhudi.services.rollback.rollback import roll_back_failed_writes
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import check_writable
from pyhudi.table.file_system_view import list_data_files
from pyhudi.table.state import TableState, create_table, load_table, table_exists
from pyhudi.table.timeline import load_rollback_plan, position_of
from pyhudi.tasks.stage import partition_paths_in
from pyhudi.transaction.conflicts.check import naming
from pyhudi.transaction.idempotence import find_batch
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.presence import alone_if_needed
from pyhudi.write.bulk_insert import bulk_insert
from pyhudi.write.delete_partition import delete_partitions
from pyhudi.write.job import WriteJob, check_columns, locking, prepare, transaction_settings
from pyhudi.write.result import WriteResult, result_of
from pyhudi.write.staged import staged_write_of, write_staged

_log = logging.getLogger("pyhudi")
_OVERWRITING = frozenset({WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.BULK_INSERT})
"""The operations by which mode overwrite replaces a table."""
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 0.1, 10.0
_IN_A_TABLE = f"/{METADATA_FOLDER}/"


class SaveMode(enum.Enum):
    """What to do when the folder holds a table already; Spark's four modes."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR_IF_EXISTS = "errorifexists"

    @classmethod
    def parse(cls, text: str) -> SaveMode:
        """The mode that Spark's spelling names; `error` and `default` mean ERROR_IF_EXISTS."""
        name = text.strip().lower()
        if name in ("error", "default"):
            return cls.ERROR_IF_EXISTS
        for mode in cls:
            if mode.value == name:
                return mode
        raise ConfigError("unknown save mode: use append, overwrite, ignore or errorifexists", mode=text)


def save(
    rows: Any,
    path: str,
    *,
    options: Mapping[str, str],
    mode: SaveMode,
    engine: Engine,
    environment: Environment = SYSTEM,
) -> WriteResult | None:
    """Write rows to the table at `path`, made first if there is none. None when the mode is IGNORE and there is one.

    `options` are Hudi's own. OVERWRITE of a table replaces all of its rows, and its columns where the rows do not fit
    them, in one commit; its history stays. Its name, type, keys and partitions stay, too: `ConfigError` for others.
    """
    storage = open_storage(path, options)
    config = WriteConfig.from_options(options)
    made = not table_exists(storage) and _made(rows, storage, config, options, engine)
    if not made and mode is SaveMode.IGNORE:
        return None
    if not made and mode is SaveMode.ERROR_IF_EXISTS:
        raise TableExistsError(
            "there is a table in this folder already: use mode append to add to it, or overwrite to replace its rows",
            path=storage.uri,
        )
    overwrite = mode is SaveMode.OVERWRITE and not made
    if overwrite:
        _check_same_table(config, load_table(storage))
    with _taken_back_on_failure(storage, config, environment, made=made):
        return write(
            rows,
            storage,
            config=config,
            options=options,
            engine=engine,
            environment=environment,
            overwrite=overwrite,
        )


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
) -> WriteResult:
    """Run one write operation on an existing table, again from the input when it lost against another writer.

    How often again: `hoodie.write.num.retries.on.conflict.failures`, after pauses that grow. `mergers`: those among
    which the table's own is found, besides those that the options name. A batch whose name (`hoodie.write.batch.id`)
    is that of a completed write is not written: the result is that write's. Raises `UnsupportedFeatureError` for a
    second writer to a store that cannot keep two apart (`transaction/presence.py`).
    """
    retries = config.concurrency.conflict_retries
    if retries and isinstance(rows, pa.RecordBatchReader):
        # A stream can be read once; a second attempt would find it empty and lose its rows.
        rows = rows.read_all()
    table = load_table(storage)
    check_writable(table)
    settings = transaction_settings(config)
    environment = locking(environment, config, table.config.name)
    with alone_if_needed(table, settings.heartbeat, environment) as environment, naming(storage):
        for attempt in itertools.count(1):
            table = _recovered(table, config, environment)
            if (done := _already_done(table, config)) is not None:
                return done
            job = _prepared(rows, table, config, options, engine, environment, mergers, overwrite=overwrite)
            try:
                result = _run(job, rows, overwrite=overwrite)
                break
            except WriteConflictError:
                if (done := _already_done(table.reload(), config)) is not None:
                    return done
                if attempt > retries:
                    raise
            environment.clock.sleep(_pause_seconds(attempt, environment))
            table = table.reload()
        run_inline_services(ServiceCall(job.table, config, settings, engine, environment, tuple(mergers)))
        _recover_afterwards(job.table, config, environment)
        return result


def _pause_seconds(attempt: int, environment: Environment) -> float:
    """How long to wait after a lost attempt, counted from 1: longer each time, and not as long as the others do."""
    longest = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(attempt - 1, 10), _LAST_PAUSE_SECONDS)
    chance = uuid.UUID(environment.ids.uuid()).int % 1024 / 1024
    return longest * (0.5 + chance / 2)


def _already_done(table: TableState, config: WriteConfig) -> WriteResult | None:
    """The result of the completed write that this call repeats."""
    if config.what.batch_id is None:
        return None
    found = find_batch(table, config.what.batch_id)
    if found is None:
        return None
    instant, metadata = found
    return result_of(metadata, instant.requested_time, position_of(instant), 0.0)


def create_for(rows: Any, storage: Storage, config: WriteConfig, options: Mapping[str, str], engine: Engine) -> None:
    """Make the table that the options describe, after checking that the rows have its columns."""
    if config.operation in (WriteOperation.DELETE, WriteOperation.DELETE_PARTITION):
        raise TableNotFoundError("there is no table to delete from in this folder; check the path", path=storage.uri)
    properties = table_properties(config)
    incoming = normalise(engine.schema_of(rows))
    keys = key_generator_from_table(properties, config.new_table_version, options)
    check_columns(incoming, keys, config.table.ordering_fields or ())
    create_table(storage, properties)


def _made(rows: Any, storage: Storage, config: WriteConfig, options: Mapping[str, str], engine: Engine) -> bool:
    """Make the table; False where somebody else has made it at the same moment, so that it exists for this call."""
    try:
        create_for(rows, storage, config, options, engine)
    except TableExistsError:
        return False
    return True


@contextmanager
def _taken_back_on_failure(
    storage: Storage, config: WriteConfig, environment: Environment, *, made: bool
) -> Iterator[None]:
    """Take a table that this call made away again when its first write fails."""
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit):
        if made:
            _forget(storage, config, environment)
        raise


def _check_same_table(config: WriteConfig, table: TableState) -> None:
    """Refuse to overwrite a table with one of other keys, partitions, type or name.

    JVM Hudi deletes the folder and begins anew: readers fail, and after a crash the rows of both are gone. A commit can
    replace rows and columns at once, but not the properties, which have no versions.
    """
    try:
        check_against_table(config, table.config)
    except ConfigError as error:
        raise ConfigError(
            "mode overwrite replaces the rows and columns of a table in one commit, and not what it is. To make another"
            f" table of this folder delete the folder first, when nobody reads it. {error.message}",
            **error.context,
        ) from error


def _forget(storage: Storage, config: WriteConfig, environment: Environment) -> None:
    """Remove the metadata of a table, and of its partitions, that nobody has written to or is writing to."""
    environment = locking(environment, config, config.table.name or "")
    with table_lock(storage, environment, wait_ms=config.concurrency.lock_wait_ms):
        table = load_table(storage)
        if not table.timeline.completed_writes and not table.timeline.pending_writes:
            for path in _partitions_made(table):
                storage.delete(path)
            storage.delete_folder(METADATA_FOLDER)


def _partitions_made(table: TableState) -> list[str]:
    """The partition metadata that the taken back writes of a new table left.

    The folder may have been there before the table, with whole tables in it: theirs is not touched. Cost: nothing
    where no write had begun; else one read per rollback, a listing of the folder, and one read per partition.
    """
    storage, timeline = table.storage, table.timeline
    rollbacks = [instant for instant in timeline.instants if instant.action is Action.ROLLBACK]
    taken_back = {load_rollback_plan(storage, instant, timeline.version).instant_time for instant in rollbacks}
    if not taken_back:
        return []
    files = list_data_files(storage)
    other_tables = {info.path.partition(_IN_A_TABLE)[0] for info in files if _IN_A_TABLE in info.path}
    return [
        info.path
        for info in files
        if info.name == PARTITION_METADATA_FILE
        and not any(info.path.startswith(f"{folder}/") for folder in other_tables)
        and _made_by(storage, info.path) in taken_back
    ]


def _made_by(storage: Storage, path: str) -> str | None:
    """The write that partition metadata name; None where they are somebody else's, in a form of their own."""
    try:
        return decode_partition_metadata(storage.read(path), path=path).instant_time
    except CorruptDataError:
        return None


def table_properties(config: WriteConfig, merger: Merger | None = None) -> dict[str, str]:
    """The properties of a new table; `ConfigError` when it has no name.

    `merger`: how it merges records, unless the options say so.
    """
    if config.table.name is None:
        raise ConfigError("a new table needs a name: set hoodie.table.name")
    checksum = table_checksum(config.table.database or "", config.table.name)
    if merger is None:
        merger = merger_of_new_table(config.merging)
    return new_table_properties(
        config, checksum=checksum, merger=None if merger is None else merger_to_properties(merger)
    )


def _recovered(table: TableState, config: WriteConfig, environment: Environment) -> TableState:
    """The table without what dead writers left; the write begins by taking it away."""
    policy = config.concurrency.failed_writes_policy
    if policy is not FailedWritesPolicy.EAGER:
        return table
    settings = transaction_settings(config)
    done = roll_back_failed_writes(table, settings.heartbeat, environment, lock_wait_ms=settings.lock_wait_ms)
    return table.reload() if done else table


def _recover_afterwards(table: TableState, config: WriteConfig, environment: Environment) -> None:
    """With the policy LAZY: what dead writers left is taken away once the write stands, as JVM Hudi's cleaner does."""
    if config.concurrency.failed_writes_policy is not FailedWritesPolicy.LAZY:
        return
    settings = transaction_settings(config)
    try:
        roll_back_failed_writes(table.reload(), settings.heartbeat, environment, lock_wait_ms=settings.lock_wait_ms)
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
    carries_rows = config.operation not in (WriteOperation.DELETE, WriteOperation.DELETE_PARTITION)
    job = prepare(
        table,
        config,
        engine.schema_of(rows) if carries_rows else None,
        engine=engine,
        environment=environment,
        options=options,
        mergers=mergers,
        replaces_all=overwrite and config.operation in _OVERWRITING,
    )
    if config.operation is WriteOperation.DELETE:
        check_columns(engine.schema_of(rows), job.keys, ())
    return job


def _run(job: WriteJob, rows: Any, *, overwrite: bool) -> WriteResult:
    config = job.config
    if config.operation is WriteOperation.DELETE_PARTITION:
        named = config.what.partitions_to_delete
        return delete_partitions(job, named or _partitions_of(job, rows), patterns=named is not None)
    if config.operation is WriteOperation.BULK_INSERT and not config.combines_input:
        return bulk_insert(job, rows, overwrite=overwrite)
    if overwrite and config.operation in _OVERWRITING:
        kind = replace(
            staged_write_of(config),
            operation=WriteOperation.INSERT_OVERWRITE_TABLE,
            looks_up=False,
            packs=False,
            replaces=True,
            whole_table=True,
        )
        return write_staged(job, rows, kind)
    return write_staged(job, rows, staged_write_of(config))


def _partitions_of(job: WriteJob, rows: Any) -> tuple[str, ...]:
    """The partition paths that rows are in, for a deletion of whole partitions by example."""
    found = job.engine.map_splits(
        rows,
        functools.partial(partition_paths_in, job.keys),
        distribution=Distribution(Arrangement.NONE),
        description="find partitions",
    )
    return tuple(sorted({path for paths in found for path in paths}))
