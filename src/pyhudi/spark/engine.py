"""Engine on Spark: tasks run in Python workers through `mapInArrow`, one Spark job per call.

It uses only the DataFrame API, so the same code runs on a local session, on a cluster and through Spark Connect.
"""

from __future__ import annotations

import itertools
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.column import Column
from pyspark.util import InheritableThread

from pyhudi.config.enums import Arrangement
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import CallbackHosts, Distribution, TaskContext
from pyhudi.errors import HudiError, InternalError, UnsupportedFeatureError, WorkerEnvironmentError
from pyhudi.format.pieces import in_pieces
from pyhudi.spark.decimals import crossing_rows, crossing_schema, restored
from pyhudi.spark.settings import is_connect, runs_here, setting, under
from pyhudi.spark.types import arrow_schema
from pyhudi.spark.workers import begin_task

T = TypeVar("T")
R = TypeVar("R")

IN_PROCESS_BYTES_MAX = 32 << 20
"""Tasks that together read and write fewer bytes run in this process, because a Spark job would cost more."""

PARALLELISM_FALLBACK = 8
"""The assumed number of cores if it is unknown (Spark Connect to a cluster without fixed resources)."""

ARROW_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""Limits of the batches that Spark sends to Python, unless the session sets its own. The limit in bytes is off, because
Spark would sum up the sizes of all columns after each row, which takes as long as sending the row. The limit in rows is
Spark's default, and keeps batches small enough for all but wide rows."""
ROWS_OF_ANY_WIDTH = 1_000
"""The limit in rows if the schema has columns of variable width. Rows of 1 MB then just fit Spark's largest vector."""
_BATCH_TOO_LARGE = re.compile(r"OversizedAllocationException|OutOfMemoryError: Cannot reserve|OutOfDirectMemoryError")
SPLIT_BATCH_ROWS = 65_536
SPLIT_BATCH_BYTES = 32 << 20
"""Batches from Spark are joined up to this size, so that the work per batch and column becomes negligible."""

_LOOPBACK = "127.0.0.1"

_OUTCOME_SCHEMA = pa.schema(
    [pa.field("task", pa.int64(), nullable=False), pa.field("outcome", pa.binary(), nullable=False)]
)
_OUTCOME_DDL = "task bigint not null, outcome binary not null"

_MISSING_MODULE = re.compile(r"No module named '([A-Za-z0-9_]+)")
_WORKER_MODULES = frozenset(
    {"pyhudi", "pyarrow", "pandas", "numpy", "fastavro", "filelock", "obstore", "psutil", "tzdata"}
)
_WORKER_MISFITS = ("PYTHON_VERSION_MISMATCH", "PACKAGE_NOT_INSTALLED", "UNSUPPORTED_PACKAGE_VERSION")

_stages = itertools.count(1)


@dataclass(frozen=True)
class SparkEngine:
    """Runs tasks on the cores of a Spark session, and small work in this process."""

    spark: SparkSession
    _local: LocalEngine = field(default_factory=LocalEngine, repr=False)

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
        thread: threading.Thread = InheritableThread(run, session=self.spark, name="pyhudi services")
        return thread

    def accepts(self, rows: Any) -> bool:
        """Spark DataFrames, classic and Connect."""
        return isinstance(rows, DataFrame)

    def schema_of(self, rows: DataFrame) -> pa.Schema:
        """The Arrow schema of a DataFrame. Cost: Spark analyses the plan, but runs no job.

        Raises:
            SchemaMismatchError: a column has a type that Hudi cannot store.
        """
        return arrow_schema(rows.schema)

    def map(
        self, function: Callable[[TaskContext, T], R], tasks: Sequence[T], *, size_bytes: int, description: str
    ) -> list[R]:
        """Run the function for each task, and return the results in the order of the tasks.

        Cost: one Spark job with one Spark task for each task. A single task and small work run in this process.

        Raises:
            HudiError: the error of the first task that raised one, unchanged.
            WorkerEnvironmentError: the workers' Python lacks pyhudi or one of its dependencies.
        """
        if len(tasks) <= 1 or size_bytes < IN_PROCESS_BYTES_MAX:
            return self._local.map(function, tasks, size_bytes=size_bytes, description=description)
        stage = next(_stages)
        pickled = [cloudpickle.dumps(task) for task in tasks]

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begin_task()
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    # Spark's own cloudpickle wrote these bytes in this program's driver.
                    task = pickle.loads(pickled[index])  # noqa: S301
                    yield _outcome(index, function, _task_context(index, stage), task)

        numbered = self.spark.range(0, len(tasks), 1, len(tasks))
        return _collect(numbered.mapInArrow(run, _OUTCOME_DDL), description)

    def map_splits(
        self,
        rows: DataFrame,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        *,
        distribution: Distribution,
        description: str,
    ) -> list[R]:
        """Run the function once over each split of the arranged input, and return the results in the order of splits.

        An empty DataFrame may have no splits at all: then the function runs once, in this process. Limits that the
        session sets for batches stay in force. Cost: one Spark job, with a shuffle if the arrangement needs one. Spark
        evaluates the input once, but for GLOBAL_SORT twice, because it samples the input first.

        Raises:
            UnsupportedFeatureError: rows are too wide for Spark's batches.
            HudiError: the error of the first split that raised one, unchanged.
            WorkerEnvironmentError: the workers' Python lacks pyhudi or one of its dependencies.
        """
        stage = next(_stages)
        schema = self.schema_of(rows)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begin_task()
            context = _task_context(None, stage)
            joined = conformed(batches, crossing_schema(schema))
            yield _outcome(context.partition, function, context, (restored(batch, schema) for batch in joined))

        arranged = crossing_rows(arrange(rows, distribution, parallelism=self.parallelism), schema)
        outcomes = under(arranged.mapInArrow(run, _OUTCOME_DDL), limits_of_batches(self.spark, schema))
        with _large_batches_named(description):
            results: list[R] = _collect(outcomes, description)
        return results or [function(TaskContext(partition=0, stage=stage, attempt=0), iter(()))]


