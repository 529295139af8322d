"""Partitions that came into the source after the bootstrap: their rows are copied, in one commit.

Their files cannot stay where they are: Hudi knows skeleton files by the instant of the bootstrap, which is complete, so
that readers would see each of them at once, and not with a commit.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.replace import encode_requested_replace_metadata, requested_replace
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action
from pyhudi.merge.rules import Merger
from pyhudi.storage.open import open_storage
from pyhudi.table.lister import EngineLister
from pyhudi.table.remembered_files import latest_slices
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState
from pyhudi.tasks.markers import task_markers
from pyhudi.transaction.transaction import mark_inflight
from pyhudi.write.bootstrap.copying import KeyCheck, check_unique, copied_files
from pyhudi.write.bootstrap.plan import BootstrapPlan, with_translator
from pyhudi.write.bootstrap.source import Source, SourceColumns, check_unchanged, load_columns, load_source
from pyhudi.write.finish import committed, write_transaction
from pyhudi.write.job import WriteJob
from pyhudi.write.result import WriteResult
from pyhudi.write.run import OwnRows, write

_OPERATION = WriteOperation.INSERT_OVERWRITE
"""It makes of a partition what the source has: whoever else writes to it meanwhile gives way, or this does."""


def plan_new_partitions(
    table: TableState, config: WriteConfig, engine: Engine, partitions: Collection[str] | None
) -> BootstrapPlan | None:
    """Which partitions of the source the table does not have, or those that are named; None if there are none.

    Cost: a listing of the table, a recursive listing of the source, and one footer per file of those partitions.

    Raises:
        InvalidRequestError: the table was not bootstrapped; a named partition is not in the source, or has rows.
        SchemaMismatchError: the files disagree about columns, or have some that no table can store.
    """
    folder = table.config.values.get("hoodie.bootstrap.base.path")
    if not folder:
        raise InvalidRequestError("this table was not bootstrapped: it has no source", path=table.storage.uri)
    source = load_source(open_storage(folder, table.storage.spec.options), engine)
    known = latest_slices(table, EngineLister(table.storage, engine)).keys()
    config = with_translator(config, source.partition_paths, url_encode=table.config.url_encode)
    folder_of = {config.bootstrap.partition_path(path): path for path in source.partition_paths}
    wanted = [
        path for path in source.partition_paths if known.isdisjoint((path, config.bootstrap.partition_path(path)))
    ]
    if partitions is not None:
        for path in partitions:
            if path not in source.files and path not in folder_of:
                raise InvalidRequestError("the source has no such partition", partition_path=path, source=folder)
        wanted = list(dict.fromkeys(path if path in source.files else folder_of[path] for path in partitions))
    _check_new(wanted, config, known)
    if not wanted:
        return None
    source = Source(source.storage, {path: source.files[path] for path in sorted(wanted)})
    columns = _as_in_table(load_columns(source, engine), table)
    modes = dict.fromkeys(source.files, BootstrapMode.FULL_RECORD)
    return BootstrapPlan(source, columns, modes, replace(config, what=replace(config.what, operation=_OPERATION)))


def copy_new_partitions(
    plan: BootstrapPlan,
    table: TableState,
    *,
    options: Mapping[str, str],
    engine: Engine,
    environment: Environment,
    mergers: Sequence[Merger] = (),
    check_keys: KeyCheck = KeyCheck.NONE,
) -> WriteResult:
    """Copy the rows of the planned partitions, in one commit.

    Raises:
        InvalidRequestError: a partition got rows since it was planned.
        WriteConflictError: another writer wrote to one of them meanwhile, or the source was changed.
        RecordKeyError: a key is null or empty, or, if asked for, occurs twice in a partition.
        ConfigError: rows of a file belong to another partition than that of its folder.
    """
    return write(
        OwnRows(plan.columns.schema, functools.partial(_copy, plan, check_keys=check_keys)),
        table.storage,
        config=plan.config,
        options=options,
        engine=engine,
        environment=environment,
        mergers=mergers,
    )


def _copy(plan: BootstrapPlan, job: WriteJob, *, check_keys: KeyCheck) -> WriteResult:
    if job.buckets is not None:
        raise UnsupportedFeatureError(
            "rows of a source are not put into buckets: upsert them", path=job.table.config.name
        )
    requested = encode_requested_replace_metadata(requested_replace(_OPERATION))
    with write_transaction(job, Action.REPLACE_COMMIT, requested) as transaction:
        folders = plan.source.partition_paths
        known = latest_slices(transaction.base, job.lister, {*folders, *map(plan.partition_path, folders)})
        _check_new(folders, plan.config, known)
        mark_inflight(transaction, CommitMetadata(operation=_OPERATION, stats_by_partition={}))
        with task_markers(transaction, job.config, job.engine) as markers:
            stats = copied_files(job, plan, transaction.instant_time, markers)
        _check_in_place(stats, plan, job.keys)
        check_unique(job, stats, check_keys)
        check_unchanged(plan.source, job.engine, whole=False)
        paths = map(plan.partition_path, plan.source.partition_paths)
        replaced: dict[str, tuple[str, ...]] = dict.fromkeys(paths, ())
        return committed(job, transaction, _OPERATION, stats, replaced)


def _check_new(wanted: Collection[str], config: WriteConfig, known: Collection[str]) -> None:
    for path in wanted:
        if path in known or config.bootstrap.partition_path(path) in known:
            raise InvalidRequestError(
                "the table has this partition already: upsert its rows, or delete the partition before",
                partition_path=path,
            )


def _check_in_place(stats: Sequence[WriteStat], plan: BootstrapPlan, keys: KeyGenerator) -> None:
    planned = set(map(plan.partition_path, plan.source.partition_paths))
    for stat in stats:
        if stat.partition_path not in planned:
            raise ConfigError(
                "files of the source have rows of another partition than those of their folders; upsert these rows",
                partition_path=stat.partition_path,
                columns=[field.name for field in keys.partition_fields],
            )


def _as_in_table(columns: SourceColumns, table: TableState) -> SourceColumns:
    """Columns in the names of folders have the types that they have in the table, whatever the new names look like."""
    known = load_table_schema(table)
    if known is None:
        return columns
    fields = [
        known.arrow.field(field.name) if field.name in columns.in_paths and field.name in known.arrow.names else field
        for field in columns.schema
    ]
    return replace(columns, schema=pa.schema(fields))
