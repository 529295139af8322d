"""`HudiTable`: a table as a value, and everything that can be done with it from Python. Works without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.config.enums import QueryType
from pyhudi.config.location import table_path
from pyhudi.config.option import text_of
from pyhudi.config.options_write import DEFAULT_METADATA_PREFIX, METADATA_PREFIX
from pyhudi.config.read_config import ReadConfig
from pyhudi.config.spelling import is_option_name, spelled, unknown_argument
from pyhudi.config.table_config import TableConfig
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.inputs import opened
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM, Environment
from pyhudi.errors import ConfigError, InvalidRequestError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Instant
from pyhudi.merge.rules import Merger
from pyhudi.read.arrow import prune_partitions, read_batches, read_table
from pyhudi.read.conditions import Where
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.services.call import ServiceCall
from pyhudi.services.compaction.execute import run_compaction, run_pending_compactions
from pyhudi.services.compaction.plan import PlannedCompaction
from pyhudi.services.compaction.schedule import planned_compaction, schedule_compaction
from pyhudi.services.rollback.execute import RolledBack
from pyhudi.services.rollback.rollback import roll_back, roll_back_failed_writes
from pyhudi.storage.open import open_spec, open_storage
from pyhudi.storage.options import select_storage_options
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_system_view import load_view
from pyhudi.table.history import archived_metadata
from pyhudi.table.outcome import Outcome, outcome_of
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import Timeline, load_commit_metadata, position_of
from pyhudi.transaction.settings import locking, transaction_settings
from pyhudi.write.create import create_for_schema
from pyhudi.write.result import WriteResult, result_of
from pyhudi.write.run import write
from pyhudi.write.save import SaveMode
from pyhudi.write.save import save as save_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class HudiTable:
    """A Hudi table as it was when it was opened.

    Reading methods answer from that moment; `refresh()` gives the table as it is now. Writing methods work on the table
    as it is when they run, and return what they did. Rows come as Spark DataFrames or as anything that speaks Arrow
    (pyarrow, polars, pandas ≥ 2.2, duckdb).
    """

    state: TableState
    options: Mapping[str, str] = field(repr=False)  # credentials of the store may be among them
    engine: Engine
    environment: Environment = SYSTEM
    mergers: tuple[Merger, ...] = ()

    @classmethod
    def for_path(
        cls,
        path: str | os.PathLike[str],
        *,
        hudi_options: Mapping[str, str] | None = None,
        merger: Merger | None = None,
        spark: SparkSession | None = None,
    ) -> HudiTable:
        """Open the table at a path or URI. `hudi_options` hold for all its reads and writes (also store credentials).

        `merger`: for a table that names one of your own. `spark`: where its table services run, instead of in this
        process. Raises `TableNotFoundError` when there is no table, and `ConfigError` for a merger that the table does
        not have. Cost: one read and one listing.
        """
        options = _known(hudi_options or {}, "hudi_options")
        mergers = () if merger is None else (merger,)
        engine = LocalEngine() if spark is None else _spark_engine(spark)
        storage = open_storage(table_path(path, options), options)
        state = load_table(storage)
        if merger is not None and state.config.merger_name != merger.name:
            raise ConfigError(
                f"the merger {merger.name!r} is given, and the table merges by "
                f"{state.config.merger_name or state.config.merge_mode.value}: leave the merger out",
                path=state.config.path,
            )
        return cls(state, options, engine, mergers=mergers)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        schema: pa.Schema,
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering_fields: str | Sequence[str] | None = None,
        name: str | None = None,
        table_type: str = "cow",
        table_version: int = 9,
        merger: Merger | None = None,
        hudi_options: Mapping[str, str] | None = None,
    ) -> HudiTable:
        """Make the folder a table with these columns.

        Without `record_key` the table generates keys and takes inserts only. `name` is the folder's own name if not
        given. `table_type` is "cow" or "mor". `merger`: how versions of a record become one (`pyhudi.mergers`, or a
        class of your own); the table remembers its name. Raises `TableExistsError` when there is a table already.
        """
        options = _known(hudi_options or {}, "hudi_options")
        path = table_path(path, options)
        described = {
            "hoodie.table.name": name or path.rstrip("/").rpartition("/")[2],
            "hoodie.datasource.write.table.type": _table_type(table_type),
            "hoodie.write.table.version": str(table_version),
            "hoodie.datasource.write.recordkey.field": _joined(record_key),
            "hoodie.datasource.write.partitionpath.field": _joined(partition_by),
            "hoodie.table.ordering.fields": _joined(ordering_fields),
        }
        config = WriteConfig.from_options({**{k: v for k, v in described.items() if v is not None}, **options})
        state = create_for_schema(schema, open_storage(path, options), config, options, merger)
        return cls(state, options, LocalEngine(), mergers=() if merger is None else (merger,))

    # -- what is in it ------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The table's columns without the `_hoodie_*` ones; no fields for a table that was never written to."""
        schema = load_table_schema(self.state)
        return schema.arrow if schema is not None else pa.schema([])

    def refresh(self) -> HudiTable:
        """The table as it is now."""
        return replace(self, state=self.state.reload())

    def history(self, limit: int | None = None) -> pa.Table:
        """The completed writes, newest first; those that were archived, too.

        Columns: instant, completion_time, action, operation, inserted, updated, deleted, files, bytes. Cost: one read
        per write of the active timeline; where `limit` is not reached by then, the archived one.
        """
        rows = [_history_row(instant, metadata) for instant, metadata in islice(self._writes(), limit)]
        return pa.Table.from_pylist(rows, schema=_HISTORY_SCHEMA)

    def last_write(self) -> WriteResult | None:
        """What the newest write of the timeline did; None for a table without any. Cost: one read."""
        writes = self.state.timeline.completed_writes
        return self._result(writes[-1]) if writes else None

    def detail(self) -> dict[str, Any]:
        """What kind of table this is: name, type, version, keys, merge mode, partitions, files and bytes."""
        config = self.state.config
        latest = load_view(self.state.storage, self.state.timeline).latest
        slices = [one for group in latest.values() for one in group]
        return {
            "name": config.name,
            "uri": self.state.storage.uri,
            "type": config.table_type.value,
            "version": config.version.number,
            "record_key_fields": config.record_key_fields,
            "partition_fields": config.partition_fields,
            "ordering_fields": config.ordering_fields,
            "merge_mode": config.merge_mode.value,
            "partitions": len(latest),
            "files": sum(one.base is not None for one in slices),
            "logs": sum(len(one.logs) for one in slices),
            "bytes": sum(one.size for one in slices),
            "writes": len(self.state.timeline.completed_writes),
            "pending": [instant.requested_time for instant in self.state.timeline.pending_writes],
        }

    def files(self) -> pa.Table:
        """The newest slice of each file group.

        Columns: partition_path, file_id, path and size of the base file (null where there is none), logs (their paths),
        log_size, instant (where the slice begins). Sizes are in bytes.
        """
        latest = load_view(self.state.storage, self.state.timeline).latest
        rows = [
            {
                "partition_path": one.partition_path,
                "file_id": one.file_id,
                "path": one.base.path if one.base else None,
                "size": one.base.size if one.base else None,
                "logs": [log.path for log in one.logs],
                "log_size": sum(log.size for log in one.logs),
                "instant": one.instant_time,
            }
            for group in latest.values()
            for one in group
        ]
        return pa.Table.from_pylist(rows, schema=_FILES_SCHEMA)

    # -- reading ------------------------------------------------------------------------------------------------------

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        as_of: str | None = None,
        query_type: str | None = None,
    ) -> pa.Table:
        """The rows, as an Arrow table. All columns if none are named, the `_hoodie_*` ones among them.

        `where`: `[("city", "==", "oslo"), ("fare", ">", 10)]` or an Arrow expression. A row without a value passes no
        comparison, as in SQL; ask for such rows by `pc.field("city").is_null()`. `as_of`: the rows as they were
        at an instant time, `2024-01-31`, or `2024-01-31 10:00:00`. `query_type="read_optimized"` leaves the logs of a
        merge-on-read table out: the rows as of its last compaction, at the cost of a copy-on-write table. Without
        either, what `hudi_options` say of reads holds.

        Raises `HistoryNotRetainedError` where cleaners have deleted files of the state that is asked for, or since the
        table was opened, and `HistoryNotSettledError` for a time at which a write began that is still running.
        """
        return read_table(self.state.storage, self.scan(as_of=as_of, query_type=query_type), columns, where)

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        as_of: str | None = None,
        query_type: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Like `to_arrow`, a batch at a time."""
        return read_batches(self.state.storage, self.scan(as_of=as_of, query_type=query_type), columns, where)

    def changes(
        self,
        begin: str | None = None,
        end: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
    ) -> pa.Table:
        """Rows written after `begin` and until `end`, in their newest version as of `end`.

        Versions 8 and 9 go by completion times (as `WriteResult.completion_time`), version 6 by instant times. Deleted
        rows do not appear.

        Without `end`, nothing that cleaners delete is needed. With it `HistoryNotRetainedError` says that files of the
        range are gone; the option `hoodie.datasource.read.incr.fallback.fulltablescan.enable` then gives those of its
        rows that no later write has changed. `HistoryNotSettledError`: in version 6, a write of the range is running.
        """
        return read_table(self.state.storage, self.scan_changes(begin, end), columns, where)

    def to_df(
        self,
        spark: SparkSession,
        *,
        columns: Sequence[str] | None = None,
        where: Any = None,
        as_of: str | None = None,
        query_type: str | None = None,
    ) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark itself where slices have no logs.

        `where`: a list as in `to_arrow`, which leaves out whole partitions before Spark sees them; or a Spark Column
        or SQL text, which Spark applies by the statistics in the files.
        """
        # The only method that needs pyspark.
        from pyhudi.spark.reads.reader import scan_frame, spark_condition  # noqa: PLC0415

        plan = self.scan(as_of=as_of, query_type=query_type)
        if isinstance(where, list | tuple):
            plan, where = prune_partitions(plan, where), spark_condition(where, plan.schema)
        if where is None:
            return scan_frame(spark, plan, columns)
        frame = scan_frame(spark, plan).where(where)
        return frame if columns is None else frame.select(*columns)

    def scan(self, *, as_of: str | None = None, query_type: str | None = None) -> ScanPlan:
        """Which files a read would take, and under which schema."""
        config = self._read_config
        if query_type is None and as_of is None:
            return self._scan(config)
        kind = config.query_type if query_type is None else _query_type(query_type)
        if kind is QueryType.INCREMENTAL:
            kind = QueryType.SNAPSHOT
        return self._scan(
            replace(config, query_type=kind, as_of=config.as_of if as_of is None else _time(as_of, "as_of"))
        )

    def scan_changes(self, begin: str | None = None, end: str | None = None) -> ScanPlan:
        """Which files an incremental read would take."""
        config = self._read_config
        begin = config.begin if begin is None else _time(begin, "begin")
        end = config.end if end is None else _time(end, "end")
        return self._scan(replace(config, query_type=QueryType.INCREMENTAL, as_of=None, begin=begin, end=end))

    def _scan(self, config: ReadConfig) -> ScanPlan:
        return plan_table_scan(self.state, config, self.mergers)

    @property
    def _read_config(self) -> ReadConfig:
        """What the table's own options say of reads."""
        return ReadConfig.from_options(self.options)

    # -- writing ------------------------------------------------------------------------------------------------------

    def upsert(self, rows: Any, **options: Any) -> WriteResult:
        """Update the rows whose keys the table has, insert the others."""
        return self._write(rows, WriteOperation.UPSERT, options)

    def insert(self, rows: Any, **options: Any) -> WriteResult:
        """Add rows without looking for their keys; small files are filled first."""
        return self._write(rows, WriteOperation.INSERT, options)

    def bulk_insert(self, rows: Any, **options: Any) -> WriteResult:
        """Add rows as fast as they can be written, into new files."""
        return self._write(rows, WriteOperation.BULK_INSERT, options)

    def delete(self, keys: Any, **options: Any) -> WriteResult:
        """Remove records.

        `keys`: rows with the key and partition columns; for a table of one key column and no partitions also a list.
        """
        return self._write(self._key_rows(keys), WriteOperation.DELETE, options)

    def delete_partition(self, partition_paths: str | Iterable[str], **options: Any) -> WriteResult:
        """Remove whole partitions, named by their paths; `*` stands for any characters.

        Raises:
            InvalidRequestError: no partition with rows is meant, or a name is one partition's and as a pattern others',
                too.
            ConfigError: a name is empty, or none is given.

        Cost: two listings of the table; no data file is read or removed.
        """
        paths = (partition_paths,) if isinstance(partition_paths, str) else tuple(partition_paths)
        if _PARTITIONS in spelled(options):
            raise ConfigError(f"delete_partition is told the partitions already: leave {_PARTITIONS} out")
        if not paths or not all(isinstance(path, str) and path for path in paths):
            raise ConfigError("delete_partition needs the paths of partitions, none of them empty", given=paths)
        return self._write(None, WriteOperation.DELETE_PARTITION, options, partitions=paths)

    def insert_overwrite(self, rows: Any, **options: Any) -> WriteResult:
        """Replace the partitions that the rows are in."""
        return self._write(rows, WriteOperation.INSERT_OVERWRITE, options)

    def insert_overwrite_table(self, rows: Any, **options: Any) -> WriteResult:
        """Replace all rows of the table."""
        return self._write(rows, WriteOperation.INSERT_OVERWRITE_TABLE, options)

    def roll_back_failed_writes(self, *, eager: bool = False) -> tuple[RolledBack, ...]:
        """Take away what dead writers left behind; every write begins with this by itself.

        `eager` also takes pending writes that keep no heartbeat, as a single-writer JVM Hudi makes them: only when
        nobody else is writing.
        """
        config = WriteConfig.from_options(self.options)
        settings = transaction_settings(config)
        return roll_back_failed_writes(
            self.state.reload(),
            settings.heartbeat,
            locking(self.environment, config, self.state.config.name),
            lock_wait_ms=settings.lock_wait_ms,
            eager=eager,
        )

    def rollback(self, instant: str) -> RolledBack:
        """Take back the newest completed write, any pending write, or a compaction that is only planned.

        Readers see all of a write or nothing of it. Raises `InvalidRequestError`, with nothing changed, where the
        write or plan has been built on: by a later write, a pending plan, a savepoint, or a cleaner; and
        `WriteConflictError` for one that real Hudi may be rolling back, or that was completed at this moment.
        """
        config = WriteConfig.from_options(self.options)
        environment = locking(self.environment, config, self.state.config.name)
        return roll_back(self.state, instant, transaction_settings(config), environment)

    def outcome_of(self, instant: str) -> Outcome:
        """What became of a write, as of now: committed, pending, rolled back, or unknown; never a guess.

        Ask after `CommitOutcomeUnknownError`. Cost: one listing; for old instants also the archived timeline.
        """
        return outcome_of(self.state.reload(), instant)

    def compact(self, instant: str | None = None, *, dry_run: bool = False, **options: Any) -> pa.Table:
        """Give the slices of a merge-on-read table that have logs new base files, and finish what is pending.

        Runs the compactions that are planned and not running; then takes away what dead writers left, as a write does,
        plans one of what is there now and runs it. With `instant`, it only runs the one that was planned at this time.
        Triggers (`hoodie.compact.inline.*`) play no part; strategies do. Returns what was compacted, one row per
        compaction: instant, slices, rows, updated, inserted, deleted, bytes.

        `dry_run` changes nothing and returns the slices that a plan made now would take and leave: partition_path,
        file_id, compacts, reason, base_size, logs, log_size.
        """
        call = self._service_call(options, call="compact")
        if dry_run:
            return _plan_table(planned_compaction(call.reloaded()))
        if instant is not None:
            done = [run_compaction(call, instant)]
        else:
            done = [*run_pending_compactions(call)]
            planned = schedule_compaction(call)
            done += [run_compaction(call, planned)] if planned is not None else []
        return pa.Table.from_pylist([asdict(one) for one in done if one is not None], schema=_COMPACTED_SCHEMA)

    def compact_logs(self, **options: Any) -> pa.Table:
        """Join the logs of slices that have many (`hoodie.log.compaction.blocks.threshold`) to one, per slice.

        Cheaper than `compact`, as no base file is rewritten; makes reading cheaper where logs have many versions of
        records. Returns one row as `compact` does, or none.
        """
        call = self._service_call(options, call="compact_logs")
        planned = schedule_compaction(call, of_logs=True)
        done = [run_compaction(call, planned)] if planned is not None else []
        return pa.Table.from_pylist([asdict(one) for one in done if one is not None], schema=_COMPACTED_SCHEMA)

    def schedule_compaction(self, **options: Any) -> str | None:
        """Plan a compaction of what is there now, for `compact(instant)` to run, here or elsewhere.

        Returns its instant time; None where there is nothing to compact.
        """
        return schedule_compaction(self._service_call(options, call="schedule_compaction"))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles as the table at the moment when it was opened; with the options, and so the store's credentials.

        Raises `UnsupportedFeatureError` for a table that runs its services on a Spark session.
        """
        if not isinstance(self.engine, LocalEngine):
            raise UnsupportedFeatureError(
                "a table whose services run on a Spark session cannot be sent to another process: open it there, with "
                "HudiTable.for_path(path, hudi_options=…)",
                path=self.state.storage.uri,
            )
        state = (self.state.storage.spec, self.state.config, self.state.timeline)
        return _unpickled, (type(self), state, dict(self.options), self.engine, self.environment, self.mergers)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _write(
        self,
        rows: Any,
        operation: WriteOperation,
        options: Mapping[str, Any],
        *,
        partitions: tuple[str, ...] | None = None,
    ) -> WriteResult:
        if rows is None and operation is not WriteOperation.DELETE_PARTITION:
            raise InvalidRequestError("there are no rows: None was given", operation=operation.value)
        named = spelled(options).get(_OPERATION)
        if named is not None and text_of(named).lower() != operation.value:
            raise ConfigError(f"this call is an {operation.value}, not an {named}: leave {_OPERATION} out")
        merged = {**self._with_options(options, call=operation.value), _OPERATION: operation.value}
        engine = self.engine if rows is None or self.engine.accepts(rows) else _engine_for(rows)
        rows = opened(rows) if isinstance(engine, LocalEngine) else rows
        config = WriteConfig.from_options(merged)
        if partitions is not None:  # not as an option's text, which cannot say a comma or a blank
            config = replace(config, what=replace(config.what, partitions_to_delete=partitions))
        return write(
            rows,
            self.state.storage,
            config=config,
            options=merged,
            engine=engine,
            environment=self.environment,
            mergers=self.mergers,
        )

    def _with_options(self, options: Mapping[str, Any], *, call: str) -> dict[str, str]:
        """The table's options, and over them those of one call."""
        given = _known(options, call, self.options)
        for name in select_storage_options(given):
            if self.options.get(name) != given[name]:
                raise ConfigError(
                    f"{name} says how to reach the store, which this table has done: give it to "
                    "HudiTable.for_path(hudi_options=…)",
                    option=name,
                )
        return {**self.options, **given}

    def _service_call(self, options: Mapping[str, Any], *, call: str) -> ServiceCall:
        merged = self._with_options(options, call=call)
        config = WriteConfig.from_options(merged)
        environment = locking(self.environment, config, self.state.config.name)
        return ServiceCall(self.state, config, transaction_settings(config), self.engine, environment, self.mergers)

    def _key_rows(self, keys: Any) -> Any:
        fields = self.state.config.record_key_fields
        if not isinstance(keys, list | tuple | set):
            return keys
        if len(fields) != 1 or self.state.config.partition_fields:
            raise ConfigError(
                "a list of keys is enough only for a table of one key column and no partitions; give rows with the key "
                "and partition columns",
                record_key_fields=fields,
                partition_fields=self.state.config.partition_fields,
            )
        try:
            return pa.table({fields[0]: list(keys)})
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
            raise SchemaMismatchError(f"these keys are of no one type: {cause}", column=fields[0]) from cause

    def _result(self, instant: Instant) -> WriteResult:
        metadata = load_commit_metadata(self.state.storage, instant, self.state.version)
        return result_of(metadata, instant.requested_time, position_of(instant), 0.0)

    def _writes(self) -> Iterator[tuple[Instant, CommitMetadata]]:
        active = self.state.timeline.completed_writes
        for instant in reversed(active):
            yield instant, load_commit_metadata(self.state.storage, instant, self.state.version)
        for instant, metadata in archived_metadata(self.state.storage, self.state.version):
            if not self.state.timeline.is_committed(instant.requested_time):
                yield instant, metadata


