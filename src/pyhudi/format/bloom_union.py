"""The union of bloom filters: a filter of all keys of several files, made without the keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pyhudi.format.bloom import BloomFilter, BloomFilterType


@dataclass(slots=True)
class _Row:
    """A bit vector, and how many keys it has at most."""

    bits: npt.NDArray[np.uint8]
    keys: int

    def join(self, other: _Row) -> None:
        self.bits = self.bits | other.bits
        self.keys += other.keys


class BloomUnion:
    """Joins filters of one shape.

    Rows of dynamic filters are joined as long as their keys fit into one row, so the union has as few false positives
    as a filter that was made of the keys. Beyond its largest number of rows it has more, as any filter does.
    """

    def __init__(self, first: BloomFilter, *, max_entries: int) -> None:
        """Begin with a filter. `max_entries`: as in `BloomFilterBuilder`."""
        self._first = first
        self._rows: list[_Row] = []
        is_dynamic = first.kind is BloomFilterType.DYNAMIC_V0
        self._rows_max = max(len(first.rows), -(-max_entries // first.row_capacity)) if is_dynamic else 1
        self.add(first)

    def fits(self, other: BloomFilter) -> bool:
        """Whether a filter has the same shape, so that it can be added."""
        return _shape(other) == _shape(self._first)

    def add(self, other: BloomFilter) -> None:
        """Add all keys of a filter that fits."""
        for row in _rows_of(other):
            self._add(row)

    def joined(self) -> BloomFilter:
        """The filter of all keys."""
        rows = tuple(row.bits for row in self._rows)
        if self._first.kind is BloomFilterType.SIMPLE:
            return replace(self._first, rows=rows)
        capacity = self._first.row_capacity
        overfull = sum(max(0, row.keys - capacity) for row in self._rows)
        return replace(self._first, rows=rows, last_row_keys=capacity + overfull if overfull else self._rows[-1].keys)

    def _add(self, row: _Row) -> None:
        for other in self._rows:
            if other.keys + row.keys <= self._first.row_capacity:
                other.join(row)
                return
        if len(self._rows) < self._rows_max:
            self._rows.append(row)
        else:
            min(self._rows, key=lambda other: other.keys).join(row)


def _shape(bloom: BloomFilter) -> tuple[Any, ...]:
    return bloom.kind, bloom.bits, bloom.hashes, bloom.row_capacity


def _rows_of(bloom: BloomFilter) -> Iterator[_Row]:
    """The rows of a filter. All but the last one are full; of an overfull filter all are."""
    for number, bits in enumerate(bloom.rows):
        is_full = number < len(bloom.rows) - 1 or bloom.last_row_keys > bloom.row_capacity
        yield _Row(bits, bloom.row_capacity if is_full else bloom.last_row_keys)
