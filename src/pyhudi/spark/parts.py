"""Rows that tasks of Spark read, parts of the input each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from pyhudi.errors import HudiError
from pyhudi.format.pieces import in_pieces
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import align
from pyhudi.spark.batches import conformed
from pyhudi.spark.frames import in_session
from pyhudi.spark.kept import KeptOfTaker
from pyhudi.spark.outcomes import RowsFailedError
from pyhudi.spark.parcels import (
    BLOCK_BYTES,
    Delivery,
    SentTasks,
    readers_of_parts,
)
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.spark.workers import begin_task

T = TypeVar("T")
PLACE: Final = "#place"
"""The column of the places of rows, a name that no column of a table has."""
_PLACE = pa.field(PLACE, pa.int64(), nullable=False)


@dataclass(frozen=True, slots=True)
class PartsOfRows(Generic[T]):
    """Rows that tasks read in parts.

    Attributes:
        read: yields the rows of a part, the same each time. A `HudiError` that it raises comes out of
            `SparkEngine.map_splits`.
        parts: values that can be pickled.
        sizes: about how many bytes each part has.
        columns: those of the rows.
        kept: what Spark keeps of the parts, where the tasks get it from; None where the driver sends all.

    Raises:
        UnsupportedFeatureError: a column has the type null, which Spark does not keep.
    """

    read: Callable[[T], Iterator[pa.RecordBatch]]
    parts: Sequence[T]
    sizes: Sequence[int]
    columns: pa.Schema
    kept: KeptOfTaker | None = None

    def __post_init__(self) -> None:
        """Refuse columns that a DataFrame of these rows could not have."""
        _declared(self.schema)

    @property
    def schema(self) -> pa.Schema:
        """The columns with the types that a write takes."""
        return normalise(self.columns)

    def readers(self, parallelism: int, readers_max: int | None = None) -> npt.NDArray[np.int64]:
        """For each part the task that reads it: a task reads about as much as one of a write."""
        return readers_of_parts(self.sizes, parallelism, readers_max)

    def delivery(self, spark: SparkSession, parallelism: int, readers_max: int | None = None) -> Delivery | SentTasks:
        """The parts for the tasks that read them. Cost: no job."""
        reader_of = self.readers(parallelism, readers_max)
        if self.kept is None:
            return SentTasks(spark, reader_of, self.parts)
        return self.kept.delivery(self.parts, int(reader_of.max()) + 1)

    def without_parts(self) -> PartsOfRows[T]:
        """How the parts are read, which each task is told; it gets its own parts alone."""
        return replace(self, parts=(), sizes=(), kept=None)


def rows_of_part(rows: PartsOfRows[T], part: T) -> Iterator[pa.RecordBatch]:
    """The rows of a part, with the columns of `PartsOfRows.schema`, in batches that are not large."""
    return _aligned(rows.read(part), rows.schema)


def frame_of_parts(spark: SparkSession, rows: PartsOfRows[T], parallelism: int) -> DataFrame:
    """The rows as a DataFrame: tasks read them whenever Spark evaluates it. Cost: no job."""
    without_parts = rows.without_parts()

    def sent(_: int, part: T) -> Iterator[pa.RecordBatch]:
        return _sent(without_parts.read(part), without_parts.schema)

    return _frame(spark, rows, parallelism, sent, rows.schema)


def numbered_frame(spark: SparkSession, rows: PartsOfRows[T], parallelism: int) -> DataFrame:
    """As `frame_of_parts`, with a column `PLACE`, by which rows are in the order of their parts, and in that of each.

    A part has fewer than 2^40 rows, and there are fewer than 2^23 parts.
    """
    without_parts = rows.without_parts()

    def sent(number: int, part: T) -> Iterator[pa.RecordBatch]:
        place = number << 40
        for batch in _sent(without_parts.read(part), without_parts.schema):
            places = np.arange(place, place + batch.num_rows)
            place += batch.num_rows
            yield batch.append_column(_PLACE, pa.array(places))

    return _frame(spark, rows, parallelism, sent, rows.schema.append(_PLACE))


def _frame(
    spark: SparkSession,
    rows: PartsOfRows[T],
    parallelism: int,
    sent: Callable[[int, T], Iterator[pa.RecordBatch]],
    columns: pa.Schema,
) -> DataFrame:
    """A DataFrame with these columns of what is sent of each part, by its number."""
    declared = _declared(columns)
    if not rows.parts:
        return spark.createDataFrame([], declared)
    given = rows.delivery(spark, parallelism)
    opened = given.opened

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        for number, part in opened(batches):
            yield from sent(number, part)

    return in_session(given.frame, spark).mapInArrow(run, declared)


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
        yield from _aligned(rows, columns)
    except HudiError as error:
        raise RowsFailedError(error) from error


def _aligned(rows: Iterator[pa.RecordBatch], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        yield from in_pieces(align(batch, columns), BLOCK_BYTES)


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
