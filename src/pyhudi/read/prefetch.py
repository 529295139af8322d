"""Reading pieces of a scan in threads, in their order and within a limit of memory."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

BYTES_AT_ONCE: Final = 256 * 1024 * 1024
"""How much the rows that were read ahead may take in memory, beside a batch of each thread."""

Read: TypeAlias = Callable[[], Iterator[pa.RecordBatch]]


def pieces_at_once() -> int:
    """How many pieces are read at once: one in each core."""
    return os.cpu_count() or 1


def in_order(pieces: Iterable[tuple[Read, bool]], bytes_at_once: int = BYTES_AT_ONCE) -> Iterator[pa.RecordBatch]:
    """The batches of the pieces, one piece after the other. A piece: what reads it, and whether it is read alone.

    Several are read at once, one in each core at most. Where the batches that are ready take
    `bytes_at_once`, readers wait. A piece that is read alone, as it takes much memory by itself, is read as it is asked
    for.
    """
    threads = pieces_at_once()
    ahead = _Ahead(bytes_at_once)
    with ThreadPoolExecutor(threads) as pool, closing(ahead):
        for read, is_alone in pieces:
            while len(ahead.pieces) >= (1 if is_alone else threads):
                yield from ahead.first()
            if is_alone:
                yield from read()
            else:
                piece = ahead.begun()
                piece.done = pool.submit(ahead.read, piece, read)
        while ahead.pieces:
            yield from ahead.first()


@dataclass(slots=True, eq=False)
class _Piece:
    """A piece that is being read: its batches that are ready, and whether there will be more."""

    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    has_ended: bool = False
    done: Future[None] = field(default_factory=Future)


class _Ahead:
    """What was read ahead: filled by a thread for each piece, emptied from the first piece on."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self._bytes, self._is_closed = bytes_max, 0, False
        self._changed = threading.Condition()
        self.pieces: deque[_Piece] = deque()

    def begun(self) -> _Piece:
        """A new last piece."""
        piece = _Piece()
        with self._changed:
            self.pieces.append(piece)
        return piece

    def read(self, piece: _Piece, read: Read) -> None:
        """Fill a piece, in its thread."""
        try:
            for batch in read():
                if not self._put(piece, batch):
                    return
        finally:
            with self._changed:
                piece.has_ended = True
                self._changed.notify_all()

    def _put(self, piece: _Piece, batch: pa.RecordBatch) -> bool:
        """Wait until there is room, then add a batch; False if the read has been given up."""

        def has_room() -> bool:
            # The first piece may always have one: all others wait for it.
            is_next = self.pieces[0] is piece and not piece.batches
            return is_next or self._bytes + batch.nbytes <= self._bytes_max

        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or has_room())
            if self._is_closed:
                return False
            piece.batches.append(batch)
            self._bytes += batch.nbytes
            self._changed.notify_all()
            return True

    def first(self) -> Iterator[pa.RecordBatch]:
        """Take the batches of the first piece, and the piece away. Raises what its read raised."""
        piece = self.pieces[0]
        while True:
            with self._changed:
                self._changed.wait_for(lambda: piece.batches or piece.has_ended)
                if not piece.batches:
                    self.pieces.popleft()
                    self._changed.notify_all()
                    break
                batch = piece.batches.popleft()
                self._bytes -= batch.nbytes
                self._changed.notify_all()
            yield batch
        piece.done.result()

    def close(self) -> None:
        """Give up: end the threads."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
