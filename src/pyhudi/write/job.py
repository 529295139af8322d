"""Everything a write has decided before it touches a row: keys, schema, settings. Bad requests end here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyhudi.config.choices import MergeMode, WriteOperation
from pyhudi.config.table_config import check_against_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.errors import ConfigError, InvalidRequestError, SchemaMismatchError
from pyhudi.format.bloom import BloomKind
from pyhudi.format.evolution import write_schema
from pyhudi.format.keys import (
    KeyGenerator,
    KeyGeneratorKind,
    key_generator_from_table,
    sniff_single_field_prefix,
)
from pyhudi.format.meta_columns import RECORD_KEY
from pyhudi.format.schema import avro_with_meta_columns, normalise
from pyhudi.io.base_file import BaseFileSettings, read_batches
from pyhudi.io.data_file import WriteTarget
from pyhudi.io.key_footer import BloomSettings
from pyhudi.table.environment import Environment
from pyhudi.table.file_system_view import load_view
from pyhudi.table.heartbeat import HeartbeatSettings
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState
from pyhudi.table.transaction import TransactionSettings

OPERATION_KEY = "hoodie.datasource.write.operation"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """One write: the table it began from, what the caller asked for, and what follows from both.

    `schema` is what the table's schema will be after the write; `former_schema` what it was.
    """

    table: TableState
    config: WriteConfig
    engine: Engine
    environment: Environment
    keys: KeyGenerator
    schema: TableSchema
    former_schema: TableSchema | None
    started: float
    extra_metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The columns that decide which version of a record is newer; none under commit-time ordering."""
        table = self.table.config
        return table.ordering_fields if table.merge_mode is MergeMode.EVENT_TIME_ORDERING else ()

    @property
    def key_columns(self) -> pa.Schema:
        """The table's columns that record keys and partition paths come from."""
        names = (*self.keys.record_key_fields, *self.keys.partition_field_names)
        used = {*names, *(name.partition(".")[0] for name in names)}
        return pa.schema([field for field in self.schema.arrow if field.name in used])

    @property
    def combining_fields(self) -> tuple[str, ...]:
        """The columns that decide which of the rows of one key in the batch stays; none: the last row.

        Below version 9 they count even where the table goes by commit time: its payload classes compare them in a
        batch, and not with what is stored.
        """
        return self.table.config.ordering_fields if self.table.config.version < 9 else self.ordering_fields

    @property
    def transaction_settings(self) -> TransactionSettings:
        """How the transaction waits and shows that it is alive."""
        return transaction_settings(self.config)

    def target(self, instant_time: str) -> WriteTarget:
        """What the writing tasks need to know."""
        files, bloom = self.config.files, self.config.bloom
        return WriteTarget(
            storage=self.table.storage.spec,
            instant_time=instant_time,
            schema=self.schema.arrow,
            ordering_fields=self.ordering_fields,
            files=BaseFileSettings(
                codec=files.codec.arrow_name,
                max_file_size=files.max_file_size,
                row_group_size=files.block_size,
                page_size=files.page_size,
                avro_schema=avro_with_meta_columns(self.schema.avro),
                bloom=BloomSettings(
                    BloomKind(bloom.filter_type.value),
                    bloom.num_entries,
                    bloom.false_positive_rate,
                    bloom.dynamic_max_entries,
                )
                if bloom.enabled
                else None,
            ),
        )


def transaction_settings(config: WriteConfig) -> TransactionSettings:
    """The settings of a transaction as the options give them."""
    concurrency = config.concurrency
    heartbeat = HeartbeatSettings(concurrency.heartbeat_interval_ms, concurrency.heartbeat_tolerable_misses)
    return TransactionSettings(concurrency.lock_wait_ms, heartbeat)


def prepare(
    table: TableState,
    config: WriteConfig,
    incoming: pa.Schema | None,
    *,
    engine: Engine,
    environment: Environment,
    options: Mapping[str, str],
) -> WriteJob:
    """Check a request against the table. `incoming`: the schema of its rows; None where they carry no table columns.

    Raises `ConfigError`, `SchemaMismatchError` or `UnsupportedFeatureError`; nothing is written.
    """
    check_against_table(config, table.config)
    table.config.check_writable()
    former = load_table_schema(table)
    keys = _key_generator(table, options)
    config = _possible(config, keys, options)
    if incoming is not None:
        check_columns(incoming, keys, table.config.ordering_fields)
    return WriteJob(
        table=table,
        config=config,
        engine=engine,
        environment=environment,
        keys=keys,
        schema=_schema_after(table, config, incoming, former, keys),
        former_schema=former,
        extra_metadata=dict(config.extra_metadata),
        started=environment.clock.monotonic(),
    )


