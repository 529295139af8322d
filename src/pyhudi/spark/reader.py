"""A read of a Hudi table as a Spark DataFrame.

Which files a read needs is resolved on the driver (`pyhudi.read.scan`). Base files without logs go to Spark's own
vectorised Parquet reader as an explicit list with an explicit schema, so it opens no file to plan, and prunes columns
and row groups by itself.

Slices with logs are read in one of two ways (measured in `docs/design/merge_on_read.md`). Where every record is one of
its versions, Spark reads the base files in the same way, less the rows that logs replace: tasks in Arrow find those by
keys and ordering values, and Spark leaves them out by a broadcast join; records of logs come from other tasks, and
their columns from a function each, which Spark leaves out where a query does not need them (`pyhudi.io.split_slice`).
Where rules mix versions, where logs are large, or where the caller names the columns, tasks in Arrow merge whole slices
(`pyhudi.io.merged_slice`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, cast

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.column import Column
from pyspark.sql.types import DataType, StructField, StructType

from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.index.lookup import spread
from pyhudi.io.split_slice import (
    BITS,
    LOG_ROWS_SCHEMA,
    OUT_OF_USE_SCHEMA,
    PART,
    PARTS_MAX,
    PLACE,
    WORD,
    WORD_ROWS,
    WORDS_PER_PART,
    log_rows,
    part_of_logs,
    rows_out_of_use,
)
from pyhudi.read.scan import ScanPlan, ScanSlice, plan_scan
from pyhudi.read.slices import read_slice
from pyhudi.spark.engine import conformed, session_parallelism
from pyhudi.spark.log_columns import read_log_column, unpacked_plan
from pyhudi.spark.settings import temporarily
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.storage.opening import open_spec, open_storage
from pyhudi.storage.protocol import Storage

DISCOVERY_TASKS_MAX = 16
"""Spark looks explicit files up in this many tasks; its own default is one task per file, ten thousand at most."""

SLICES_PER_TASK_MAX = 64
"""Slices with logs that one task merges, one after the other."""

BROADCAST_LOG_BYTES_MAX = 256 << 20
"""Bytes of logs up to which what they put out of use, at most some bytes a record, is sent to all workers."""

_DISCOVERY_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_COMMIT_TIME = "_hoodie_commit_time"
_FILE_NAME = "_pyhudi_file_name"


def load_table(spark: SparkSession, path: str, options: Mapping[str, str]) -> DataFrame:
    """The DataFrame of `spark.read.format("hudi").options(…).load(path)`.

    The table is looked at now; the rows are read when an action runs. Later commits are not seen: load again.

    Raises:
        TableNotFoundError: `path` holds no Hudi table.
        ConfigError: an option of the read has no legal value.
    """
    config = ReadConfig.from_options(options)
    return scan_frame(spark, plan_scan(open_storage(path, options), config))


def scan_frame(spark: SparkSession, plan: ScanPlan, columns: Sequence[str] | None = None) -> DataFrame:
    """The rows of a planned scan, with these columns, or all of `plan.schema` in its order.

    Raises:
        UnsupportedFeatureError: Spark has no type for a column, or cannot reach the table's store.
    """
    names = list(plan.schema.names) if columns is None else list(columns)
    if plan.slices and plan.uri.startswith("memory:"):
        raise UnsupportedFeatureError(
            "Spark cannot read the memory of this process: use HudiTable.to_arrow, or another store", uri=plan.uri
        )
    parts = []
    if plan.plain:
        parts.append(_plain_rows(spark, plan).select(*map(_quoted, names)))
    if plan.merged:
        base_parts = _base_parts(plan) if columns is None else None
        parts.append(_merged_rows(spark, plan, names) if base_parts is None else _split_rows(spark, plan, base_parts))
    if not parts:
        return spark.createDataFrame([], spark_schema(plan.schema)).select(*map(_quoted, names))
    return reduce(lambda rows, more: rows.unionAll(more), parts)


def _plain_rows(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of the slices without logs."""
    rows = _in_range(_parquet(spark, plan, plan.plain), plan)
    return _with_path_columns(spark, rows, plan) if plan.path_columns else rows


