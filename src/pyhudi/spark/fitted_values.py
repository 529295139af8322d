"""Computed values as the types of the columns of a table: a value that does not fit is an error in every session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType

from pyhudi.spark.settings import setting

POLICY: Final = "spark.sql.storeAssignmentPolicy"
_ANSI: Final = "spark.sql.ansi.enabled"
Fit: TypeAlias = Callable[[Column, DataType, str], Column]
"""A value as the type of the column of this name."""


def fitting(spark: SparkSession) -> Fit:
    """How values of statements become values of columns.

    Where `spark.sql.ansi.enabled` is false, a cast of Spark makes null of what does not fit, or another number. Spark's
    own rule for values that are stored is an error all the same, unless `spark.sql.storeAssignmentPolicy` is LEGACY.
    """
    is_legacy = (setting(spark, POLICY) or "ANSI").upper() == "LEGACY"
    if is_legacy or (setting(spark, _ANSI) or "true").lower() == "true":
        return cast_as_said
    return _checked


def cast_as_said(value: Column, kind: DataType, name: str) -> Column:
    """A cast by the setting of the session: its errors are Spark's own."""
    del name
    return value.cast(kind)


def _checked(value: Column, kind: DataType, name: str) -> Column:
    # No cast but this one is the same whatever the session says, also when Spark Connect analyses the plan again.
    fitted = value.try_cast(kind)
    text = sql.concat(sql.lit(f"a value does not fit the column {name}, {kind.simpleString()}: "), value.cast("string"))
    return sql.when(value.isNotNull() & fitted.isNull(), sql.raise_error(text)).otherwise(fitted)
