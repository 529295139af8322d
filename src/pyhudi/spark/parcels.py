"""Tasks, and the rows between them, as rows of DataFrames: Spark's own shuffle brings them to where they are needed.

A parcel goes to a reader, which is one Spark task. It holds pickled tasks, a piece of an exchange file that they read,
or a block of rows in Arrow's stream format. So a worker loads the tasks that it runs and no other, and rows spill, are
sent again and survive lost executors as all of Spark's do.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.engine.exchange import grouped
from pyhudi.engine.protocol import AddressedRows
from pyhudi.format.pieces import in_pieces, runs
from pyhudi.spark.capabilities import HAS_SHUFFLE_BY_NUMBER
from pyhudi.spark.frames import frame_of_arrow

BLOCK_BYTES: Final = 8 << 20
"""The size limit of a block; a single row may be larger."""
BATCH_LIMITS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(128 << 20),
}
"""How many parcels Spark passes to Python at once. Connect does without: there its own limit in bytes counts."""

READERS_PER_CORE: Final = 2
"""More Spark tasks than cores take the rows of an exchange, so that one slow task does not leave other cores idle."""
READER_BYTES: Final = 256 << 20
"""About what one of these tasks reads and writes: so there are more of them for large work."""

CALLED, PIECE, FAILURE, TASK = -4, -3, -2, -1
"""In place of a sender's number: the parcel holds what a sender has called of the store, a piece of an exchange file,
the error of a sender, or tasks of the reader; these come first, in this order."""

TASKS_PER_PARCEL: Final = 100
"""Tasks of a write say alike where and how they write: pickled together, they say it once."""

PARCEL_DDL: Final = "reader int not null, sender bigint not null, number bigint not null, content binary not null"
_PARCELS = pa.schema(
    [
        pa.field("reader", pa.int32(), nullable=False),
        pa.field("sender", pa.int64(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),
    ]
)
_RECEIVER = "#receiver"

Numbers = npt.NDArray[np.int64]


def task_parcels(spark: SparkSession, reader_of: Numbers, tasks: Sequence[Any]) -> DataFrame:
    """`parcels_of_tasks` as the rows of a DataFrame."""
    parcels = pa.Table.from_batches(parcels_of_tasks(reader_of, tasks), _PARCELS)
    return frame_of_arrow(spark, parcels.combine_chunks())


def parcels_of_tasks(reader_of: Numbers, tasks: Sequence[Any]) -> list[pa.RecordBatch]:
    """The tasks, numbered from 0, for their readers; those of one reader are neighbours. `tasks_of` opens them."""
    return [
        parcel(int(reader_of[first]), TASK, first, cloudpickle.dumps(list(tasks[first:end])))
        for first, end in _portions(reader_of)
    ]


def _portions(reader_of: Numbers) -> list[tuple[int, int]]:
    """Ranges of at most `TASKS_PER_PARCEL` neighbours of one reader."""
    return [
        (first, min(first + TASKS_PER_PARCEL, end))
        for start, end in runs(reader_of)
        for first in range(start, end, TASKS_PER_PARCEL)
    ]


def tasks_of(first: int, content: bytes) -> Iterator[tuple[int, Any]]:
    """The tasks of a parcel with their numbers, of which `first` is that of the parcel."""
    # This program's driver pickled them.
    return enumerate(pickle.loads(content), first)  # noqa: S301


def delivered(parcels: DataFrame, readers: int) -> DataFrame:
    """The parcels with those of reader `n` in partition `n`, sorted by sender and number. Cost: a shuffle."""
    ordered = ("sender", "number")
    if HAS_SHUFFLE_BY_NUMBER:
        return parcels.repartitionById(readers, sql.col("reader")).sortWithinPartitions(*ordered)
    ids = sql.lit(ids_by_hash(readers).tolist())
    placed = parcels.repartition(readers, sql.element_at(ids, sql.col("reader") + 1))
    return placed.sortWithinPartitions(*ordered)


def parcel(reader: int, sender: int, number: int, content: bytes) -> pa.RecordBatch:
    """One parcel, as a task emits it."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([reader], pa.int32()),
            pa.array([sender], pa.int64()),
            pa.array([number], pa.int64()),
            pa.array([content], pa.binary()),
        ],
        schema=_PARCELS,
    )


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
    """Sender, number and content of each parcel. Contents are copies, which Arrow may read without a shift."""
    for batch in batches:
        for row in range(batch.num_rows):
            yield batch.column(1)[row].as_py(), batch.column(2)[row].as_py(), batch.column(3)[row].as_py()