def _parquet(spark: SparkSession, plan: ScanPlan, slices: Sequence[ScanSlice]) -> DataFrame:
    """The rows of the base files of some slices, read by Spark."""
    paths = [f"{plan.uri.rstrip('/')}/{one.files.base}" for one in slices]
    # A folder named `city=x` must neither add a column nor override one of the file: no discovery of partitions.
    # `__globPaths__` keeps Spark from taking brackets and stars in a folder's name for a pattern.
    schema = spark_schema(plan.schema)
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    # A table of 10,000 files plans in 2 s, not 30.
    with temporarily(spark, {_DISCOVERY_TASKS: str(DISCOVERY_TASKS_MAX)}):
        rows = reader.parquet(*paths)
        if _is_connect(spark):
            rows.schema  # noqa: B018 - Connect looks files up when it first analyses the plan, and keeps the outcome
    return rows


def _merged_rows(spark: SparkSession, plan: ScanPlan, names: list[str]) -> DataFrame:
    """The rows of the slices with logs, merged in Arrow tasks."""
    needed = names if plan.commit_times is None else list(dict.fromkeys([*names, _COMMIT_TIME]))
    schema = pa.schema([plan.schema.field(name) for name in needed])

    def read(storage: Storage, plan: ScanPlan, one: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        del number
        return read_slice(storage, plan, one, schema.names)

    return _in_range(_task_rows(spark, plan, _packed(plan), read, schema), plan).select(*map(_quoted, names))


@dataclass(frozen=True, slots=True)
class _BaseParts:
    """What numbers the base files with logs: as Spark's column over their rows, and by path."""

    of_row: Column
    by_path: Mapping[str, int]


def _base_parts(plan: ScanPlan) -> _BaseParts | None:
    """How to tell base files with logs apart, for Spark to read them by itself, and the columns of logs one by one.

    None where it cannot. The numbers are the files' sizes if they differ, which cost Spark nothing, else checksums of
    their names, if these differ.
    """
    rules = plan.merging.rules
    if (
        not hasattr(sql, "arrow_udf")  # PySpark 4.1
        or not (rules.with_base.selects and rules.in_logs.selects)
        or plan.commit_times is not None
        or plan.path_columns
        or sum(one.log_size for one in plan.merged) > BROADCAST_LOG_BYTES_MAX
    ):
        return None
    bases = [(one.files.base, one.size - one.log_size) for one in plan.merged if one.files.base is not None]
    by_size = {base: size for base, size in bases if size < PARTS_MAX}
    if len(set(by_size.values())) == len(bases):
        return _BaseParts(sql.col("_metadata.file_size"), by_size)
    by_name = {base: zlib.crc32(base.rpartition("/")[2].encode()) for base, _ in bases}
    if len(set(by_name.values())) == len(bases):
        return _BaseParts(sql.crc32("_metadata.file_name"), by_name)
    return None


def _split_rows(spark: SparkSession, plan: ScanPlan, base_parts: _BaseParts) -> DataFrame:
    """The rows of the slices with logs: base files read by Spark and records of logs, less what is out of use."""
    by_path = base_parts.by_path
    pickled = _packed(plan)

    def find(storage: Storage, plan: ScanPlan, one: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        base_part = by_path.get(one.files.base or "", 0)
        return rows_out_of_use(storage, one.files, plan.merging, base_part=base_part, log_part=part_of_logs(number))

    def count(storage: Storage, plan: ScanPlan, one: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        return log_rows(storage, one.files, plan.merging, log_part=part_of_logs(number))

    in_logs = _task_rows(spark, plan, pickled, count, LOG_ROWS_SCHEMA)
    rows = in_logs.select(*_log_columns(plan, pickled), PART, PLACE).toDF(*plan.schema.names, PART, PLACE)
    with_base = [one for one in plan.merged if one.files.base is not None]
    if with_base:
        place = sql.col("_metadata.row_index").alias(PLACE)
        stored = _parquet(spark, plan, with_base).select("*", base_parts.of_row.alias(PART), place)
        rows = stored.unionAll(rows)
    out_of_use = sql.broadcast(_task_rows(spark, plan, pickled, find, OUT_OF_USE_SCHEMA))
    word = sql.col(PART) * WORDS_PER_PART + sql.shiftright(PLACE, 6)
    is_out_of_use = (sql.col(WORD) == word) & (sql.getbit(BITS, sql.col(PLACE).bitwiseAND(WORD_ROWS - 1)) == 1)
    return rows.join(out_of_use, is_out_of_use, "left_anti").drop(PART, PLACE)


def _log_columns(plan: ScanPlan, pickled: bytes) -> list[Column]:
    """Columns over `LOG_ROWS_SCHEMA`: a call each, so that Spark leaves out those that a query does not need.

    What one task yields in many columns it cannot leave out: Spark tells a Python task nothing of the query. A function
    for each type, not for each column, because to make one takes the driver longer than to call it.
    """
    names = plan.schema.names

    @cache
    def reader(kind: DataType) -> Any:
        def read(parts: pa.Array, places: pa.Array, numbers: pa.Array) -> pa.Array:
            shape = arrow_schema(StructType([StructField("value", kind)])).field(0).type
            if not len(numbers):
                return pa.nulls(0, shape)
            return read_log_column(pickled, names[numbers[0].as_py()], shape, parts, places)

        return sql.arrow_udf(read, kind)

    part, place = sql.col(PART), sql.col(PLACE)
    kinds = [field.dataType for field in spark_schema(plan.schema).fields]
    return [reader(kind)(part, place, sql.lit(number)) for number, kind in enumerate(kinds)]


def _packed(plan: ScanPlan) -> bytes:
    """The plan as tasks get it (`unpacked_plan`)."""
    return zlib.compress(cloudpickle.dumps(plan))


def _task_rows(
    spark: SparkSession,
    plan: ScanPlan,
    pickled: bytes,
    read: Callable[[Storage, ScanPlan, ScanSlice, int], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:
    """What a function makes of each slice with logs, a few slices to a task."""
    weights = {number: one.size for number, one in enumerate(plan.merged)}
    shares = spread(weights, max(session_parallelism(spark), len(weights) // SLICES_PER_TASK_MAX))
    ddl = spark_schema(schema)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = unpacked_plan(pickled)
        storage, slices, shape = open_spec(plan.storage), plan.merged, arrow_schema(ddl)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for number in shares[index]:
                    yield from conformed(read(storage, plan, slices[number], number), shape)

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, ddl)


def _in_range(rows: DataFrame, plan: ScanPlan) -> DataFrame:
    if plan.commit_times is None:
        return rows
    return rows.where(sql.col(_COMMIT_TIME).isin(sorted(plan.commit_times)))


def _with_path_columns(spark: SparkSession, rows: DataFrame, plan: ScanPlan) -> DataFrame:
    """The rows with the columns that the table's files leave out, from the folder that each file lies in.

    A broadcast join by file name, which is unique in a table: one small row per file.
    """
    values: dict[str, list[str | None]] = {name: [] for name in plan.path_columns}
    names = []
    for one in plan.plain:
        of_file = dict(one.partition_values)
        names.append((one.files.base or "").rpartition("/")[2])
        for name, texts in values.items():
            texts.append(of_file[name])
    lookup = spark.createDataFrame(
        pa.table({_FILE_NAME: names, **{name: pa.array(texts, pa.string()) for name, texts in values.items()}})
    )
    types = {field.name: field.dataType for field in spark_schema(plan.schema).fields}
    lookup = lookup.select(_FILE_NAME, *[sql.col(_quoted(name)).cast(types[name]).alias(name) for name in values])
    kept = [field.name for field in plan.schema if field.name not in values]
    in_files = rows.select(*map(_quoted, kept), sql.col("_metadata.file_name").alias(_FILE_NAME))
    joined = in_files.join(sql.broadcast(lookup), _FILE_NAME, "left")
    return joined.select(*[_quoted(field.name) for field in plan.schema])


def spark_condition(where: list[Any]) -> Column:
    """`[(column, operator, value), …]` (all hold), or a list of such lists (one holds), as a Spark condition.

    Raises:
        ConfigError: an operator is none of `=`, `==`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`.
    """
    if where and isinstance(where[0], list):
        return reduce(or_, map(spark_condition, where))
    return reduce(and_, (_comparison(*part) for part in where))


def _comparison(name: str, operator: str, value: Any) -> Column:
    column = sql.col(_quoted(name))
    match operator:
        case "in":
            return column.isin(*value)
        case "not in":
            return ~column.isin(*value)
        case _ if operator in _COMPARISONS:
            return cast("Column", _COMPARISONS[operator](column, value))
    raise ConfigError("unknown operator in a condition", operator=operator, known=[*_COMPARISONS, "in", "not in"])


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")
