"""Reads of change data as a Spark DataFrame: executors read the tasks of the plan."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from pyhudi.engine.protocol import spread
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.read.cdc.plan import ChangePlan
from pyhudi.read.cdc.rows import read_changes
from pyhudi.spark.batches import conformed
from pyhudi.spark.engine import session_parallelism
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.spark.workers import begin_task
from pyhudi.storage.open import open_spec

TASKS_PER_PARTITION_MAX = 64
"""The largest number of tasks that one partition reads, one after the other."""


def change_frame(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    """The changes of a plan, read when an action runs; each partition of the DataFrame has whole tasks.

    Raises:
        UnsupportedFeatureError: the table is in the memory of this process.
    """
    schema = spark_schema(plan.schema)
    if not plan.tasks:
        return spark.createDataFrame([], schema)
    if plan.rows.uri.startswith("memory:"):
        raise UnsupportedFeatureError(
            "Spark cannot read a table in the memory of this process: use changes().to_arrow(), or another store",
            uri=plan.rows.uri,
        )
    weights = {number: task.size for number, task in enumerate(plan.tasks)}
    shares = spread(weights, max(session_parallelism(spark), len(weights) // TASKS_PER_PARTITION_MAX))
    pickled = zlib.compress(cloudpickle.dumps(plan))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        plan: ChangePlan = pickle.loads(zlib.decompress(pickled))  # noqa: S301 - of this program's driver
        storage, shape = open_spec(plan.storage), arrow_schema(schema)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for number in shares[index]:
                    yield from conformed(read_changes(storage, plan, plan.tasks[number]), shape)

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, schema)
