"""Slices in a store that Spark cannot open: tasks say where rows are, and functions read single columns of them.

Of base files a row's place is the number of its slice and of the row, which Spark makes of the row groups in footers.
The folder's values are columns of the files, so a condition on them leaves out files before a footer is read. Logs are
read as where Spark opens base files itself (`native_logs`). Spark calls the functions of the columns in a condition
first, and those of other columns for the rows that are left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from pyhudi.engine.protocol import spread
from pyhudi.io.base_file import opened_base_file
from pyhudi.io.parquet_batches import row_groups_of, rows_at_once
from pyhudi.io.slices.mask import PART, PLACE, log_rows, part_of_logs, rows_out_of_use
from pyhudi.read.folder_constants import constants_of
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.slices import missing_files_named
from pyhudi.spark.capabilities import HAS_ARROW_FUNCTIONS
from pyhudi.spark.engine import session_parallelism
from pyhudi.spark.frames import frame_of_arrow
from pyhudi.spark.reads.column_functions import columns_by_functions
from pyhudi.spark.reads.file_columns import END, FIRST, read_file_column, row_groups
from pyhudi.spark.reads.native_logs import LOG_ROWS, OUT_OF_USE, can_split, without_superseded
from pyhudi.spark.reads.slice_tasks import SLICES_PER_TASK_MAX, packed, task_rows
from pyhudi.spark.reads.superseded_rows_cache import kept
from pyhudi.spark.types import spark_schema
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage

ROWS_AT_ONCE_MIN: Final = 1_000
"""Spark takes 10,000 values of a column at once: rows of which fewer than this fill a piece go through tasks."""
WHOLE_BYTES_MAX: Final = 4 << 20
"""Slices below this size are read by tasks: a footer, of which each step reads one, may take 500 KB (bloom filter)."""
_TASK, _GROUP = "__task", "__row_group"
_NAMES: Final = frozenset({_TASK, _GROUP, PART, PLACE})
"""Names of the columns that this module adds to those of the table."""
_ROW_GROUPS: Final = ArrayType(StructType([StructField(FIRST, LongType()), StructField(END, LongType())]))


def slices_by_columns(plan: ScanPlan) -> tuple[tuple[ScanSlice, ...], tuple[ScanSlice, ...]]:
    """The slices without logs, and those with logs, whose columns can be read one by one.

    Small slices are not (`WHOLE_BYTES_MAX`), and none is if this Spark has no functions over Arrow, the table has
    columns with the names that are used here, or rows are so wide that those of one batch would not fit into memory.
    Cost: the footer of the largest file.
    """
    if not HAS_ARROW_FUNCTIONS or not _NAMES.isdisjoint(name.lower() for name in plan.schema.names):
        return (), ()
    large = [file_slice for file_slice in plan.slices if file_slice.size >= WHOLE_BYTES_MAX]
    bases = [file_slice for file_slice in large if file_slice.files.base and file_slice.files.source is None]
    if bases and _has_wide_rows(plan, max(bases, key=lambda file_slice: file_slice.size - file_slice.log_size)):
        return (), ()
    with_logs = tuple(file_slice for file_slice in large if file_slice.files.logs)
    splits = can_split(replace(plan, slices=with_logs))
    return tuple(file_slice for file_slice in bases if not file_slice.files.logs), with_logs if splits else ()


def _has_wide_rows(plan: ScanPlan, file_slice: ScanSlice) -> bool:
    storage, base = open_spec(plan.storage), file_slice.files.base
    assert base is not None
    with missing_files_named(storage), opened_base_file(storage, base) as (_, parquet):
        return rows_at_once(row_groups_of(parquet.metadata, None), ROWS_AT_ONCE_MIN) < ROWS_AT_ONCE_MIN


def rows_of_base_files(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of slices without logs, without regard to the range of time of the scan.

    Cost: when an action runs, a footer for each file, and for each of Spark's two steps (the condition, and the other
    columns) a footer more and the columns.
    """
    pickled = packed(plan)
    known = _known_columns(plan)
    read = columns_by_functions(read_file_column, plan, pickled, (sql.col(PART), sql.col(PLACE)))
    columns = [
        sql.col(_quoted(name)) if name in known else column.alias(name)
        for name, column in zip(plan.schema.names, read, strict=True)
    ]
    return _places_in_base_files(spark, plan, pickled, known).select(*columns)


