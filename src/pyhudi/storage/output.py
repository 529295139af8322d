"""What every store's output stream does alike: it ends in a whole object or in none."""

from __future__ import annotations

import io
from types import TracebackType
from typing import TYPE_CHECKING

from pyhudi.errors import StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Output(io.RawIOBase):
    """A binary stream into a new object. Unbuffered: Arrow's writers hand over large pieces.

    There are three ways to end: `close` completes the object, `discard` removes it, and `abandon` leaves
    everything as the death of the process would. Leaving a `with` block by an error discards; garbage
    collection abandons. After a failed write the object can only be discarded, and `close` says so.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._position = 0
        self._failed = False

    def writable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: Buffer, /) -> int:
        """Append all bytes; never a part of them. Raises `StorageError`."""
        if self.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        try:
            self._append(view)
        except BaseException:
            self._failed = True
            raise
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Complete the object. Raises `StorageError`, and leaves no object, when that fails or a write has failed."""
        if self.closed:
            return
        if self._failed:
            self.discard()
            raise StorageError("the file was discarded because a write to it had failed", path=self._path)
        try:
            self._complete()
        except BaseException:
            self.discard()
            raise
        super().close()

    def discard(self) -> None:
        """Remove what was written; nothing happens after `close`."""
        if not self.closed:
            super().close()
            self._remove()

    def abandon(self) -> None:
        """Let go of the stream and leave in the store what is there."""
        if not self.closed:
            super().close()
            self._release()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        # Not the inherited one, which closes: half a file must not become a whole one because somebody forgot it.
        self.abandon()

    def _append(self, data: memoryview) -> None:
        raise NotImplementedError

    def _complete(self) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError
