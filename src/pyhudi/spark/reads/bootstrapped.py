"""Slices of a bootstrap that Spark reads itself: the files of the source, and columns of skeletons by functions.

Spark's own reader prunes columns and row groups of the source, and splits large files. It removes the calls of
functions whose columns a query does not need, so that such a query opens no skeleton file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.slices.base_rows import check_source
from pyhudi.io.slices.files import SourceFile
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.spark.capabilities import HAS_ARROW_FUNCTIONS
from pyhudi.spark.reads.column_functions import columns_by_functions
from pyhudi.spark.reads.parquet_files import base_files, parquet_rows
from pyhudi.spark.reads.skeleton_columns import read_skeleton_column
from pyhudi.spark.reads.slice_tasks import packed
from pyhudi.storage.open import open_spec

_FILE, _ROW = "__source_file", "__source_row"


def native_slices(plan: ScanPlan) -> tuple[ScanSlice, ...]:
    """The bootstrapped slices of a scan that Spark can read itself: those without logs.

    None of them if this Spark has no functions over Arrow, or the columns of the table differ from those in the files,
    or have the names that are used here.
    """
    names = {name.lower() for name in plan.schema.names}
    is_possible = HAS_ARROW_FUNCTIONS and not plan.path_columns and not plan.texts_of_numbers
    if not is_possible or not names.isdisjoint((_FILE, _ROW)):
        return ()
    return tuple(
        file_slice
        for file_slice in plan.merged
        if file_slice.files.source is not None and not file_slice.files.logs and file_slice.files.names_in_base is None
    )


def skeleton_rows(spark: SparkSession, plan: ScanPlan, slices: Sequence[ScanSlice]) -> DataFrame:
    """The meta columns of bootstrapped slices without logs: no file of the source is opened."""
    schema = pa.schema([field for field in plan.schema if field.name in META_COLUMNS])
    return parquet_rows(spark, schema, base_files(plan, slices))


def bootstrapped_rows(spark: SparkSession, plan: ScanPlan, slices: Sequence[ScanSlice]) -> DataFrame:
    """The rows of bootstrapped slices without logs, with all columns. Cost: one listing per folder of the source.

    Raises `CorruptDataError` for a file of the source that is gone, or has another size than at the bootstrap.
    """
    _check_sources(slices)
    plan = replace(plan, slices=tuple(slices))
    in_folders = {
        name for file_slice in slices if file_slice.files.source for name, _ in file_slice.files.source.path_values
    }
    in_files = pa.schema([field for field in plan.schema if field.name not in META_COLUMNS])
    stored = pa.schema([field for field in in_files if field.name not in in_folders])
    rows = parquet_rows(
        spark, stored, [file_slice.files.source.uri for file_slice in slices if file_slice.files.source is not None]
    )
    rows = rows.selectExpr("*", f"_metadata.file_path as {_FILE}", f"_metadata.row_index as {_ROW}")
    where = sql.col(_FILE), sql.col(_ROW)
    read = columns_by_functions(read_skeleton_column, plan, packed(plan), where)
    return rows.select(
        *(
            sql.col(f"`{name.replace('`', '``')}`") if name in stored.names else column.alias(name)
            for name, column in zip(plan.schema.names, read, strict=True)
        )
    )


def _check_sources(slices: Sequence[ScanSlice]) -> None:
    by_folder: dict[str, list[tuple[SourceFile, str]]] = defaultdict(list)
    for file_slice in slices:
        source, base = file_slice.files.source, file_slice.files.base
        assert source is not None
        assert base is not None
        by_folder[source.path.rpartition("/")[0]].append((source, base))
    for folder, files in by_folder.items():
        infos = {info.path: info for info in open_spec(files[0][0].storage).list_folder(folder).files}
        for source, base in files:
            check_source(source, base, infos.get(source.path))
