"""Preparing a write: keys, schema and settings, and all checks of the request, also of lock-less writers."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from pyhudi.config.enums import (
    BucketEngine,
    ConcurrencyMode,
    DuplicatePolicy,
    IndexType,
    MergeMode,
    PartialUpdateMode,
    TableType,
)
from pyhudi.config.table_config import TableConfig, as_merged_by, check_against_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.errors import ConfigError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.keys.generator import KeyGenerator, key_generator_from_table, sniff_single_field_prefix
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import Missing, write_schema
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.format.timeline.instant import Action
from pyhudi.index.buckets.index import BucketIndex
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.merge.mergers import merger_to_properties
from pyhudi.merge.rules import Merger, MergeRules, first_versions
from pyhudi.merge.table_rules import (
    TableRules,
    check_defaults,
    check_tombstones,
    merger_of_new_table,
    mergers_of,
    merges_by_payload_class,
    table_rules_of,
)
from pyhudi.storage.options import select_storage_options
from pyhudi.table.features import check_writable
from pyhudi.table.file_system_view import load_view
from pyhudi.table.former_columns import check_former_columns
from pyhudi.table.indexed_columns import check_indexed_columns
from pyhudi.table.lister import EngineLister, Lister
from pyhudi.table.remembered_files import listed_once
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState
from pyhudi.tasks.data_file import WriteTarget
from pyhudi.tasks.event_times import has_event_times
from pyhudi.tasks.hash_keys import keyed_schema
from pyhudi.tasks.settings import change_data_settings, merge_settings, write_target
from pyhudi.transaction.idempotence import BATCH_ID_METADATA
from pyhudi.transaction.markers.announcing import TaskMarkers
from pyhudi.transaction.settings import TransactionSettings, transaction_settings
from pyhudi.write.bucket_index import bucket_index_of
from pyhudi.write.stored_texts import check_timestamp_texts, stored_key, timestamp_key_fields

_UNLIMITED = 2**62
OPERATION_KEY = "hoodie.datasource.write.operation"
_OPERATIONS = (WriteOperation.UPSERT, WriteOperation.INSERT, WriteOperation.DELETE)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """One write: its base table, the request of the caller, and everything derived from both.

    `schema` is what the table's schema will be after the write; `previous_schema` what it was. `buckets`: None for a
    table whose index looks keys up.
    """

    table: TableState
    config: WriteConfig
    engine: Engine
    environment: Environment
    keys: KeyGenerator
    table_rules: TableRules
    ordering_fields: tuple[str, ...]
    compares_in_batch: bool
    schema: TableSchema
    previous_schema: TableSchema | None
    started: float
    buckets: BucketIndex | None = None
    extra_metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def rules(self) -> MergeRules:
        """How an incoming row and a stored one become one."""
        return self.table_rules.with_base

    @property
    def is_merge_on_read(self) -> bool:
        """Whether updates go to logs."""
        return self.table.config.table_type is TableType.MERGE_ON_READ

    @property
    def is_lock_less(self) -> bool:
        """Whether the write appends to logs beside other writers, and conflicts with none of them."""
        return self.config.concurrency.mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL

    @property
    def action(self) -> Action:
        """The action of the write on the timeline, unless it replaces file groups."""
        return Action.DELTA_COMMIT if self.is_merge_on_read else Action.COMMIT

    @property
    def key_columns(self) -> pa.Schema:
        """The columns of the table that record keys and partition paths are made of."""
        names = (*self.keys.record_key_fields, *self.keys.partition_field_names)
        used = {*names, *(name.partition(".")[0] for name in names)}
        return pa.schema([field for field in self.schema.arrow if field.name in used])

    @property
    def key_patterns(self) -> tuple[str, ...]:
        """Patterns that every stored record key must match: those of timestamps may have another form."""
        return self.keys.patterns_of_numbers(timestamp_key_fields(self.keys, self.schema.arrow))

    @property
    def combining_rules(self) -> MergeRules:
        """How the rows of one key in the batch become one.

        If a payload class merges, ordering fields count even if it goes by commit time: it compares them within a
        batch, and not with stored rows.
        """
        if self.compares_in_batch and self.rules.merger is None:
            return replace(self.rules, ordering_fields=self.ordering_fields)
        return self.rules

    @property
    def merging(self) -> MergeSettings:
        """How the table's slices are read while the write looks at them."""
        return merge_settings(self.table, self.config, self.previous_schema or self.schema, self.table_rules)

    @property
    def transaction_settings(self) -> TransactionSettings:
        """Lock wait and heartbeat of the transaction."""
        return transaction_settings(self.config)

    @property
    def lister(self) -> EngineLister:
        """What the write asks for files: the store itself, many folders in tasks of the engine."""
        return EngineLister(self.table.storage, self.engine)

    @property
    def event_time(self) -> str | None:
        """The column with the event time, if commits are to keep that."""
        given = self.config.input
        if not given.tracks_event_time:
            return None
        return given.event_time_field or next(iter(self.ordering_fields), None)

    def target(self, instant_time: str, markers: TaskMarkers) -> WriteTarget:
        """The settings of the writing tasks."""
        target = write_target(self.table, self.config, instant_time, self.schema, self.rules, markers)
        target = replace(target, change_data=change_data_settings(self.table, self.schema), event_time=self.event_time)
        if self.buckets is not None:
            # A bucket is one file group, whatever its size.
            target = replace(target, files=replace(target.files, max_file_size=_UNLIMITED))
        stays = self.config.index.index_type.is_global and not self.config.moves_partition
        return replace(target, stays_by=self.keys) if stays else target


