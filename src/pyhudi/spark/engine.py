"""Engine on Spark: tasks run in Python workers, one Spark job per call.

Rows of Spark reach them through `mapInArrow`, so the same code runs on a local session, on a cluster and through Spark
Connect. How tasks that need no such rows get there is for `task_jobs` to say.

Rows of one record key come into one split by Spark's shuffle of the input (`_of_equal_keys`), and rows of one receiver
into one Spark task by its shuffle of parcels (`parcels.py`). The protocol says what meets where.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.column import Column
from pyspark.util import InheritableThread

from pyhudi.config.enums import Arrangement
from pyhudi.engine.exchange import RowsByReceiver, shared
from pyhudi.engine.exchange_files import ExchangeFolder, FilePart, TaskFiles
from pyhudi.engine.file_pieces import FilePieces
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import CallbackHosts, Distribution, Exchange, TaskContext
from pyhudi.errors import HudiError, UnsupportedFeatureError
from pyhudi.format.keys.generator import EMPTY_PART, NULL_PART
from pyhudi.spark.batches import conformed
from pyhudi.spark.capabilities import arguments_of_thread
from pyhudi.spark.decimals import crossing_rows, crossing_schema, restored
from pyhudi.spark.frames import under
from pyhudi.spark.kept_files import KeptFiles, StepFiles, tasks_with_files
from pyhudi.spark.outcomes import NO_TASK, pickled
from pyhudi.spark.parcels import (
    BATCH_LIMITS,
    CALLED,
    FAILURE,
    PARCEL_DDL,
    READER_BYTES,
    READERS_PER_CORE,
    TASK,
    Delivery,
    SentTasks,
    blocks,
    delivered,
    opened,
    parcel,
    readers_of,
    rows_of_block,
    task_parcels,
    tasks_of,
)
from pyhudi.spark.parquet_ranges import ListedFile, RowsNotReadError, ScannedColumns, reads_alike, rows_of_ranges
from pyhudi.spark.parts import PLACE, PartsOfRows, frame_of_parts, numbered_frame, rows_of_part
from pyhudi.spark.plain_scans import PlainScan, plain_scan
from pyhudi.spark.settings import is_connect, runs_here, setting
from pyhudi.spark.task_jobs import InArrow, results_of_tasks
from pyhudi.spark.types import arrow_schema
from pyhudi.spark.workers import begin_task
from pyhudi.storage.metered import begin_counting_task

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

IN_PROCESS_BYTES_MAX = 32 << 20
"""Tasks that together read and write fewer bytes run in this process, because a Spark job would cost more."""

FOOTER_BYTES = 512 << 10
"""About what it takes to read a footer, beside `IN_PROCESS_BYTES_MAX`."""
FILES_PER_TASK = 16
"""So many footers a task reads."""

PARALLELISM_FALLBACK = 8
"""The assumed number of cores if it is unknown (Spark Connect to a cluster without fixed resources)."""

_RECORDS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ARROW_BATCHES = {
    _RECORDS_PER_BATCH: "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""Limits of the batches that Spark sends to Python, unless the session sets its own. The limit in bytes is off, because
Spark would sum up the sizes of all columns after each row, which takes as long as sending the row. The limit in rows is
Spark's default, and keeps batches small enough for all but wide rows."""
ROWS_OF_ANY_WIDTH = (4_000, 100)
"""The limits in rows if the schema has columns of variable width. By the first one values may take 250 KB on average
before they exceed Spark's largest vector. Those that do are sent again by the second one, for values of 10 MB."""
_BATCH_TOO_LARGE = re.compile(r"OversizedAllocationException|OutOfMemoryError: Cannot reserve|OutOfDirectMemoryError")

_LOOPBACK = "127.0.0.1"

_stages = itertools.count(1)


