"""Reads of a Hudi table as a Spark DataFrame.

The driver resolves the files of a read (`pyhudi.read.scan`). Spark's own vectorised Parquet reader reads base files
without logs. It gets their paths and their schema, so that it opens no file for planning, and it prunes columns and row
groups.

Slices with logs are read in one of three ways (measured in `docs/design/merge_on_read.md`). If the merge rules select
one version of each record, Spark reads the base files and logs itself, without the superseded rows. For logs that Spark
cannot open, it then calls a function for each column of the logs (`native_logs`). In all other cases tasks merge whole
slices in Arrow (`pyhudi.io.slices.merged`): if rules combine versions, if logs are large, or if Spark cannot open the
logs and the caller selects columns. In a store that Spark cannot open, tasks or functions of columns read everything
(`closed_stores`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.column import Column

from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.read.conditions import Where
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.comparisons import OPERATORS, Comparison, comparisons_of
from pyhudi.read.slices import read_slice
from pyhudi.read.table_of_path import changes_of_path, plan_of_path
from pyhudi.spark.frames import frame_of_arrow
from pyhudi.spark.options import table_options, with_session_store
from pyhudi.spark.reads.bootstrapped import bootstrapped_rows, native_slices, skeleton_rows
from pyhudi.spark.reads.cdc import change_frame
from pyhudi.spark.reads.closed_stores import rows_of_base_files, rows_with_logs, slices_by_columns
from pyhudi.spark.reads.earlier_columns import convertible, rows_of_earlier_columns, with_earlier_columns
from pyhudi.spark.reads.hadoop_stores import can_open
from pyhudi.spark.reads.jvm_objects import encoded_uri
from pyhudi.spark.reads.native_logs import can_split, read_of_blocks, rows_by_columns, rows_of_blocks
from pyhudi.spark.reads.parquet_files import files_of_slices, known_columns, rows_of_files
from pyhudi.spark.reads.slice_tasks import packed, task_rows
from pyhudi.spark.types import spark_schema
from pyhudi.storage.protocol import Storage

_COMMIT_TIME = "_hoodie_commit_time"
_FILE_NAME = "_pyhudi_file_name"
_SCHEME = "^[^:/]+:/+"


def load_table(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """The DataFrame of `spark.read.format("hudi").options(…).load(path)`.

    This call resolves the files; Spark reads the rows when an action runs. The DataFrame does not contain later
    commits.

    Raises:
        TableNotFoundError: `path` is neither a Hudi table nor a partition of one.
        ConfigError: the value of a read option is not valid.
    """
    options = with_session_store(spark, path, table_options(options))
    config = ReadConfig.from_options(options)
    if config.change_data:
        return change_frame(spark, changes_of_path(path, options, config)[1])
    return scan_frame(spark, plan_of_path(path, options, config)[1])


def scan_frame(spark: SparkSession, plan: ScanPlan, columns: Sequence[str] | None = None) -> DataFrame:
    """The rows of a planned scan with these columns, or with all columns of `plan.schema`.

    Raises:
        UnsupportedFeatureError: Spark has no type for a column, or cannot reach the table's store.
    """
    names = list(plan.schema.names) if columns is None else list(columns)
    if plan.slices and plan.uri.startswith("memory:"):
        raise UnsupportedFeatureError(
            "Spark cannot read a table in the memory of this process: use scan().to_arrow(), or another store",
            uri=plan.uri,
        )
    if plan.slices and not can_open(spark, plan.storage):
        parts = list(_rows_of_closed_store(spark, replace(plan, in_tasks=True), columns))
        return reduce(lambda rows, more: rows.unionAll(more), parts)
    parts = []
    earlier = with_earlier_columns(plan)
    if stay := convertible(plan, earlier):
        of_groups = rows_of_earlier_columns(spark, plan, stay, earlier)
        parts += [_in_range(rows, plan).select(*map(_quoted, names)) for rows in of_groups]
    if in_tasks := tuple(file_slice for file_slice in plan.slices if file_slice in earlier.keys() - {*stay}):
        parts.append(_merged_rows(spark, replace(plan, slices=in_tasks, in_tasks=True), names))
    if earlier:
        plan = replace(plan, slices=tuple(file_slice for file_slice in plan.slices if file_slice not in earlier))
    if plan.plain:
        rows = _plain_rows(spark, plan)
        parts.append(rows if names == plan.schema.names else rows.select(*map(_quoted, names)))
    if stay := native_slices(plan):
        read = skeleton_rows if names and {*names} <= {*META_COLUMNS} else bootstrapped_rows
        parts.append(_in_range(read(spark, plan, stay), plan).select(*map(_quoted, names)))
        plan = replace(plan, slices=tuple(file_slice for file_slice in plan.slices if file_slice not in stay))
    if plan.merged:
        parts += _rows_with_logs(spark, plan, columns)
    if not parts:
        return spark.createDataFrame([], spark_schema(plan.schema)).select(*map(_quoted, names))
    return reduce(lambda rows, more: rows.unionAll(more), parts)


def filtered_frame(spark: SparkSession, plan: ScanPlan, columns: Sequence[str], where: Where) -> DataFrame:
    """The rows of a planned scan that meet a condition, with these columns.

    Raises:
        UnsupportedFeatureError: as `scan_frame`; or the condition is not a list of comparisons.
    """
    all_columns = list(columns) == plan.schema.names
    if where is None:
        return scan_frame(spark, plan, None if all_columns else columns)
    rows = scan_frame(spark, plan).where(spark_condition(where, plan.schema))
    return rows if all_columns else rows.select(*map(_quoted, columns))


def _rows_with_logs(spark: SparkSession, plan: ScanPlan, columns: Sequence[str] | None) -> Iterator[DataFrame]:
    """The rows of the slices with logs, one DataFrame for each way to read them."""
    splits = can_split(plan)
    by_blocks = read_of_blocks(spark, plan) if splits else None
    if by_blocks is not None:
        rows = rows_of_blocks(spark, by_blocks)
        yield rows if columns is None else rows.select(*map(_quoted, columns))
        read = set(by_blocks.plan.slices)
        plan = replace(plan, slices=tuple(file_slice for file_slice in plan.merged if file_slice not in read))
    if plan.merged:
        by_columns = rows_by_columns(spark, plan) if splits and columns is None else None
        names = plan.schema.names if columns is None else columns
        yield _merged_rows(spark, plan, names) if by_columns is None else by_columns


def _rows_of_closed_store(spark: SparkSession, plan: ScanPlan, columns: Sequence[str] | None) -> Iterator[DataFrame]:
    """The rows in a store that Spark cannot open, one DataFrame for each way to read them.

    Tasks read the columns that the caller names. If it names none, what Spark does with the rows decides.
    """
    plain, with_logs = slices_by_columns(plan) if columns is None else ((), ())
    names = plan.schema.names if columns is None else columns
    if plain:
        yield _in_range(rows_of_base_files(spark, replace(plan, slices=plain)), plan)
    if with_logs:
        yield rows_with_logs(spark, replace(plan, slices=with_logs))
    by_columns = {*plain, *with_logs}
    if rest := tuple(file_slice for file_slice in plan.slices if file_slice not in by_columns):
        yield _merged_rows(spark, replace(plan, slices=rest), names)


def _plain_rows(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of the slices without logs."""
    known = known_columns(spark, plan, plan.plain)
    rows = _in_range(rows_of_files(spark, plan, files_of_slices(plan, plan.plain), known=known), plan)
    return rows if known.keys() >= {*plan.path_columns} else _with_path_columns(spark, rows, plan)