def limits_of_batches(spark: SparkSession, schema: pa.Schema) -> dict[str, str]:
    """The limits of batches to set for rows of this schema. None are set if the session sets any of them itself."""
    if any(setting(spark, name) is not None for name in ARROW_BATCHES):
        return {}
    if all(_has_fixed_width(field.type) for field in schema):
        return dict(ARROW_BATCHES)
    return {**ARROW_BATCHES, "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_OF_ANY_WIDTH)}


def _has_fixed_width(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


@contextmanager
def _large_batches_named(description: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not _BATCH_TOO_LARGE.search(str(error)):
            raise
        raise UnsupportedFeatureError(
            "the rows are too wide for the batches that Spark sends to Python: set "
            "spark.sql.execution.arrow.maxRecordsPerBatch to fewer rows (a batch should take some 100 MB)",
            step=description,
        ) from error


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
        # By the values, not by their texts: equal keys have equal values, and hashing values is cheaper.
        columns = [_column(name) for name in distribution.key_columns]
        return _repartitioned(rows, columns, splits, parallelism)
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


def conformed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches cast to `schema` and joined to larger ones. Timestamps in the session's time zone become UTC."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(_under(batch, schema))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= SPLIT_BATCH_ROWS or size >= SPLIT_BATCH_BYTES:
            yield from in_pieces(_joined(pending))
            pending, rows, size = [], 0, 0
    if pending:
        yield from in_pieces(_joined(pending))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _under(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch cast to `schema`. Columns that have the right type are not copied."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == kept.type else column.cast(kept.type)
        for column, kept in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _task_context(index: int | None, stage: int) -> TaskContext:
    """The context of the Spark task that this worker runs. Any two attempts have different attempt ids."""
    spark_context = SparkTaskContext.get()
    assert spark_context is not None
    partition = spark_context.partitionId() if index is None else index
    return TaskContext(partition=partition, stage=stage, attempt=spark_context.taskAttemptId())


def _outcome(
    index: int, function: Callable[[TaskContext, Any], Any], context: TaskContext, task: Any
) -> pa.RecordBatch:
    """One row with the function's result, or with the `HudiError` that it raised.

    A `HudiError` is final, and Spark would convert it into text; therefore it is returned like a result. Any other
    error fails the Spark task, and Spark runs the task again.
    """
    try:
        outcome: tuple[bool, Any] = (True, function(context, task))
    except HudiError as error:
        outcome = (False, error)
    return pa.RecordBatch.from_arrays(
        [pa.array([index], pa.int64()), pa.array([cloudpickle.dumps(outcome)], pa.binary())], schema=_OUTCOME_SCHEMA
    )


def _collect(outcomes: DataFrame, description: str) -> list[Any]:
    """Run the job and return its results in the order of the tasks, or raise the first error among them."""
    try:
        rows = outcomes.collect()
    except PySparkException as error:
        if (explained := _worker_environment_error(error, description)) is not None:
            raise explained from error
        raise
    results: dict[int, Any] = {}
    failures: dict[int, HudiError] = {}
    for index, pickled in rows:
        # Written by `_outcome` in a worker of this session.
        succeeded, value = pickle.loads(pickled)  # noqa: S301
        if index in results or index in failures:
            raise InternalError("Spark returned two results for one task", task=index, step=description)
        (results if succeeded else failures)[index] = value
    if failures:
        raise failures[min(failures)]
    return [results[index] for index in sorted(results)]


def _worker_environment_error(error: PySparkException, description: str) -> WorkerEnvironmentError | None:
    """The error for a job that failed because of the workers' Python, or None if it failed for another reason."""
    text = str(error)
    missing = _MISSING_MODULE.search(text)
    if missing is not None and missing.group(1) in _WORKER_MODULES:
        return WorkerEnvironmentError(
            f"the Python of the Spark workers has no {missing.group(1)}: install pyhudi there, and point "
            "PYSPARK_PYTHON (or spark.pyspark.python) at that Python before the session starts",
            module=missing.group(1),
            step=description,
        )
    if any(misfit in text for misfit in _WORKER_MISFITS):
        return WorkerEnvironmentError(
            "the Python of the Spark workers does not match the driver's: set PYSPARK_PYTHON to a Python of the same "
            "version with pyhudi installed before the session starts",
            step=description,
        )
    return None


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


def _text(name: str) -> Column:
    return _column(name).cast("string")
