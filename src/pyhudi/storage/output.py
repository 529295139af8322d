"""Base of the output streams of all stores: a stream ends with a complete object or with none."""

from __future__ import annotations

import io
from types import TracebackType
from typing import TYPE_CHECKING

from pyhudi.errors import StorageError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Output(io.RawIOBase):
    """A binary stream into a new object. Unbuffered, because Arrow's writers write large pieces.

    A stream ends in one of three ways. `close` completes the object, `discard` removes it, and `abandon` leaves the
    store as a crash of the process would. Leaving a `with` block with an error discards the object; garbage
    collection abandons it. After a failed write, `close` discards the object and raises `StorageError`.
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
        """Append all bytes, and return their number.

        Raises:
            StorageError: the write failed; the object can only be discarded.
        """
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
        """Complete the object.

        Raises:
            StorageError: this call or a write before it failed; the object was discarded.
        """
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
        """Remove the object. No effect after `close`."""
        if not self.closed:
            super().close()
            self._remove()

    def abandon(self) -> None:
        """End the stream without a change to the store, as a crash of the process would. No effect after `close`."""
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
        # The inherited method would call `close`: an incomplete object must not be completed by garbage collection.
        self.abandon()

    def _append(self, data: memoryview) -> None:
        raise NotImplementedError

    def _complete(self) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError

    def _release(self) -> None:
        raise NotImplementedError
