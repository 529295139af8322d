"""Slices with logs that Spark reads itself: base files, blocks of logs, or single columns of log records.

If the merge rules select one version of each record, tasks in Arrow find the superseded rows, for which they read only
keys and ordering values. Spark removes these rows by a broadcast join. Spark reads the rows themselves like those of a
table without logs, and prunes columns and row groups. This covers all base files, and logs whose blocks are Parquet
that Spark can open (`har_views`). For other logs a task returns the positions of the records, and one function per
column reads its values. Spark does not call the functions of columns that a query does not need.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StructField, StructType

from pyhudi.errors import HudiError
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.io.log.records import BlockPlace, list_log_blocks
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.mask import (
    BITS,
    LOG_ROWS_SCHEMA,
    OUT_OF_USE_SCHEMA,
    PART,
    PARTS_MAX,
    PLACE,
    WORD,
    WORD_ROWS,
    WORDS_PER_PART,
    log_rows,
    part_of_logs,
    rows_out_of_use,
    stored_rows_out_of_use,
)
from pyhudi.io.slices.merged import MergeSettings
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.spark.capabilities import HAS_ARROW_FUNCTIONS
from pyhudi.spark.reads.column_functions import columns_by_functions
from pyhudi.spark.reads.har_views import OPTIONS, archived, can_archive
from pyhudi.spark.reads.jvm_objects import FileToRead
from pyhudi.spark.reads.log_columns import read_log_column
from pyhudi.spark.reads.parquet_files import FileOfSlice, files_of_slices, known_columns, rows_of_files
from pyhudi.spark.reads.slice_tasks import packed, task_rows
from pyhudi.spark.reads.superseded_rows_cache import kept
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage

BROADCAST_LOG_BYTES_MAX = 256 << 20
"""The largest size of all logs, in bytes, for which the superseded rows (some bytes each) are sent to all workers."""
LOOKED_INTO_MAX = 1000
"""The largest number of logs whose blocks the driver looks up, at some tenths of a millisecond each."""

# Not nullable, so that Spark does not check for nulls.
OUT_OF_USE = StructType([StructField(name, LongType(), nullable=False) for name in OUT_OF_USE_SCHEMA.names])
LOG_ROWS = StructType([StructField(name, LongType(), nullable=False) for name in LOG_ROWS_SCHEMA.names])
_IS_OUT_OF_USE = (
    f"{WORD} = {PART} * {WORDS_PER_PART} + shiftright({PLACE}, {WORD_ROWS.bit_length() - 1})"
    f" and getbit({BITS}, {PLACE} & {WORD_ROWS - 1}) = 1"
)
_NAMES = frozenset({PART, PLACE, WORD, BITS, "_metadata"})
"""Names of the columns that this module adds to those of the table."""


@dataclass(frozen=True, slots=True)
class FileParts:
    """Numbers of the files that Spark reads.

    Attributes:
        of_row: a Spark expression that gives the number of a row's file.
        by_path: the number of each file, by path in the table.
    """

    of_row: str
    by_path: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BlocksRead:
    """The slices of a scan whose logs Spark can read itself.

    Attributes:
        plan: the scan with only these slices.
        blocks: the paths of the log blocks, for each slice.
        files: the same blocks as files that Spark reads.
        parts: the numbers of all files and blocks.
    """

    plan: ScanPlan
    blocks: tuple[Mapping[BlockPlace, str], ...]
    files: tuple[FileOfSlice, ...]
    parts: FileParts


def can_split(plan: ScanPlan) -> bool:
    """Whether Spark can read the slices with logs as the rows of their files without the superseded rows."""
    rules = plan.merging.rules
    return (
        rules.with_base.selects
        and rules.in_logs.selects
        and plan.commit_times is None
        and plan.merging.keys is None
        and not plan.path_columns
        and not plan.texts_of_numbers
        and all(file_slice.files.source is None and file_slice.files.names is None for file_slice in plan.merged)
        and _NAMES.isdisjoint(name.lower() for name in plan.schema.names)
        and sum(file_slice.log_size for file_slice in plan.merged) <= BROADCAST_LOG_BYTES_MAX
    )


def read_of_blocks(spark: SparkSession, plan: ScanPlan) -> BlocksRead | None:
    """The slices whose logs Spark can read itself, or None if there are none."""
    if (
        not can_archive(spark, plan.uri)
        or sum(len(file_slice.files.logs) for file_slice in plan.merged) > LOOKED_INTO_MAX
    ):
        return None
    storage = open_spec(plan.storage)
    slices: list[ScanSlice] = []
    paths: list[dict[BlockPlace, str]] = []
    files: list[FileOfSlice] = []
    for file_slice in plan.merged:
        blocks = parquet_blocks(storage, file_slice.files, plan.merging)
        # A slice without a base file whose logs only delete has no rows.
        if blocks or (blocks is not None and file_slice.files.base is not None):
            slices.append(file_slice)
            paths.append(archived(plan.uri, blocks))
            without_footer = replace(file_slice, files=SliceFiles(None, ()))
            files += [
                FileOfSlice(FileToRead(paths[-1][place], block.content_size), without_footer)
                for place, block in blocks.items()
            ]
    parts = file_parts({file.file.uri: file.file.size for file in files} | base_sizes(slices))
    if not slices or parts is None:
        return None
    return BlocksRead(replace(plan, slices=tuple(slices)), tuple(paths), tuple(files), parts)


def base_sizes(slices: Sequence[ScanSlice]) -> dict[str, int]:
    """The sizes of the base files of some slices, by path in the table."""
    return {
        file_slice.files.base: file_slice.size - file_slice.log_size
        for file_slice in slices
        if file_slice.files.base is not None
    }


def file_parts(sizes: Mapping[str, int]) -> FileParts | None:
    """Unique numbers for files, or None if there are none.

    These are the sizes of the files, which cost Spark nothing. If two files have the same size, these are the checksums
    of the file names.
    """
    if len(set(sizes.values())) == len(sizes) and max(sizes.values(), default=0) < PARTS_MAX:
        return FileParts("_metadata.file_size", sizes)
    by_name = {path: zlib.crc32(path.rpartition("/")[2].encode()) for path in sizes}
    if len(set(by_name.values())) == len(sizes):
        return FileParts("crc32(_metadata.file_name)", by_name)
    return None


def rows_of_blocks(spark: SparkSession, read: BlocksRead) -> DataFrame:
    """The merged rows: those of the base files and log blocks without the superseded rows."""
    by_path, blocks = read.parts.by_path, read.blocks

    def find(storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        block_parts = {place: by_path[path] for place, path in blocks[number].items()}
        base_part = by_path.get(scan_slice.files.base or "", 0)
        look = partial(stored_rows_out_of_use, storage, scan_slice.files, plan.merging)
        return kept(storage, plan, scan_slice, partial(look, base_part=base_part, block_parts=block_parts))

    rows = _numbered_rows(spark, read.plan, read.parts, read.files)
    return without_superseded(rows, task_rows(spark, read.plan, packed(read.plan), find, OUT_OF_USE))


def rows_by_columns(spark: SparkSession, plan: ScanPlan) -> DataFrame | None:
    """The merged rows: those of the base files and the log records without the superseded rows.

    None if the files have no unique numbers (`file_parts`), or if this Spark has no functions over Arrow.
    """
    parts = file_parts(base_sizes(plan.merged))
    if parts is None or not HAS_ARROW_FUNCTIONS:
        return None
    by_path, pickled = parts.by_path, packed(plan)

    def find(storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        base_part, log_part = by_path.get(scan_slice.files.base or "", 0), part_of_logs(number)
        look = partial(rows_out_of_use, storage, scan_slice.files, plan.merging)
        return kept(storage, plan, scan_slice, partial(look, base_part=base_part, log_part=log_part))

    def count(storage: Storage, plan: ScanPlan, scan_slice: ScanSlice, number: int) -> Iterator[pa.RecordBatch]:
        return log_rows(storage, scan_slice.files, plan.merging, log_part=part_of_logs(number))

    in_logs = task_rows(spark, plan, pickled, count, LOG_ROWS)
    columns = columns_by_functions(read_log_column, plan, pickled, (sql.col(PART), sql.col(PLACE)))
    rows = in_logs.select(*columns, PART, PLACE).toDF(*plan.schema.names, PART, PLACE)
    if by_path:
        rows = _numbered_rows(spark, plan, parts, []).unionAll(rows)
    return without_superseded(rows, task_rows(spark, plan, pickled, find, OUT_OF_USE))


def _numbered_rows(spark: SparkSession, plan: ScanPlan, parts: FileParts, more: Sequence[FileOfSlice]) -> DataFrame:
    """The rows of the base files of slices with logs and of the files `more`, with the columns `PART` and `PLACE`."""
    files = [*files_of_slices(plan, plan.merged), *more]
    known = known_columns(spark, plan, [file.of_slice for file in files])
    rows = rows_of_files(spark, plan, files, OPTIONS if more else {}, known)
    return rows.selectExpr("*", f"{parts.of_row} as {PART}", f"_metadata.row_index as {PLACE}")


def without_superseded(rows: DataFrame, out_of_use: DataFrame) -> DataFrame:
    """The rows that are not superseded, without their columns `PART` and `PLACE`."""
    # `rows` has the numbers as columns of its own, because Spark 4.0 cannot join on columns of `_metadata`.
    return rows.join(sql.broadcast(out_of_use), sql.expr(_IS_OUT_OF_USE), "left_anti").drop(PART, PLACE)


def parquet_blocks(storage: Storage, files: SliceFiles, settings: MergeSettings) -> dict[BlockPlace, LogBlock] | None:
    """The data blocks of a slice's logs that count; None if a reader of Parquet alone cannot read one of them.

    That is a block of another format, one with partial updates, one with a column of another type than the table's, or
    a damaged one, for which decoding raises an error. Cost: see `list_log_blocks`.
    """
    found: dict[BlockPlace, LogBlock] = {}
    for place, block in list_log_blocks(storage, files.logs, files.judged_by(settings.blocks)):
        if block.kind is BlockType.DELETE:
            continue
        if block.kind is not BlockType.PARQUET_DATA or block.is_partial or not block.content_size:
            return None
        if block.schema is None or not _has_types_of(block.schema, settings.schema):
            return None
        found[place] = block
    return found


@lru_cache(maxsize=64)
def _has_types_of(text: str, schema: pa.Schema) -> bool:
    try:
        written = avro_to_arrow(text, source="a log block")
    except HudiError:
        return False
    known = {field.name: field.type for field in schema}
    return all(field.type == known.get(field.name, field.type) for field in written)
