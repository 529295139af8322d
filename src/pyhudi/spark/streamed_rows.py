"""The rows of a streamer's batch as a DataFrame, whose tasks read them from the source.

The driver plans parts: ranges of a topic, and files. A task of Spark reads its parts with the decoders that the
streamer has without Spark, so that the same input gives the same rows. A part names its offsets or its file, so a task
that runs again reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pyhudi.errors import HudiError, UnsupportedFeatureError
from pyhudi.format.pieces import in_pieces
from pyhudi.spark.engine import READER_BYTES, READERS_PER_CORE, SparkEngine
from pyhudi.spark.outcomes import failure_of_input
from pyhudi.spark.parcels import BLOCK_BYTES, delivered, opened_tasks, readers_of, task_parcels
from pyhudi.spark.settings import is_connect
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.spark.workers import begin_task

Read: TypeAlias = Callable[[], pa.Table | pa.RecordBatchReader]
"""Makes the rows of a part. It can be pickled."""


def engine_of(spark: SparkSession) -> SparkEngine:
    """The engine of a streamer's session. Raises `UnsupportedFeatureError` for Spark Connect, which was not tried."""
    if is_connect(spark):
        raise UnsupportedFeatureError("a streamer runs on a classic session of Spark, not on Spark Connect")
    return SparkEngine(spark)


def rows_of_parts(engine: SparkEngine, parts: Sequence[Read], sizes: Sequence[int], wanted: pa.Schema) -> DataFrame:
    """The rows of the parts, in any order, with the columns `wanted`, in Spark's types.

    `sizes`: about how many bytes each part has. An error of a part is raised by the write that reads the rows. Cost:
    none until they are read; then Spark tasks for some parts each, as large as those of a write.

    Raises:
        UnsupportedFeatureError: Spark has no type for a column.
    """
    kinds = zip(spark_schema(wanted).fields, wanted, strict=True)
    schema = StructType([StructField(kind.name, kind.dataType, field.nullable) for kind, field in kinds])
    kept = arrow_schema(schema)
    readers = max(engine.parallelism * READERS_PER_CORE, sum(sizes) // READER_BYTES)
    reader_of = readers_of(np.array(sizes, dtype=np.int64), readers)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for _, part in opened_tasks(batches):
            try:
                yield from _batches(part(), kept)
            except HudiError as error:
                raise failure_of_input(error) from error

    given = task_parcels(engine.spark, reader_of, parts)
    return delivered(given, int(reader_of.max()) + 1).mapInArrow(run, schema)


def _batches(rows: pa.Table | pa.RecordBatchReader, kept: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
        for piece in in_pieces(batch, BLOCK_BYTES):
            yield piece.cast(kept)
