"""Exchange files on a cluster: Spark keeps what tasks have written, and brings tasks what they read.

A task emits its files in pieces beside its outcome, as rows of one DataFrame that Spark persists on the disks of two
executors. So Spark evaluates the input of a step once, and none of it passes through the driver or the table's store.
The next step joins these rows with the parts that its tasks read, and the pieces come with the tasks (`parcels.py`).

The names of files have the attempt of their task in them. Where Spark has lost both copies, and evaluates the input
again, no task finds its files among the new ones: it raises `StagedRowsLostError`.

Steps in the driver's process write files of its machine, and collect what they read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain
from types import TracebackType
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyhudi.engine.exchange_files import ExchangeFolder, FilePart, open_exchange
from pyhudi.engine.file_pieces import FilePieces, Piece, pieces_of_batch
from pyhudi.spark.frames import frame_class, frame_of_arrow, in_session
from pyhudi.spark.outcomes import OUTCOME_DDL, collected, outcome, outcome_rows
from pyhudi.spark.parcels import PIECE, opened, parcel, tasks_of
from pyhudi.spark.settings import is_connect
from pyhudi.storage.open import open_spec

KEPT_DDL: Final = (
    "file string not null, number bigint not null, piece int not null, pieces int not null, content binary not null"
)
"""The rows of a step: its outcomes, with the number of the task and without a file; and pieces of files, with the
number of their batch."""
_KEPT = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("piece", pa.int32(), nullable=False),
        pa.field("pieces", pa.int32(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),
    ]
)
KEPT_ON: Final = StorageLevel.DISK_ONLY_2
"""Two copies, so that one executor may be lost. Not in memory, which the user's own rows need."""
CHANGES_PARTITIONS: Final = {"spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true"}
"""Under this Spark chooses the number of splits of persisted rows by their size, as of others."""
COLLECTED_WHOLE_MAX: Final = 32 << 20
"""Files of a step that together have fewer bytes are collected at once by the first step of this process."""
EMITTED_BYTES: Final = 1 << 20
"""Small pieces are emitted together up to so many bytes."""
_log = logging.getLogger("pyhudi")


Told = Callable[..., Iterator[pa.RecordBatch]]
"""From the number of a task, a function and its arguments to the rows of a step."""


def told_outcome(task: int, function: Callable[..., Any], *given: Any) -> Iterator[pa.RecordBatch]:
    """The rows of the function's outcome for a task that writes no exchange files."""
    yield outcome(task, function, *given)


def kept_outcome(folder: str | None, task: int, function: Callable[..., Any], *given: Any) -> Iterator[pa.RecordBatch]:
    """The rows of the function's outcome for a task, as `outcome`, and of the exchange files that it has written."""
    with FilePieces(folder) as written:

        def run() -> tuple[Any, tuple[tuple[str, int], ...]]:
            with written.taking():
                result = function(*given)
            return result, written.sizes()

        yield _without_file(outcome(task, run))
        yield from _emitted(written.pieces())


def kept_pickled(task: int, content: bytes) -> pa.RecordBatch:
    """A pickled outcome as rows of `KEPT_DDL`."""
    return _without_file(outcome_rows(task, content))


def _without_file(outcomes: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.repeat("", outcomes.num_rows), *outcomes.columns], schema=_KEPT)