def save(
    rows: Any, path: str | os.PathLike[str], *, options: Mapping[str, Any], mode: str = "append"
) -> WriteResult | None:
    """Write rows with Hudi's own option names, as `df.write.format("hudi").options(…).mode(mode).save(path)` does.

    Takes Arrow as well as Spark rows. None when the mode is `ignore` and there is a table already.
    """
    texts = _known(options, "save")
    engine = _engine_for(rows)
    rows = opened(rows) if isinstance(engine, LocalEngine) else rows
    return save_rows(rows, table_path(path, texts), options=texts, mode=SaveMode.parse(mode), engine=engine)


_OPERATION = "hoodie.datasource.write.operation"
_PARTITIONS = "hoodie.datasource.write.partitions.to.delete"


def _history_row(instant: Instant, metadata: CommitMetadata) -> dict[str, Any]:
    result = result_of(metadata, instant.requested_time, position_of(instant), 0.0)
    row = {name: getattr(result, name) for name in _HISTORY_SCHEMA.names if name != "action"}
    return {**row, "action": instant.action.value}


_HISTORY_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("completion_time", pa.string()),
        ("action", pa.string()),
        ("operation", pa.string()),
        ("inserted", pa.int64()),
        ("updated", pa.int64()),
        ("deleted", pa.int64()),
        ("files", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
_FILES_SCHEMA = pa.schema(
    [
        ("partition_path", pa.string()),
        ("file_id", pa.string()),
        ("path", pa.string()),
        ("size", pa.int64()),
        ("logs", pa.list_(pa.string())),
        ("log_size", pa.int64()),
        ("instant", pa.string()),
    ]
)


_COMPACTED_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("slices", pa.int64()),
        ("rows", pa.int64()),
        ("updated", pa.int64()),
        ("inserted", pa.int64()),
        ("deleted", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
_PLAN_SCHEMA = pa.schema(
    [
        ("partition_path", pa.string()),
        ("file_id", pa.string()),
        ("compacts", pa.bool_()),
        ("reason", pa.string()),
        ("base_size", pa.int64()),
        ("logs", pa.int64()),
        ("log_size", pa.int64()),
    ]
)


def _plan_table(planned: PlannedCompaction) -> pa.Table:
    rows = [
        {
            "partition_path": verdict.file_slice.partition_path,
            "file_id": verdict.file_slice.file_id,
            "compacts": compacts,
            "reason": verdict.reason,
            "base_size": verdict.file_slice.base.size if verdict.file_slice.base else None,
            "logs": len(verdict.file_slice.logs),
            "log_size": sum(log.size for log in verdict.file_slice.logs),
        }
        for verdicts, compacts in ((planned.chosen, True), (planned.skipped, False))
        for verdict in verdicts
    ]
    return pa.Table.from_pylist(rows, schema=_PLAN_SCHEMA)


def _unpickled(kind: type[HudiTable], state: tuple[StorageSpec, TableConfig, Timeline], *others: Any) -> HudiTable:
    spec, config, timeline = state
    return kind(TableState(open_spec(spec), config, timeline), *others)


def _time(text: str, argument: str) -> str:
    """A time as text. An empty one is none: to take it for "not given" would answer another question."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{argument} must be a time as text, such as '2024-01-31 10:00:00'", given=repr(text))
    return text


def _query_type(text: str) -> QueryType:
    kinds = {"snapshot": QueryType.SNAPSHOT, "read_optimized": QueryType.READ_OPTIMIZED}
    if str(text).lower() not in kinds:
        raise ConfigError('query_type must be "snapshot" or "read_optimized"', query_type=text)
    return kinds[str(text).lower()]


def _table_type(text: str) -> str:
    kinds = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
    if text.lower() not in kinds:
        raise ConfigError('table_type must be "cow" or "mor"', table_type=text)
    return kinds[text.lower()]


def _known(options: Mapping[str, Any], call: str, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Options as texts, under the names that pyhudi knows them by; `ConfigError` for a name that can be none.

    None counts as not given. All options have a dot in their names but for `path`, those of the store, and those that
    their prefix sends into the commit's metadata; `defaults` may say which prefix that is.
    """
    texts = {name: text_of(value) for name, value in spelled(options).items() if value is not None}
    prefix = {**(defaults or {}), **texts}.get(METADATA_PREFIX, DEFAULT_METADATA_PREFIX)
    for name in texts:
        if not is_option_name(name, metadata_prefix=prefix) and not select_storage_options({name: ""}):
            raise unknown_argument(name, call=call)
    return texts


def _joined(names: str | Sequence[str] | None) -> str | None:
    return names if names is None or isinstance(names, str) else ",".join(names)


def _engine_for(rows: Any) -> Engine:
    local = LocalEngine()
    if rows is None or local.accepts(rows):
        return local
    if not type(rows).__module__.startswith("pyspark."):
        raise UnsupportedFeatureError(
            "rows must be a Spark DataFrame, or speak Arrow (pyarrow, polars, pandas >= 2.2, duckdb)",
            given=type(rows).__name__,
        )
    return _spark_engine(rows.sparkSession)


def _spark_engine(spark: SparkSession) -> Engine:
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415 - only what runs on Spark needs pyspark

    return SparkEngine(spark)
