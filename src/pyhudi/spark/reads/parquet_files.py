"""Parquet files that Spark reads itself. Spark gets their paths and schema, so that it opens no file for planning.

Where the driver's JVM can call this process, Spark's planner asks which files a filter leaves (`file_index`).
Elsewhere, through Spark Connect for example, it gets a list of paths, and each file's footer decides when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.format.schema.meta_columns import COMMIT_TIME
from pyhudi.read.folder_constants import Value, certain_value
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.skipping.file_bounds import FilePruner, FooterRanges
from pyhudi.read.slices import gone_meanwhile
from pyhudi.spark.reads.file_index import IndexedFiles, indexed_rows, is_possible
from pyhudi.spark.reads.jvm_objects import FileToRead
from pyhudi.spark.settings import is_connect
from pyhudi.spark.types import spark_schema

_DISCOVERY_TASKS_MAX = 16
"""The number of tasks in which Spark looks up files. Spark's default is one task per file, up to 10,000."""
_DISCOVERY_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_FILES_OF_DRIVER = 32
"""So many files Spark looks up in its driver, without tasks."""
_few_tasks_lock = Lock()

_STRICT = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""What the session says of other files does not count. Missing and damaged files are errors: otherwise rows would
silently be missing. Files that do not say which Spark wrote them have days of the calendar of today, as their logs
have: read by the old one, old dates would be other ones, and an update of other columns would store these."""
FOOTERS_OF_NULLS_MAX = 16
"""The largest number of files in the folder of nulls and empty texts whose footers are read to tell them apart."""


@dataclass(frozen=True, slots=True)
class FileOfSlice:
    """A file that Spark reads, and a slice with what is known of its rows."""

    file: FileToRead
    of_slice: ScanSlice


def files_of_slices(plan: ScanPlan, slices: Iterable[ScanSlice]) -> list[FileOfSlice]:
    """The base files of those slices that have one."""
    root = plan.uri.rstrip("/")
    return [
        FileOfSlice(
            FileToRead(
                f"{root}/{file_slice.files.base}", file_slice.size - file_slice.log_size, file_slice.modified_ms
            ),
            file_slice,
        )
        for file_slice in slices
        if file_slice.files.base is not None
    ]


def base_files(plan: ScanPlan, slices: Iterable[ScanSlice]) -> list[str]:
    """The URIs of the base files of those slices that have one."""
    return [file_slice.file.uri for file_slice in files_of_slices(plan, slices)]


def known_columns(spark: SparkSession, plan: ScanPlan, slices: Iterable[ScanSlice]) -> Mapping[str, tuple[Value, ...]]:
    """The values of columns that are known of each slice, so that Spark need not read them from files.

    Cost: see `values_of_folders`.
    """
    return values_of_folders(plan, tuple(slices)) if is_possible(spark) else {}


def rows_of_files(
    spark: SparkSession,
    plan: ScanPlan,
    files: Sequence[FileOfSlice],
    options: Mapping[str, str] | None = None,
    known: Mapping[str, tuple[Value, ...]] | None = None,
) -> DataFrame:
    """The rows of files of a scan, without regard to its range of time. `options` are options of Hadoop.

    `known`: the `known_columns` of the files. Spark raises its own error for a file that was deleted between this call
    and an action.

    Raises:
        HistoryNotRetainedError: a file was deleted, and the session looks the files up now.
    """
    if not is_possible(spark):
        return parquet_rows(spark, plan.schema, [file.file.uri for file in files], options)
    options = {**(options or {}), **_STRICT}
    # Each base file of a range of time has rows of it: nothing is gained by looking.
    looked_up = [field for field in plan.schema if plan.commit_times is None or field.name != COMMIT_TIME]
    slices = tuple(file.of_slice for file in files)
    # The indexes know slices as a whole, with their logs.
    are_whole = not any(file_slice.files.logs or file_slice.files.base is None for file_slice in slices)
    asked = plan if plan.data_skipping and are_whole else None
    pruner = FilePruner(slices, plan.schema, FooterRanges(plan.storage, pa.schema(looked_up)), asked)
    known = known or {}
    partitions = tuple(zip(*known.values(), strict=True)) if known else ((),) * len(files)
    index = IndexedFiles(plan.uri, tuple(file.file for file in files), pruner, tuple(known), partitions)
    return indexed_rows(spark, index, options)


@contextmanager
def _few_tasks(spark: SparkSession, files: int) -> Iterator[None]:
    """Let a session of Spark Connect look up many files in few tasks: 10,000 files then take 2 s instead of 30 s.

    One thread at a time, so that the session has its own number of tasks again whatever the order. No other result
    depends on it.
    """
    if files <= _FILES_OF_DRIVER:
        yield
        return
    with _few_tasks_lock:
        before = spark.conf.get(_DISCOVERY_TASKS)
        spark.conf.set(_DISCOVERY_TASKS, str(_DISCOVERY_TASKS_MAX))
        try:
            yield
        finally:
            spark.conf.set(_DISCOVERY_TASKS, before)


def parquet_rows(
    spark: SparkSession, schema: pa.Schema, paths: Sequence[str], options: Mapping[str, str] | None = None
) -> DataFrame:
    """The rows of the files at these paths, which have the form of Hadoop. `options` are options of Hadoop.

    Spark looks for the files now, and again when an action runs, and raises its own error for a file that was deleted
    between.

    Raises:
        HistoryNotRetainedError: a file was deleted.
    """
    # No discovery of partitions: a folder `city=x` must neither add a column nor replace a column of the file.
    options = {**(options or {}), **_STRICT, "recursiveFileLookup": "true"}
    try:
        rows = spark.read.schema(spark_schema(schema)).options(**options).parquet(*map(_literal, paths))
        if is_connect(spark):
            with _few_tasks(spark, len(paths)):
                rows.schema  # noqa: B018 - Connect looks files up when it first analyses the plan, and keeps the result
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            raise gone_meanwhile((error.getMessageParameters() or {}).get("path")) from error
        raise
    return rows.select("*")  # of a view of the relation itself, Spark's INSERT OVERWRITE would delete the file


def _literal(path: str) -> str:
    """The pattern of one path: Spark takes paths for patterns. Its option `__globPaths__` is ignored on Connect."""
    return re.sub(r"[\\{}\[\]*?]", r"\\\g<0>", path)


def values_of_folders(plan: ScanPlan, slices: Sequence[ScanSlice]) -> dict[str, tuple[Value, ...]]:
    """The values of partition columns in the rows of each slice, for the columns whose every value is certain.

    A value is certain if its folder has exactly its text, and no other value of the column has that text. Cost: no
    request; for a folder of nulls in a column of text, the footers of its files (`FOOTERS_OF_NULLS_MAX`).
    """
    if not slices or len({name.lower() for name in plan.schema.names}) < len(plan.schema.names):
        return {}
    texts_of_slices = [dict(file_slice.partition_values) for file_slice in slices]
    found: dict[str, tuple[Value, ...]] = {}
    for name in dict.fromkeys([*plan.path_columns, *plan.folder_columns]):
        kind = plan.schema.field(name).type
        if not all(name in texts for texts in texts_of_slices):
            continue
        texts = [of_slice[name] for of_slice in texts_of_slices]
        values = {text: certain_value(text, kind) for text in {*texts} if text is not None}
        if any(value is None for value in values.values()):
            continue
        nulls = [file_slice for file_slice, text in zip(slices, texts, strict=True) if text is None]
        if nulls and name not in plan.path_columns and pa.types.is_string(kind):
            texts_of_nulls = _null_or_empty_by_footers(plan, nulls, name)
            if texts_of_nulls is None:
                continue
            of_nulls = iter(texts_of_nulls)
            found[name] = tuple(next(of_nulls) if text is None else values[text] for text in texts)
        else:
            found[name] = tuple(None if text is None else values[text] for text in texts)
    return found


def _null_or_empty_by_footers(plan: ScanPlan, slices: Sequence[ScanSlice], name: str) -> list[str | None] | None:
    """Whether the rows of each file have null or the empty text, which have one folder; None if that is not known."""
    if len(slices) > FOOTERS_OF_NULLS_MAX:
        return None
    schema = pa.schema([plan.schema.field(name)])
    ranges = FooterRanges(plan.storage, schema).of(slices, [name]).get(name)
    if ranges is None:
        return None
    texts_of_nulls: list[str | None] = []
    for number in range(len(slices)):
        low, high = ranges.low[number].as_py(), ranges.high[number].as_py()
        if ranges.only_nulls[number]:
            texts_of_nulls.append(None)
        elif ranges.no_nulls[number] and low == high == "":
            texts_of_nulls.append("")
        else:
            return None
    return texts_of_nulls