def _emitted(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    """Pieces as rows of `KEPT_DDL`."""
    waiting: list[Piece] = []
    size = 0
    for piece in pieces:
        if waiting and size + len(piece.stream) > EMITTED_BYTES:
            yield _rows(waiting)
            waiting, size = [], 0
        waiting.append(piece)
        size += len(piece.stream)
    if waiting:
        yield _rows(waiting)


def _rows(pieces: Sequence[Piece]) -> pa.RecordBatch:
    columns = [
        pa.array([piece.path for piece in pieces], pa.string()),
        pa.array([piece.batch for piece in pieces], pa.int64()),
        pa.array([piece.piece for piece in pieces], pa.int32()),
        pa.array([piece.pieces for piece in pieces], pa.int32()),
        pa.array([piece.encode() for piece in pieces], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_KEPT)


def tasks_with_files(batches: Iterable[pa.RecordBatch], files: FilePieces) -> Iterator[tuple[int, Any]]:
    """Number and task of each task in parcels. The pieces of files, which come before, go to `files`."""
    for sender, first, content in opened(batches):
        if sender == PIECE:
            files.add(Piece.decode(content))
        else:
            yield from tasks_of(first, content)


def _kept(rows: DataFrame) -> DataFrame:
    """The rows, which Spark keeps when a job has made them.

    Spark Connect sends the plan of a DataFrame with each job, and Spark does not know rows again whose plan has
    `rand()` or `uuid()`: there a local checkpoint names them. Its server lets them go some time after the client.
    """
    session = rows.sparkSession
    if not is_connect(session):
        return rows.persist(KEPT_ON)
    # PySpark takes it for one of the active session, which may be another one.
    relation: Any = rows.localCheckpoint(eager=False, storageLevel=KEPT_ON)._plan
    relation._spark_session = session
    kept: DataFrame = frame_class(session)(relation, session)
    return kept


def _let_go(rows: DataFrame) -> None:
    try:
        rows.unpersist()
    except (PySparkException, Py4JError, OSError) as failed:
        # The write has failed or is committed already; this must not change its outcome.
        _log.warning("Spark keeps rows of a write until its application ends: %s", failed)


@dataclass(frozen=True, slots=True)
class _KeptFrame:
    """What a step has written: the rows of all of its files, and the bytes of these."""

    rows: DataFrame
    size: int

    def of(self, paths: Iterable[str]) -> DataFrame:
        """The rows of the files between the first and the last of these: by this Spark leaves out blocks of others."""
        return self.rows.where(sql.col("file").between(min(paths), max(paths)))


@dataclass(slots=True)
class KeptFiles:
    """The exchange files of one write on a cluster. A context manager, which lets Spark keep nothing at its end.

    `spark`: the session in which steps read what is kept. Rows of a write may be of another session of Spark Connect
    than its table. Only that one knows what it keeps: then it is this one.
    `parent`: the folder of machines for files that are not on the table's store; None: their temporary folder.
    """

    spark: SparkSession
    folder: ExchangeFolder
    parent: str | None
    _frames: list[_KeptFrame] = field(default_factory=list)
    _frame_of: dict[str, int] = field(default_factory=dict)
    _collected: FilePieces = field(init=False)

    def __post_init__(self) -> None:
        self._collected = FilePieces(self.parent)

    def __enter__(self) -> KeptFiles:
        self._collected.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._collected.__exit__(kind, error, trace)
        for frame in self._frames:
            _let_go(frame.rows)

    def has(self, folder: ExchangeFolder) -> bool:
        """Whether a folder is that of this write, or in it."""
        return f"{folder.path}/".startswith(f"{self.folder.path}/")

    def results(self, rows: DataFrame, description: str, *, tasks: int | None = None) -> list[Any]:
        """Run the job that makes rows of `KEPT_DDL`, and return the results as `collected`. Spark keeps the files."""
        rows = _kept(rows)
        try:
            outcomes = rows.where(sql.col("file") == "").select(
                sql.col("number").alias("task"), "piece", "pieces", sql.col("content").alias("outcome")
            )
            found = collected(outcomes, description, tasks=tasks)
        except BaseException:
            _let_go(rows)
            raise
        sizes = {path: size for _, files in found for path, size in files}
        rows = in_session(rows, self.spark)
        self.spark = rows.sparkSession
        self._frame_of.update(dict.fromkeys(sizes, len(self._frames)))
        self._frames.append(_KeptFrame(rows, sum(sizes.values())))
        return [result for result, _ in found]

    def collect(self, parts: Iterable[FilePart]) -> None:
        """Bring parts of files to this process, for its steps. Cost: a job for each step that wrote some."""
        missing = [part for part in parts if part.path in self._frame_of and self._lacks(part)]
        for number in sorted({self._frame_of[part.path] for part in missing}):
            frame = self._frames[number]
            if frame.size < COLLECTED_WHOLE_MAX:
                rows = frame.rows.where(sql.col("file") != "").select("content")
            else:
                wanted = [(0, part) for part in missing if self._frame_of[part.path] == number]
                rows = self._addressed(frame, wanted).select("content")
            for row in rows.collect():
                self._collected.add(Piece.decode(bytes(row.content)))

    def _lacks(self, part: FilePart) -> bool:
        """Whether a part is not in this process as a whole."""
        if part.path not in self._collected:
            return True
        batches = range(self._collected.batches_of(part.path)) if part.batches is None else part.batches
        return any(self._collected.lacks(part.path, batch) for batch in batches)

    def parcels(self, wanted: Sequence[tuple[int, FilePart]]) -> list[DataFrame]:
        """The pieces of the parts that each reader is to get, as parcels. Cost: no job."""
        kept: dict[int, list[tuple[int, FilePart]]] = {}
        own: list[tuple[int, FilePart]] = []
        for reader, part in wanted:
            if part.path in self._frame_of:
                kept.setdefault(self._frame_of[part.path], []).append((reader, part))
            else:
                own.append((reader, part))
        frames = [self._addressed(self._frames[number], parts) for number, parts in sorted(kept.items())]
        sent = [batch for reader, part in own for batch in self._own_pieces(reader, part)]
        if sent:
            frames.append(frame_of_arrow(self.spark, pa.Table.from_batches(sent).combine_chunks()))
        return frames

    def _addressed(self, frame: _KeptFrame, wanted: Sequence[tuple[int, FilePart]]) -> DataFrame:
        """The pieces of a step that readers are to get, as parcels. Cost: a broadcast of the parts' names."""
        rows = frame.of([part.path for _, part in wanted])
        whole = [(reader, part.path) for reader, part in wanted if part.batches is None]
        some = [(reader, part.path, batch) for reader, part in wanted for batch in part.batches or ()]
        readers = [pa.array([given[0] for given in given_to], pa.int32()) for given_to in (whole, some)]
        files = [pa.array([given[1] for given in given_to], pa.string()) for given_to in (whole, some)]
        joined = []
        if whole or not some:
            addresses = pa.table({"reader": readers[0], "file": files[0]})
            joined.append(rows.join(sql.broadcast(frame_of_arrow(self.spark, addresses)), "file"))
        if some:
            numbers = pa.array([batch for _, _, batch in some], pa.int64())
            addresses = pa.table({"reader": readers[1], "file": files[1], "number": numbers})
            joined.append(rows.join(sql.broadcast(frame_of_arrow(self.spark, addresses)), ["file", "number"]))
        sender: Column = sql.lit(PIECE).cast("bigint").alias("sender")
        return reduce(DataFrame.unionAll, [part.select("reader", sender, "number", "content") for part in joined])

    def _own_pieces(self, reader: int, part: FilePart) -> Iterator[pa.RecordBatch]:
        """Pieces of a file that a step in this process has written."""
        with open_exchange(open_spec(self.folder.storage), part.path) as file:
            batches = file.num_record_batches
            for number in range(batches) if part.batches is None else part.batches:
                for piece in pieces_of_batch(part.path, batches, number, file.get_batch(number)):
                    yield parcel(reader, PIECE, number, piece.encode())


@dataclass(frozen=True, slots=True)
class StepFiles:
    """How the exchange files of a step reach its tasks, and later ones.

    `spark`: the session of the step. `kept`: what keeps them; None: nothing need, since a folder reaches all tasks, or
    there are none. `reads`: the parts that each task reads. `writes`: whether tasks write some.
    """

    spark: SparkSession
    kept: KeptFiles | None = None
    reads: Sequence[Sequence[FilePart]] = ()
    writes: bool = False

    @property
    def parent(self) -> str | None:
        """Where tasks keep files that are brought to them."""
        return None if self.kept is None else self.kept.parent

    @property
    def ddl(self) -> str:
        """The columns of what tasks emit."""
        return KEPT_DDL if self.writes else OUTCOME_DDL

    @property
    def told(self) -> Told:
        """What tasks emit."""
        return partial(kept_outcome, self.parent) if self.writes else told_outcome

    @property
    def told_pickled(self) -> Callable[[int, bytes], pa.RecordBatch]:
        """What is emitted of a pickled outcome."""
        return kept_pickled if self.writes else outcome_rows

    @property
    def settings(self) -> dict[str, str]:
        """Under which Spark makes what tasks emit, if the number of tasks is for Spark to choose."""
        return dict(CHANGES_PARTITIONS) if self.writes else {}

    def collect(self) -> None:
        """Bring what tasks read to this process."""
        if self.kept is not None:
            self.kept.collect(chain.from_iterable(self.reads))

    def beside(self, tasks: DataFrame) -> DataFrame:
        """The parcels of tasks, and those of what they read; reader `n` has the task of this number."""
        if self.kept is None:
            return tasks
        wanted = [(number, part) for number, parts in enumerate(self.reads) for part in parts]
        return reduce(DataFrame.unionAll, self.kept.parcels(wanted), tasks)

    def results(self, rows: DataFrame, description: str, *, tasks: int | None = None) -> list[Any]:
        """Run the job of these rows, which tasks emit, and return the results of the tasks; see `collected`."""
        if self.kept is not None and self.writes:
            return self.kept.results(rows, description, tasks=tasks)
        return collected(rows, description, tasks=tasks)
