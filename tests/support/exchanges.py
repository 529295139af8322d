"""Exchanges whose rows tell their senders, for tests of engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi.engine.protocol import AddressedRows, Exchange, TaskContext
from pyhudi.errors import RecordKeyError

ROWS = 50
"""Of each sender."""


def send(context: TaskContext, sender: int) -> Iterator[AddressedRows]:
    """Rows that name their sender, in two batches; receiver `n` gets those that leave `n` when divided by three."""
    numbers = np.arange(ROWS)
    for part in np.split(numbers, 2):
        rows = pa.RecordBatch.from_pydict({"sender": np.full(len(part), sender), "row": part, "wide": ["x" * 100] * 25})
        yield AddressedRows(rows, part[::-1] % 3)


def receive(_: TaskContext, name: str, batches: Iterator[pa.RecordBatch]) -> tuple[str, list[tuple[int, int]]]:
    return name, [(row["sender"], row["row"]) for batch in batches for row in batch.to_pylist()]


def exchange(**parts: Any) -> Exchange[Any, Any, Any]:
    given: dict[str, Any] = {
        "send": send,
        "senders": [0, 1, 2, 3],
        "receive": receive,
        "receivers": ["a", "b", "c", "without rows"],
        "sizes": [1] * 4,
        "sent_bytes": 1,
        "description": "exchange",
    }
    return Exchange(**{**given, **parts})


def expected(receiver: int) -> list[tuple[int, int]]:
    halves = np.split(np.arange(ROWS), 2)
    return [(sender, int(row)) for sender in range(4) for part in halves for row in part[part[::-1] % 3 == receiver]]


def failing(at: int) -> Callable[[TaskContext, int], Iterator[AddressedRows]]:
    def fails(context: TaskContext, sender: int) -> Iterator[AddressedRows]:
        yield from send(context, sender)
        if sender >= at:
            raise RecordKeyError("no key", sender=sender)

    return fails