def _possible(config: WriteConfig, keys: KeyGenerator, options: Mapping[str, str]) -> WriteConfig:
    """The request, if the table's keys allow it: where they are generated no row can be found by one.

    Without a named operation, which means upsert elsewhere, rows are inserted then, as in Hudi.
    """
    if not keys.has_auto_keys or config.operation not in (WriteOperation.UPSERT, WriteOperation.DELETE):
        return config
    if config.operation is WriteOperation.UPSERT and OPERATION_KEY not in options:
        return replace(config, what=replace(config.what, operation=WriteOperation.INSERT))
    raise InvalidRequestError(
        f"this table generates its record keys, so {config.operation.value} cannot find its rows; use insert, "
        "bulk_insert, insert_overwrite or delete_partition",
        operation=config.operation.value,
    )


def _key_generator(table: TableState, options: Mapping[str, str]) -> KeyGenerator:
    """The table's key generator, in the encoding that its rows have.

    Below version 9 nothing on disk says whether single-field COMPLEX keys carry the field's name, and the wrong form
    would duplicate every record (`format/timeline.md` 5.2), so a stored key is looked at. Cost: one key column, for
    such tables only.
    """
    keys = key_generator_from_table(table.config.values, table.config.version, options)
    if keys.kind is not KeyGeneratorKind.COMPLEX or len(keys.record_key_fields) != 1:
        return keys
    for files in load_view(table.storage, table.timeline).latest.values():
        for file in files:
            for batch in read_batches(table.storage, file.path, columns=[RECORD_KEY], batch_rows=1):
                sample = batch.column(RECORD_KEY)[0].as_py()
                prefixed = sniff_single_field_prefix(sample, keys.record_key_fields[0])
                return replace(keys, single_field_prefix=prefixed)
    return keys


def check_columns(incoming: pa.Schema, keys: KeyGenerator, ordering_fields: tuple[str, ...]) -> None:
    """Raise `ConfigError` with the nearest name when a key, partition or ordering column is not among the rows'."""
    no_rows = pa.RecordBatch.from_pylist([], schema=incoming)
    if not keys.has_auto_keys:
        keys.record_keys(no_rows)
    keys.partition_paths(no_rows)
    for name in ordering_fields:
        if name not in incoming.names:
            close = difflib.get_close_matches(name, incoming.names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"they have {', '.join(incoming.names)}"
            raise ConfigError(f"the rows have no ordering column {name!r}; {hint}", column=name)


def _check_key_types(former: pa.Schema, merged: pa.Schema, keys: KeyGenerator) -> None:
    """Refuse to make a key or partition column one of floats: the text of `1` would become `1.0`, another record."""
    for name in (*keys.record_key_fields, *keys.partition_field_names):
        top = name if name in merged.names else name.partition(".")[0]
        before, after = former.field(top).type, merged.field(top).type
        if before != after and _holds_float(after):
            raise SchemaMismatchError(
                f"column {name!r} makes record keys or partition paths, whose text would change with its type from "
                f"{before} to {after}; cast it to {before}",
                column=name,
                table_type=str(before),
                rows_type=str(after),
            )


def _holds_float(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_holds_float(kind.field(n).type) for n in range(kind.num_fields))


def _schema_after(
    table: TableState,
    config: WriteConfig,
    incoming: pa.Schema | None,
    former: TableSchema | None,
    keys: KeyGenerator,
) -> TableSchema:
    if incoming is None:
        if former is None:
            raise SchemaMismatchError("the table has no rows and no schema yet: write rows into it first")
        return former
    merged = write_schema(
        former.arrow if former else None, normalise(incoming), fill_missing=config.allows_missing_columns
    )
    if former is not None and merged.equals(former.arrow):
        return former
    if former is not None:
        _check_key_types(former.arrow, merged, keys)
    return TableSchema.from_arrow(merged, table_name=table.config.name)
