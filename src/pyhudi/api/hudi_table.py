"""`HudiTable`: a table as a value, and its daily verbs, each of which loads what it needs when it is called."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, texts_of
from pyhudi.api.display import detail_if_reachable, table_line, table_page
from pyhudi.api.handle import TableHandle
from pyhudi.api.nouns import Nouns
from pyhudi.api.opening import open_handle
from pyhudi.api.row_verbs import RowVerbs
from pyhudi.api.rows import engine_of_session, rows_of_keys
from pyhudi.engine.local import LocalEngine
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.table.schema import load_table_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyhudi.api.bootstrap import CheckKeys, ModeLike
    from pyhudi.api.changes import ChangesFormat
    from pyhudi.api.inspect import TableDetail
    from pyhudi.api.rows import RowsLike
    from pyhudi.api.scan import Scan
    from pyhudi.api.watermark import Watermark
    from pyhudi.engine.progress import OnProgress
    from pyhudi.merge.rules import Merger
    from pyhudi.read.conditions import Where
    from pyhudi.write.result import WriteResult


@dataclass(frozen=True, repr=False)
class HudiTable(RowVerbs, Nouns):
    """A Hudi table as it was when it was opened, by `for_path` or `create`, with what was done through it since.

    A scan answers from the moment when it was made. Scans that are made after a write, a service or an alteration
    through this table see it, with all that others have committed by then; `refresh()` brings the commits of others at
    any time. Writes work on the table as it is when they run, and return what they did.

    Writes take rows as Arrow of any library (pyarrow, polars, pandas 2.2 or newer, duckdb) or as a Spark DataFrame, and
    `hudi_options` for one call, over those that the table was opened with. All of them raise

    - `ConfigError` for an option that is not legal, or contradicts the table,
    - `SchemaMismatchError` and `RecordKeyError` for rows that do not fit, before anything is written,
    - `WriteConflictError` where another writer changed the same file groups: run the call again,
    - `LockNotAcquiredError` where the table lock stayed taken,
    - `CommitOutcomeUnknownError` where the store left the outcome open: ask `recovery.outcome_of`.

    After any error but the last, nothing of the write is visible.

    Cost of a write: its data files, and some thirty small requests, on a long timeline as on a short one; the table
    lock twice; with Spark one shuffle where rows of one key must meet (upsert, delete).

    Attributes:
        handle: what pyhudi itself works with; not part of the public interface.
    """

    handle: TableHandle

    def __repr__(self) -> str:
        """Name, version, type and size. Cost: one listing of each partition, once; no size where the store fails."""
        return table_line(self.handle.loaded.config, self._detail())

    def _repr_html_(self) -> str:
        return table_page(self.handle.loaded.config, self._detail())

    def _detail(self) -> TableDetail | None:
        return self.handle.loaded.once("detail", lambda: detail_if_reachable(self.inspect))

    @classmethod
    def for_path(
        cls,
        path: str | os.PathLike[str],
        *,
        hudi_options: HudiOptions | None = None,
        merger: Merger | None = None,
        spark: SparkSession | None = None,
    ) -> HudiTable:
        """Open the table at a path, or at the URI of an object store.

        Args:
            path: the table's folder.
            hudi_options: options for all reads and writes of this table, those of the store among them.
            merger: the merger of a table that names one of your own.
            spark: the session on which table services run, instead of in this process.

        Raises:
            TableNotFoundError: there is no table.
            ConfigError: an option is not legal, or the table merges by another rule than `merger`.
            UnsupportedFeatureError: the table needs something that pyhudi does not have.

        Cost: one read and one listing.

        >>> pyhudi.HudiTable.for_path("/tmp/trips").scan().count()
        2
        """
        engine = LocalEngine() if spark is None else engine_of_session(spark)
        return cls(open_handle(path, hudi_options, merger, engine))

    @classmethod
    def for_name(
        cls,
        name: str,
        *,
        catalog: str | None = None,
        hudi_options: HudiOptions | None = None,
        merger: Merger | None = None,
        spark: SparkSession | None = None,
    ) -> HudiTable:
        """Open the table that a catalog knows by this name; `T_ro` of a merge-on-read table reads without logs.

        Args:
            name: `database.table`; without a database, that of the option `hoodie.datasource.hive_sync.database`.
            catalog: `thrift://host:port` of a Hive metastore, or `glue`; None: as the options say.
            hudi_options: as in `for_path`, and those of the catalog.
            merger: as in `for_path`.
            spark: as in `for_path`.

        Raises `TableNotFoundError` if the catalog has no Hudi table of this name, `CatalogError` if it does not answer,
        and what `for_path` raises. Cost: one request to the catalog, and that of `for_path`.
        """
        from pyhudi.api.catalog import place_of

        path, options = place_of(name, catalog, hudi_options)
        return cls.for_path(path, hudi_options=options, merger=merger, spark=spark)

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
        hudi_options: HudiOptions | None = None,
    ) -> HudiTable:
        """Make a folder a table.

        Args:
            path: the folder; it may exist, without a table in it.
            schema: the columns, without the `_hoodie_*` ones.
            record_key: the columns that identify a record; without any the table generates keys, and takes an upsert
                or delete only of rows with the `_hoodie_*` columns of a read.
            partition_by: the columns whose values are the folders of the table.
            ordering_fields: the columns that say which version of a record is the newest.
            name: the table's name; the folder's, if not given.
            table_type: "cow" (copy-on-write) or "mor" (merge-on-read).
            table_version: 6, 8 or 9.
            merger: how two versions of a record become one: of `pyhudi.mergers`, or a class of your own. The table
                stores its name.
            hudi_options: as in `for_path`, and of how the table is stored: only these are kept, as its properties.

        Raises:
            TableExistsError: there is a table already.
            ConfigError: a column is not in the schema, or an option is not legal.
            SchemaMismatchError: a column has a type that no table can store.

        Cost: one read and two puts.
        """
        from pyhudi.api.opening import create, described_table

        described = described_table(name, record_key, partition_by, ordering_fields, table_type, table_version)
        return cls(create(path, schema, described, merger, hudi_options))

    @classmethod
    def bootstrap(
        cls,
        source: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        record_key: str | Sequence[str],
        partition_by: str | Sequence[str] | None = None,
        ordering_fields: str | Sequence[str] | None = None,
        mode: ModeLike = "metadata_only",
        check_keys: CheckKeys = False,
        name: str | None = None,
        table_type: str = "cow",
        table_version: int = 9,
        spark: SparkSession | None = None,
        on_progress: OnProgress | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> HudiTable:
        """Make a folder of Parquet files a table, without rewriting its data.

        With the mode "metadata_only" the files stay where they are, as a part of the table: stop whatever writes to
        them. Each gets a skeleton file with the meta columns. With "full_record" rows are copied.

        Args:
            source: the folder with the files, which may be in folders such as `month=2013-01`. Not inside `path`.
            path: the folder of the table, which may not be one yet.
            record_key: the columns that identify a row of the source.
            partition_by: the columns of the folders of the source; if not given, those in the names of its folders.
            ordering_fields: as in `create`.
            mode: "metadata_only", "full_record", or a function that gives one of them for a partition path.
            check_keys: raise `RecordKeyError` if a record key occurs twice in a partition; `"warn"`: only warn of it.
                Upserts of such a key change one row or several.
            name: as in `create`.
            table_type: as in `create`.
            table_version: as in `create`.
            spark: the session whose tasks do the work; without one, threads of this process do.
            on_progress: called with a `Progress` whenever a task has ended; not with `spark`, which shows its tasks.
            hudi_options: as in `create`.

        Raises:
            TableExistsError: the folder has a table with rows, or files. What a bootstrap that died left is removed.
            InvalidRequestError: the source has no files, or one that is no Parquet file.
            SchemaMismatchError: files disagree about a column, or have one that no table can store; names the file.
            RecordKeyError: a key is null or empty, or occurs twice.
            ConfigError: rows of a file belong to another partition than that of its folder; a mode is unknown.
            WriteConflictError: another process bootstraps the table, or the source was changed meanwhile.

        Cost: two recursive listings of the source, one footer and the key columns of each file, one skeleton file for
        each. "full_record": as `bulk_insert`. `check_keys`: the keys as exchange files once.
        """
        from pyhudi.api.bootstrap import bootstrap, engine_of
        from pyhudi.api.opening import described_table

        described = described_table(name, record_key, partition_by, ordering_fields, table_type, table_version)
        return cls(bootstrap(source, path, described, mode, check_keys, hudi_options, engine_of(spark, on_progress)))

    @classmethod
    def plan_bootstrap(
        cls,
        source: str | os.PathLike[str],
        path: str | os.PathLike[str],
        *,
        record_key: str | Sequence[str],
        partition_by: str | Sequence[str] | None = None,
        mode: ModeLike = "metadata_only",
        spark: SparkSession | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> pa.Table:
        """What `bootstrap` with these arguments would do. Nothing is written.

        Columns: partition_path, mode, files, rows, bytes, and seconds, an estimate by some rows of the largest file of
        each mode. Raises what `bootstrap` raises before it reads rows. Cost: one listing, one footer per file.
        """
        from pyhudi.api.bootstrap import engine_of, estimated
        from pyhudi.api.opening import described_table

        described = described_table(None, record_key, partition_by, None, "cow", None)
        return estimated(source, path, described, mode, hudi_options, engine_of(spark))

    def refresh(self) -> HudiTable:
        """Let the table be as it is now, with the commits of others. Scans that were made before stay as they are.

        Returns this same table. Cost: one read and one listing.

        >>> table.refresh().scan().count()
        2
        """
        self.handle.refresh()
        return self

    @property
    def schema(self) -> pa.Schema:
        """The columns without `_hoodie_*`; none where the table has no schema yet. Cost: one read."""
        schema = load_table_schema(self.handle.state)
        return schema.arrow if schema is not None else pa.schema([])

    def watermark(self, *, sources: Sequence[str] = (), idle_after: timedelta | None = None) -> Watermark:
        """Up to which event time the table is complete, as its writes with event times report.

        These are writes with `hoodie.write.track.event.time.watermark`, and Kafka's sources of the streamer with it.

        It is the smallest of the largest event times of all sources. So it holds if each source writes its events in
        the order of their times, or no later than the `lateness` that `Watermark.covers` is given.

        Args:
            sources: sources that must have written: without them a source counts once it has.
            idle_after: leave out sources that have written nothing for so long. Their later rows may come too late.

        Cost: one read of the newest commit, and of those beside it; of all on the active timeline if none reports.
        """
        from pyhudi.api.watermark import watermark_of

        return watermark_of(self.handle, sources, idle_after)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        as_of: str | datetime | None = None,
        query_type: str | None = None,
    ) -> Scan:
        """The rows of one moment, to be had as Arrow, pandas, polars, duckdb, or a Spark DataFrame.

        What is not given is as the read options say that the table was opened with.

        Args:
            columns: their names; all if none are given, the `_hoodie_*` ones among them.
            where: `[("city", "==", "oslo"), ("fare", ">", 10)]`, or an Arrow expression. A row without a value passes
                no comparison, as in SQL; such rows are found by `pc.field("city").is_null()`.
            as_of: the rows as they were at this time: an instant, or `2024-01-31 10:00:00` in the zone of the table's
                instants, or `…+01:00`, or a `datetime` with a time zone; or at the savepoint with this name.
            query_type: "snapshot", or "read_optimized": without the logs of a merge-on-read table, so the rows as of
                the last compaction, at the cost of a copy-on-write table.

        Raises:
            ConfigError: an unknown column, a condition that does not fit the columns' types, or a time that is none.
            HistoryNotRetainedError: cleaners have deleted files of the moment asked for.
            HistoryNotSettledError: a write that began at or before this time is still running.

        Cost: one listing of each partition; no data file is opened.

        >>> table.scan(["id", "fare"], [("fare", ">", 9)]).to_arrow().to_pylist()
        [{'id': 1, 'fare': 9.5}]
        """
        from pyhudi.api.scan import scan_of

        return scan_of(self.handle, columns, where, as_of=as_of, query_type=query_type)

    def lookup(self, keys: Iterable[Any], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows with these record keys, in no order; none for a key that the table does not have.

        `keys`: values of the key column; tuples where several columns make the key. `columns`: all if none are given.
        Raises `ConfigError` for keys of another form or type, and unknown columns. Cost: with a record index two
        listings, a block of the index per key, and the row groups that may hold it; else that of a filtered `scan`.
        """
        from pyhudi.api.scan import lookup

        return lookup(self.handle, keys, columns)

    def changes(
        self,
        begin: str | datetime | None = None,
        end: str | datetime | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        format: ChangesFormat | None = None,  # noqa: A002 - the word of Hudi's option
    ) -> Scan:
        """What was written after `begin` and until `end`: the newest rows as of `end`, or every change with its images.

        `latest_state`: the rows in their newest version as of `end`; a late row that lost against an older one is no
        change. Who upserts them, range after range, has all rows of the table, but does not learn what left it: deleted
        rows, those of dropped and overwritten partitions, the place that a row moved from. Without `end`, nothing
        that cleaners delete is needed.

        `cdc`, of a table with `hoodie.table.cdc.enabled`: one row for each insert, update and delete, in the order of
        the writes, with the columns `op` (i, u or d), `ts_ms` (the instant of the write), `before` and `after` (the
        rows as JSON text, as JVM Hudi prints them). `cdc_typed`: the same, but the images are structs of the table's
        columns, null where there is none. The files from before each change are needed.

        Args:
            begin: a completion time (`WriteResult.completion_time`); in table version 6 an instant; or any time, as
                `as_of`. `earliest` or None: from the beginning.
            end: the same; None: until the table was opened.
            columns: as in `scan`.
            where: as in `scan`.
            format: `latest_state`, `cdc` or `cdc_typed`; None: as the table's options say, else `latest_state`.

        Raises:
            ConfigError: as in `scan`, or the range ends before it begins.
            InvalidRequestError: change data is asked of a table that does not capture it.
            HistoryNotRetainedError: cleaners have deleted files of the range; with the option
                `hoodie.datasource.read.incr.fallback.fulltablescan.enable` the rows are read that no later write has
                changed.
            HistoryNotSettledError: in table version 6, a write of the range is still running.

        Cost: as `scan`; of a file slice with logs, and a base file older than the range, that is the logs and a footer,
        and where rows of the logs may lose by their ordering values the base file's keys and ordering values. A range
        that begins before the active timeline also reads the archived one. Change data costs a
        read for each write of the range, its change data logs, and where there are none the rows before and after it.

        >>> last_seen = table.upsert(rows).completion_time
        >>> table.changes(begin=last_seen).count()
        0
        """
        from pyhudi.api.changes import changes_of

        return changes_of(self.handle, begin, end, columns, where, format)

    def upsert(self, rows: RowsLike, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Update the records whose keys the table has, and insert the others. Cost: also a look-up of the keys.

        >>> table.upsert(rows, hudi_options={"hoodie.index.type": "SIMPLE"}).updated
        1
        """
        from pyhudi.api.writes import write_rows

        return write_rows(self.handle, rows, WriteOperation.UPSERT, hudi_options)

    def insert(self, rows: RowsLike, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Add rows without a look-up of their keys; small files are filled first."""
        from pyhudi.api.writes import write_rows

        return write_rows(self.handle, rows, WriteOperation.INSERT, hudi_options)

    def bulk_insert(self, rows: RowsLike, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Add rows as fast as they can be written, into new files. Cost: with Spark a shuffle if rows are sorted."""
        from pyhudi.api.writes import write_rows

        return write_rows(self.handle, rows, WriteOperation.BULK_INSERT, hudi_options)

    def delete(
        self, keys: RowsLike | Sequence[object] | set[Any], *, hudi_options: HudiOptions | None = None
    ) -> WriteResult:
        """Delete records. Cost: as `upsert`.

        `keys`: rows with the columns of key and partition; for one key column and no partitions also a list of keys.

        >>> table.delete(pa.table({"id": [1], "city": ["oslo"]})).deleted
        1
        """
        from pyhudi.api.writes import write_rows

        rows = rows_of_keys(self.handle.state, keys)
        return write_rows(self.handle, rows, WriteOperation.DELETE, hudi_options)

    def delete_partition(
        self, partition_paths: str | Iterable[str], *, hudi_options: HudiOptions | None = None
    ) -> WriteResult:
        """Delete whole partitions by their paths; `*` stands for any characters.

        Raises `InvalidRequestError` for a name of no partition with rows, or one that is a pattern of others, too; and
        `ConfigError` for an empty name. Cost: up to two listings of each partition, with `*` of the table.

        >>> table.delete_partition("oslo").replaced_files
        1
        """
        from pyhudi.api.writes import delete_partitions

        return delete_partitions(self.handle, texts_of(partition_paths, "partition_paths"), hudi_options)

    def truncate(self, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Delete all rows, in one commit: older states stay readable until they are cleaned. Cost: a listing.

        >>> table.truncate().partitions
        2
        """
        from pyhudi.api.writes import truncate

        return truncate(self.handle, hudi_options)

    def insert_overwrite(self, rows: RowsLike, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Replace the partitions that the rows are in."""
        from pyhudi.api.writes import write_rows

        return write_rows(self.handle, rows, WriteOperation.INSERT_OVERWRITE, hudi_options)

    def insert_overwrite_table(self, rows: RowsLike, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Replace all rows of the table."""
        from pyhudi.api.writes import write_rows

        return write_rows(self.handle, rows, WriteOperation.INSERT_OVERWRITE_TABLE, hudi_options)
