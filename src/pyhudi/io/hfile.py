"""HFiles through the Storage: opened by ranges, so that a lookup reads index and wanted blocks only."""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Final

from pyhudi.errors import StorageError
from pyhudi.format.hfile.blocks import Source
from pyhudi.format.hfile.indexed import IndexedHFile, open_hfile
from pyhudi.storage.protocol import Storage

TAIL_BYTES: Final = 64 * 1024
"""Read first: the trailer, and in all but large files index and file info."""
WHOLE_FILE_BYTES_MAX: Final = 1024 * 1024
"""Up to this size a file is read at once: one request is cheaper than several."""
_WINDOWS: Final = 3


class HFileReader:
    """An open HFile of the store; use it as a context manager. Not thread-safe.

    Cost: one request for a file of up to `WHOLE_FILE_BYTES_MAX`; else two or three to open it, and one for each data
    block that is wanted.
    """

    def __init__(self, source: Any, path: str, begin: int = 0, size: int | None = None) -> None:
        """Take over `source`, what `Storage.open_input` gave. See `open_hfile_of`.

        `begin`, `size`: where in the file the HFile is, as in a block of a log; None for all that follows.
        """
        self._source, self._path, self._begin = source, path, begin
        self._windows: deque[tuple[int, bytes]] = deque(maxlen=_WINDOWS)
        if size is None:
            try:
                self._source.seek(0, os.SEEK_END)
                size = int(self._source.tell()) - begin
            except OSError as error:
                raise self._failed(error, 0) from error
        self.size = size
        tail = self.size if self.size <= WHOLE_FILE_BYTES_MAX else TAIL_BYTES
        self._tail = (self.size - tail, self._fetch(self.size - tail, self.size))
        self.file: IndexedHFile = open_hfile(Source(self._read, self.size, path, begin))

    def __enter__(self) -> HFileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; entries that were read stay valid."""
        self._windows.clear()
        self._source.close()

    def _read(self, start: int, end: int) -> memoryview:
        for first, window in (self._tail, *self._windows):
            if first <= start and end <= first + len(window):
                return memoryview(window)[start - first : end - first]
        # Headers are small, and a payload follows.
        window = self._fetch(start, max(end, min(start + TAIL_BYTES, self.size)) if end - start < TAIL_BYTES else end)
        self._windows.append((start, window))
        return memoryview(window)[: end - start]

    def _fetch(self, start: int, end: int) -> bytes:
        """A range. A store may give fewer bytes than it is asked for, and has more."""
        pieces: list[bytes] = []
        at = start
        try:
            self._source.seek(self._begin + start)
            while at < end:
                piece = self._source.read(end - at)
                if not piece:
                    raise StorageError("the HFile changed while it was read", path=self._path, offset=at)
                pieces.append(piece)
                at += len(piece)
        except OSError as error:
            raise self._failed(error, at) from error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _failed(self, error: OSError, offset: int) -> StorageError:
        return StorageError("the HFile could not be read", path=self._path, offset=offset, cause=str(error))


def open_hfile_of(storage: Storage, path: str) -> HFileReader:
    """Open an HFile of the store.

    Raises:
        NotFoundError: there is no such file.
        CorruptDataError, UnsupportedFeatureError: as `pyhudi.format.hfile.reader.read_hfile`.
        StorageError: the store failed.
    """
    source = storage.open_input(path)
    try:
        return HFileReader(source, path)
    except BaseException:
        source.close()
        raise
