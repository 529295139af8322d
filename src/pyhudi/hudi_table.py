"""`HudiTable`: a table as a value, and everything that can be done with it from Python. Works without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.config.choices import QueryType, WriteOperation
from pyhudi.config.option import text_of
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine, opened
from pyhudi.engine.protocol import Engine
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.instant import Instant
from pyhudi.format.keys import key_generator_from_table
from pyhudi.format.schema import normalise
from pyhudi.read.arrow import Where, prune_partitions, read_batches, read_table
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.services.rollback import RolledBack, roll_back_failed_writes
from pyhudi.storage.opening import open_storage
from pyhudi.table.environment import SYSTEM, Environment
from pyhudi.table.file_system_view import load_view
from pyhudi.table.schema import CREATE_SCHEMA_KEY, TableSchema, load_table_schema
from pyhudi.table.state import TableState, create_table, load_table
from pyhudi.table.timeline import load_commit_metadata, position_of
from pyhudi.write.job import check_columns, transaction_settings
from pyhudi.write.result import WriteResult, result_of
from pyhudi.write.save import SaveMode, table_properties, write
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
    options: Mapping[str, str]
    engine: Engine
    environment: Environment = SYSTEM

    @classmethod
    def for_path(cls, path: str, *, hudi_options: Mapping[str, str] | None = None) -> HudiTable:
        """Open the table at a path or URI. `hudi_options` hold for all its reads and writes (also store credentials).

        Raises `TableNotFoundError` when there is none. Cost: one read and one listing.
        """
        options = dict(hudi_options or {})
        return cls(load_table(open_storage(path, options)), options, LocalEngine())

    @classmethod
    def create(
        cls,
        path: str,
        *,
        schema: pa.Schema,
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering_fields: str | Sequence[str] | None = None,
        name: str | None = None,
        table_type: str = "cow",
        table_version: int = 9,
        hudi_options: Mapping[str, str] | None = None,
    ) -> HudiTable:
        """Make the folder a table with these columns.

        Without `record_key` the table generates keys and takes inserts only. `name` is the folder's own name if not
        given. Raises `TableExistsError` when there is a table already.
        """
        options = dict(hudi_options or {})
        described = {
            "hoodie.table.name": name or path.rstrip("/").rpartition("/")[2],
            "hoodie.datasource.write.table.type": _table_type(table_type),
            "hoodie.write.table.version": str(table_version),
            "hoodie.datasource.write.recordkey.field": _joined(record_key),
            "hoodie.datasource.write.partitionpath.field": _joined(partition_by),
            "hoodie.table.ordering.fields": _joined(ordering_fields),
        }
        config = WriteConfig.from_options({**{k: v for k, v in described.items() if v is not None}, **options})
        properties = table_properties(config)
        canonical = normalise(schema)
        keys = key_generator_from_table(properties, table_version, options)
        check_columns(canonical, keys, config.table.ordering_fields or ())
        table_schema = TableSchema.from_arrow(canonical, table_name=properties["hoodie.table.name"])
        storage = open_storage(path, options)
        state = create_table(storage, {**properties, CREATE_SCHEMA_KEY: table_schema.avro})
        return cls(state, options, LocalEngine())

    # -- what is in it ------------------------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The table's columns without the `_hoodie_*` ones; no fields for a table that was never written to."""
        schema = load_table_schema(self.state)
        return schema.arrow if schema is not None else pa.schema([])

    def refresh(self) -> HudiTable:
        """The table as it is now."""
        return HudiTable(self.state.reload(), self.options, self.engine, self.environment)

    def history(self, limit: int | None = None) -> pa.Table:
        """The writes of the active timeline, newest first.

        Columns: instant, completion_time, action, operation, inserted, updated, deleted, files, bytes. Cost: one read
        per write.
        """
        writes = list(reversed(self.state.timeline.completed_writes))[:limit]
        rows = [self._history_row(instant) for instant in writes]
        return pa.Table.from_pylist(rows, schema=_HISTORY_SCHEMA)

    def last_write(self) -> WriteResult | None:
        """What the newest write of the timeline did; None for a table without any. Cost: one read."""
        writes = self.state.timeline.completed_writes
        return self._result(writes[-1]) if writes else None

    def detail(self) -> dict[str, Any]:
        """What kind of table this is: name, type, version, keys, merge mode, partitions, files and bytes."""
        config = self.state.config
        latest = load_view(self.state.storage, self.state.timeline).latest
        files = [file for group in latest.values() for file in group]
        return {
            "name": config.name,
            "uri": self.state.storage.uri,
            "type": config.table_type.value,
            "version": config.version,
            "record_key_fields": config.record_key_fields,
            "partition_fields": config.partition_fields,
            "ordering_fields": config.ordering_fields,
            "merge_mode": config.merge_mode.value,
            "partitions": len(latest),
            "files": len(files),
            "bytes": sum(file.size for file in files),
            "writes": len(self.state.timeline.completed_writes),
            "pending": [instant.requested_time for instant in self.state.timeline.pending_writes],
        }

    def files(self) -> pa.Table:
        """The newest base file of each file group: partition_path, file_id, path, size, instant."""
        latest = load_view(self.state.storage, self.state.timeline).latest
        rows = [
            {
                "partition_path": file.partition_path,
                "file_id": file.file_id,
                "path": file.path,
                "size": file.size,
                "instant": file.instant_time,
            }
            for group in latest.values()
            for file in group
        ]
        return pa.Table.from_pylist(rows, schema=_FILES_SCHEMA)

    # -- reading ------------------------------------------------------------------------------------------------------

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where = None, *, as_of: str | None = None
    ) -> pa.Table:
        """The rows, as an Arrow table. All columns if none are named, the `_hoodie_*` ones among them.

        `where`: `[("city", "==", "oslo"), ("fare", ">", 10)]` or an Arrow expression. `as_of`: the rows as they were
        at an instant time, `2024-01-31`, or `2024-01-31 10:00:00`.
        """
        return read_table(self.state.storage, self.scan(as_of=as_of), columns, where)

    def to_batches(
        self, columns: Sequence[str] | None = None, where: Where = None, *, as_of: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Like `to_arrow`, a batch at a time."""
        return read_batches(self.state.storage, self.scan(as_of=as_of), columns, where)

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
        """
        return read_table(self.state.storage, self.scan_changes(begin, end), columns, where)

    def to_df(
        self,
        spark: SparkSession,
        *,
        columns: Sequence[str] | None = None,
        where: Any = None,
        as_of: str | None = None,
    ) -> DataFrame:
        """The rows as a Spark DataFrame, read by Spark itself.

        `where`: a list as in `to_arrow`, which leaves out whole partitions before Spark sees them; or a Spark Column
        or SQL text, which Spark applies by the statistics in the files.
        """
        # The only method that needs pyspark.
        from pyhudi.spark.reader import scan_frame, spark_condition  # noqa: PLC0415

        plan = self.scan(as_of=as_of)
        if isinstance(where, list):
            plan, where = prune_partitions(plan, where), spark_condition(where)
        frame = scan_frame(spark, plan)
        frame = frame if where is None else frame.where(where)
        return frame if columns is None else frame.select(*columns)

    def scan(self, *, as_of: str | None = None) -> ScanPlan:
        """Which files a snapshot read would take, and under which schema."""
        return plan_table_scan(self.state, ReadConfig(as_of=as_of))

    def scan_changes(self, begin: str | None = None, end: str | None = None) -> ScanPlan:
        """Which files an incremental read would take."""
        config = ReadConfig(query_type=QueryType.INCREMENTAL, begin=begin or EARLIEST, end=end)
        return plan_table_scan(self.state, config)

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
        """Remove whole partitions, named by their paths; `*` stands for any characters."""
        paths = [partition_paths] if isinstance(partition_paths, str) else list(partition_paths)
        if any("," in path for path in paths):
            raise ConfigError(
                "a comma separates partition paths, so none can be named with one in it; write * for the comma",
                partition_paths=paths,
            )
        chosen = {"hoodie.datasource.write.partitions.to.delete": ",".join(paths)}
        return self._write(None, WriteOperation.DELETE_PARTITION, {**options, **chosen})

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
        settings = transaction_settings(WriteConfig.from_options(self.options))
        return roll_back_failed_writes(
            self.state.reload(),
            settings.heartbeat,
            self.environment,
            lock_wait_ms=settings.lock_wait_ms,
            eager=eager,
        )

    # -- inside -------------------------------------------------------------------------------------------------------

    def _write(self, rows: Any, operation: WriteOperation, options: Mapping[str, Any]) -> WriteResult:
        merged = {
            **self.options,
            **{key: text_of(value) for key, value in options.items()},
            "hoodie.datasource.write.operation": operation.value,
        }
        engine = self.engine if rows is None or self.engine.accepts(rows) else _engine_for(rows)
        rows = opened(rows) if isinstance(engine, LocalEngine) else rows
        return write(
            rows,
            self.state.storage,
            config=WriteConfig.from_options(merged),
            options=merged,
            engine=engine,
            environment=self.environment,
        )

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
        return pa.table({fields[0]: list(keys)})

    def _result(self, instant: Instant) -> WriteResult:
        metadata = load_commit_metadata(self.state.storage, instant, self.state.version)
        return result_of(metadata, instant.requested_time, position_of(instant), 0.0)

    def _history_row(self, instant: Instant) -> dict[str, Any]:
        result = self._result(instant)
        row = {name: getattr(result, name) for name in _HISTORY_SCHEMA.names if name != "action"}
        return {**row, "action": instant.action.value}


def save(rows: Any, path: str, *, options: Mapping[str, Any], mode: str = "append") -> WriteResult | None:
    """Write rows with Hudi's own option names, as `df.write.format("hudi").options(…).mode(mode).save(path)` does.

    Takes Arrow as well as Spark rows. None when the mode is `ignore` and there is a table already.
    """
    texts = {key: text_of(value) for key, value in options.items() if value is not None}
    engine = _engine_for(rows)
    rows = opened(rows) if isinstance(engine, LocalEngine) else rows
    return save_rows(rows, path, options=texts, mode=SaveMode.parse(mode), engine=engine)


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
        ("instant", pa.string()),
    ]
)


def _table_type(text: str) -> str:
    kinds = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
    if text.lower() not in kinds:
        raise ConfigError('table_type must be "cow" or "mor"', table_type=text)
    return kinds[text.lower()]


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
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415 - only rows from Spark need pyspark

    return SparkEngine(rows.sparkSession)