def _own_metadata(config: WriteConfig) -> dict[str, str]:
    """The options and the batch's id that go into the commit; never options of the store, even if a prefix asks."""
    given = dict(config.extra_metadata)
    credentials = select_storage_options(given)
    batch_id = config.what.batch_id
    own = {name: value for name, value in given.items() if name not in credentials}
    return own | ({BATCH_ID_METADATA: batch_id} if batch_id else {})


def prepare(
    table: TableState,
    config: WriteConfig,
    incoming: pa.Schema | None,
    *,
    engine: Engine,
    environment: Environment,
    options: Mapping[str, str],
    mergers: Sequence[Merger] = (),
    replaces_all: bool = False,
    keys_are_given: bool = False,
    names: Sequence[str] = (),
) -> WriteJob:
    """Check a request against the table.

    `incoming`: the schema of its rows; None if they have no table columns. `mergers`: those among which that of the
    table is found, besides those that the options name. `replaces_all`: the write replaces all rows of the table, so
    the columns of the table may change to those of the rows. `keys_are_given`: rows of stored records name them by
    their keys, which may be generated ones. `names`: the columns of the rows, also of those of a deletion.

    Raises `ConfigError`, `SchemaMismatchError` or `UnsupportedFeatureError`; nothing is written.
    """
    merges = _merging_of(config, table.config)
    check_against_table(config, merges)
    check_writable(table)
    previous = stored = load_table_schema(table)
    lister = EngineLister(table.storage, engine)
    keys = _key_generator(table, options, lister)
    config = config if keys_are_given else _possible(config, keys, options, names)
    buckets = bucket_index_of(table, config, options, keys)
    if buckets is not None:
        config = replace(config, index=replace(config.index, index_type=IndexType.BUCKET))
    check_lock_less(table, config, buckets, replaces_all=replaces_all, computes=keys_are_given)
    if incoming is not None:
        check_columns(incoming, keys, merges.ordering_fields)
    rules = table_rules_of(merges, (*mergers, *mergers_of(config.merging)))
    _check_moves(table.config, config, rules.with_base)
    _check_rules(merges, rules, config, previous)
    missing = _missing(config, merges)
    try:
        schema = _schema_after(table, incoming, previous, keys, missing=missing)
    except SchemaMismatchError:
        if not replaces_all or previous is None:
            raise
        # From no columns: a concurrent write with the previous columns conflicts with this write.
        previous = None
        schema = _schema_after(table, incoming, previous, keys, missing=missing)
    if stored is not None and schema is not stored:
        _check_changed_columns(table, stored, schema, lister, replaces_all=replaces_all)
    if config.operation is not WriteOperation.DELETE_PARTITION:
        check_timestamp_texts(table, keys, schema.arrow, lister, logical=config.keys.consistent_logical_timestamps)
    if incoming is not None:
        check_merger(rules.with_base.merger, schema.arrow)
    job = WriteJob(
        table=table,
        config=config,
        engine=engine,
        environment=environment,
        keys=keys,
        table_rules=rules,
        ordering_fields=merges.ordering_fields,
        compares_in_batch=merges_by_payload_class(merges),
        schema=schema,
        previous_schema=previous,
        extra_metadata=_own_metadata(config),
        started=environment.clock.monotonic(),
        buckets=buckets,
    )
    _check_event_time(job)
    return job


def _check_changed_columns(
    table: TableState, stored: TableSchema, schema: TableSchema, lister: Lister, *, replaces_all: bool
) -> None:
    check_indexed_columns(table, stored.arrow, schema.arrow)
    if schema.columns is None and not replaces_all:
        check_former_columns(table, stored.arrow, schema.arrow, lister)


def _check_event_time(job: WriteJob) -> None:
    """Refuse to keep event times of a column that has none."""
    if not job.config.input.tracks_event_time:
        return
    name, columns = job.event_time, job.schema.arrow
    if name is None or name not in columns.names or not has_event_times(columns.field(name).type):
        raise ConfigError(
            "hoodie.write.track.event.time.watermark needs a column with the event time: a timestamp, a date, or a"
            " whole number of seconds or milliseconds; name it in hoodie.payload.event.time.field",
            column=name,
            columns=columns.names,
        )


