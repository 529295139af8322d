"""Change data: which sources have it, and how their messages become rows of the table."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.api.handle import TableHandle
from pyhudi.api.hudi_table import HudiTable
from pyhudi.cdc.envelopes import Stored, parsed_changes
from pyhudi.cdc.event_columns import ORDERING, ORIGIN_TIME, POSTGRESQL, table_options
from pyhudi.cdc.moved_rows import fill_moved_rows
from pyhudi.cdc.values import DecimalMode
from pyhudi.config.options_streamer import ChangeDataOptions
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.streamer.schemas import group_of
from pyhudi.streamer.sources.apart import RECORD, UnreadableError
from pyhudi.streamer.sources.protocol import COLUMNS_OF_OFFSETS
from pyhudi.table.state import TableState

SOURCES: Final = {"PostgresDebeziumSource": "postgresql", "MysqlDebeziumSource": "mysql"}
"""JVM Hudi's classes, and the databases whose changes they read."""
_MAXWELL_SOURCE: Final = "maxwell"
_MAXWELL: Final = "MaxwellJsonKafkaSourcePostProcessor"
_ROW: Final = "_row"
_WRITES_MAX: Final = 10
"""In so many of the last writes a row is looked for that was deleted."""
_PAYLOAD: Final = "hoodie.datasource.write.payload.class"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeData:
    """Messages that say how rows changed. `source`: the database or program that they come from."""

    source: str
    decimals: str

    def options_of_table(self, options: Mapping[str, str]) -> dict[str, str]:
        """The options of a new table, over which those go that are given."""
        return dict(options) if _PAYLOAD in options else {**table_options(self.source), **options}

    def with_event_times(self, config: WriteConfig) -> WriteConfig:
        """The write whose rows have the time of the change in the database as event time, unless it names another."""
        if config.input.event_time_field is not None:
            return config
        return replace(config, input=replace(config.input, event_time_field=ORIGIN_TIME))

    def types(self, schema: pa.Schema | None) -> pa.Schema | None:
        """The types by which messages are decoded. Maxwell sends decimals as numbers, which would lose digits."""
        exact = [] if schema is None else [field for field in schema if pa.types.is_decimal(field.type)]
        if self.source != _MAXWELL_SOURCE or not exact:
            return None
        return pa.schema([("data", pa.struct(exact)), ("old", pa.struct(exact))])

    def rows(
        self,
        messages: pa.Table,
        table: TableState | None,
        config: WriteConfig,
        schema: pa.Schema | None,
    ) -> pa.Table:
        """The rows of messages, with all columns of a schema, if one is given: a column without values is not sent.

        Raises as `flatten`. Cost: a read of the table,
        if rows need a stored value; more if it was deleted before.
        """
        keys = keys_of_changes(table, config)
        source, rows = self.parsed(messages, keys, schema)
        if source == POSTGRESQL:
            rows = fill_moved_rows(rows, keys, ORDERING[source], stored_rows(table))
        return with_columns_of(schema, rows)

    def parsed(self, messages: pa.Table, keys: Sequence[str], schema: pa.Schema | None) -> tuple[str, pa.Table]:
        """The kind of source, and the rows of messages, each of which counts for itself: see `parsed_changes`.

        Columns that say where a message comes from say it of its rows.
        """
        _check_changes(messages)
        kept = [name for name in messages.column_names if name == RECORD or name in COLUMNS_OF_OFFSETS]
        return parsed_changes(messages, keys, schema, self.decimals, kept)

    def check(self, messages: pa.Table, keys: Sequence[str], schema: pa.Schema | None) -> None:
        """Raise `UnreadableError` if one of the messages is no change, or a schema does not take its values."""
        try:
            self.parsed(messages, keys, schema)
        except InvalidRequestError as error:
            raise UnreadableError(None, error.message) from error


def with_columns_of(schema: pa.Schema | None, rows: pa.Table) -> pa.Table:
    """The rows of changes, with all columns of a schema, if there is one: a column without values is not sent."""
    for field in () if schema is None else without_meta_columns(schema):
        if field.name not in rows.column_names:
            rows = rows.append_column(field.with_nullable(True), pa.nulls(rows.num_rows, field.type))
    return rows


