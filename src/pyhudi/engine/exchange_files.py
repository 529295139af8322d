"""Exchange files: rows that one task writes for another.

They have the attempt of their task in their names, need not survive a crash of the machine, and are deleted at the end
of the write. A file is a list of record batches that can be read one by one: an Arrow IPC file of this machine, or what
an engine brings in pieces from another one (`file_pieces.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from pyhudi.engine.file_pieces import lost_rows, pieces_of, taken_by
from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.storage.protocol import Storage, StorageSpec

OPEN_FILES_MAX: Final = 64
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExchangeFolder:
    """The exchange files of a write: a folder of the machine of this process, and what its engine brings elsewhere."""

    storage: StorageSpec
    path: str

    @property
    def name(self) -> str:
        """The last part of the path, which no other write has."""
        return self.path.rpartition("/")[2]

    def within(self, name: str) -> ExchangeFolder:
        """A folder in this one."""
        return ExchangeFolder(self.storage, f"{self.path}/{name}")


@dataclass(frozen=True, slots=True)
class FilePart:
    """The batches of an exchange file that a task reads; None: all of them."""

    path: str
    batches: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TaskFiles(Generic[T]):
    """The exchange files of the tasks of a step, which an engine brings to where the tasks run.

    Attributes:
        folder: that of the write.
        reads: which parts of files a task reads.
        writes: whether tasks write files, which tasks of later steps read.
    """

    folder: ExchangeFolder
    reads: Callable[[T], Iterable[FilePart]]
    writes: bool = True


class ExchangeReader(Protocol):
    """Reads the batches of an exchange file."""

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        ...

    @property
    def num_record_batches(self) -> int:
        """The number of batches."""
        ...

    def get_batch(self, number: int, /) -> pa.RecordBatch:
        """A batch by its number."""
        ...


class ExchangeWriter:
    """Writes one exchange file, batch by batch. A context manager; afterwards `bytes` is the size of the file."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self.path = path
        self.batches = 0
        self.rows = 0
        self.bytes = 0
        self._pieces = taken_by()
        self._sink: IO[bytes] | None = None
        self._writer: Any = None
        if self._pieces is not None:
            self._pieces.begin(path)
        else:
            self._sink = storage.open_output(path, durable=False)
            self._writer = pa.ipc.new_file(self._sink, schema)

    def __enter__(self) -> ExchangeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pieces is not None:
            if kind is not None:
                self._pieces.drop(self.path)
        elif self._sink is not None and kind is None:
            self._writer.close()
            self._sink.close()
        elif self._sink is not None:
            self._sink.__exit__(kind, error, trace)

    def write(self, batch: pa.RecordBatch) -> int:
        """Append a batch and return its number in the file."""
        if self._pieces is not None:
            self._pieces.write(self.path, batch)
        else:
            self._writer.write_batch(batch)
        self.batches += 1
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        return self.batches - 1


@dataclass(frozen=True, slots=True)
class Segment:
    """Some batches of an exchange file, and their number of rows."""

    path: str
    batches: tuple[int, ...]
    rows: int

    @property
    def part(self) -> FilePart:
        """What is read of the file."""
        return FilePart(self.path, self.batches)


def read_segment(storage: Storage, segment: Segment) -> Iterator[pa.RecordBatch]:
    """The batches of a segment. Cost: one open and one ranged read per batch."""
    with open_exchange(storage, segment.path) as reader:
        for number in segment.batches:
            yield reader.get_batch(number)


class ExchangeFiles:
    """Exchange files that batches are read from in any order: each is opened once. A context manager.

    At most `OPEN_FILES_MAX` are open: then all are closed before another one is opened.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._cleanup = ExitStack()
        self._readers: dict[str, ExchangeReader] = {}

    def __enter__(self) -> ExchangeFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.__exit__(kind, error, trace)

    def batch(self, path: str, number: int) -> pa.RecordBatch:
        """A batch of a file. Cost: one ranged read, and an open if the file is not open."""
        reader = self._readers.get(path)
        if reader is None:
            if len(self._readers) == OPEN_FILES_MAX:
                self._readers.clear()
                self._cleanup.close()
            reader = self._readers[path] = self._cleanup.enter_context(open_exchange(self._storage, path))
        return reader.get_batch(number)


@contextmanager
def open_exchange(storage: Storage, path: str) -> Iterator[ExchangeReader]:
    """A reader over an exchange file's batches.

    Raises:
        StagedRowsLostError: the file is gone. One that came of the same rows later has another name.
    """
    pieces = pieces_of(path)
    if pieces is not None:
        yield pieces.reader(path)
        return
    try:
        source = storage.open_input(path)
    except NotFoundError as error:
        raise lost_rows(path) from error
    try:
        try:
            reader = pa.ipc.open_file(source)
        except pa.ArrowInvalid as error:
            raise CorruptDataError(
                "an exchange file of this write is damaged; run the write again", path=path
            ) from error
        yield reader
    finally:
        source.close()


def remove_exchange(storage: Storage, path: str) -> None:
    """Remove an exchange file that the same task has written."""
    pieces = pieces_of(path)
    if pieces is not None:
        pieces.drop(path)
    else:
        storage.delete(path)