def _merged_rows(spark: SparkSession, plan: ScanPlan, names: Sequence[str]) -> DataFrame:
    """The rows of the slices with logs, merged in Arrow tasks."""
    schema = pa.schema([plan.schema.field(name) for name in names])

    def read(storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        del number
        return read_slice(storage, plan, scan_slice, schema.names)

    return task_rows(spark, plan, packed(plan), read, spark_schema(schema))


def _in_range(rows: DataFrame, plan: ScanPlan) -> DataFrame:
    if plan.commit_times is None:
        return rows
    return rows.where(sql.col(_COMMIT_TIME).isin(sorted(plan.commit_times)))


def _with_path_columns(spark: SparkSession, rows: DataFrame, plan: ScanPlan) -> DataFrame:
    """The rows with the columns that are not in the files, from the partition path of each file.

    Cost: a broadcast join with one small row per file, by its name, which is unique in a table, or, with files that are
    not Hudi's, by its path, with up to two.
    """
    values: dict[str, list[str | None]] = {name: [] for name in plan.path_columns}
    bases = [file_slice.files.base or "" for file_slice in plan.plain]
    by_path = any(parse_data_file(base.rpartition("/")[2]) is None for base in bases)
    names: list[str] = []
    for base, file_slice in zip(bases, plan.plain, strict=True):
        of_file = dict(file_slice.partition_values)
        forms = _forms_of_path(f"{plan.uri}/{base}") if by_path else {base.rpartition("/")[2]}
        names += forms
        for name, texts in values.items():
            texts.extend([of_file[name]] * len(forms))
    if len({*names}) < len(names):
        raise UnsupportedFeatureError("the name of a file is the encoded name of another one; rename it", uri=plan.uri)
    lookup = frame_of_arrow(
        spark, pa.table({_FILE_NAME: names, **{name: pa.array(texts, pa.string()) for name, texts in values.items()}})
    )
    types = {field.name: field.dataType for field in spark_schema(plan.schema).fields}
    lookup = lookup.select(_FILE_NAME, *[sql.col(_quoted(name)).cast(types[name]).alias(name) for name in values])
    kept = [field.name for field in plan.schema if field.name not in values]
    place = sql.regexp_replace("_metadata.file_path", _SCHEME, "/") if by_path else sql.col("_metadata.file_name")
    in_files = rows.select(*map(_quoted, kept), place.alias(_FILE_NAME))
    joined = in_files.join(sql.broadcast(lookup), _FILE_NAME, "left")
    return joined.select(*[_quoted(field.name) for field in plan.schema])


def _forms_of_path(uri: str) -> set[str]:
    """A path without its scheme as Spark may say it: versions differ in whether they encode it."""
    return {re.sub(_SCHEME, "/", form) for form in (uri, encoded_uri(uri))}


def spark_condition(where: Where, schema: pa.Schema) -> Column:
    """A list of comparisons as a Spark condition. The caller has checked it against the schema (`condition_of`)."""
    if not isinstance(where, list | tuple):
        raise UnsupportedFeatureError(
            "Spark needs a condition as a list of comparisons, not as an Arrow expression: give a list, for example "
            '[("city", "==", "oslo")], or filter the DataFrame with its own where()',
            given=type(where).__name__,
        )
    alternatives = comparisons_of(where, schema)
    return reduce(
        or_,
        (reduce(and_, (_comparison(condition, schema) for condition in alternative)) for alternative in alternatives),
    )


def _comparison(comparison: Comparison, schema: pa.Schema) -> Column:
    column, kind = sql.col(_quoted(comparison.column)), schema.field(comparison.column).type
    if comparison.operator in OPERATORS:
        compared = cast("Column", OPERATORS[comparison.operator](column, _literal(comparison.value, kind)))
        # Spark treats NaN as larger than any number.
        return compared & ~sql.isnan(column) if ">" in comparison.operator and pa.types.is_floating(kind) else compared
    found = column.isin([_literal(value, kind) for value in comparison.value])
    return found if comparison.operator == "in" else column.isNotNull() & ~found


def _literal(value: Any, kind: pa.DataType) -> Any:
    """A value for Spark. Without the cast Spark would put a time without a zone into the session's time zone."""
    if pa.types.is_timestamp(kind) and kind.tz is None:
        return sql.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
    return value


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