def opened_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Any]]:
    """Number and task of each task in parcels that hold nothing else."""
    for _, first, content in opened(batches):
        yield from tasks_of(first, content)


def blocks(addressed: AddressedRows, reader_of: Numbers) -> Iterator[tuple[int, bytes]]:
    """The rows in blocks, each with its reader. `reader_of`: that of each receiver."""
    for reader, part in grouped(addressed, reader_of[addressed.receivers]):
        for rows in in_pieces(part.rows.append_column(_RECEIVER, pa.array(part.receivers)), BLOCK_BYTES):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as writer:
                writer.write_batch(rows)
            yield reader, sink.getvalue().to_pybytes()


def rows_of_block(block: bytes) -> AddressedRows:
    """The rows of a block."""
    with pa.ipc.open_stream(block) as reader:
        rows = reader.read_next_batch()
    receivers = rows.column(rows.num_columns - 1).to_numpy()
    return AddressedRows(rows.select(list(range(rows.num_columns - 1))), receivers)


@dataclass(frozen=True, slots=True)
class Delivery:
    """Tasks that Spark keeps, for their readers: a partition of `frame` has those of one.

    `opened` gives the tasks of a partition, numbered. Where `limits` say so, Spark passes `frame` to Python in smaller
    batches (`under`).
    """

    frame: DataFrame
    readers: int
    opened: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, Any]]]
    limits: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SentTasks:
    """Tasks that the driver sends to their readers."""

    spark: SparkSession
    reader_of: Numbers
    tasks: Sequence[Any]

    limits: ClassVar[Mapping[str, str]] = {}

    @property
    def frame(self) -> DataFrame:
        """As of `Delivery`. Cost: a shuffle, whenever Spark evaluates it."""
        return delivered(task_parcels(self.spark, self.reader_of, self.tasks), self.readers)

    @property
    def readers(self) -> int:
        """How many there are."""
        return int(self.reader_of.max(initial=0)) + 1

    @property
    def opened(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[int, Any]]]:
        """As of `Delivery`."""
        return opened_tasks


def readers_of(sizes: Numbers, readers: int) -> Numbers:
    """The readers of receivers, ascending from 0 without a gap: neighbours of about equal size together."""
    weights = sizes + 1
    middles = np.cumsum(weights) - weights / 2
    shares = np.minimum(middles * readers // weights.sum(), readers - 1)
    return np.unique(shares, return_inverse=True)[1].astype(np.int64)


def readers_of_parts(sizes: Sequence[int], parallelism: int, readers_max: int | None = None) -> Numbers:
    """The readers of parts of an input, each of which reads about as much as a task of a write."""
    wanted = max(parallelism * READERS_PER_CORE, sum(sizes) // READER_BYTES)
    return readers_of(np.array(sizes, dtype=np.int64), wanted if readers_max is None else min(wanted, readers_max))


def ids_by_hash(partitions: int) -> npt.NDArray[np.int32]:
    """For each of the partitions a number that Spark's hash partitioning puts there."""
    ids = np.full(partitions, -1, dtype=np.int32)
    start = 0
    while (ids < 0).any():
        numbers = np.arange(start, start + 4 * partitions, dtype=np.int32)
        places, first = np.unique(_hashes(numbers).astype(np.int64) % partitions, return_index=True)
        found = ids[places] < 0
        ids[places[found]] = numbers[first[found]]
        start += 4 * partitions
    return ids


def _hashes(numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Murmur3 of 32 bits with Spark's seed, as `hash` of an int column gives it."""

    def rotated(words: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
        return words << np.uint32(by) | words >> np.uint32(32 - by)

    words = rotated(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    state = rotated(words ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(4)
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> np.uint32(by)) * np.uint32(factor)
    return (state ^ state >> np.uint32(16)).view(np.int32)
