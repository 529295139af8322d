"""`Scan`: what is to be read, as a value, and all the forms in which it can be had."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, moment_text, query_type_of
from pyhudi.api.display import bytes_text, counted
from pyhudi.api.explanation import ScanExplanation, explanation_of
from pyhudi.api.handle import TableHandle
from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import ReadConfig, begin_of
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.schema.result_tables import table_of
from pyhudi.format.timeline.instant import instant_time_from_user
from pyhudi.markup import facts
from pyhudi.read.arrow import (
    checked_columns,
    count_rows,
    prune_partitions,
    read_batches,
    read_table,
    scan_condition,
    skipped_by_statistics,
)
from pyhudi.read.conditions import Where, condition_of
from pyhudi.read.few_rows import read_few_rows
from pyhudi.read.plain_partitions import plan_with_plain_partitions
from pyhudi.read.scan import ScanPlan, plan_of_file_groups
from pyhudi.read.skipping.all_indexes import skip_by_all_indexes
from pyhudi.read.skipping.column_statistics import IndexUse
from pyhudi.read.skipping.expression_conditions import asked_of_scan
from pyhudi.read.skipping.metadata_read import MetadataOfRead
from pyhudi.read.skipping.record_index import groups_of_where, where_of_keys
from pyhudi.storage.metered import Meter
from pyhudi.table.instant_times import table_zone
from pyhudi.table.savepoints import load_savepoints, savepoint_named
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

    from pyhudi.api.export import Exported, ExportFormat


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """Rows of a table that were asked for: which columns, under which condition, of which moment or range.

    Made by `HudiTable.scan` and `HudiTable.changes`, which find out what files there are and check the arguments; the
    rows are read by the methods here, each time anew. A scan answers from the moment when its table was opened.

    Every method that reads raises `CorruptDataError` naming a damaged file, and `HistoryNotRetainedError` naming one
    that a cleaner deleted after the scan was made.

    Attributes:
        columns: the names of the columns, in the order of the result.
        where: the condition as it was given; None for all rows.
    """

    columns: tuple[str, ...]
    where: Where
    _state: TableState = field(repr=False)
    _request: ReadConfig = field(repr=False)
    _plan: ScanPlan = field(repr=False)
    _meter: Meter = field(repr=False)

    def __repr__(self) -> str:
        """The table, how many columns, the condition, and how many file slices were planned. Cost: none."""
        parts = [repr(self._state.config.name), counted(len(self.columns), "column")]
        if self.where is not None:
            parts.append(f"where {self.where}")
        return f"Scan({', '.join([*parts, counted(len(self._plan.slices), 'file slice')])})"

    def _repr_html_(self) -> str:
        rows = [("columns", ", ".join(self.columns)), ("where", "all rows" if self.where is None else self.where)]
        sizes = [("file slices", len(self._plan.slices)), ("size of their files", bytes_text(bytes_of(self)))]
        return facts(f"scan of {self._state.config.name}", [*rows, *sizes])

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result and their types. Cost: none."""
        return pa.schema([self._plan.schema.field(name) for name in self.columns])

    @property
    def calls(self) -> Mapping[str, Mapping[str, int]]:
        """How often this scan has called the table's store until now: by what the files are for, and by kind of call.

        The purposes and kinds are those of `WriteResult.calls`. Planning counts, and every method of the scan that
        reads; batches count as they are read. Opening the table does not, nor loading it again after a change. Of
        `to_df` what Spark reads is not counted. Cost: none.

        >>> scan = table.scan(["fare"], [("city", "==", "oslo")])
        >>> _ = scan.to_arrow()
        >>> scan.calls["data"]
        {'GET': 1, 'LIST': 3}
        """
        return self._meter.calls()

    def to_arrow(self) -> pa.Table:
        """The rows as one Arrow table, in memory.

        Cost: the footer of each base file whose partition can match, then the wanted columns of the row groups whose
        statistics can; of file slices with logs the logs, and all columns that merging needs.
        """
        return read_table(self._state.storage, self._pruned(), self.columns, self.where)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows batch by batch, in bounded memory. Cost: as `to_arrow`, spread over the batches."""
        return read_batches(self._state.storage, self._pruned(), self.columns, self.where)

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame. Raises `UnsupportedFeatureError` without pandas. Cost: as `to_arrow`."""
        with _needed("pandas", by="to_pandas"):
            import pandas  # noqa: F401, PLC0415
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The rows as a polars DataFrame. Raises `UnsupportedFeatureError` without polars. Cost: as `to_arrow`."""
        with _needed("polars", by="to_polars"):
            import polars  # noqa: PLC0415
        return polars.DataFrame(self.to_arrow())

    def to_duckdb(self, table_name: str, connection: DuckDBPyConnection | None = None) -> DuckDBPyConnection:
        """The rows as a view of a duckdb connection, of a new one in memory if none is given; returns the connection.

        Raises `UnsupportedFeatureError` without duckdb. Cost: as `to_arrow`; the rows are held in memory.

        >>> table.scan().to_duckdb("trips").sql("SELECT sum(fare) FROM trips").fetchall()
        [(16.5,)]
        """
        with _needed("duckdb", by="to_duckdb", install="'pyhudi[duckdb]'"):
            import duckdb  # noqa: PLC0415
        into: DuckDBPyConnection = duckdb.connect() if connection is None else connection
        into.register(table_name, self.to_arrow())
        return into

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: str | Sequence[str] | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> Exported:
        """Write the rows as plain Parquet files into a folder, batch by batch, in bounded memory.

        The last file is `_SUCCESS`: without it an export has not ended. Partition columns are in the files.

        Args:
            path: a folder, or a URI, without any files, outside of the table.
            partition_by: columns whose values are folders instead, such as `city=oslo`.
            hudi_options: options of its store; those of the table's store hold, too.

        Raises `InvalidRequestError` for a folder with files, and one in the table; `ConfigError` for columns that there
        are not, or that make no names of folders. Cost: as `to_batches`, two listings of the folder, and a request per
        file, of which each has up to 512 MiB of rows in memory.
        """
        return self._exported(path, "parquet", partition_by, hudi_options)

    def to_json(
        self,
        path: str | os.PathLike[str],
        *,
        partition_by: str | Sequence[str] | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> Exported:
        """Write the rows as lines of JSON, an object each, without the names of null values.

        Dates and times are ISO texts, bytes are in base64, NaN and the infinities are texts. Arguments, errors and
        cost: as of `to_parquet`.
        """
        return self._exported(path, "json", partition_by, hudi_options)

    def _exported(
        self,
        path: str | os.PathLike[str],
        file_format: ExportFormat,
        partition_by: str | Sequence[str] | None,
        hudi_options: HudiOptions | None,
    ) -> Exported:
        from pyhudi.api.export import export_rows  # noqa: PLC0415 - reads do without

        batches, source = self.to_batches(), self._state.storage
        return export_rows(source, self.schema, batches, path, file_format, partition_by, hudi_options)

    def to_df(self, spark: SparkSession) -> DataFrame:
        """The rows as a Spark DataFrame, read when an action runs.

        Spark reads base files without logs by its own Parquet reader, and skips row groups by the condition. A further
        condition, as a Spark Column or as SQL text, goes on top: `scan.to_df(spark).where("fare > 10")` skips as much.

        Raises `UnsupportedFeatureError` for a condition that is an Arrow expression, for a column of a type that Spark
        does not have, and for a store that Spark does not reach. Cost: no request and no shuffle.
        """
        # The one place where the public face needs pyspark to read.
        from pyhudi.spark.reads.reader import filtered_frame  # noqa: PLC0415

        return filtered_frame(spark, self._pruned(), self.columns, self.where)

    def count(self) -> int:
        """How many rows there are.

        Cost: without a condition, one footer per base file without logs; no column is read. File slices with logs,
        and all slices of a scan with a condition or of changes, are read with the columns that this needs.
        """
        return count_rows(self._state.storage, self._pruned(), self.where)

    def files(self) -> pa.Table:
        """What would be read: one row per file slice, after leaving out partitions by the condition. Cost: no request.

        Columns: partition_path; path and size of the base file (null where there is none); logs (their paths) and
        log_size. Sizes are in bytes.
        """
        rows = [
            {
                "partition_path": file_slice.partition_path,
                "path": file_slice.files.base,
                "size": file_slice.size - file_slice.log_size if file_slice.files.base is not None else None,
                "logs": list(file_slice.files.logs),
                "log_size": file_slice.log_size if file_slice.files.logs else 0,
            }
            for file_slice in self._pruned().slices
        ]
        return table_of(_FILES_COLUMNS, rows)

    def explain(self) -> ScanExplanation:
        """What this scan would do, and why: query, times, files and bytes, what is left out and what is merged.

        `print()` it for a text. Cost: of a scan with a condition, and of changes, the footer of each base file without
        logs whose partition can match; else no request.

        >>> table.scan(where=[("city", "==", "oslo")]).explain().partitions_left_out
        ('rome',)
        """
        pruned, indexes = self._skipped()
        skipped = skipped_by_statistics(self._state.storage, pruned, self.where)
        return explanation_of(
            self._state, self._request, self._plan, pruned, skipped, indexes, columns=self.columns, where=self.where
        )

    def _pruned(self) -> ScanPlan:
        """The plan without the partitions and file slices that the condition rules out."""
        return self._skipped()[0]

    def _skipped(self) -> tuple[ScanPlan, tuple[IndexUse, ...]]:
        plan = prune_partitions(self._plan, self.where)
        condition = scan_condition(plan, self.where)
        if condition is None:
            return plan, ()
        if not plan.data_skipping:
            is_off = not self._request.data_skipping
            note = "hoodie.enable.data.skipping=false" if is_off else "no index knows the files that are not Hudi's"
            return plan, (IndexUse("column_stats", note=note),)
        is_newest = self._request.as_of is None and self._request.query_type is not QueryType.INCREMENTAL
        asked = asked_of_scan(plan, self.where, condition)
        metadata = MetadataOfRead(self._state)
        found = skip_by_all_indexes(metadata, plan, asked, is_newest=is_newest and not plan.leaves_out_logs)
        return found.plan, found.uses


def scan_of(
    handle: TableHandle,
    columns: Sequence[str] | None,
    where: Where,
    *,
    as_of: str | datetime | None,
    query_type: str | None,
) -> Scan:
    """A scan of the rows at one moment; what is not asked for is as the table's options say."""
    handle, meter = handle.counting()
    request = ReadConfig.from_options(handle.options)
    if query_type is not None or as_of is not None:
        kind = request.query_type if query_type is None else query_type_of(query_type)
        if kind is QueryType.INCREMENTAL:
            kind = QueryType.SNAPSHOT
        request = replace(request, query_type=kind, change_data=False)
        if as_of is not None:
            moment, is_savepoint = _moment(handle, moment_text(as_of, "as_of"))
            request = replace(request, as_of=moment, is_savepoint=is_savepoint)
    return _scan(handle, meter, request, columns, where)


