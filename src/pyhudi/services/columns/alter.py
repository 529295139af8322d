"""Changes of a table's columns alone: a commit without files, as JVM Hudi's ALTER TABLE makes it.

Columns go by ids (schema-on-read evolution) once a table has them, or the call asks for them. Without ids a table can
only get more columns: old files are then read by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pyhudi.config.enums import TableType
from pyhudi.errors import SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.keys.generator import partition_field_names
from pyhudi.format.metadata.commit import WRITER_KEY, CommitMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import ColumnPath, column_text
from pyhudi.format.schema.internal_types import check_ids_possible, first_schema
from pyhudi.format.timeline.instant import Action, InstantTime
from pyhudi.markup import Shown
from pyhudi.services.columns.column_change import ColumnChange
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.restore.execute import finish_what_died
from pyhudi.services.rollback.rollback import roll_back_failed_writes, undone_on_failure
from pyhudi.table.features import check_writable
from pyhudi.table.file_system_view import SlicesByPartition
from pyhudi.table.former_columns import check_former_columns
from pyhudi.table.indexed_columns import indexed_columns
from pyhudi.table.remembered_files import latest_slices
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState
from pyhudi.tasks.compact import LookIntoLogsTask, have_partial_rows
from pyhudi.transaction.conflicts.footprint import UniqueKeys
from pyhudi.transaction.transaction import begin, commit, mark_inflight, own_version

SCHEMA_ON_READ_KEY = "hoodie.schema.on.read.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsChanged(Shown):
    """A completed change of the columns of a table.

    Attributes:
        instant: the commit that has the new columns.
        schema: the columns of the table from it on, without meta columns.
        has_ids: whether columns go by ids: JVM Hudi then reads older files rightly only with
            `hoodie.schema.on.read.enable=true`.
    """

    instant: InstantTime
    schema: pa.Schema
    has_ids: bool


def alter_columns(call: ServiceCall, changes: Sequence[ColumnChange], *, by_ids: bool) -> ColumnsChanged:
    """Commit the changes, one after the other, at once; or raise with nothing changed.

    `by_ids`: a table without column ids may get them.

    Cost: that of a commit without files; with column ids a listing, a read and three puts more, and the first time the
    headers of the blocks in logs.
    """
    table = finish_what_died(call.table.reload(), call.settings, call.environment)
    check_writable(table)
    roll_back_failed_writes(table, call.settings, call.environment)
    before, after = _evolved(table, changes, by_ids)
    if after.columns is None:
        check_former_columns(table, before.arrow, after.arrow, call.lister)
    else:
        latest = latest_slices(table, call.lister)
        _check_no_skeletons(latest)
        if before.columns is None and table.version.has_completion_times:
            _check_no_partial_updates(call, latest)
    is_merge_on_read = table.config.table_type is TableType.MERGE_ON_READ
    action = Action.DELTA_COMMIT if is_merge_on_read else Action.COMMIT
    with (
        begin(
            table, action, requested=b"", settings=call.settings, environment=call.environment, engine=call.engine
        ) as transaction,
        undone_on_failure(transaction),
    ):
        previous, schema = _evolved(transaction.base, changes, by_ids)
        operation = WriteOperation.ALTER_SCHEMA
        mark_inflight(transaction, CommitMetadata(operation=operation, stats_by_partition={}))
        extra = schema.extra_metadata(previous, transaction.instant_time)
        metadata = CommitMetadata(
            operation=operation, stats_by_partition={}, extra={**extra, WRITER_KEY: own_version()}
        )
        commit(transaction, metadata, base_schema=previous.avro, unique_keys=UniqueKeys.NOWHERE, engine=call.engine)
    return ColumnsChanged(instant=transaction.instant_time, schema=schema.arrow, has_ids=schema.columns is not None)


def _evolved(table: TableState, changes: Sequence[ColumnChange], by_ids: bool) -> tuple[TableSchema, TableSchema]:
    """The schema of the table before and after the changes."""
    previous = load_table_schema(table)
    if previous is None:
        raise SchemaMismatchError("the table has no rows and no schema yet: write rows into it first")
    if previous.columns is None and not by_ids and any(change.needs_ids for change in changes):
        raise UnsupportedFeatureError(
            "this change needs columns that go by ids: allow it with hudi_options={'hoodie.schema.on.read.enable': "
            "'true'}; from then on JVM Hudi reads older files rightly only where that option is set, too",
            option=SCHEMA_ON_READ_KEY,
        )
    altered = first_schema(previous.arrow, previous.avro) if previous.columns is None else previous.columns
    for change in changes:
        if change.of is not None:
            _check_free(table, change.of(altered))
        altered = change.to(altered)
    name = table.config.name
    schema = TableSchema.from_columns(altered, previous.avro, table_name=name)
    if previous.columns is None and not by_ids:
        return previous, replace(schema, columns=None)
    check_ids_possible(altered, previous.avro)
    return previous, schema


def _check_no_skeletons(latest: SlicesByPartition) -> None:
    """JVM Hudi finds no columns by ids in the source of a bootstrap: it fails, or takes renamed ones for null."""
    for slices in latest.values():
        for file_slice in slices:
            if file_slice.base is not None and file_slice.base.source is not None:
                raise UnsupportedFeatureError(
                    "columns cannot go by ids while files of a bootstrap are where they were: JVM Hudi does not read "
                    "such a table; rewrite them first by services.cluster, for large files with a high "
                    "hoodie.clustering.plan.strategy.small.file.limit",
                    path=file_slice.base.path,
                    source=file_slice.base.source.uri,
                )


def _check_no_partial_updates(call: ServiceCall, latest: SlicesByPartition) -> None:
    """Once columns have ids, JVM Hudi takes the partial updates in logs for new rows.

    Cost: the headers of the blocks of the newest logs.
    """
    slices = [file_slice for file_slices in latest.values() for file_slice in file_slices if file_slice.logs]
    tasks = [
        LookIntoLogsTask(storage=call.table.storage.spec, paths=tuple(log.path for log in file_slice.logs))
        for file_slice in slices
    ]
    size = sum(log.size for file_slice in slices for log in file_slice.logs)
    partial = call.engine.map(have_partial_rows, tasks, size_bytes=size, description="look into logs")
    for file_slice in (file_slice for file_slice, is_partial in zip(slices, partial, strict=True) if is_partial):
        raise UnsupportedFeatureError(
            "columns cannot go by ids while logs have partial updates: JVM Hudi reads such a table wrongly; run "
            "services.compact first",
            path=file_slice.logs[0].path,
        )


def _check_free(table: TableState, path: ColumnPath) -> None:
    """Refuse a column that something else of the table names: its keys, ordering, partitions, or an index."""
    used: dict[str, str] = {}
    config = table.config
    for name in config.record_key_fields:
        used[name] = "makes record keys"
    for name in config.ordering_fields:
        used[name] = "orders the versions of records"
    for name in partition_field_names(config.values):
        used[name] = "makes partition paths"
    for index, definition in indexed_columns(table).items():
        for name in definition.source_columns:
            used.setdefault(name, f"is in the index {index}")
    text = column_text(path)
    for name, why in used.items():
        if f"{name}.".lower().startswith(f"{text}.".lower()) or f"{text}.".lower().startswith(f"{name}.".lower()):
            raise SchemaMismatchError(f"column {text!r} cannot be changed: {name!r} {why}", column=text, used=name)
