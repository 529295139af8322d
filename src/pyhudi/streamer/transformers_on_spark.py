"""Transformers on Spark: SQL by Spark, functions over DataFrames, and what is said to be row-wise in tasks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pyhudi.errors import InvalidRequestError
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import align
from pyhudi.streamer.parts_apart import PartToRead
from pyhudi.streamer.sources.protocol import Part
from pyhudi.streamer.tasks_on_spark import BatchTasks, SizedPart
from pyhudi.streamer.transformers import ANSWERS_MAX, SOURCE, MadeWithout, Query, RowWise, Transform, transformed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyhudi.spark.engine import SparkEngine
    from pyhudi.spark.parts import PartsOfRows


def rows_of_batch(
    tasks: BatchTasks,
    batches: Callable[[Any], Iterator[pa.RecordBatch]],
    columns: pa.Schema,
    transforms: Sequence[Transform],
) -> DataFrame | PartsOfRows[SizedPart]:
    """The rows of the parts, which have these columns, after all transformers.

    The first ones run where the parts are read, up to the first one that is not row-wise. Raises `InvalidRequestError`
    for SQL that Spark refuses, and for a function that gives no DataFrame; so do tasks for a row-wise one whose columns
    are others than without rows. Cost: no job, unless a function makes one.
    """
    from pyhudi.spark.parts import frame_of_parts, mapped_frame  # noqa: PLC0415 - PySpark is an extra
    from pyhudi.spark.queries import rows_of_query  # noqa: PLC0415 - as above
    from pyhudi.spark.types import arrow_schema  # noqa: PLC0415 - as above

    first = tuple(itertools.takewhile(lambda transform: isinstance(transform, RowWise), transforms))
    read, given = batches, normalise(columns)
    if first:
        given, before = _columns_of(first, given), given
        read = functools.partial(_transformed_part, batches, first, before, given)
    engine, rows = tasks.engine, tasks.rows(read, given)
    if len(first) == len(transforms):
        return rows
    frame = frame_of_parts(engine.spark, rows, engine.parallelism)
    for transform in transforms[len(first) :]:
        if isinstance(transform, RowWise):
            before = arrow_schema(frame.schema)
            given = _columns_of([transform], before)
            frame = mapped_frame(frame, functools.partial(_transformed_batch, [transform], given), given)
        elif isinstance(transform, Query):
            frame = rows_of_query(frame, transform.text, SOURCE)
        else:
            found = transform(frame)
            if not engine.accepts(found):
                raise InvalidRequestError(
                    "on Spark a function is given a DataFrame, and must give one; for Arrow, row by row, say"
                    " pyhudi.streamer.RowWise(function)",
                    given=type(found).__name__,
                )
            frame = found
    return frame


def made_without_on(engine: SparkEngine) -> MadeWithout:
    """See `MadeWithout`; it remembers its answers. Cost of each: Spark analyses the transformers over no rows."""

    @functools.lru_cache(maxsize=ANSWERS_MAX)
    def made_without(
        transforms: tuple[Transform, ...], schema: pa.Schema, names: tuple[str, ...]
    ) -> tuple[str, ...] | None:
        from pyhudi.spark.unlogged import unlogged  # noqa: PLC0415 - PySpark is an extra

        without = pa.schema([field for field in schema if field.name not in names])
        try:
            with unlogged():
                found = engine.schema_of(rows_of_batch(BatchTasks(engine), no_batches, without, transforms)).names
        except Exception:  # noqa: BLE001  # functions of users raise anything, as for a column that is missing
            return None
        return tuple(name for name in names if name in found)

    return made_without


def no_batches(part: Part) -> Iterator[pa.RecordBatch]:
    """What is read where there are no parts."""
    del part
    return iter(())


def _columns_of(transforms: Sequence[Transform], columns: pa.Schema) -> pa.Schema:
    """The columns that row-wise transformers make of these."""
    return normalise(transformed(columns.empty_table(), transforms).schema)


def _transformed_part(
    batches: Callable[[Any], Iterator[pa.RecordBatch]],
    transforms: Sequence[Transform],
    before: pa.Schema,
    after: pa.Schema,
    part: Part | PartToRead,
) -> Iterator[pa.RecordBatch]:
    """The rows of a part after row-wise transformers."""
    for batch in batches(part):
        yield from _transformed_batch(transforms, after, align(batch, before))


def _transformed_batch(
    transforms: Sequence[Transform], after: pa.Schema, batch: pa.RecordBatch
) -> Iterator[pa.RecordBatch]:
    """Some rows after row-wise transformers. Raises `InvalidRequestError` unless they have the columns `after`."""
    rows = transformed(pa.Table.from_batches([batch]), transforms)
    found = normalise(rows.schema)
    if (found.names, found.types) != (after.names, after.types):
        raise InvalidRequestError(
            "a row-wise transformer must give the same columns for all rows, and those that it gives without rows",
            columns=[f"{field.name}: {field.type}" for field in found],
            without_rows=[f"{field.name}: {field.type}" for field in after],
        )
    yield from rows.to_batches()
