"""Differences between versions of PySpark, as far as pyhudi uses what differs. No other module asks for the version."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Any, Final

import pyspark
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StringType, StructType, _parse_datatype_string

from pyhudi.errors import UnsupportedFeatureError

VERSION: Final = str(pyspark.__version__)
"""That of PySpark in this process."""
IS_4: Final = find_spec("pyspark.sql.classic") is not None
"""From 4.0 on DataFrames of classic sessions and of Spark Connect are of one class, and are made of Arrow."""
HAS_PYTHON_SOURCES: Final = find_spec("pyspark.sql.datasource") is not None
"""From 4.0 on: Spark's catalog and streams ask Python for the rows of a format."""
HAS_ARROW_FUNCTIONS: Final = hasattr(sql, "arrow_udf")
"""From 4.1 on: functions over columns of Arrow."""
HAS_SHUFFLE_BY_NUMBER: Final = hasattr(DataFrame, "repartitionById")
"""From 4.1 on: `DataFrame.repartitionById`."""
IS_ANSI: Final = IS_4
"""Whether a session that does not set `spark.sql.ansi.enabled` has errors in place of nulls."""
PARQUET_IS_WIDENED: Final = IS_4
"""Whether Spark's reader of Parquet makes wider numbers of those in a file. Before 4.0 it fails for them."""
_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions"
DATASET: Final = "org.apache.spark.sql.classic.Dataset" if IS_4 else "org.apache.spark.sql.Dataset"
"""The class of DataFrames in the driver's JVM."""


def without_python_sources(what: str, instead: str) -> UnsupportedFeatureError:
    """The error for what Spark does by Python data sources alone, where it has none."""
    return UnsupportedFeatureError(f"{what} needs PySpark 4.0 or newer: {instead}", pyspark=VERSION)


def has_other_collation(kind: StringType) -> bool:
    """Whether texts of a type compare by other rules than their bytes. Before 4.0 there is no such type."""
    return hasattr(kind, "isUTF8BinaryCollation") and not kind.isUTF8BinaryCollation()


def try_cast(value: Column, kind: DataType) -> Column:
    """The value in another type, or null where it does not fit. Before 4.0 only SQL and the JVM have such a cast."""
    if IS_4:
        return value.try_cast(kind)
    jvm = SparkContext._active_spark_context._jvm
    mode = getattr(getattr(jvm, f"{_EXPRESSIONS}.EvalMode$"), "MODULE$").TRY()
    java_kind = getattr(jvm, "org.apache.spark.sql.types.DataType").fromJson(kind.json())
    cast = getattr(jvm, f"{_EXPRESSIONS}.Cast")(value._jc.expr(), java_kind, jvm.scala.Option.empty(), mode)
    return Column(getattr(jvm, "org.apache.spark.sql.Column")(cast))


def columns_of_text(text: str) -> StructType:
    """The columns of a text such as `id BIGINT NOT NULL, city STRING`, by Spark's parser."""
    columns: StructType = StructType.fromDDL(text) if IS_4 else _parse_datatype_string(text)
    return columns


def logger_of_queries(name: str) -> logging.Logger:
    """A logger in which PySpark writes errors with a query. Before 4.0 it writes none."""
    if not IS_4:
        return logging.getLogger(name)
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - not in every PySpark

    found: logging.Logger = PySparkLogger.getLogger(name)
    return found


def arguments_of_thread(session: Any) -> dict[str, Any]:
    """What `InheritableThread` is given of a session: from 4.0 on the session, for its tags."""
    return {"session": session} if IS_4 else {}
