"""Base files with earlier columns: Spark reads them under their own names and types, and converts whole columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.stored_types import WIDER_NUMBERS, Conversions, StoredColumns, stored_columns
from pyhudi.spark.capabilities import PARQUET_IS_WIDENED
from pyhudi.spark.reads.parquet_files import files_of_slices, rows_of_files
from pyhudi.spark.types import spark_schema
from pyhudi.storage.open import open_spec

CONVERTED_BY_PARQUET: Final[Conversions] = WIDER_NUMBERS if PARQUET_IS_WIDENED else frozenset()
"""What Spark's reader of Parquet makes of narrower numbers in files."""


def with_earlier_columns(plan: ScanPlan) -> dict[ScanSlice, StoredColumns]:
    """The slices whose base files Spark cannot read under today's columns, with what differs in them.

    Cost: see `stored_columns`.
    """
    if plan.texts_of_numbers or not _may_differ(plan):
        return {}
    slices = [file_slice for file_slice in plan.slices if file_slice.files.source is None]
    found = stored_columns(open_spec(plan.storage), slices, plan.schema, CONVERTED_BY_PARQUET)
    return {file_slice: columns for file_slice, columns in found.items() if not columns.is_today}


def convertible(plan: ScanPlan, earlier: dict[ScanSlice, StoredColumns]) -> tuple[ScanSlice, ...]:
    """Those of them that Spark can read itself: without logs, and where only whole columns differ."""
    if plan.path_columns:
        return ()
    return tuple(file_slice for file_slice, columns in earlier.items() if not file_slice.files.logs and columns.is_flat)


def rows_of_earlier_columns(
    spark: SparkSession, plan: ScanPlan, slices: Iterable[ScanSlice], earlier: dict[ScanSlice, StoredColumns]
) -> Iterator[DataFrame]:
    """The rows of such slices under today's columns, a DataFrame for each set of columns that files have."""
    groups: dict[StoredColumns, list[ScanSlice]] = defaultdict(list)
    for file_slice in slices:
        groups[replace(earlier[file_slice], missing=frozenset(), readable=frozenset())].append(file_slice)
    for columns, group in groups.items():
        # The indexes of the metadata table know columns by today's names.
        of_then = replace(plan, slices=tuple(group), schema=columns.schema(plan.schema), data_skipping=False)
        yield _of_today(rows_of_files(spark, of_then, files_of_slices(of_then, group)), columns, plan.schema)


def _of_today(rows: DataFrame, columns: StoredColumns, schema: pa.Schema) -> DataFrame:
    types: dict[str, pa.DataType] = dict(columns.types)
    selected: list[sql.Column] = []
    for field, wanted in zip(schema, spark_schema(schema).fields, strict=True):
        stored = columns.stored(field.name)
        if stored is None:
            column = sql.lit(None).cast(wanted.dataType)
        else:
            column = sql.col(_quoted(stored))
            column = column.cast(wanted.dataType) if field.name in types else column
        selected.append(column.alias(field.name))
    return rows.select(*selected)


def _may_differ(plan: ScanPlan) -> bool:
    """Whether a column could have had a type that Spark does not read as today's, or another name."""
    return any(file_slice.files.names is not None for file_slice in plan.slices) or any(
        _widened(field.type) for field in plan.schema
    )


def _widened(kind: pa.DataType) -> bool:
    types = pa.types
    wide = (types.is_floating(kind), types.is_string(kind), types.is_decimal(kind), types.is_date(kind))
    is_wide_integer = types.is_int64(kind) and (pa.int32(), kind) not in CONVERTED_BY_PARQUET
    return any(wide) or is_wide_integer or any(_widened(kind.field(number).type) for number in range(kind.num_fields))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