def _merging_of(config: WriteConfig, table: TableConfig) -> TableConfig:
    """The table with the rule by which this write merges."""
    merger = merger_of_new_table(config.merging) if table.leaves_merging_to_writes else None
    return as_merged_by(config, table, None if merger is None else merger_to_properties(merger))


def _possible(config: WriteConfig, keys: KeyGenerator, options: Mapping[str, str], names: Sequence[str]) -> WriteConfig:
    """The request, if the keys of the table allow it: only meta columns name rows with generated keys.

    Rows without them are inserted where no operation is named, which means upsert for other tables, as in JVM Hudi.
    """
    if not keys.has_auto_keys or config.operation not in (WriteOperation.UPSERT, WriteOperation.DELETE):
        return config
    if RECORD_KEY in names:
        if PARTITION_PATH not in names:
            raise ConfigError(f"rows that name their records by {RECORD_KEY} need {PARTITION_PATH}, too")
        return config
    if config.operation is WriteOperation.UPSERT and OPERATION_KEY not in options:
        return replace(config, what=replace(config.what, operation=WriteOperation.INSERT))
    raise InvalidRequestError(
        f"this table generates its record keys, so {config.operation.value} cannot find its rows: give rows as a read "
        f"of the table gives them, with {RECORD_KEY} and {PARTITION_PATH}; or use insert, bulk_insert, "
        "insert_overwrite, delete_partition, or a merge, update or deletion by condition",
        operation=config.operation.value,
    )


def _key_generator(table: TableState, options: Mapping[str, str], lister: Lister) -> KeyGenerator:
    """The table's key generator, in the encoding that its rows have.

    Below version 9 no property shows whether single-field COMPLEX keys contain the name of the field, and the wrong
    form would duplicate every record, so a stored key is read. Cost: for such tables a listing and one key column.
    """
    keys = key_generator_from_table(table.config.values, table.config.version, options)
    if keys.kind is not KeyGeneratorType.COMPLEX or len(keys.record_key_fields) != 1:
        return keys
    with listed_once(table.storage, table.timeline, lister) as remembering:
        latest = load_view(table.storage, table.timeline, lister=remembering).latest
        for sample in stored_key(table, latest).to_pylist():
            return replace(keys, single_field_prefix=sniff_single_field_prefix(sample, keys.record_key_fields[0]))
    return keys


