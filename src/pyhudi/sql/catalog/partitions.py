"""Partitions that a clause `PARTITION (a = 1, b)` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType

from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import SchemaMismatchError
from pyhudi.format.keys.generator import key_generator_from_table
from pyhudi.format.keys.partition_pattern import PartitionPattern, pattern_of
from pyhudi.spark.fitted_values import fitting
from pyhudi.spark.frames import arrow_of_frame
from pyhudi.spark.types import spark_schema
from pyhudi.sql.catalog.columns import own_name
from pyhudi.sql.text.tokens import Slice

Spec = tuple[tuple[str, Slice | None], ...]
"""The columns of a clause, each with the expression of its value, if it has one."""


def pattern_of_spec(spark: SparkSession, table: HudiTable, spec: Spec) -> PartitionPattern:
    """The partitions that a clause names, by their values in the types of the columns. Spark evaluates the values.

    Raises:
        SchemaMismatchError: a column is no partition column, or is named twice.
    """
    state = table.handle.state
    fields = tuple(state.config.partition_fields or ())
    schema = spark_schema(table.schema)
    types = {field.name: field.dataType for field in schema.fields}
    values: dict[str, Slice] = {}
    named: set[str] = set()
    for name, value in spec:
        column = own_name(schema, name, "the partition column")
        if column not in fields:
            raise SchemaMismatchError(f"{name!r} is no partition column of the table", partition_by=fields)
        if column in named:
            raise SchemaMismatchError(f"the partition column {column!r} is named twice", column=column)
        named.add(column)
        if value is not None:
            values[column] = value
    keys = key_generator_from_table(state.config.values, state.config.version, table.handle.options)
    return pattern_of(keys, _one_row(spark, table.schema, types, values))


def _one_row(
    spark: SparkSession, schema: pa.Schema, types: Mapping[str, DataType], values: Mapping[str, Slice]
) -> pa.RecordBatch:
    if not values:
        return pa.RecordBatch.from_pylist([{}], pa.schema([]))
    row = spark.range(1)
    fit = fitting(row)
    columns = [fit(sql.expr(str(value)), types[name], name).alias(name) for name, value in values.items()]
    found = arrow_of_frame(row.select(*columns))
    wanted = pa.schema([schema.field(name) for name in found.column_names])
    batch: pa.RecordBatch = found.cast(wanted).to_batches()[0]
    return batch


def partition_paths(table: HudiTable) -> list[str]:
    """The paths of the partitions that have rows, in order."""
    return sorted(table.inspect.partitions().column("partition_path").to_pylist())


def matching(paths: Iterable[str], patterns: Iterable[PartitionPattern]) -> tuple[str, ...]:
    """The paths that one of the patterns matches."""
    patterns = list(patterns)
    return tuple(path for path in paths if any(pattern.matches(path) for pattern in patterns))


def drop_partitions(spark: SparkSession, table: HudiTable, specs: Iterable[Spec]) -> None:
    """Delete the rows of all partitions that one of the clauses names, in one commit; none if there are none."""
    patterns = [pattern_of_spec(spark, table, spec) for spec in specs]
    paths = matching(partition_paths(table), patterns)
    if paths:
        table.delete_partition(paths)
