"""The bootstrap: a table over a source, in one commit for each mode; both are visible, or none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from pyhudi.catalogs.after_write import sync_after_write
from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine, spread
from pyhudi.environment import Environment
from pyhudi.errors import (
    CommitOutcomeUnknownError,
    CorruptDataError,
    InternalError,
    LockLostError,
    TableExistsError,
    WriteConflictError,
)
from pyhudi.format.bootstrap_index import (
    FILE_IDS_PATH,
    PARTITIONS_PATH,
    SourcePartition,
    SourceStatus,
    write_file_ids,
    write_partitions,
)
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import avro_with_meta_columns
from pyhudi.format.timeline.instant import FULL_RECORD_INSTANT, SKELETON_INSTANT, InstantState, InstantTime
from pyhudi.services.rollback.rollback import roll_back, roll_back_failed_writes, undone_on_failure
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.bootstrap import is_being_bootstrapped
from pyhudi.table.state import TableState, create_table, load_table, table_exists
from pyhudi.tasks.bootstrap import SKELETON_SCHEMA, Skeleton, SkeletonTask, write_skeletons
from pyhudi.tasks.markers import task_markers
from pyhudi.transaction.heartbeat import Heartbeat, Liveness, heartbeat_path, liveness_of
from pyhudi.transaction.markers.announcing import TaskMarkers
from pyhudi.transaction.presence import only_writer_if_needed
from pyhudi.transaction.settings import TransactionSettings, equipped, transaction_settings
from pyhudi.transaction.transaction import Transaction, begin, mark_inflight
from pyhudi.write.bootstrap.copying import KeyCheck, check_unique, copied_files
from pyhudi.write.bootstrap.plan import BootstrapPlan
from pyhudi.write.bootstrap.progress import Progress, can_go_on, progress_of
from pyhudi.write.bootstrap.source import check_unchanged
from pyhudi.write.create import remove_unused, removed_on_failure, table_properties
from pyhudi.write.finish import committed
from pyhudi.write.job import WriteJob, prepare

TASKS_PER_CORE: Final = 4
_SKELETON_AVRO: Final = '{"type":"record","name":"HoodieRecordKey","fields":[]}'


def run_bootstrap(
    plan: BootstrapPlan,
    storage: Storage,
    *,
    options: Mapping[str, str],
    engine: Engine,
    environment: Environment,
    check_keys: KeyCheck = KeyCheck.NONE,
) -> TableState:
    """Make the table that was planned. If this fails, there is no table; the source is never written to.

    A call of the same bootstrap that died, or was interrupted, is gone on with; what any other has left is removed
    first. `check_keys`: what keys do that occur twice in a partition.

    Raises:
        TableExistsError: the folder has a table with rows, or other files.
        WriteConflictError: another process is bootstrapping the table, or the source was changed meanwhile.
        RecordKeyError: a record key of the source is null or empty.
        ConfigError: rows of a file belong to another partition than that of its folder.
    """
    config = plan.config
    assert config.table.name is not None
    environment = equipped(environment, config, config.table.name, storage.uri)
    table = _dead_bootstrap(storage)
    if table is None or not can_go_on(table, plan, options):
        _remove_dead_bootstrap(storage, config, environment)
        _check_empty(storage)
        table = create_table(storage, {**table_properties(config), **_properties(plan, config)})
    settings = transaction_settings(config)
    with (
        removed_on_failure(storage, config, environment, created=True),
        only_writer_if_needed(table, settings.heartbeat, environment) as environment,
    ):
        job = prepare(
            load_table(storage), config, plan.columns.schema, engine=engine, environment=environment, options=options
        )
        with _changes_named(plan, engine):
            _run(job, plan, options, check_keys=check_keys)
    sync_after_write(storage, config)
    return load_table(storage)


@contextmanager
def _changes_named(plan: BootstrapPlan, engine: Engine) -> Iterator[None]:
    """Say of a file that cannot be read as it was planned that it was changed, if it was."""
    try:
        yield
    except (CorruptDataError, InternalError):
        check_unchanged(plan.source, engine)
        raise


@contextmanager
def _transaction(job: WriteJob, at: InstantTime, operation: WriteOperation) -> Iterator[Transaction]:
    """The transaction with the instant of a bootstrap; if the block fails, its files are removed again.

    If it is interrupted, they stay, and the next call goes on.
    """
    environment = job.environment
    with begin(
        job.table,
        job.action,
        requested=b"",
        settings=job.transaction_settings,
        environment=environment,
        at=at,
        run=uuid.UUID(environment.ids.uuid()).int,
    ) as transaction:
        interruption = None
        with undone_on_failure(transaction):
            try:
                if transaction.instant.state is InstantState.REQUESTED:
                    mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
                yield transaction
            except (KeyboardInterrupt, SystemExit) as error:
                interruption = error
        if interruption is not None:
            beat = Heartbeat(transaction.storage, heartbeat_path(at), transaction.settings.heartbeat, environment)
            beat.stop_for_good()
            raise interruption


def _run(job: WriteJob, plan: BootstrapPlan, options: Mapping[str, str], *, check_keys: KeyCheck) -> None:
    """Write the files of both modes, then commit them, one right after the other.

    Both are pending before one of them is complete: as long as one is, no other writer begins (`check_bootstrapped`).
    The copies come first, as a write can be rolled back while one with an earlier instant is pending.
    """
    with ExitStack() as stack:
        begun = [
            (stack.enter_context(_transaction(job, at, operation)), operation, files_of)
            for mode, at, operation, files_of in _MODES
            if plan.partitions_of(mode)
        ]
        stats = []
        for transaction, _, files_of in begun:
            progress = progress_of(transaction, plan, options, job.lister)
            with task_markers(transaction, job.config, job.engine, may_conflict=False) as markers:
                stats.append(files_of(job, plan, transaction, markers, progress))
        check_unique(job, [stat for of_mode in stats for stat in of_mode], check_keys)
        check_unchanged(plan.source, job.engine)
        previous: Transaction | None = None
        try:
            for (transaction, operation, _), of_mode in zip(begun, stats, strict=True):
                committed(job, _after(transaction, previous), operation, of_mode, None)
                previous = transaction
        except CommitOutcomeUnknownError:
            raise
        except (Exception, KeyboardInterrupt, SystemExit):
            if len(begun) > 1:
                _undo_copies(job.table, job.transaction_settings, job.environment)
            raise


def _after(transaction: Transaction, previous: Transaction | None) -> Transaction:
    """The transaction, which is not completed unless the previous commit still stands."""
    if previous is None:
        return transaction
    base = transaction.base.reload()
    if previous.instant_time not in base.timeline.completed_times:
        raise LockLostError(
            "another process took this bootstrap for dead and rolled its first commit back; run it again",
            instant=previous.instant_time,
        )
    return replace(transaction, base=base)


def _properties(plan: BootstrapPlan, config: WriteConfig) -> dict[str, str]:
    version = config.new_table_version
    kind = (
        {"hoodie.bootstrap.index.type": "HFILE"}
        if version.has_generator_types
        else {"hoodie.bootstrap.index.class": "org.apache.hudi.common.bootstrap.index.hfile.HFileBootstrapIndex"}
    )
    return {"hoodie.bootstrap.base.path": plan.source.storage.uri, **kind}


def _dead_bootstrap(storage: Storage) -> TableState | None:
    """The table of a bootstrap that has not ended; None where there is none. `TableExistsError` for any other table."""
    table = load_table(storage) if table_exists(storage) else None
    if table is not None and not is_being_bootstrapped(table):
        raise TableExistsError("there is a table in this folder already: bootstrap makes a new one", path=storage.uri)
    return table


def _remove_dead_bootstrap(storage: Storage, config: WriteConfig, environment: Environment) -> None:
    """Remove a table whose bootstrap died."""
    table = _dead_bootstrap(storage)
    if table is None:
        return
    settings = transaction_settings(config)
    beat = heartbeat_path(SKELETON_INSTANT)
    if liveness_of(storage, beat, settings.heartbeat, environment) is Liveness.DEAD:
        _undo_copies(table, settings, environment)
    roll_back_failed_writes(table.reload(), settings, environment)
    if table.reload().timeline.pending_writes:
        raise WriteConflictError(
            "another process is bootstrapping this table; wait for it. If it is dead, its heartbeat expires soon",
            path=storage.uri,
        )
    remove_unused(storage, config, environment)


def _undo_copies(table: TableState, settings: TransactionSettings, environment: Environment) -> None:
    """Roll the first of two commits back while the second is pending, without which a part of the source is missing."""
    if table.reload().timeline.completed_times == {FULL_RECORD_INSTANT}:
        roll_back(table, FULL_RECORD_INSTANT, settings, environment)


def _check_empty(storage: Storage) -> None:
    """Raise `TableExistsError` for a folder with files that may be data: they would lie between those of the table."""
    for info in storage.list_recursive(""):
        if not any(part.startswith((".", "_")) for part in info.path.split("/")):
            raise TableExistsError(
                "the folder of the table has files already: bootstrap into an empty one",
                path=f"{storage.uri}/{info.path}",
            )


def _skeletons(
    job: WriteJob, plan: BootstrapPlan, transaction: Transaction, markers: TaskMarkers, progress: Progress
) -> list[WriteStat]:
    """The files beside those that stay where they are, and the index that says which one is beside which."""
    seed = uuid.UUID(job.environment.ids.uuid())
    files = [
        (path, info) for path in plan.partitions_of(BootstrapMode.METADATA_ONLY) for info in plan.source.files[path]
    ]
    file_ids = {info.path: str(uuid.uuid5(seed, info.path)) for _, info in files} | {**progress.file_ids}
    skeletons = [
        Skeleton(file_ids[info.path], plan.partition_path(path), plan.source.source_file(info)) for path, info in files
    ]
    target = job.target(transaction.instant_time, markers)
    target = replace(
        target,
        schema=SKELETON_SCHEMA,
        files=replace(target.files, avro_schema=avro_with_meta_columns(_SKELETON_AVRO)),
        stays_by=None,
    )
    shares = spread(
        {number: info.size for number, (_, info) in enumerate(files) if info.path not in progress.file_ids},
        job.config.bootstrap.parallelism or job.engine.parallelism * TASKS_PER_CORE,
    )
    tasks = [
        SkeletonTask(
            target=target,
            keys=job.keys,
            key_columns=job.key_columns,
            skeletons=tuple(skeletons[number] for number in share),
            notes=progress.notes(task, [files[number][1] for number in share], file_ids),
        )
        for task, share in enumerate(shares)
    ]
    size = sum(info.size for _, info in files)
    results = job.engine.map(write_skeletons, tasks, size_bytes=size, description="write skeleton files")
    stats = [*progress.stats, *(stat for result in results for stat in result)]
    _check_rows(plan, skeletons, stats)
    _put_index(transaction, plan, skeletons, files)
    return stats


def _check_rows(plan: BootstrapPlan, skeletons: Sequence[Skeleton], stats: Sequence[WriteStat]) -> None:
    """Every skeleton has as many rows as its source file; a batch that is lost on the way must not be committed."""
    written = {stat.file_id: stat.num_writes for stat in stats}
    for skeleton in skeletons:
        if written.get(skeleton.file_id) != plan.columns.rows[skeleton.source.path]:
            raise InternalError("a skeleton file has another number of rows than its source", path=skeleton.source.uri)


def _put_index(
    transaction: Transaction,
    plan: BootstrapPlan,
    skeletons: Sequence[Skeleton],
    files: Sequence[tuple[str, FileInfo]],
) -> None:
    by_partition: dict[str, dict[str, SourceStatus]] = {}
    for skeleton, (path, info) in zip(skeletons, files, strict=True):
        status = SourceStatus(skeleton.source.uri, info.size, info.modified_ms)
        by_partition.setdefault(path, {})[skeleton.file_id] = status
    partitions = [SourcePartition(plan.partition_path(path), path, of_path) for path, of_path in by_partition.items()]
    created_ms = transaction.environment.clock.now_ms()
    for index, write in ((PARTITIONS_PATH, write_partitions), (FILE_IDS_PATH, write_file_ids)):
        with transaction.storage.open_output(index) as sink:
            write(partitions, sink.write, source_folder=plan.source.storage.uri, created_ms=created_ms)


def _copies(
    job: WriteJob, plan: BootstrapPlan, transaction: Transaction, markers: TaskMarkers, progress: Progress
) -> list[WriteStat]:
    """The files with the rows that are copied."""
    return copied_files(job, plan, transaction.instant_time, markers, progress)


_MODES: Final = (
    (BootstrapMode.FULL_RECORD, FULL_RECORD_INSTANT, WriteOperation.BULK_INSERT, _copies),
    (BootstrapMode.METADATA_ONLY, SKELETON_INSTANT, WriteOperation.BOOTSTRAP, _skeletons),
)