def check_columns(incoming: pa.Schema, keys: KeyGenerator, ordering_fields: tuple[str, ...]) -> None:
    """Raise `ConfigError` with the nearest name if the rows lack a key, partition or ordering column."""
    no_rows = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in incoming], names=incoming.names)
    if not keys.has_auto_keys:
        keys.record_keys(no_rows)
    keys.partition_paths(no_rows)
    for name in ordering_fields:
        if name not in incoming.names:
            close = difflib.get_close_matches(name, incoming.names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"they have {', '.join(incoming.names)}"
            raise ConfigError(f"the rows have no ordering column {name!r}; {hint}", column=name)


def check_merger(merger: Merger | None, schema: pa.Schema) -> None:
    """Call the merger on no rows, so that `SchemaMismatchError` for these columns is raised before the write begins."""
    first_versions(merger, pa.RecordBatch.from_pylist([], schema=keyed_schema(schema)))


def _check_moves(table: TableConfig, config: WriteConfig, rules: MergeRules) -> None:
    """Refuse an upsert that might have to merge rows of two partitions, which is not supported.

    A record that moves is inserted into its new partition without merging, and deleted from the previous one.
    """
    if rules.selects or not table.partition_fields:
        return
    if config.operation is WriteOperation.UPSERT and config.moves_partition:
        raise UnsupportedFeatureError(
            "a global index moves records whose partition path has changed, but this table merges the versions of a "
            "record, which is not supported across partitions: set hoodie.simple.index.update.partition.path"
            " (or hoodie.bloom.index.update.partition.path) to false, or use an index that is not global",
            index=config.index.index_type.value,
            merger=rules.merger.name if rules.merger is not None else None,
            partial_updates=rules.partial_updates.value,
        )


def _check_key_types(previous: pa.Schema, merged: pa.Schema, keys: KeyGenerator) -> None:
    """Refuse to widen a key or partition column to floats: the text of `1` would become `1.0`, another record."""
    for name in (*keys.record_key_fields, *keys.partition_field_names):
        top = name if name in merged.names else name.partition(".")[0]
        before, after = previous.field(top).type, merged.field(top).type
        if before != after and (_holds_float(after) or pa.types.is_decimal(after)):
            raise SchemaMismatchError(
                f"column {name!r} makes record keys or partition paths, whose text would change with its type from "
                f"{before} to {after}; cast it to {before}",
                column=name,
                table_type=str(before),
                rows_type=str(after),
            )


def _check_ordering_types(previous: pa.Schema, merged: pa.Schema, ordering_fields: Sequence[str]) -> None:
    """Refuse to make text of an ordering column: `9` is more than `10` then."""
    for name in ordering_fields:
        at = previous.get_field_index(name)
        kind = merged.field(name).type
        if at >= 0 and previous.field(at).type != kind and pa.types.is_string(kind):
            raise SchemaMismatchError(
                f"column {name!r} orders the versions of records, and texts have another order than "
                f"{previous.field(at).type}; cast it to that",
                column=name,
                table_type=str(previous.field(at).type),
                rows_type=str(merged.field(name).type),
            )


def _holds_float(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_holds_float(kind.field(n).type) for n in range(kind.num_fields))


def _check_rules(merges: TableConfig, rules: TableRules, config: WriteConfig, previous: TableSchema | None) -> None:
    check_tombstones(merges, rules, hours=config.input.tombstone_hours)
    check_defaults(merges, previous.avro if previous else "")


def _missing(config: WriteConfig, table: TableConfig) -> Missing:
    """What becomes of columns of the table that the rows lack."""
    # In this order, as in JVM Hudi.
    if config.input.reconcile_schema or _takes_some_columns(table):
        return Missing.NULL
    if config.input.allows_column_drop:
        return Missing.DROPPED
    return Missing.NULL if config.input.null_for_missing_columns else Missing.REFUSED


def _takes_some_columns(table: TableConfig) -> bool:
    """Whether a batch may leave columns out, because the merge rules of the table decide what null means."""
    ignores_nulls = table.partial_update_mode is PartialUpdateMode.IGNORE_DEFAULTS
    return ignores_nulls or table.merge_mode is MergeMode.CUSTOM


def _schema_after(
    table: TableState,
    incoming: pa.Schema | None,
    previous: TableSchema | None,
    keys: KeyGenerator,
    *,
    missing: Missing,
) -> TableSchema:
    if incoming is None:
        if previous is None:
            raise SchemaMismatchError("the table has no rows and no schema yet: write rows into it first")
        return previous
    merged = write_schema(
        previous.arrow if previous else None,
        normalise(incoming),
        missing=missing,
    )
    if previous is not None:
        if merged.equals(previous.arrow):
            return previous
        _check_key_types(previous.arrow, merged, keys)
        _check_ordering_types(previous.arrow, merged, table.config.ordering_fields)
    if previous is None:
        return TableSchema.from_arrow(merged, table_name=table.config.name)
    return previous.after(merged, table_name=table.config.name)


def check_lock_less(
    table: TableState,
    config: WriteConfig,
    buckets: BucketIndex | None,
    *,
    replaces_all: bool,
    computes: bool = False,
) -> None:
    """Raise `UnsupportedFeatureError` that names all that a lock-less write needs and this one has not.

    `computes`: its rows are computed from those of the table, which no other writer may change meanwhile.
    """
    if config.concurrency.mode is not ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL:
        return
    missing = list(_missing_requirement(table, config, buckets, replaces_all=replaces_all))
    if computes:
        missing.append("rows that are not computed from the table, as those of a merge, update or deletion are")
    if missing:
        raise UnsupportedFeatureError(
            f"hoodie.write.concurrency.mode={config.concurrency.mode.value} needs {'; '.join(missing)}: leave it out, "
            "and writers detect conflicts at their commit",
            table=table.config.name,
        )


def _missing_requirement(
    table: TableState, config: WriteConfig, buckets: BucketIndex | None, *, replaces_all: bool
) -> Iterator[str]:
    if table.config.table_type is not TableType.MERGE_ON_READ:
        yield "a merge-on-read table"
    if not table.version.has_completion_times:
        yield f"table version 8 or 9, not {table.version.number}"
    if buckets is None or buckets.engine is not BucketEngine.SIMPLE:
        yield "a simple bucket index (hoodie.index.type=BUCKET)"
    if table.config.merge_mode is MergeMode.COMMIT_TIME_ORDERING:
        # JVM Hudi reads logs of one slice in the order in which their writes began, and pyhudi as they completed.
        yield "ordering fields or a merger, as readers do not agree on the order of writes at the same time"
    if config.operation not in _OPERATIONS or replaces_all:
        yield "the operation upsert, insert or delete, as others do not only append to logs"
    elif config.operation is WriteOperation.INSERT and config.duplicate_policy is not DuplicatePolicy.NONE:
        yield "hoodie.datasource.insert.dup.policy=none, as another writer may insert the same key"
    if config.markers.detects_early:
        yield "hoodie.write.concurrency.early.conflict.detection.enable=false, as nothing is a conflict"
