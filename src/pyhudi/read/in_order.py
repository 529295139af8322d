"""Reading pieces of a scan in threads, in their order and within a limit of memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

BYTES_AT_ONCE: Final = 256 * 1024 * 1024
"""How much the pieces that are read ahead may take in memory."""


def in_order(pieces: Iterable[tuple[int, Callable[[], Iterator[T]]]]) -> Iterator[T]:
    """What the pieces give, one after the other. A piece: about how many bytes it takes, and what reads it.

    Several are read at once, one in each core at most. One that takes more than `BYTES_AT_ONCE` is read as it is
    asked for.
    """
    threads = max(1, os.cpu_count() or 1)
    waiting: deque[tuple[int, Future[list[T]]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for size, read in pieces:
                while waiting and (len(waiting) >= threads or size + sum(one for one, _ in waiting) > BYTES_AT_ONCE):
                    yield from waiting.popleft()[1].result()
                if size > BYTES_AT_ONCE:
                    yield from read()
                else:
                    waiting.append((size, pool.submit(_all, read)))
            while waiting:
                yield from waiting.popleft()[1].result()
        finally:
            for _, future in waiting:
                future.cancel()


def _all(read: Callable[[], Iterator[T]]) -> list[T]:
    return list(read())
