"""INMEMORY: the file groups of keys in the memory of this process.

A key is kept as its hash, so an entry takes 12 bytes and a key may seem to be where it is not, which costs a look into
a file. The hashes lie in sorted runs: a write adds a run, and runs are joined before they are many.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.index.key_value.locations import Coverage, Location

_HASHED_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class _Run:
    """Hashes of keys, sorted, and beside them the numbers of their locations."""

    hashes: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int32]


@dataclass(slots=True)
class MemoryLocations:
    """The entries of one table in this process; any thread may use them."""

    _coverage: Coverage = field(default_factory=Coverage)
    _numbers: dict[Location, int] = field(default_factory=dict)
    _runs: list[_Run] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_shared(self) -> bool:
        """See `Locations`."""
        return False

    def coverage(self) -> Coverage:
        """See `Locations.coverage`."""
        return self._coverage

    def begin(self, instant_time: str) -> None:
        """See `Locations.begin`. Other processes cannot empty this memory, so nothing is noted."""

    def cover(self, coverage: Coverage) -> None:
        """See `Locations.cover`. Of two threads, what the one that began later says stays."""
        with self._guard:
            if coverage.at >= self._coverage.at:
                self._coverage = coverage

    def add(self, keys: pa.Array, location: Location) -> None:
        """See `Locations.add`."""
        hashes = np.unique(_hashes(keys))
        with self._guard:
            number = self._numbers.setdefault(location, len(self._numbers))
            self._runs.append(_Run(hashes, np.full(len(hashes), number, dtype=np.int32)))
            # Each run is more than twice as long as the next one, so their number grows with the logarithm of the keys.
            while len(self._runs) > 1 and len(self._runs[-2].hashes) <= 2 * len(self._runs[-1].hashes):
                self._runs.append(_joined(self._runs.pop(), self._runs.pop()))

    def find(self, keys: pa.Array) -> Mapping[Location, int]:
        """See `Locations.find`."""
        with self._guard:
            runs, locations = list(self._runs), list(self._numbers)
        hashes = np.sort(_hashes(keys))
        counts = np.zeros(len(locations), dtype=np.int64)
        for run in runs:
            first = np.searchsorted(run.hashes, hashes, side="left")
            sizes = np.searchsorted(run.hashes, hashes, side="right") - first
            met = np.repeat(first, sizes) + np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            counts += np.bincount(run.numbers[met], minlength=len(locations))
        return {locations[number]: int(counts[number]) for number in np.flatnonzero(counts).tolist()}

    def forget(self, keys: pa.Array, locations: Collection[Location]) -> None:
        """See `Locations.forget`. All entries of the locations go, also those of other keys."""
        del keys
        with self._guard:
            gone = [number for location, number in self._numbers.items() if location in locations]
            stays = [~np.isin(run.numbers, gone) for run in self._runs]
            self._runs = [
                _Run(run.hashes[kept], run.numbers[kept]) for run, kept in zip(self._runs, stays, strict=True)
            ]


def _joined(one: _Run, other: _Run) -> _Run:
    hashes, numbers = np.concatenate([one.hashes, other.hashes]), np.concatenate([one.numbers, other.numbers])
    order = np.lexsort((numbers, hashes))
    hashes, numbers = hashes[order], numbers[order]
    again = np.zeros(len(hashes), dtype=bool)
    again[1:] = (hashes[1:] == hashes[:-1]) & (numbers[1:] == numbers[:-1])
    return _Run(hashes[~again], numbers[~again])


def _hashes(keys: pa.Array) -> npt.NDArray[np.int64]:
    """A hash of each key that is the same all over this process."""
    pieces = [np.zeros(0, dtype=np.int64)]
    for start in range(0, len(keys), _HASHED_AT_ONCE):
        texts = keys.slice(start, _HASHED_AT_ONCE).to_pylist()
        pieces.append(np.fromiter(map(hash, texts), dtype=np.int64, count=len(texts)))
    return np.concatenate(pieces)


_tables: dict[str, MemoryLocations] = {}
_tables_guard = threading.Lock()


def _begin_anew() -> None:
    """Forget the tables in a forked child: a thread of the parent may have been at one of them."""
    global _tables, _tables_guard
    _tables, _tables_guard = {}, threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def locations_of_process(table_uri: str) -> MemoryLocations:
    """The entries of a table in this process: all writers of the process share them."""
    with _tables_guard:
        return _tables.setdefault(table_uri, MemoryLocations())
