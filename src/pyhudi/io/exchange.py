"""Exchange files: rows that one task writes for another, as Arrow IPC files.

They have the attempt of their task in their names, need not survive a crash of the machine, and are deleted at the end
of the write. A file is a list of record batches that can be read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final

import pyarrow as pa

from pyhudi.errors import CorruptDataError
from pyhudi.storage.protocol import Storage, StorageSpec

OPEN_FILES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ExchangeFolder:
    """Where the exchange files of a write are: a folder of a store that all its tasks reach."""

    storage: StorageSpec
    path: str

    @property
    def name(self) -> str:
        """The last part of the path, which no other write has."""
        return self.path.rpartition("/")[2]

    def within(self, name: str) -> ExchangeFolder:
        """A folder in this one."""
        return ExchangeFolder(self.storage, f"{self.path}/{name}")


class ExchangeWriter:
    """Writes one exchange file, batch by batch. A context manager; afterwards `bytes` is the size of the file."""

    def __init__(self, storage: Storage, path: str, schema: pa.Schema) -> None:
        self.path = path
        self.batches = 0
        self.rows = 0
        self.bytes = 0
        self._sink = storage.open_output(path, durable=False)
        self._writer = pa.ipc.new_file(self._sink, schema)

    def __enter__(self) -> ExchangeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._writer.close()
            self._sink.close()
        else:
            self._sink.__exit__(kind, error, trace)

    def write(self, batch: pa.RecordBatch) -> int:
        """Append a batch and return its number in the file."""
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
        self._readers: dict[str, pa.ipc.RecordBatchFileReader] = {}

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
def open_exchange(storage: Storage, path: str) -> Iterator[pa.ipc.RecordBatchFileReader]:
    """A reader over an exchange file's batches."""
    source = storage.open_input(path)
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