def check_units(messages: pa.Table, stored: pa.Schema) -> None:
    """Raise `ConfigError` where numbers would become times by the type of a table's column alone.

    A table has microseconds, whatever unit a database sends: MySQL's `datetime` comes in milliseconds.
    """
    for name in ("after", "before"):
        sent = messages.schema.field(name).type if name in messages.column_names else pa.null()
        for field in sent if pa.types.is_struct(sent) else ():
            column = stored.field(field.name).type if field.name in stored.names else pa.null()
            is_time = pa.types.is_timestamp(column) or pa.types.is_time(column)
            if pa.types.is_integer(field.type) and is_time:
                raise ConfigError(
                    f"the times of column {field.name!r} come as numbers, and nothing says in which unit: give the "
                    "columns as schema, with the unit in which the database sends them",
                    column=field.name,
                    type=str(column),
                )


def _check_changes(messages: pa.Table) -> None:
    """Raise `InvalidRequestError` for a message that does not say what changed. Tombstones are not among them."""
    for name in ("op", "type"):
        if name in messages.column_names:
            if messages[name].null_count:
                raise InvalidRequestError(
                    f"a message does not say in {name!r} what changed, so it is none of Debezium or Maxwell",
                    row=messages[name].is_null().index(True).as_py(),
                )
            return


def change_data_of(source_class: str, operation: WriteOperation, options: Mapping[str, str]) -> ChangeData | None:
    """The change data of a source; None for one that has rows. Raises `ConfigError` and `UnsupportedFeatureError`."""
    source = SOURCES.get(source_class.rpartition(".")[2])
    given = group_of(ChangeDataOptions, options)
    if given.post_processor is not None:
        if source is not None or given.post_processor.rpartition(".")[2] != _MAXWELL:
            raise UnsupportedFeatureError(f"the only post processor is {_MAXWELL}", given=given.post_processor)
        source = _MAXWELL_SOURCE
    if source is None:
        return None
    if operation is not WriteOperation.UPSERT:
        raise ConfigError("change data is written by op=UPSERT, as it updates and deletes", op=operation.value.upper())
    if given.decimals not in {mode.value for mode in DecimalMode}:
        raise ConfigError("the mode of decimals is precise, string or double", given=given.decimals)
    return ChangeData(source=source, decimals=given.decimals)


def keys_of_changes(table: TableState | None, config: WriteConfig) -> Sequence[str]:
    """The record keys, which must be enough to find a row: a delete may know no more, and an update may move it."""
    keys = (config.table.record_key_fields if table is None else table.config.record_key_fields) or ()
    partitions = (config.table.partition_fields if table is None else table.config.partition_fields) or ()
    if not keys:
        raise ConfigError("change data needs hoodie.datasource.write.recordkey.field, the key of the source table")
    if not set(partitions) <= set(keys) and not config.index.index_type.is_global:
        raise ConfigError(
            "change data of a partitioned table needs a global index, such as hoodie.index.type=GLOBAL_SIMPLE, and that"
            " of PostgreSQL one that leaves rows where they are, so hoodie.simple.index.update.partition.path=false:"
            " a delete may know no more than the key, and an update may move the row",
            partition_fields=list(partitions),
        )
    return keys


def stored_rows(table: TableState | None) -> Stored | None:
    """What gives the rows that a table has with some keys; None without a table. Cost: none until it is asked."""
    return None if table is None else functools.partial(_stored_rows, table)


def _stored_rows(table: TableState, keys: pa.Table) -> pa.Table:
    """The stored rows with one of the first key's values; there may be more, with other values of the other keys.

    A batch before this one may have deleted a row. Then it is the row that the newest of the last writes had.
    """
    names = keys.column_names
    where = [(names[0], "in", keys[names[0]].to_pylist())]
    handle = HudiTable(TableHandle(table, {}))
    found = handle.scan(where=where).to_arrow()
    writes = sorted((write.requested_time for write in table.timeline.completed_writes), reverse=True)
    for write in writes[1:_WRITES_MAX]:
        missing = keys.join(found.select(names), names, join_type="left anti")
        if not missing.num_rows:
            break
        previous = handle.scan(where=where, as_of=write).to_arrow()
        numbered = previous.select(names).append_column(_ROW, pa.array(np.arange(previous.num_rows)))
        rows = missing.join(numbered, names, join_type="inner")[_ROW]
        found = pa.concat_tables([found, previous.take(rows)], promote_options="permissive")
    return found
