"""Rows on their way from tasks to the tasks that run next (`Engine.exchange`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.engine.protocol import AddressedRows
from pyhudi.engine.spilled_rows import SpilledRows, SpillSettings
from pyhudi.format.pieces import in_pieces, runs

Numbers = npt.NDArray[np.int64]

BYTES_IN_MEMORY_MAX: Final = 128 << 20
"""Rows that take more wait on local disk, whatever the options allow: they are only passed on."""


def grouped(addressed: AddressedRows, numbers: Numbers) -> Iterator[tuple[int, AddressedRows]]:
    """The rows of each number, in ascending order; `numbers` has one for each row. Rows of one keep their order."""
    rows, receivers = addressed.rows, addressed.receivers
    if (numbers[1:] < numbers[:-1]).any():
        order = np.argsort(numbers, kind="stable")
        rows, receivers, numbers = rows.take(pa.array(order)), receivers[order], numbers[order]
    for start, end in runs(numbers):
        yield int(numbers[start]), AddressedRows(rows.slice(start, end - start), receivers[start:end])


def shared(spill: SpillSettings, senders: int) -> SpillSettings:
    """The part of the memory that the rows of one of so many senders may take."""
    return replace(spill, memory_bytes=min(spill.memory_bytes, BYTES_IN_MEMORY_MAX) // max(1, senders))


class RowsByReceiver:
    """Rows that have arrived, by receiver: in memory up to a limit, then in a file on local disk.

    All rows are added, then it is closed, then they are read. A context manager: leaving it removes the file.
    """

    def __init__(self, spill: SpillSettings) -> None:
        self._limit = spill.memory_bytes
        self._spilled = SpilledRows(spill.folder)
        self._waiting: list[AddressedRows] = []
        self._bytes = 0
        self._kept: dict[int, pa.RecordBatch] = {}
        self._in_file: set[int] = set()
        self._reads_file = threading.Lock()

    def __enter__(self) -> RowsByReceiver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spilled.__exit__(kind, error, trace)

    def add(self, addressed: AddressedRows) -> None:
        """Keep rows."""
        self._waiting.append(addressed)
        self._bytes += addressed.rows.nbytes
        if self._bytes > self._limit:
            for receiver, rows in self._sorted():
                self._spilled.write(str(receiver), rows)
                self._in_file.add(receiver)

    def close(self) -> None:
        """Sort what is in memory. No rows may be added afterwards."""
        self._kept = dict(self._sorted())

    @property
    def receivers(self) -> set[int]:
        """The receivers that have rows. Call `close` before."""
        return self._kept.keys() | self._in_file

    def rows_of(self, receiver: int) -> Iterator[pa.RecordBatch]:
        """The rows of a receiver, in the order in which they were added. Call `close` before.

        Several threads may read at the same time.
        """
        if receiver in self._in_file:
            batches = self._spilled.read(str(receiver))
            while (batch := self._next(batches)) is not None:
                yield batch
        if receiver in self._kept:
            yield from in_pieces(self._kept[receiver])

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        with self._reads_file:
            return next(batches, None)

    def _sorted(self) -> list[tuple[int, pa.RecordBatch]]:
        """The rows that wait, by receiver; none waits afterwards."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return []
        rows = waiting[0].rows if len(waiting) == 1 else pa.concat_batches([addressed.rows for addressed in waiting])
        receivers = np.concatenate([addressed.receivers for addressed in waiting])
        del waiting
        return [
            (receiver, addressed.rows) for receiver, addressed in grouped(AddressedRows(rows, receivers), receivers)
        ]
