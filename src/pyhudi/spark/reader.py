"""A read of a Hudi table as a Spark DataFrame over Spark's own vectorised Parquet reader.

Which files a read needs is resolved on the driver (`pyhudi.read.scan`); Spark gets them as an explicit list with an
explicit schema, so it opens no file to plan, and prunes columns and row groups by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.column import Column

from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.read.scan import ScanPlan, plan_scan
from pyhudi.spark.settings import temporarily
from pyhudi.spark.types import spark_schema
from pyhudi.storage.opening import open_storage

DISCOVERY_TASKS_MAX = 16
"""Spark looks explicit files up in this many tasks; its own default is one task per file, ten thousand at most."""

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


def scan_frame(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of a planned scan, with all columns of `plan.schema` in its order.

    Raises:
        UnsupportedFeatureError: Spark has no type for a column, or cannot reach the table's store.
    """
    schema = spark_schema(plan.schema)
    if not plan.files:
        return spark.createDataFrame([], schema)
    if plan.uri.startswith("memory:"):
        raise UnsupportedFeatureError(
            "Spark cannot read the memory of this process: use HudiTable.to_arrow, or another store", uri=plan.uri
        )
    paths = [f"{plan.uri.rstrip('/')}/{file.path}" for file in plan.files]
    # A folder named `city=x` must neither add a column nor override one of the file: no discovery of partitions.
    # `__globPaths__` keeps Spark from taking brackets and stars in a folder's name for a pattern.
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true").option("__globPaths__", "false")
    # A table of 10,000 files plans in 2 s, not 30.
    with temporarily(spark, {_DISCOVERY_TASKS: str(DISCOVERY_TASKS_MAX)}):
        rows = reader.parquet(*paths)
        if _is_connect(spark):
            rows.schema  # noqa: B018 - Connect looks files up when it first analyses the plan, and keeps the outcome
    if plan.commit_times is not None:
        rows = rows.where(sql.col(_COMMIT_TIME).isin(sorted(plan.commit_times)))
    return _with_path_columns(spark, rows, plan) if plan.path_columns else rows


def _with_path_columns(spark: SparkSession, rows: DataFrame, plan: ScanPlan) -> DataFrame:
    """The rows with the columns that the table's files leave out, from the folder that each file lies in.

    A broadcast join by file name, which is unique in a table: one small row per file.
    """
    values: dict[str, list[str | None]] = {name: [] for name in plan.path_columns}
    for file in plan.files:
        of_file = dict(file.partition_values)
        for name, texts in values.items():
            texts.append(of_file[name])
    names = [file.path.rpartition("/")[2] for file in plan.files]
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
