"""Rows of a query over the rows of a DataFrame."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pyhudi.errors import InvalidRequestError
from pyhudi.spark.types import arrow_schema, spark_schema


def rows_of_query(frame: DataFrame, query: str, name: str) -> DataFrame:
    """The rows of a query by Spark SQL, in which `name` stands for the rows of the DataFrame.

    All columns may be null, as other engines say of the same query: Spark takes a column that a condition makes for
    one with nulls. Raises `InvalidRequestError` for a query that Spark refuses. Cost: an analysis, no job.
    """
    text = query.replace("{", "{{").replace("}", "}}").replace(name, "{rows}")
    try:
        found = frame.sparkSession.sql(text, rows=frame)
        kinds = spark_schema(arrow_schema(found.schema)).fields
    except PySparkException as error:
        raise InvalidRequestError(f"the SQL of the transformer failed: {error}", sql=query) from error
    numbered = found.toDF(*[f"c{number}" for number in range(len(kinds))])  # names may have points, or come twice
    columns = []
    for number, (field, kind) in enumerate(zip(found.schema.fields, kinds, strict=True)):
        column = numbered[f"c{number}"]
        cast = column if field.dataType == kind.dataType else column.cast(kind.dataType)
        columns.append((cast if field.nullable else sql.when(column.isNotNull(), cast)).alias(field.name))
    return numbered.select(*columns)
