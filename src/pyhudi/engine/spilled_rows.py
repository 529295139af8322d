"""Rows spilled to local disk, grouped by name."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, cast

import pyarrow as pa

from pyhudi.errors import OutOfSpaceError, StorageError
from pyhudi.storage.local import OUT_OF_SPACE

if TYPE_CHECKING:
    from pyhudi.config.options_merging import MemoryOptions


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """When rows are spilled: above `memory_bytes`, to a file in `folder` (None: the temporary folder)."""

    memory_bytes: int = 1 << 30
    folder: str | None = None


def spill_settings(memory: MemoryOptions) -> SpillSettings:
    """When and where rows are spilled, as the options say."""
    return SpillSettings(memory.merge_max_bytes, memory.spill_folder)


@contextmanager
def typed_errors_of_disk(folder: str | None) -> Iterator[None]:
    """Convert errors of the local disk into typed errors that say what it was needed for."""
    try:
        yield
    except OSError as error:
        kind = OutOfSpaceError if error.errno in OUT_OF_SPACE else StorageError
        raise kind(
            f"rows that outgrow memory cannot be kept on local disk: {error.strerror or error}; "
            "hoodie.memory.spillable.map.path says where",
            path=folder or tempfile.gettempdir(),
        ) from error


@contextmanager
def temporary_folder(parent: str | None) -> Iterator[Path]:
    """A new folder in `parent`, which is created if necessary, as in JVM Hudi; None: the temporary folder.

    It is removed after the block. That it cannot be is no error: what it was needed for may be committed by then.
    """
    with typed_errors_of_disk(parent):
        if parent is not None:
            Path(parent).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="pyhudi-", dir=parent))
    try:
        yield folder
    finally:
        # Not by `tempfile.TemporaryDirectory`, which recurses without end where a folder must not be removed.
        shutil.rmtree(folder, ignore_errors=True)


def unnamed_file(parent: str | None) -> IO[bytes]:
    """A new file on the disk of `parent`, as of `temporary_folder`. It ends with its process."""
    if parent is not None:
        Path(parent).mkdir(parents=True, exist_ok=True)
    return cast("IO[bytes]", tempfile.TemporaryFile(prefix="pyhudi-", dir=parent, buffering=0))


class SpilledRows:
    """Batches of one schema in one file of the folder (None: the temporary folder). All are written, then read.

    A context manager: leaving it removes the file. The file of a killed process remains until the folder is cleaned.
    """

    def __init__(self, folder: str | None) -> None:
        self._parent = folder
        self._cleanup = ExitStack()
        self._path: str | None = None
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._written = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._reader: pa.ipc.RecordBatchFileReader | None = None

    def __enter__(self) -> SpilledRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader = None
        try:
            if self._writer is not None and kind is None:
                self._writer.close()
        finally:
            self._cleanup.close()

    def names(self) -> list[str]:
        """The names that have rows, in the order of their first rows."""
        return list(self._places)

    def write(self, name: str, rows: pa.RecordBatch) -> None:
        """Keep rows under a name."""
        with typed_errors_of_disk(self._parent):
            if self._writer is None:
                self._path = str(self._cleanup.enter_context(temporary_folder(self._parent)) / "rows.arrow")
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
            with typed_errors_of_disk(self._parent):
                self._writer.close()
            self._reader = pa.ipc.open_file(pa.OSFile(self._path), options=pa.ipc.IpcReadOptions(use_threads=False))
        for place in self._places[name]:
            yield self._reader.get_batch(place)
