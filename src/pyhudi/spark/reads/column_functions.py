"""Columns of a table by functions over Arrow, which read single columns of files in workers.

Spark removes the calls for columns that a query does not need. It could not prune the columns of one Python task,
because a task does not know the query.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.column import Column
from pyspark.sql.types import DataType, StructField, StructType

from pyhudi.read.scan import ScanPlan
from pyhudi.spark.types import arrow_schema, spark_schema

ReadColumn = Callable[[bytes, str, pa.DataType, pa.Array, pa.Array], pa.Array]
"""Gives the values of a column, from a packed plan, the column's name and type, and where the rows are."""


def columns_by_functions(
    read_column: ReadColumn, plan: ScanPlan, pickled: bytes, where: tuple[Column, Column]
) -> list[Column]:
    """The columns of a plan, in its order, by calls of `read_column`. `where`: the columns that say where a row is.

    There is one function per type, not per column, because creating a function takes the driver longer than calling it.
    """
    names = tuple(plan.schema.names)

    @cache
    def reader(kind: DataType) -> Any:
        def read(first: pa.Array, second: pa.Array, numbers: pa.Array) -> pa.Array:
            shape = arrow_schema(StructType([StructField("value", kind)])).field(0).type
            if not len(numbers):
                return pa.nulls(0, shape)
            return read_column(pickled, names[numbers[0].as_py()], shape, first, second)

        return sql.arrow_udf(read, kind)

    kinds = [field.dataType for field in spark_schema(plan.schema).fields]
    return [reader(kind)(*where, sql.lit(number)) for number, kind in enumerate(kinds)]
