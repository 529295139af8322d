"""Rows that wait for their turn on local disk, each under a name."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pyarrow as pa


class SpilledRows:
    """Batches of one schema in one file of the folder (None: the system's own). First all are written, then read.

    A context manager: leaving it removes the file. A killed process leaves it to whoever cleans the folder.
    """

    def __init__(self, folder: str | None) -> None:
        self._parent = folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._written = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._reader: pa.ipc.RecordBatchFileReader | None = None

    def __enter__(self) -> SpilledRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = None
        if self._folder is not None:
            self._folder.cleanup()

    def names(self) -> list[str]:
        """The names that have rows, in the order of their first ones."""
        return list(self._places)

    def write(self, name: str, rows: pa.RecordBatch) -> None:
        """Keep rows under a name."""
        if self._writer is None:
            self._folder = tempfile.TemporaryDirectory(prefix="pyhudi-", dir=self._parent)
            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
            self._writer = pa.ipc.new_file(self._path, rows.schema, options=options)
        self._writer.write_batch(rows)
        self._places[name].append(self._written)
        self._written += 1

    def read(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of a name, in the order in which they were written."""
        if not self._places[name]:
            return
        if self._reader is None:
            assert self._writer is not None
            self._writer.close()
            self._reader = pa.ipc.open_file(pa.OSFile(self._path), options=pa.ipc.IpcReadOptions(use_threads=False))
        for place in self._places[name]:
            yield self._reader.get_batch(place)

    @property
    def _path(self) -> str:
        assert self._folder is not None
        return str(Path(self._folder.name) / "rows.arrow")
