"""Pruning: leaves out files that have no row for a condition, by what is known of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import and_

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from pyhudi.format.metadata_table.bounds import ColumnBounds

Flags = npt.NDArray[np.bool_]


def may_match(condition: pc.Expression, schema: pa.Schema, known: Mapping[str, ColumnBounds], files: int) -> Flags:
    """Whether each of some files may have rows that meet a condition. What is not known leaves no file out.

    Args:
        condition: no row with NaN in a column of `known` passes a comparison of it with that column
            (`Condition.prunable`).
        schema: the columns of the files.
        known: what is known of columns in the files, each as long as there are files.
        files: how many there are.

    Cost: about 20 µs per file and column.
    """
    import pyarrow.dataset as ds

    empty = np.zeros(files, np.bool_)
    for bounds in known.values():
        empty |= bounds.is_empty
    guarantees: list[pc.Expression | None] = [None] * files
    for name, bounds in known.items():
        for number, guarantee in enumerate(_guarantees(name, bounds)):
            former = guarantees[number]
            if guarantee is not None:
                guarantees[number] = guarantee if former is None else former & guarantee
    # Nothing is opened here: the fragments carry the number of a file in the place of its path.
    parquet, nowhere = ds.ParquetFileFormat(), fs.LocalFileSystem()
    numbered = [parquet.make_fragment(str(number), nowhere, one) for number, one in enumerate(guarantees)]
    dataset = ds.FileSystemDataset(numbered, schema, parquet, nowhere)
    found = np.zeros(files, np.bool_)
    found[[int(fragment.path) for fragment in dataset.get_fragments(condition)]] = True
    return found & ~empty


def _guarantees(name: str, bounds: ColumnBounds) -> Iterator[pc.Expression | None]:
    """What holds for the column in all rows of each file, rows with NaN left aside."""
    field = pc.field(*name.split(".")) if "." in name else pc.field(name)
    missing = field.is_null()
    for low, high, no_nulls, only_nulls in zip(
        bounds.low, bounds.high, bounds.no_nulls, bounds.only_nulls, strict=True
    ):
        if only_nulls:
            yield missing
            continue
        parts = [
            *([field >= low] if low.is_valid else []),
            *([field <= high] if high.is_valid else []),
        ]
        if not parts:
            yield None
        else:
            yield reduce(and_, parts if no_nulls else [part | missing for part in parts])
