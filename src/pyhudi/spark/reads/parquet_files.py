"""Parquet files that Spark reads by itself: an explicit list with an explicit schema, so it opens none to plan."""

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
"""Spark looks explicit files up in this many tasks; its own default is one task per file, ten thousand at most."""

_DISCOVERY_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


def base_files(plan: ScanPlan, slices: Sequence[ScanSlice]) -> list[str]:
    """The paths of the base files of some slices, of those that have one."""
    return [f"{plan.uri.rstrip('/')}/{one.files.base}" for one in slices if one.files.base is not None]


def parquet_rows(
    spark: SparkSession, schema: pa.Schema, paths: Sequence[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """The rows of the files at these paths, which are as Hadoop writes them. `options` are for Hadoop.

    Raises `HistoryNotRetainedError` for a file that is not there any more. Spark looks again when an action runs: what
    vanishes by then is an error of its own.
    """
    # A folder named `city=x` must neither add a column nor override one of the file: no discovery of partitions.
    # `__globPaths__` keeps Spark from taking brackets and stars in a folder's name for a pattern.
    # Missing and damaged files are errors, whatever the session says: a table without their rows is another table.
    strict = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
    options = {**(options or {}), **strict, "recursiveFileLookup": "true", "__globPaths__": "false"}
    # A table of 10,000 files plans in 2 s, not 30.
    with temporarily(spark, {_DISCOVERY_TASKS: str(DISCOVERY_TASKS_MAX)}):
        try:
            rows = spark.read.schema(spark_schema(schema)).options(**options).parquet(*paths)
            if is_connect(spark):
                rows.schema  # noqa: B018 - Connect looks files up when it first analyses the plan, and keeps the outcome
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                raise gone_meanwhile((error.getMessageParameters() or {}).get("path")) from error
            raise
    return rows
