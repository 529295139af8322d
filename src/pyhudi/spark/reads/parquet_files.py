"""Parquet files that Spark reads itself. Spark gets their paths and schema, so that it opens no file for planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.slices import gone_meanwhile
from pyhudi.spark.settings import is_connect, temporarily
from pyhudi.spark.types import spark_schema

DISCOVERY_TASKS_MAX = 16
"""The number of tasks in which Spark looks up the files. Spark's default is one task per file, up to 10,000."""

_DISCOVERY_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def base_files(plan: ScanPlan, slices: Sequence[ScanSlice]) -> list[str]:
    """The URIs of the base files of those slices that have one."""
    return [f"{plan.uri.rstrip('/')}/{one.files.base}" for one in slices if one.files.base is not None]


def parquet_rows(
    spark: SparkSession, schema: pa.Schema, paths: Sequence[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """The rows of the files at these paths, which have the form of Hadoop. `options` are options of Hadoop.

    Spark looks for the files again when an action runs, and raises its own error for a file that was deleted between.

    Raises:
        HistoryNotRetainedError: a file was deleted.
    """
    # No discovery of partitions: a folder `city=x` must neither add a column nor replace a column of the file.
    # Without `__globPaths__` Spark would take brackets and stars in a folder's name for a pattern.
    # Missing and damaged files are errors, even if the session ignores them: otherwise rows would silently be missing.
    strict = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
    options = {**(options or {}), **strict, "recursiveFileLookup": "true", "__globPaths__": "false"}
    # Planning a table of 10,000 files then takes 2 s instead of 30 s.
    with temporarily(spark, {_DISCOVERY_TASKS: str(DISCOVERY_TASKS_MAX)}):
        try:
            rows = spark.read.schema(spark_schema(schema)).options(**options).parquet(*paths)
            if is_connect(spark):
                rows.schema  # noqa: B018 - Connect looks files up when it first analyses the plan, and keeps the result
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                raise gone_meanwhile((error.getMessageParameters() or {}).get("path")) from error
            raise
    return rows
