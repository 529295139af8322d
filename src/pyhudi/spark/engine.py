"""The engine on Spark: tasks in Python workers through `mapInArrow`, one Spark job per call.

Only the DataFrame API is used, so the same code runs on a local session, on a cluster and through Spark Connect.
"""

from __future__ import annotations

import itertools
import pickle
import re
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

from pyhudi.config.enums import Arrangement
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import CallbackHosts, Distribution, TaskContext
from pyhudi.errors import HudiError, InternalError, UnsupportedFeatureError, WorkerEnvironmentError
from pyhudi.format.pieces import in_pieces
from pyhudi.spark.decimals import crossing_rows, crossing_schema, restored
from pyhudi.spark.settings import is_connect, runs_here, setting, temporarily
from pyhudi.spark.types import arrow_schema
from pyhudi.spark.workers import begin_task

T = TypeVar("T")
R = TypeVar("R")

IN_PROCESS_BYTES_MAX = 32 << 20
"""Tasks that together read and write less than this run in this process: a Spark job costs more."""

PARALLELISM_FALLBACK = 8
"""Assumed where a session does not tell how many cores it has (Spark Connect to an unknown cluster)."""

ARROW_BATCHES = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""How Spark hands rows to Python where the session does not say. With a limit in bytes it sums up the sizes of all
columns after each row, which takes as long as the hand-over itself; the limit in rows, Spark's own default, keeps
batches small enough for all but wide rows."""
ROWS_OF_ANY_WIDTH = 1_000
"""As many rows in a batch where columns may be wide: of rows of 1 MB they fill the largest vector that Spark makes."""
_BATCH_TOO_LARGE = re.compile(r"OversizedAllocationException|OutOfMemoryError: Cannot reserve|OutOfDirectMemoryError")
SPLIT_BATCH_ROWS = 65_536
SPLIT_BATCH_BYTES = 32 << 20
"""Batches from Spark are joined up to this size: the work per batch and column is then negligible."""

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
        """How many tasks the session runs at once; through Spark Connect an estimate from its options."""
        return session_parallelism(self.spark)

    @property
    def callback_hosts(self) -> CallbackHosts:
        """How executors reach the driver: by the loopback device where they are on its machine, else as Spark does.

        Raises:
            UnsupportedFeatureError: through Spark Connect this process is not the driver.
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

    def accepts(self, rows: Any) -> bool:
        """Spark DataFrames, classic and Connect."""
        return isinstance(rows, DataFrame)

    def schema_of(self, rows: DataFrame) -> pa.Schema:
        """The Arrow schema of a DataFrame; analyses its plan and runs no job.

        Raises:
            SchemaMismatchError: a column has a type that Hudi cannot store.
        """
        return arrow_schema(rows.schema)

    def map(
        self, function: Callable[[TaskContext, T], R], tasks: Sequence[T], *, size_bytes: int, description: str
    ) -> list[R]:
        """The function's results in the order of the tasks: one Spark task each, or threads of this process.

        Raises:
            HudiError: the error of the first task that raised one, as it was raised.
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
        """Run the function once over each split of the arranged input; results in the order of the splits.

        The input is evaluated once, except for GLOBAL_SORT, for which Spark samples it first. Spark gives an input
        without any partition (an empty DataFrame) no splits at all: then the function runs once, here. Limits that the
        session sets for batches stay.

        Raises:
            UnsupportedFeatureError: rows are too wide for the batches that Spark makes.
            HudiError: the error of the first split that raised one, as it was raised.
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
        with temporarily(self.spark, limits_of_batches(self.spark, schema)), _large_batches_named(description):
            results: list[R] = _collect(arranged.mapInArrow(run, _OUTCOME_DDL), description)
        return results or [function(TaskContext(partition=0, stage=stage, attempt=0), iter(()))]


def limits_of_batches(spark: SparkSession, schema: pa.Schema) -> dict[str, str]:
    """The limits to set for a call with rows of this schema: none where the session has any of its own."""
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
            "the rows are too wide for the batches in which Spark hands them to Python: set "
            "spark.sql.execution.arrow.maxRecordsPerBatch to fewer rows (a batch should take some 100 MB)",
            step=description,
        ) from error


def session_parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once, from its options alone.

    `spark.default.parallelism` if it is set; else cores of `spark.master` for local masters, or executors times
    cores where both are fixed; else the context's own figure, which Connect does not have.
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
    """The DataFrame whose partitions are the splits that the distribution asks for.

    Rows are sorted by the text of their partition and key columns, as record keys and partition paths are text:
    that keeps the key ranges of the files apart. Where no number of splits is given, Spark's adaptive execution
    picks it by the size of the shuffled rows, without another pass over the input.
    """
    partition = [_text(name) for name in distribution.partition_columns]
    keys = [_text(name) for name in distribution.key_columns]
    splits = distribution.splits
    kind = distribution.arrangement
    if kind is Arrangement.BY_KEY:
        # The values themselves, not their text: equal keys are equal values, and hashing these is cheaper.
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
    """The batches under `schema`, joined to larger ones: instants leave the session's time zone for UTC."""
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
    """The batch under `schema`; equal columns are not copied."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type == kept.type else column.cast(kept.type)
        for column, kept in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _task_context(index: int | None, stage: int) -> TaskContext:
    """The context of the Spark task that this worker runs; Spark's attempt id differs between any two attempts."""
    spark_context = SparkTaskContext.get()
    assert spark_context is not None
    partition = spark_context.partitionId() if index is None else index
    return TaskContext(partition=partition, stage=stage, attempt=spark_context.taskAttemptId())


def _outcome(
    index: int, function: Callable[[TaskContext, Any], Any], context: TaskContext, task: Any
) -> pa.RecordBatch:
    """One row with the function's result, or with the typed error that it raised.

    A typed error is final, and Spark would turn it into text, so it travels as a result. Anything else fails the
    Spark task, which Spark then tries again.
    """
    try:
        outcome: tuple[bool, Any] = (True, function(context, task))
    except HudiError as error:
        outcome = (False, error)
    return pa.RecordBatch.from_arrays(
        [pa.array([index], pa.int64()), pa.array([cloudpickle.dumps(outcome)], pa.binary())], schema=_OUTCOME_SCHEMA
    )


def _collect(outcomes: DataFrame, description: str) -> list[Any]:
    """Run the job and unpack its results in the order of the tasks; raises the first typed error among them."""
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
            raise InternalError("Spark returned two results of one task", task=index, step=description)
        (results if succeeded else failures)[index] = value
    if failures:
        raise failures[min(failures)]
    return [results[index] for index in sorted(results)]


def _worker_environment_error(error: PySparkException, description: str) -> WorkerEnvironmentError | None:
    """What to change on the workers, if a failed job failed for their Python's sake."""
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
            "the Python of the Spark workers does not fit this one: set PYSPARK_PYTHON to a Python of the same "
            "version with pyhudi installed before the session starts",
            step=description,
        )
    return None


def _repartitioned(rows: DataFrame, columns: list[Column], splits: int | None, parallelism: int) -> DataFrame:
    """Hash-partitioned by the columns, into the given number of splits or as many as suit the size."""
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