def rows_with_logs(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The merged rows of slices with logs: those of base files and log records without the superseded ones.

    Cost: as `rows_of_base_files`; and see `rows_out_of_use`, `log_rows` and `LogColumns`.
    """
    pickled = packed(plan)

    def find(storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        look = partial(rows_out_of_use, storage, scan_slice.files, plan.merging)
        return kept(storage, plan, scan_slice, partial(look, base_part=number, log_part=part_of_logs(number)))

    def count(storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        return log_rows(storage, scan_slice.files, plan.merging, log_part=part_of_logs(number))

    places = task_rows(spark, plan, pickled, count, LOG_ROWS)
    if any(file_slice.files.base for file_slice in plan.slices):
        places = _places_in_base_files(spark, plan, pickled, {}).unionAll(places)
    columns = columns_by_functions(read_file_column, plan, pickled, (sql.col(PART), sql.col(PLACE)))
    rows = places.select(*columns, PART, PLACE).toDF(*plan.schema.names, PART, PLACE)
    return without_superseded(rows, task_rows(spark, plan, pickled, find, OUT_OF_USE))


def _places_in_base_files(spark: SparkSession, plan: ScanPlan, pickled: bytes, known: dict[str, pa.Array]) -> DataFrame:
    """The places of all rows of the base files of a plan, with the known columns of their slices."""
    sizes = {
        number: file_slice.size - file_slice.log_size
        for number, file_slice in enumerate(plan.slices)
        if file_slice.files.base is not None
    }
    shares = spread(sizes, max(session_parallelism(spark), len(sizes) // SLICES_PER_TASK_MAX))
    tasks = {number: task for task, share in enumerate(shares) for number in share}
    numbers = pa.array(list(tasks), pa.int64())
    given = {name: values.take(numbers) for name, values in known.items()}
    files = frame_of_arrow(spark, pa.table({_TASK: pa.array(tasks.values(), pa.int64()), PART: numbers, **given}))
    types = {field.name: field.dataType for field in spark_schema(plan.schema).fields}
    typed = [sql.col(_quoted(name)).cast(types[name]).alias(name) for name in known]

    def look(parts: pa.Array) -> pa.Array:
        return row_groups(pickled, parts)

    names = list(map(_quoted, known))
    of_tasks = spark.range(0, len(shares), 1, len(shares)).toDF(_TASK)
    in_tasks = of_tasks.join(sql.broadcast(files.select(_TASK, PART, *typed)), _TASK)
    groups = in_tasks.select(PART, *names, sql.explode(sql.arrow_udf(look, _ROW_GROUPS)(PART)).alias(_GROUP))
    places = sql.sequence(sql.col(_GROUP)[FIRST], sql.col(_GROUP)[END] - 1)
    return groups.where(f"{_GROUP}.{END} > {_GROUP}.{FIRST}").select(PART, *names, sql.explode(places).alias(PLACE))


def _known_columns(plan: ScanPlan) -> dict[str, pa.Array]:
    """The values of columns that the folders of all slices tell, by the number of the slice."""
    found: dict[str, list[pa.Scalar]] = defaultdict(list)
    for file_slice in plan.slices:
        for name, value in constants_of(plan, file_slice).items():
            found[name].append(value)
    return {
        name: pa.array([value.as_py() for value in values], values[0].type)
        for name, values in found.items()
        if len(values) == len(plan.slices)
    }


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
