"""DataFrames whose tasks read the rows, parts of the input each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from pyhudi.errors import HudiError
from pyhudi.format.pieces import in_pieces
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import align
from pyhudi.spark.engine import READER_BYTES, READERS_PER_CORE, SparkEngine, conformed
from pyhudi.spark.outcomes import RowsFailedError
from pyhudi.spark.parcels import BLOCK_BYTES, delivered, opened_tasks, readers_of, task_parcels
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.spark.workers import begin_task

T = TypeVar("T")


def frame_of_parts(
    engine: SparkEngine,
    read: Callable[[T], Iterator[pa.RecordBatch]],
    parts: Sequence[T],
    sizes: Sequence[int],
    columns: pa.Schema,
) -> DataFrame:
    """The rows that `read` yields of the parts, in Spark tasks, whenever Spark evaluates the DataFrame.

    `sizes`: about how many bytes each part has; a task reads some parts, about as much as one of a write. `read` must
    give the same rows each time. A `HudiError` that it raises comes out of `SparkEngine.map_splits`. Raises
    `UnsupportedFeatureError` for a column of type null. Cost: no job.
    """
    kept = normalise(columns)
    declared = _declared(kept)
    if not parts:
        return engine.spark.createDataFrame([], declared)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for _, part in opened_tasks(batches):
            yield from _sent(read(part), kept)

    readers = max(engine.parallelism * READERS_PER_CORE, sum(sizes) // READER_BYTES)
    reader_of = readers_of(np.array(sizes, dtype=np.int64), readers)
    return delivered(task_parcels(engine.spark, reader_of, parts), int(reader_of.max()) + 1).mapInArrow(run, declared)


def mapped_frame(
    rows: DataFrame, function: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]], columns: pa.Schema
) -> DataFrame:
    """The rows that a function yields of pieces of the rows, with these columns. Errors: as of `frame_of_parts`."""
    given, kept = arrow_schema(rows.schema), normalise(columns)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        yield from _sent(itertools.chain.from_iterable(map(function, conformed(batches, given))), kept)

    return rows.mapInArrow(run, _declared(kept))


def _sent(rows: Iterator[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows as Spark takes them, and their `HudiError` so that it comes through Spark."""
    try:
        for batch in rows:
            yield from in_pieces(align(batch, columns), BLOCK_BYTES)
    except HudiError as error:
        raise RowsFailedError(error) from error


def _declared(columns: pa.Schema) -> Any:
    """The columns of the DataFrame: Spark keeps each type of `normalise` but null, as `arrow_schema` gives it back."""
    return _with_nulls(spark_schema(columns), pa.struct(columns))


def _with_nulls(kind: Any, data_type: pa.DataType) -> Any:
    """A Spark type, in whose parts nulls may be where the Arrow type has them."""
    if pa.types.is_map(data_type):
        values = _with_nulls(kind.valueType, data_type.item_type)
        return MapType(_with_nulls(kind.keyType, data_type.key_type), values, data_type.item_field.nullable)
    if pa.types.is_list(data_type):
        return ArrayType(_with_nulls(kind.elementType, data_type.value_type), data_type.value_field.nullable)
    if pa.types.is_struct(data_type):
        fields = zip(kind.fields, data_type.fields, strict=True)
        return StructType([StructField(own.name, _with_nulls(own.dataType, f.type), f.nullable) for own, f in fields])
    return kind
