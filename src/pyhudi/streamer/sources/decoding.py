"""Messages are decoded in pieces, in threads, while the next ones are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Final, Protocol, TypeAlias, TypeVar

import pyarrow as pa

PIECE_BYTES: Final = 16 << 20
"""From how many bytes on messages are decoded. What the client gives at once is not parted."""
DECODERS: Final = 2
"""How many pieces are decoded at once: reading takes a core, and about as long as decoding in one other."""
Messages: TypeAlias = Generator[pa.RecordBatch, None, None]
R = TypeVar("R")


class Decode(Protocol):
    """Makes rows of messages, none of which is null."""

    def __call__(
        self, values: pa.BinaryArray, wanted: pa.Schema | None, stored: pa.Schema | None, *, fits: bool = False
    ) -> pa.Table:
        """The arguments are those of `Pull.read_apart`. Raises `UnreadableError` for the first that cannot be read."""
        ...


def batches_of(messages: pa.Table) -> Messages:
    """Messages that are there."""
    yield from messages.to_batches()


def decoded(messages: Messages, decode: Callable[[pa.Table], R]) -> list[R]:
    """What `decode` makes of each piece of messages, in their order.

    Raises the error of the first piece that cannot be decoded; no more messages are read then, and no thread is left.
    The last piece is decoded by the caller, so that a single one takes no thread. `DECODERS` pieces, and one that is
    read, are in memory at most.
    """
    made: list[R] = []
    begun: deque[Future[R]] = deque()
    piece: list[pa.RecordBatch] = []
    with ThreadPoolExecutor(DECODERS, thread_name_prefix="pyhudi decoder") as pool, closing(messages):
        size = 0
        for batch in filter(len, messages):
            if size >= PIECE_BYTES:
                if len(begun) == DECODERS:
                    made.append(begun.popleft().result())
                begun.append(pool.submit(decode, pa.Table.from_batches(piece)))
                piece, size = [], 0
            piece.append(batch)
            size += batch.nbytes
        try:
            last = [decode(pa.Table.from_batches(piece))] if piece else []
        finally:  # the error of a piece before it is the first one
            made += [future.result() for future in begun]
    return made + last
