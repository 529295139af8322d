"""Rows that are assigned to the columns of a table: by name or by place, with Spark's rules for what fits a column.

Spark's rules of `INSERT` (`spark.sql.storeAssignmentPolicy` ANSI, the default): numbers fit all number columns, and a
value that is too large is an error; anything simple fits a text; a text fits nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql import types as spark_types
from pyspark.sql.types import DataType, StructField, StructType

from pyhudi.errors import SchemaMismatchError
from pyhudi.spark.fitted_values import POLICY, Fit, fitting
from pyhudi.spark.settings import setting

_TIMES = (spark_types.DateType, spark_types.TimestampType, spark_types.TimestampNTZType)
_SIMPLE = (
    spark_types.NumericType,
    spark_types.StringType,
    spark_types.BooleanType,
    spark_types.BinaryType,
    *_TIMES,
)


def assigned(rows: DataFrame, columns: Mapping[str, Column], schema: StructType) -> DataFrame:
    """Rows with exactly the columns of a schema. `columns`: what each of them is made of; null for those not in it.

    Raises:
        SchemaMismatchError: a value has a type that does not fit its column.
    """
    found = rows.select(*(column.alias(name) for name, column in columns.items()))
    given = {field.name: field.dataType for field in found.schema.fields}
    check_types(rows.sparkSession, given, schema)
    fit = fitting(rows)
    return rows.select(*(_fitted(field, given.get(field.name), columns, fit) for field in schema.fields))


def _fitted(field: StructField, given: DataType | None, columns: Mapping[str, Column], fit: Fit) -> Column:
    if given is None:
        return sql.lit(None).cast(field.dataType).alias(field.name)
    column = columns[field.name]
    return (column if given == field.dataType else fit(column, field.dataType, field.name)).alias(field.name)


def _checks_values(spark: SparkSession) -> bool:
    """Whether a value that is too large for its column is an error."""
    return (setting(spark, POLICY) or "ANSI").upper() != "LEGACY"


def check_types(spark: SparkSession, given: Mapping[str, DataType], schema: StructType) -> None:
    """Check that values of these types fit the columns of their names.

    Raises:
        SchemaMismatchError: one does not, and the session does not ask for casts at any price.
    """
    if not _checks_values(spark):
        return
    for field in schema.fields:
        if field.name in given and not fits(given[field.name], field.dataType):
            raise SchemaMismatchError(
                f"the value for the column {field.name!r} has the type {given[field.name].simpleString()}, which does "
                f"not fit {field.dataType.simpleString()}: cast it",
                column=field.name,
            )


def fits(given: DataType, wanted: DataType) -> bool:
    """Whether Spark's ANSI rules let a value of one type into a column of another."""
    if given == wanted or isinstance(given, spark_types.NullType):
        return True
    if isinstance(wanted, spark_types.StringType):
        return isinstance(given, _SIMPLE)
    if any(isinstance(given, kinds) and isinstance(wanted, kinds) for kinds in (spark_types.NumericType, _TIMES)):
        return True
    parts = [_parts(kind) for kind in (given, wanted)]
    return type(given) is type(wanted) and parts[0] != () and len(parts[0]) == len(parts[1]) and all(map(fits, *parts))


def _parts(kind: DataType) -> tuple[DataType, ...]:
    """The types inside of a type."""
    if isinstance(kind, StructType):
        return tuple(field.dataType for field in kind.fields)
    if isinstance(kind, spark_types.MapType):
        return (kind.keyType, kind.valueType)
    return (kind.elementType,) if isinstance(kind, spark_types.ArrayType) else ()


def check_count(rows: DataFrame, wanted: Sequence[str]) -> None:
    """Check that the rows have as many columns as are wanted.

    Raises:
        SchemaMismatchError: they have more or fewer.
    """
    if len(rows.columns) != len(wanted):
        raise SchemaMismatchError(
            f"the query has {len(rows.columns)} columns, and {len(wanted)} are to be written",
            columns=list(wanted),
            given=rows.columns,
        )


def numbered(rows: DataFrame) -> DataFrame:
    """The rows with other names for their columns: a query may give several of one name, or names such as `7.5`."""
    return rows.toDF(*(f"_{place}" for place in range(len(rows.columns))))


def by_name_or_place(names: Sequence[str], wanted: Sequence[str]) -> dict[str, Column]:
    """The column of `numbered` rows for each wanted one, as JVM Hudi has it.

    By name if the rows, whose columns had these names, have all that are wanted; else by place.
    """
    lowered = [name.lower() for name in names]
    if len(set(lowered)) == len(lowered) and {*lowered} == {name.lower() for name in wanted}:
        return {name: sql.col(f"_{lowered.index(name.lower())}") for name in wanted}
    return by_place(wanted)


def by_place(wanted: Sequence[str]) -> dict[str, Column]:
    """The columns of `numbered` rows, one for each wanted column."""
    return {name: sql.col(f"_{place}") for place, name in enumerate(wanted)}
