"""Rows that transformers of Spark made, apart from those that cannot be in the table; and what these come from.

Rows carry the number of their record through the transformers (`RECORD`), among all parts of a batch. Where some have
no key afterwards, or null in a column that cannot have it, tasks read the parts that have such records again, and Spark
joins both by the number: no record passes through the driver, which learns how many fail in each part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.enums import Arrangement
from pyhudi.engine.protocol import Distribution, TaskContext
from pyhudi.errors import InvalidRequestError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.streamer.error_table import ERROR_ROWS, NO_ROW, as_json, without_key_or_value
from pyhudi.streamer.parts_apart import PartReading, PartToRead, read_part, rows_of_part
from pyhudi.streamer.sources.apart import RECORD
from pyhudi.streamer.tasks_on_spark import BatchTasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pyhudi.spark.engine import SparkEngine

_BITS: Final = 40
"""A part has fewer than 2^40 records."""
_LOST: Final = pa.schema([(RECORD, pa.int64()), ("message", pa.string()), ("row", pa.binary())])
_ORIGINS: Final = pa.schema(
    [
        (RECORD, pa.int64()),
        ("id", pa.string()),
        ("source", pa.string()),
        ("position", pa.string()),
        ("payload", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class NumberedPart:
    """A part, and its place among those of the batch."""

    place: int
    part: PartToRead

    @property
    def size_bytes(self) -> int:
        """See `Part.size_bytes`."""
        return self.part.size_bytes

    @property
    def number(self) -> int:
        """See `PartToRead.number`."""
        return self.part.number

    def with_rows(self, rows: pa.Table) -> NumberedPart:
        """See `PartToRead.with_rows`."""
        return replace(self, part=self.part.with_rows(rows))


def numbered_parts(parts: Sequence[Any]) -> list[NumberedPart]:
    """The parts of a batch (`PartToRead`), each with its place."""
    return [NumberedPart(place, part) for place, part in enumerate(parts)]


def numbered_rows(reading: PartReading, columns: pa.Schema, part: NumberedPart) -> Iterator[pa.RecordBatch]:
    """The rows of a part, with the numbers that their records have among those of the batch. Cost: a read of it."""
    rows = rows_of_part(read_part(reading, part.part), columns)
    place = rows.column_names.index(RECORD)
    numbers = pc.add(rows[RECORD], pa.scalar(part.place << _BITS, pa.int64()))
    yield from rows.set_column(place, RECORD, numbers).to_batches()


def _origin_rows(reading: PartReading, part: NumberedPart) -> Iterator[pa.RecordBatch]:
    """Where the records with rows of a part come from. Cost: a read of the part."""
    apart = read_part(reading, part.part)
    if not apart.rows.num_rows:
        return
    numbers = apart.rows[RECORD].to_pylist()
    found = [
        ((part.place << _BITS) + number, origin.id, origin.source, origin.position, origin.payload)
        for number, origin in zip(numbers, apart.origins(numbers), strict=True)
    ]
    columns = [pa.array(values, field.type) for values, field in zip(zip(*found, strict=True), _ORIGINS, strict=True)]
    yield pa.RecordBatch.from_arrays(columns, schema=_ORIGINS)


@dataclass(frozen=True, slots=True)
class RowCheck:
    """What rows need to be in the table: see `without_key_or_value`."""

    keys: KeyGenerator
    stored: pa.Schema | None

    def good(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that can be in the table."""
        found, _, _ = without_key_or_value(pa.Table.from_batches([rows]), self.keys, self.stored)
        yield from found.drop_columns([RECORD]).to_batches()

    def columns(self, columns: pa.Schema) -> pa.Schema:
        """The columns of `good` rows."""
        found, _, _ = without_key_or_value(columns.empty_table(), self.keys, self.stored)
        return found.drop_columns([RECORD]).schema

    def lost(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The numbers of the records whose rows cannot, why, and the rows as JSON."""
        _, failed, lost = without_key_or_value(pa.Table.from_batches([rows]), self.keys, self.stored)
        texts = as_json(lost)
        columns = [
            pa.array([record.number for record in failed], pa.int64()),
            pa.array([record.reason for record in failed], pa.string()),
            pa.array([texts[record.number] for record in failed], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_LOST)

    def count(self, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> dict[int, int]:
        """How many rows of a split cannot, by the place of the part that has their record."""
        del context
        numbers = [lost.column(0).to_numpy() for batch in batches for lost in self.lost(batch)]
        places, counts = np.unique(np.concatenate([np.array([], np.int64), *numbers]) >> _BITS, return_counts=True)
        return dict(zip(places.tolist(), counts.tolist(), strict=True))


def without_record(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of which none is checked."""
    yield rows.drop_columns([RECORD])


def lost_by_part(tasks: BatchTasks, rows: Any, check: RowCheck) -> dict[int, int]:
    """How many rows that transformers made cannot be in the table, by the place of their part. Cost: a job of Spark.

    Raises `InvalidRequestError` where a transformer changed the numbers of records.
    """
    found: dict[int, int] = {}
    if tasks.engine.schema_of(rows).field(RECORD).type == pa.int64():
        for split in tasks.engine.map_splits(
            rows, check.count, distribution=Distribution(Arrangement.NONE), description="find rows without a key"
        ):
            for place, count in split.items():
                found[place] = found.get(place, 0) + count
        if all(0 <= place < len(tasks.parts) for place in found):
            return found
    raise InvalidRequestError("with an error table transformers leave this column as it is, or drop it", column=RECORD)


def mapped(rows: Any, function: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]], columns: pa.Schema) -> Any:
    """What a function makes of the rows of each piece, with these columns. Cost: no job."""
    from pyhudi.spark.parts import PartsOfRows, mapped_frame  # noqa: PLC0415 - PySpark is an extra

    if isinstance(rows, PartsOfRows):
        return replace(rows, read=functools.partial(_then, rows.read, function), columns=columns)
    return mapped_frame(rows, function, columns)


