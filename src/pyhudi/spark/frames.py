"""DataFrames made of plans and of Arrow, and back, in each version of PySpark."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.capabilities import DATASET, IS_4, VERSION
from pyhudi.spark.settings import is_connect
from pyhudi.spark.types import arrow_schema, spark_schema


def frame_class(spark: SparkSession) -> Any:
    """The class of this session's DataFrames."""
    kind = "connect." if is_connect(spark) else "classic." if IS_4 else ""
    return import_module(f"pyspark.sql.{kind}dataframe").DataFrame


def under(rows: DataFrame, settings: Mapping[str, str]) -> DataFrame:
    """The same rows, which Spark plans and computes under settings of their own.

    They belong to a clone of the session, so no other query sees the settings. A session of Spark Connect cannot share
    its rows with a clone: there the rows stay as they are. Cost: without settings none, else a clone of the session's
    state in the JVM.
    """
    spark = rows.sparkSession
    if not settings or is_connect(spark):
        return rows
    clone = spark._jsparkSession.cloneSession()
    for name, value in settings.items():
        clone.conf().set(name, value)
    plan = rows._jdf.queryExecution().logical()
    frame: DataFrame = frame_class(spark)(getattr(spark._jvm, DATASET).ofRows(clone, plan), spark)
    return frame


def in_session(rows: DataFrame, spark: SparkSession) -> DataFrame:
    """The same rows, of this session; of Spark Connect as they are. Cost: an analysis where they are of another one."""
    if is_connect(spark) or rows.sparkSession is spark:
        return rows
    plan = rows._jdf.queryExecution().logical()
    frame: DataFrame = frame_class(spark)(getattr(spark._jvm, DATASET).ofRows(spark._jsparkSession, plan), spark)
    return frame


def session_of_its_own(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session with what this one has now, and settings of its own. Cost: a clone of the session's state.

    Raises `UnsupportedFeatureError` for a session of Spark Connect before PySpark has clones of these.
    """
    if not is_connect(spark):
        own: SparkSession = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    elif hasattr(spark, "cloneSession"):
        own = spark.cloneSession()
    else:
        raise UnsupportedFeatureError(
            "transformers over Spark Connect need a newer PySpark, which clones sessions: give a classic session",
            pyspark=VERSION,
        )
    for name, value in settings.items():
        own.conf.set(name, value)
    return own


def frame_of_arrow(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """A DataFrame of a few rows, with their types also where there are none.

    Before PySpark 4.0 they pass as tuples of Python.
    """
    if IS_4 and rows.num_rows:
        return spark.createDataFrame(rows)
    kinds = zip(spark_schema(rows.schema).fields, rows.schema, strict=True)
    schema = StructType([StructField(kind.name, kind.dataType, field.nullable) for kind, field in kinds])
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in rows.columns]
    return spark.createDataFrame(list(zip(*columns, strict=True)), schema)


def arrow_of_frame(rows: DataFrame) -> pa.Table:
    """The rows of a DataFrame. Cost: a job of Spark; this process keeps its rows."""
    if IS_4:
        return rows.toArrow()
    batches = rows._collect_as_arrow()
    return pa.Table.from_batches(batches) if batches else arrow_schema(rows.schema).empty_table()
