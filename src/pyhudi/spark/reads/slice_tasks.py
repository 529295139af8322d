"""Reads of the slices of a scan in tasks of a Spark session."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyhudi.engine.protocol import spread
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.spark.batches import conformed
from pyhudi.spark.engine import session_parallelism
from pyhudi.spark.reads.log_columns import unpacked_plan
from pyhudi.spark.types import arrow_schema
from pyhudi.spark.workers import begin_task
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage

SLICES_PER_TASK_MAX = 64
"""The largest number of slices with logs that one task reads, one after the other."""


def packed(plan: ScanPlan) -> bytes:
    """The plan in the form for tasks, pickled and compressed. `unpacked_plan` reverses it."""
    return zlib.compress(cloudpickle.dumps(plan))


def task_rows(
    spark: SparkSession,
    plan: ScanPlan,
    pickled: bytes,
    read: Callable[[Storage, ScanPlan, ScanSlice, int], Iterator[pa.RecordBatch]],
    schema: StructType,
) -> DataFrame:
    """Apply `read` to every slice that has logs, and return the rows as a DataFrame of `schema`.

    `read` also gets the slice's number. Several slices share one task.
    """
    weights = {number: file_slice.size for number, file_slice in enumerate(plan.merged)}
    shares = spread(weights, max(session_parallelism(spark), len(weights) // SLICES_PER_TASK_MAX))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        plan = unpacked_plan(pickled)
        storage, slices, shape = open_spec(plan.storage), plan.merged, arrow_schema(schema)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for number in shares[index]:
                    yield from conformed(read(storage, plan, slices[number], number), shape)

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, schema)