@dataclass(frozen=True)
class SparkEngine:
    """Runs tasks on the cores of a Spark session, and small work in this process."""

    spark: SparkSession
    _local: LocalEngine = field(default_factory=LocalEngine, repr=False)
    _kept: list[KeptFiles] = field(default_factory=list, repr=False, compare=False)

    @property
    def parallelism(self) -> int:
        """The number of tasks that the session runs at the same time; for Spark Connect an estimate from options."""
        return session_parallelism(self.spark)

    @property
    def callback_hosts(self) -> CallbackHosts:
        """The addresses by which executors reach the driver: loopback for a local session, else those of Spark.

        Raises:
            UnsupportedFeatureError: the session is one of Spark Connect, so that this process is not the driver.
        """
        if is_connect(self.spark):
            raise UnsupportedFeatureError(
                "executors cannot reach the client of Spark Connect, so there is no marker service: set "
                "hoodie.write.markers.type=DIRECT"
            )
        if runs_here(self.spark):
            return CallbackHosts(_LOOPBACK, _LOOPBACK)
        host = setting(self.spark, "spark.driver.host") or _LOOPBACK
        return CallbackHosts(host, setting(self.spark, "spark.driver.bindAddress") or host)

    def thread(self, run: Callable[[], None]) -> threading.Thread:
        """A thread with the session's job group and tags, whose connection to the JVM ends with it."""
        thread: threading.Thread = InheritableThread(run, name="pyhudi services", **arguments_of_thread(self.spark))
        return thread

    @property
    def on_one_machine(self) -> bool:
        """See `Engine.on_one_machine`."""
        return runs_here(self.spark)

    @contextmanager
    def exchange_folder(self, name: str, parent: str | None) -> Iterator[ExchangeFolder]:
        """See `Engine.exchange_folder`. On a cluster Spark keeps the files (`kept_files.py`)."""
        with self._local.exchange_folder(name, parent) as folder:
            if self.on_one_machine:
                yield folder
                return
            with KeptFiles(self.spark, folder, parent) as kept:
                self._kept.append(kept)
                try:
                    yield folder
                finally:
                    self._kept.remove(kept)

    def _files_of(
        self, folder: ExchangeFolder | None, reads: Iterable[Iterable[FilePart]] = (), *, writes: bool = True
    ) -> StepFiles:
        """How the files of a step reach its tasks. `reads`: by the number of the task."""
        kept = next((kept for kept in self._kept if folder is not None and kept.has(folder)), None)
        if kept is None:
            return StepFiles(self.spark)
        return StepFiles(kept.spark, kept, [tuple(parts) for parts in reads], writes)

    @property
    def repeats_tasks(self) -> bool:
        """True: Spark runs tasks again that failed, that were lost with their executor, or that are slow."""
        return True

    def accepts(self, rows: Any) -> bool:
        """Spark DataFrames, classic and Connect, and rows that tasks read in parts."""
        return isinstance(rows, DataFrame | PartsOfRows)

    def schema_of(self, rows: DataFrame | PartsOfRows[Any]) -> pa.Schema:
        """The Arrow schema of rows. Cost: Spark analyses the plan of a DataFrame, but runs no job.

        Raises:
            SchemaMismatchError: a column has a type that Hudi cannot store.
        """
        return rows.schema if isinstance(rows, PartsOfRows) else arrow_schema(rows.schema)

    def map(
        self,
        function: Callable[[TaskContext, T], R],
        tasks: Sequence[T],
        *,
        size_bytes: int,
        description: str,
        files: TaskFiles[T] | None = None,
        in_this_process: bool = False,
    ) -> list[R]:
        """Run the function for each task, and return the results in the order of the tasks.

        Cost: one Spark job with one Spark task for each task. Small work runs in this process, and so does a single
        task, unless its files would have to come from elsewhere.

        Raises:
            HudiError: the error of the first task that raised one, unchanged.
            WorkerEnvironmentError: the workers' Python lacks pyhudi or one of its dependencies.
        """
        step = StepFiles(self.spark)
        if files is not None:
            step = self._files_of(files.folder, map(files.reads, tasks), writes=files.writes)
        is_small = size_bytes < IN_PROCESS_BYTES_MAX or len(tasks) <= (1 if step.kept is None else 0)
        if is_small or in_this_process:
            step.collect()
            return self._local.map(function, tasks, size_bytes=size_bytes, description=description)
        run = _mapping(function, step, next(_stages))
        # One task for each reader, so that a worker loads the tasks that it runs, and no other.
        readers = np.arange(len(tasks))
        if step.kept is None:
            return results_of_tasks(SentTasks(self.spark, readers, tasks), run, description=description)
        given = delivered(step.beside(task_parcels(step.spark, readers, tasks)), len(tasks))
        return step.results(under(given.mapInArrow(run, step.ddl), BATCH_LIMITS), description, tasks=len(tasks))

    def exchange(self, exchange: Exchange[S, T, R]) -> list[R]:
        """See `Engine.exchange`. The rows pass through a shuffle of Spark, in blocks.

        Cost: one Spark job with a Spark task for each sender, and some for each core that take a share of the
        receivers each. Small work runs in this process.

        Raises:
            HudiError: the error of the first sender or receiver that raised one, unchanged.
            WorkerEnvironmentError: the workers' Python lacks pyhudi or one of its dependencies.
        """
        size, files, step = max(exchange.sent_bytes, sum(exchange.sizes)), exchange.files, StepFiles(self.spark)
        if files is not None:
            step = self._files_of(files.folder, map(files.reads, exchange.senders), writes=files.writes)
        tasks = max(len(exchange.senders), len(exchange.receivers))
        if size < IN_PROCESS_BYTES_MAX or (tasks <= 1 and step.kept is None) or not exchange.senders:
            step.collect()
            return self._local.exchange(exchange)
        wanted = max(self.parallelism * READERS_PER_CORE, size // READER_BYTES)
        reader_of = readers_of(np.array(exchange.sizes, dtype=np.int64), wanted)
        readers, stage = _count(reader_of), next(_stages)
        senders = step.beside(task_parcels(step.spark, np.arange(len(exchange.senders)), exchange.senders))
        sent = delivered(senders, len(exchange.senders)).mapInArrow(_sending(exchange, reader_of, stage), PARCEL_DDL)
        given = task_parcels(step.spark, reader_of, exchange.receivers)
        arrived = delivered(sent.unionAll(given), readers)
        rows = under(arrived.mapInArrow(_receiving(exchange, step, stage), step.ddl), BATCH_LIMITS)
        return step.results(rows, exchange.description, tasks=len(exchange.receivers))

    def map_splits(
        self,
        rows: DataFrame | PartsOfRows[Any],
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        *,
        distribution: Distribution,
        description: str,
        folder: ExchangeFolder | None = None,
    ) -> list[R]:
        """Run the function once over each split of the arranged input, and return the results in the order of splits.

        Where rows stay as they come, those of parts and of a plain scan of Parquet are read by the task that runs the
        function over them; Spark makes and sends all others.

        An empty DataFrame may have no splits at all: then the function runs once, in this process. Limits that the
        session sets for batches stay in force. Cost: one Spark job, with a shuffle if the arrangement needs one. Spark
        evaluates the input once, but for GLOBAL_SORT twice, because it samples the input first; and all of it again,
        in batches of fewer rows, if rows turn out to be too wide, or if results are more than Spark collects at once.

        Raises:
            UnsupportedFeatureError: rows are too wide for Spark's batches.
            HudiError: the error of the first split that raised one, unchanged.
            WorkerEnvironmentError: the workers' Python lacks pyhudi or one of its dependencies.
        """
        as_they_come = distribution.arrangement is Arrangement.NONE
        schema, step = self.schema_of(rows), self._files_of(folder)
        if isinstance(rows, PartsOfRows):
            if as_they_come and rows.parts:
                given = rows.delivery(self.spark, self.parallelism, distribution.splits)
                read = functools.partial(rows_of_part, rows.without_parts())
                return results_of_parts(given, read, function, schema, step, description)
            arranged = self._arranged_parts(rows, distribution)
        else:
            scan = plain_scan(rows, schema, distribution.splits) if as_they_come else None
            if scan is not None and all_read_alike(self, scan):
                read = functools.partial(rows_of_ranges, scan.columns)
                with suppress(RowsNotReadError):
                    splits = SentTasks(self.spark, np.arange(len(scan.splits)), scan.splits)
                    return results_of_parts(splits, read, function, schema, step, description)
            arranged = arrange(rows, distribution, parallelism=self.parallelism)
        arranged = crossing_rows(arranged, schema)
        *before, last = limits_of_batches(self.spark, schema)
        for limits in before:
            with suppress(_RowsTooWideError):
                return _results_of_splits(arranged, function, schema, step, limits, description)
        try:
            return _results_of_splits(arranged, function, schema, step, last, description)
        except _RowsTooWideError as error:
            raise UnsupportedFeatureError(
                "the rows are too wide for the batches that Spark sends to Python: set "
                "spark.sql.execution.arrow.maxRecordsPerBatch to fewer rows (a batch should take some 100 MB)",
                step=description,
            ) from error.__cause__

    def _arranged_parts(self, rows: PartsOfRows[Any], distribution: Distribution) -> DataFrame:
        """The rows of parts, arranged."""
        if not distribution.keeps_order:
            rows_of_parts = frame_of_parts(self.spark, rows, self.parallelism)
            return arrange(rows_of_parts, distribution, parallelism=self.parallelism)
        numbered = numbered_frame(self.spark, rows, self.parallelism)
        return arrange(numbered, distribution, parallelism=self.parallelism).sortWithinPartitions(PLACE).drop(PLACE)


def results_of_parts(
    given: Delivery | SentTasks,
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
    schema: pa.Schema,
    step: StepFiles,
    description: str,
) -> list[R]:
    """Run the function once for each reader, over the rows that `read` makes of its parts in the same task."""
    stage, opened_parts, told = next(_stages), given.opened, step.told

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = _task_context(None, stage)
        rows = itertools.chain.from_iterable(read(part) for _, part in opened_parts(batches))
        yield from told(context.partition, function, context, conformed(rows, schema))

    if step.kept is None:
        return results_of_tasks(given, run, description=description)
    rows_of_step = under(given.frame.mapInArrow(run, step.ddl), given.limits)
    return step.results(rows_of_step, description, tasks=given.readers)


def all_read_alike(engine: SparkEngine, scan: PlainScan) -> bool:
    """Whether tasks read the same rows as Spark. Cost: a read of each footer, of many files in a job of Spark."""
    files = scan.files
    groups = [files[start : start + FILES_PER_TASK] for start in range(0, len(files), FILES_PER_TASK)]
    check = functools.partial(_read_alike, scan.columns)
    return all(engine.map(check, groups, size_bytes=len(files) * FOOTER_BYTES, description="read footers"))


def _read_alike(columns: ScannedColumns, _: TaskContext, files: Sequence[ListedFile]) -> bool:
    return all(reads_alike(columns, file) for file in files)


class _RowsTooWideError(Exception):
    """A batch of rows exceeds the memory of its vectors."""


def _results_of_splits(
    rows: DataFrame,
    function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
    schema: pa.Schema,
    step: StepFiles,
    limits: Mapping[str, str],
    description: str,
) -> list[R]:
    """Run the function over the partitions of the rows (`crossing_rows`), in batches with these limits."""
    stage, told = next(_stages), step.told

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        context = _task_context(None, stage)
        joined = conformed(batches, crossing_schema(schema))
        split = (restored(batch, schema) for batch in joined)
        yield from told(context.partition, function, context, split)

    told_rows = rows.mapInArrow(run, step.ddl)
    try:
        results: list[R] = step.results(under(told_rows, {**limits, **step.settings}), description)
    except Exception as error:  # of the JVM: there is no one class for it
        if _BATCH_TOO_LARGE.search(str(error)):
            raise _RowsTooWideError from error
        raise
    return results or [function(TaskContext(partition=0, stage=stage, attempt=0), iter(()))]


def _mapping(function: Callable[[TaskContext, T], R], step: StepFiles, stage: int) -> InArrow:
    """Runs the function for the tasks of a Spark task."""
    told, parent = step.told, step.parent

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        with FilePieces(parent) as files:
            for index, task in tasks_with_files(batches, files):
                yield from told(index, function, _task_context(index, stage), task)

    return run


def _sending(exchange: Exchange[S, T, R], reader_of: npt.NDArray[np.int64], stage: int) -> InArrow:
    """Runs a sender in a Spark task, and packs its rows for the readers of their receivers."""
    send, readers, parent = exchange.send, _count(reader_of), exchange.spill.folder

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        with FilePieces(parent) as files:
            for sender, task in tasks_with_files(batches, files):
                number, meter = itertools.count(), begin_counting_task()
                try:
                    for addressed in send(_task_context(sender, stage), task):
                        for reader, block in blocks(addressed, reader_of):
                            yield parcel(reader, sender, next(number), block)
                    if calls := meter.totals():
                        yield parcel(0, CALLED, sender, pickled(True, None, calls))
                except HudiError as error:
                    # Every reader is told, so that none of them begins.
                    failure = pickled(False, error)
                    for reader in range(readers):
                        yield parcel(reader, FAILURE, sender, failure)

    return run


def _receiving(exchange: Exchange[S, T, R], step: StepFiles, stage: int) -> InArrow:
    """Runs the receivers of one reader in a Spark task, after all of their rows have arrived."""
    receive, spill, told, told_pickled = exchange.receive, shared(exchange.spill, 1), step.told, step.told_pickled

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        tasks: dict[int, T] = {}
        with RowsByReceiver(spill) as rows:
            for sender, number, content in opened(batches):
                if sender == FAILURE:
                    # All readers have it; the driver needs it once.
                    if _task_context(None, stage).partition == 0:
                        yield told_pickled(number, content)
                    return
                if sender == CALLED:
                    yield told_pickled(NO_TASK, content)
                elif sender == TASK:
                    tasks.update(tasks_of(number, content))
                else:
                    rows.add(rows_of_block(content))
            rows.close()
            for receiver in sorted(rows.receivers):
                context, task = _task_context(receiver, stage), tasks.pop(receiver)
                yield from told(receiver, receive, context, task, rows.rows_of(receiver))

    return run


def _count(reader_of: npt.NDArray[np.int64]) -> int:
    """How many readers there are; one, which hears of failures, if there are no receivers."""
    return int(reader_of.max(initial=0)) + 1


def limits_of_batches(spark: SparkSession, schema: pa.Schema) -> tuple[dict[str, str], ...]:
    """The limits of batches to try for rows of this schema, one after the other if rows are too wide for them.

    None are set if the session sets any of them itself, or is one of Spark Connect (`under`).
    """
    if is_connect(spark) or any(setting(spark, name) is not None for name in ARROW_BATCHES):
        return ({},)
    if all(_has_fixed_width(field.type) for field in schema):
        return (dict(ARROW_BATCHES),)
    return tuple({**ARROW_BATCHES, _RECORDS_PER_BATCH: str(rows)} for rows in ROWS_OF_ANY_WIDTH)


def _has_fixed_width(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def session_parallelism(spark: SparkSession) -> int:
    """The number of tasks that the session runs at the same time. Runs no job.

    The first of these that is known: `spark.default.parallelism`, the default parallelism of the Spark context (not
    for Connect), the cores of a local master, the number of executors times their cores, `PARALLELISM_FALLBACK`.
    """
    if (fixed := setting(spark, "spark.default.parallelism")) is not None:
        return max(1, int(fixed))
    context = None if is_connect(spark) else spark.sparkContext
    if context is not None:
        return max(1, int(context.defaultParallelism))
    master = setting(spark, "spark.master") or ""
    if (local := re.fullmatch(r"local\[(\d+)(?:,\s*\d+)?\]", master)) is not None:
        return max(1, int(local.group(1)))
    if (cluster := re.fullmatch(r"local-cluster\[(\d+),(\d+),\d+\]", master)) is not None:
        return max(1, int(cluster.group(1)) * int(cluster.group(2)))
    executors, cores = setting(spark, "spark.executor.instances"), setting(spark, "spark.executor.cores")
    if executors is not None and cores is not None:
        return max(1, int(executors) * int(cores))
    return PARALLELISM_FALLBACK


def arrange(rows: DataFrame, distribution: Distribution, *, parallelism: int) -> DataFrame:
    """The rows arranged by the distribution: each partition of the DataFrame is one split.

    Sorting compares the texts of the partition and key columns, because record keys and partition paths are texts: so
    the key ranges of files do not overlap. If the distribution has no number of splits, Spark's adaptive execution
    chooses it from the size of the shuffled rows, without another pass over the input.
    """
    partition = [_text(name) for name in distribution.partition_columns]
    keys = [_text(name) for name in distribution.key_columns]
    splits = distribution.splits
    kind = distribution.arrangement
    if kind is Arrangement.BY_KEY:
        return _repartitioned(rows, [_of_equal_keys(distribution)], splits, parallelism)
    if kind is Arrangement.GLOBAL_SORT:
        order = partition + keys
        if splits is None:
            return rows.sort(*order)
        return rows.repartitionByRange(splits, *order).sortWithinPartitions(*order)
    gathered = rows if splits is None else rows.coalesce(splits)
    if kind is Arrangement.PARTITION_SORT:
        return gathered.sortWithinPartitions(*partition, *keys)
    if kind is Arrangement.NONE or not partition:
        return gathered
    repartitioned = _repartitioned(rows, partition, splits, parallelism)
    is_sorted = kind is Arrangement.PARTITION_PATH_REPARTITION_AND_SORT
    return repartitioned.sortWithinPartitions(*partition) if is_sorted else repartitioned


def _task_context(index: int | None, stage: int) -> TaskContext:
    """The context of the Spark task that this worker runs. Any two attempts have different attempt ids."""
    spark_context = SparkTaskContext.get()
    assert spark_context is not None
    partition = spark_context.partitionId() if index is None else index
    return TaskContext(partition=partition, stage=stage, attempt=spark_context.taskAttemptId())


def _repartitioned(rows: DataFrame, columns: list[Column], splits: int | None, parallelism: int) -> DataFrame:
    """The rows hash-partitioned by the columns. Without a number of splits, their size decides it."""
    if splits is not None:
        return rows.repartition(splits, *columns)
    spark = rows.sparkSession
    adaptive = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
    if all(setting(spark, name) != "false" for name in adaptive):
        return rows.repartition(*columns)
    return rows.repartition(2 * parallelism, *columns)


def _column(name: str) -> Column:
    """A column by its name, or by the dotted path of a nested field. Column names of Hudi tables have no dots."""
    return sql.col(".".join(f"`{part}`" for part in name.split(".")))


def _of_equal_keys(distribution: Distribution) -> Column:
    """A value that is equal for rows whose record keys are equal.

    A key of one column is equal only for equal values, and hashing values is cheaper than hashing texts. The text of
    several columns may be equal for others: null and "__null__", empty and "__empty__", "1,b:2" beside "3" and "1"
    beside "2,b:3". So this is the text, though with Spark's own form of values that are no texts in the table. Such
    forms have no comma. Where a text imitates the name of such a column, its form would be compared with that text:
    then all that looks like the column is left out.
    """
    names = distribution.key_columns
    values = [_as_stored(name, kind) for name, kind in zip(names, distribution.key_types, strict=True)]
    if len(names) == 1:
        return values[0]
    texts = [value.cast("string") for value in values]
    parts: list[Column] = []
    for name, text in zip(names, texts, strict=True):
        part = sql.when(text == "", sql.lit(EMPTY_PART)).otherwise(text)
        parts += [sql.lit(f",{name}:"), sql.coalesce(part, sql.lit(NULL_PART))]
    key = sql.concat(*parts)
    are_texts = [kind == pa.string() for kind in distribution.key_types]
    others = list(itertools.compress(names, np.invert(are_texts)))
    imitations = [
        sql.coalesce(text.contains(f",{name}:"), sql.lit(False))
        for text in itertools.compress(texts, are_texts)
        for name in others
    ]
    if not imitations:
        return key
    like_others = f",(?:{'|'.join(map(re.escape, others))}):[^,]*"
    imitates = functools.reduce(operator.or_, imitations)
    return sql.when(imitates, sql.regexp_replace(key, like_others, "")).otherwise(key)


def _as_stored(name: str, kind: pa.DataType) -> Column:
    """A key column as the table has it, where different values of the input may be one there."""
    column = _column(name)
    if pa.types.is_floating(kind):
        return column.cast("float" if pa.types.is_float32(kind) else "double")
    return sql.hex(column) if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) else column


def _text(name: str) -> Column:
    return _column(name).cast("string")
