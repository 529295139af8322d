"""The simple index: the key columns of all slices of the touched partitions, or of the table, are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyhudi.engine.protocol import Engine
from pyhudi.index.protocol import Lookup, Tagged
from pyhudi.index.search import search, to_search
from pyhudi.table.file_slice import FileSlice


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """SIMPLE, and GLOBAL_SIMPLE with a table-wide lookup. Cost: the key column of every slice; one round of tasks."""

    def tag(self, engine: Engine, lookup: Lookup, slices: Sequence[FileSlice]) -> Tagged:
        """See `Index.tag`."""
        searched = [to_search(lookup, number, file_slice) for number, file_slice in enumerate(slices)]
        weights = {number: file_slice.size for number, file_slice in enumerate(slices)}
        return search(engine, lookup, slices, searched, weights)