def _moment(handle: TableHandle, as_of: str) -> tuple[str, bool]:
    """A time, or the instant of the savepoint with this name, and whether it is that.

    Cost: nothing for a time; else a read per savepoint.
    """
    try:
        return instant_time_from_user(as_of, table_zone(handle.state.config)), False
    except ConfigError as error:
        named = savepoint_named(load_savepoints(handle.state.storage, handle.state.timeline), as_of)
        if named is None:
            raise ConfigError(f"{error.message}; and no savepoint has this name", value=as_of) from error
        return named, True


def lookup(handle: TableHandle, keys: Iterable[Any], columns: Sequence[str] | None) -> pa.Table:
    """The rows with these record keys. See `HudiTable.lookup`."""
    where = where_of_keys(handle.state, keys)
    _check_key_types(handle, where)
    groups = groups_of_where(handle.state, where)
    if groups is None:
        return scan_of(handle, columns, where, as_of=None, query_type="snapshot").to_arrow()
    plan = plan_of_file_groups(handle.state, _snapshot(handle), handle.mergers, groups)
    return read_few_rows(handle.state.storage, plan, columns, where)


def _check_key_types(handle: TableHandle, where: Sequence[Any]) -> None:
    """Raise `ConfigError`, which has the types of the key columns, if a key cannot be compared with them."""
    schema = load_table_schema(handle.state)
    columns = [name for name, *_ in where[0]]
    if schema is None or not set(columns) <= set(schema.arrow.names):
        return
    try:
        condition_of(where, schema.arrow)
    except ConfigError as error:
        types = ", ".join(f"{name} is {schema.arrow.field(name).type}" for name in columns)
        raise ConfigError(f"keys must have the types of the key columns: {types}") from error


