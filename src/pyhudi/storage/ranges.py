"""A seekable file over a store that reads ranges: each range that is not in memory is one request."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

READ_AHEAD_BYTES = 512 * 1024


class RangedInput(io.RawIOBase):
    """Random access to an object of `size` bytes. Cost: one `fetch` for each range that was not read ahead.

    `fetch(offset, length)` returns the bytes of a range inside the object. `tail`: its last bytes, read before.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, tail: bytes = b"") -> None:
        super().__init__()
        self._fetch_range = fetch
        self._size = size
        self._position = 0
        self._tail = (size - len(tail), tail)
        self._window = self._tail

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position, which may be past the end."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("seek to before the start of the file")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes, or fewer at the end of the object; without a size, read the rest.

        Raises:
            StorageError: the request failed.
        """
        if self.closed:
            raise ValueError("read of a closed file")
        end = self._size if size is None or size < 0 else min(self._position + size, self._size)
        if end <= self._position:
            return b""
        data = self._fetch(self._position, end)
        self._position = end
        return data

    def readall(self) -> bytes:
        """The rest of the object."""
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer as far as the object goes, and return the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _fetch(self, start: int, end: int) -> bytes:
        for first, data in (self._window, self._tail):
            if first <= start and end <= first + len(data):
                return data[start - first : end - first]
        if end - start >= READ_AHEAD_BYTES:
            return self._fetch_range(start, end - start)
        ahead = min(READ_AHEAD_BYTES, self._size - start)
        self._window = (start, self._fetch_range(start, ahead))
        return self._window[1][: end - start]
