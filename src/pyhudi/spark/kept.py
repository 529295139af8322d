"""Rows that Spark keeps, so that several takers read what tasks made once: each its own rows, in tasks.

Blocks of rows in Arrow's stream format are the rows of a DataFrame that Spark persists in memory and on disk. The
driver learns how many rows of each part are for each taker, and has none of them. What an executor loses Spark makes
again from the same parts. A block says its taker, and those of a taker are neighbours: so a job of one taker passes
over most batches of the others by their statistics.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.errors import HudiError, SourceDataLostError
from pyhudi.format.pieces import in_pieces
from pyhudi.spark.frames import under
from pyhudi.spark.outcomes import OUTCOME_DDL, RowsFailedError, collected, outcome
from pyhudi.spark.parcels import BATCH_LIMITS, Delivery, SentTasks, opened_tasks
from pyhudi.spark.workers import begin_task

T = TypeVar("T")
R = TypeVar("R")

BLOCK_BYTES: Final = 256 << 10
"""The size limit of a block, of which Spark hands thousands to Python at once; a single row may be larger."""
_DDL: Final = "taker int not null, part int not null, rows bigint not null, size bigint not null, block binary not null"
_SUMMED: Final = ("taker", "part", "rows", "size")


class TaskWithRows(Protocol):
    """A task of a piece, which is given its rows where it runs."""

    @property
    def number(self) -> int:
        """The number of the part."""
        ...

    def with_rows(self, rows: pa.Table) -> Any:
        """The task with its rows."""
        ...


class KeptPiece(NamedTuple):
    """How many rows of a part are for a taker, and how many bytes they have."""

    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class KeptOfTaker:
    """The kept rows of one taker."""

    frame: DataFrame

    def delivery(self, tasks: Sequence[Any], readers: int) -> Delivery:
        """The tasks (`TaskWithRows`) where their rows are, in so many Spark tasks at most. Cost: no shuffle."""
        opened = functools.partial(_opened_pieces, tuple(tasks))
        return Delivery(self.frame.coalesce(readers), readers, opened, BATCH_LIMITS)

    def told(self, tasks: Sequence[Any], readers: int, function: Callable[[Any], R], what: str) -> list[R]:
        """What a function gives of each task. Raises as `collected`. Cost: a job of Spark; none without tasks."""
        if not tasks:
            return []
        given = self.delivery(tasks, readers)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begin_task()
            for index, task in given_opened(batches):
                yield outcome(index, function, task)

        given_opened = given.opened
        found = collected(under(given.frame.mapInArrow(run, OUTCOME_DDL), given.limits), what, tasks=len(tasks))
        if len(found) < len(tasks):
            raise SourceDataLostError("what was read of the source is not all there any more: run again", step=what)
        return found


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows that Spark keeps, and how many there are of each taker and part."""

    frame: DataFrame
    counts: Mapping[int, Mapping[int, KeptPiece]]

    def pieces(self, taker: int) -> Mapping[int, KeptPiece]:
        """The pieces of a taker, by the numbers of the parts; none without rows."""
        return self.counts.get(taker, {})

    def of(self, taker: int) -> KeptOfTaker:
        """The rows of a taker. Cost: no job."""
        return KeptOfTaker(self.frame.where(sql.col("taker") == taker).select("part", "block"))

    def told(self, taker: int, tasks: Sequence[TaskWithRows], function: Callable[[Any], R]) -> list[R]:
        """See `KeptOfTaker.told`."""
        return self.of(taker).told(tasks, len(tasks), function, "find rows of a part")

    def release(self) -> None:
        """Let Spark keep nothing. Jobs that still read the rows make them again."""
        self.frame.unpersist()


def kept_rows(
    spark: SparkSession,
    parts: Sequence[T],
    reader_of: npt.NDArray[np.int64],
    divide: Callable[[T], Iterable[tuple[int, pa.Table]]],
    description: str,
) -> KeptRows:
    """The rows that `divide` gives of each part, with the number of their taker. `reader_of`: the task of each part.

    Raises the `HudiError` of a part. Cost: a job of Spark, whose rows it keeps until `KeptRows.release`.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begin_task()
        try:
            for number, part in opened_tasks(batches):
                for taker, rows in divide(part):
                    yield from _blocks(taker, number, rows)
        except HudiError as error:
            raise RowsFailedError(error) from error

    given = SentTasks(spark, reader_of, parts)
    frame = given.frame.mapInArrow(run, _DDL).persist()
    try:
        counts: dict[int, dict[int, KeptPiece]] = defaultdict(dict)
        sums = frame.select(*_SUMMED).mapInArrow(_summing, OUTCOME_DDL)
        for found in itertools.chain.from_iterable(collected(sums, description, tasks=given.readers)):
            counts[found["taker"]][found["part"]] = KeptPiece(found["rows_sum"], found["size_sum"])
    except BaseException:
        frame.unpersist()
        raise
    return KeptRows(frame, counts)


def _summing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    begin_task()
    context = TaskContext.get()
    assert context is not None
    yield outcome(context.partitionId(), _summed, batches)


def _summed(batches: Iterator[pa.RecordBatch]) -> list[dict[str, int]]:
    """How many rows and bytes there are of each taker and part, which may have several blocks."""
    found = [batch.rename_columns(list(_SUMMED)) for batch in batches]
    if not found:
        return []
    sums = pa.Table.from_batches(found).group_by(["taker", "part"]).aggregate([("rows", "sum"), ("size", "sum")])
    return [row for row in sums.to_pylist() if row["rows_sum"]]


def _blocks(taker: int, part: int, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """The rows of a piece in blocks; one without rows where it has none, which the piece is known by."""
    batches = rows.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    for piece in itertools.chain.from_iterable(in_pieces(batch, BLOCK_BYTES) for batch in batches):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_batch(piece)
        block = sink.getvalue()
        columns = [
            pa.array([taker], pa.int32()),
            pa.array([part], pa.int32()),
            pa.array([piece.num_rows], pa.int64()),
            pa.array([block.size], pa.int64()),
            pa.array([block.to_pybytes()], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[*_SUMMED, "block"])


def _opened_pieces(tasks: Sequence[TaskWithRows], batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """The places of tasks, and these with their rows; the blocks of a part come one after the other."""
    places = {task.number: place for place, task in enumerate(tasks)}
    for number, blocks in itertools.groupby(_parts_and_blocks(batches), itemgetter(0)):
        if number in places:
            rows = pa.concat_tables([_rows_of_block(block) for _, block in blocks])
            yield places[number], tasks[places[number]].with_rows(rows)


def _parts_and_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def _rows_of_block(block: bytes) -> pa.Table:
    with pa.ipc.open_stream(block) as reader:
        return reader.read_all()