def scan_of_changes(
    handle: TableHandle,
    begin: str | datetime | None,
    end: str | datetime | None,
    columns: Sequence[str] | None,
    where: Where,
) -> Scan:
    """A scan of the rows that were written in a range of time."""
    request = ReadConfig.from_options(handle.options)
    begin = request.begin if begin is None else begin_of(moment_text(begin, "begin"))
    end = request.end if end is None else moment_text(end, "end")
    request = replace(request, query_type=QueryType.INCREMENTAL, as_of=None, begin=begin, end=end, change_data=False)
    return _scan(*handle.counting(), request, columns, where)


def bytes_of(scan: Scan) -> int:
    """The size of the files of a scan, before a condition leaves any out."""
    return sum(file_slice.size for file_slice in scan._plan.slices)


def scan_for_write(handle: TableHandle, columns: Sequence[str] | None, where: Where) -> Scan:
    """A scan of all rows of the opened state, whatever the options say of time, query type and damaged files."""
    return _scan(*handle.counting(), replace(_snapshot(handle), skip_damaged_files=False), columns, where)


def _snapshot(handle: TableHandle) -> ReadConfig:
    """Of all rows of the opened state, whatever the options say of time and query type."""
    request = ReadConfig.from_options(handle.options)
    return replace(request, query_type=QueryType.SNAPSHOT, as_of=None, is_savepoint=False)


def _scan(handle: TableHandle, meter: Meter, request: ReadConfig, columns: Sequence[str] | None, where: Where) -> Scan:
    """The scan of a table through a handle whose calls `meter` counts."""
    plan = plan_with_plain_partitions(handle.state, request, handle.mergers)
    names = checked_columns(plan, columns)
    condition_of(where, plan.schema)  # what is wrong with it is said here, not when rows are read
    return Scan(tuple(names), where, handle.state, request, plan, meter)


@contextmanager
def _needed(package: str, *, by: str, install: str | None = None) -> Iterator[None]:
    """Say of a package that is not there what to install."""
    try:
        yield
    except ImportError as error:
        raise UnsupportedFeatureError(
            f"{by} needs {package}: pip install {install or package}", package=package
        ) from error


_FILES_COLUMNS = "partition_path string, path string, size int64, logs list<string>, log_size int64"