def _then(
    read: Callable[[Any], Iterator[pa.RecordBatch]],
    function: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]],
    part: Any,
) -> Iterator[pa.RecordBatch]:
    for batch in read(part):
        yield from function(batch)


def lost_rows(
    tasks: BatchTasks, reading: PartReading, rows: Any, check: RowCheck, places: set[int], target: str
) -> DataFrame:
    """The rows of the error table for those that transformers made and that cannot be in the table.

    `places`: those of the parts that have such records. Cost: no job; when it is evaluated the rows are made again, and
    these parts are read.
    """
    from pyhudi.spark.parts import mapped_frame  # noqa: PLC0415 - PySpark is an extra

    failing = tasks.with_parts([part for place, part in enumerate(tasks.parts) if place in places])
    origins = frame_of(tasks.engine, failing.rows(functools.partial(_origin_rows, reading), _ORIGINS))
    lost = frame_of(tasks.engine, mapped(rows, check.lost, _LOST))
    return mapped_frame(lost.join(origins, RECORD), functools.partial(_error_rows, target), ERROR_ROWS)


def _error_rows(target: str, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of the error table, of lost rows with their origins."""
    targets, kinds = (pa.repeat(text, rows.num_rows) for text in (target, NO_ROW))
    columns = [
        pc.binary_join_element_wise(targets, rows["id"], "|"),
        targets,
        rows["source"],
        rows["position"],
        kinds,
        rows["message"],
        pc.coalesce(rows["payload"], rows["row"]),
    ]
    yield pa.RecordBatch.from_arrays(columns, schema=ERROR_ROWS)


def frame_of(engine: SparkEngine, rows: Any) -> DataFrame:
    """The rows of a batch as a DataFrame. Cost: no job."""
    from pyhudi.spark.parts import PartsOfRows, frame_of_parts  # noqa: PLC0415 - PySpark is an extra

    return frame_of_parts(engine.spark, rows, engine.parallelism) if isinstance(rows, PartsOfRows) else rows
