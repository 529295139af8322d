"""Computed values as the types of the columns of a table: a value that does not fit is an error in every session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyhudi.spark.capabilities import IS_ANSI, try_cast
from pyhudi.spark.settings import setting

POLICY: Final = "spark.sql.storeAssignmentPolicy"
_ANSI: Final = "spark.sql.ansi.enabled"
_NESTED = (ArrayType, MapType, StructType)
Fit: TypeAlias = Callable[[Column, DataType, str], Column]
"""A value as the type of the column of this name."""


def fitting(rows: DataFrame) -> Fit:
    """A function that casts computed values to the types of the columns that store them.

    Where `spark.sql.ansi.enabled` is false, a cast of Spark makes null of what does not fit, or another number. Spark's
    own rule for values that are stored is an error all the same, unless `spark.sql.storeAssignmentPolicy` is LEGACY.
    The setting itself stays as it is: queries of other threads in the session see it.

    Cost: where the setting is false, Spark analyses each value of a nested type.
    """
    spark = rows.sparkSession
    is_legacy = (setting(spark, POLICY) or "ANSI").upper() == "LEGACY"
    is_ansi = (setting(spark, _ANSI) or str(IS_ANSI)).lower() == "true"
    if is_legacy or is_ansi:
        return _cast

    def checked(value: Column, kind: DataType, name: str) -> Column:
        if not isinstance(kind, _NESTED):
            return _checked(value, kind, name)
        return _inside(value, rows.select(value).schema.fields[0].dataType, kind, name)

    return checked


def _cast(value: Column, kind: DataType, name: str) -> Column:
    """A cast by the setting of the session: its errors are Spark's own."""
    del name
    return value.cast(kind)


def _checked(value: Column, kind: DataType, name: str) -> Column:
    # No cast but this one is the same whatever the session says, also when Spark Connect analyses the plan again.
    fitted = try_cast(value, kind)
    text = sql.concat(sql.lit(f"a value does not fit the column {name}, {kind.simpleString()}: "), value.cast("string"))
    return sql.when(value.isNotNull() & fitted.isNull(), sql.raise_error(text)).otherwise(fitted)


def _inside(value: Column, given: DataType, kind: DataType, name: str) -> Column:
    """A value of a nested type, of which `try_cast` would make nulls of those values inside that do not fit."""
    if given == kind:
        return value
    if isinstance(given, ArrayType) and isinstance(kind, ArrayType):
        return sql.transform(value, lambda element: _inside(element, given.elementType, kind.elementType, name))
    if isinstance(given, MapType) and isinstance(kind, MapType):
        entries = sql.transform(
            sql.map_entries(value),
            lambda entry: sql.struct(
                _inside(entry["key"], given.keyType, kind.keyType, name).alias("key"),
                _inside(entry["value"], given.valueType, kind.valueType, name).alias("value"),
            ),
        )
        return sql.map_from_entries(entries)
    if isinstance(given, StructType) and isinstance(kind, StructType) and len(given) == len(kind):
        fields = [
            _inside(value.getField(before.name), before.dataType, after.dataType, name).alias(after.name)
            for before, after in zip(given.fields, kind.fields, strict=True)
        ]
        return sql.when(value.isNotNull(), sql.struct(*fields))
    return _checked(value, kind, name)
