"""Which of several versions of a record stays: by commit time or by event time. Pure, over Arrow columns.

Source: `format/logs-and-indexes.md` 1.5; mission rows S1-28, S2-43.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Column: TypeAlias = "pa.Array | pa.ChunkedArray"
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


def newest_versions(identity: Sequence[Column], ordering: Sequence[Column]) -> Rows:
    """Row numbers of one version per record, ascending.

    Rows with equal `identity` columns are versions of one record. The version with the largest `ordering` values stays
    (compared column by column, null below everything); of equal ones the last in row order, as with no ordering.
    """
    codes, distinct = _codes(identity)
    if distinct == len(codes):
        return np.arange(len(codes), dtype=np.int64)
    # Whether a value is there sorts before the value itself, so that null comes first in every version of Arrow.
    columns: dict[str, Column] = {"code": pa.array(codes)}
    for n, column in enumerate(ordering):
        columns |= {f"present{n}": pc.is_valid(column), f"ordering{n}": column}
    columns["row"] = pa.array(np.arange(len(codes), dtype=np.int64))
    order = pc.sort_indices(pa.table(columns), sort_keys=[(name, "ascending") for name in columns]).to_numpy()
    sorted_codes = codes[order]
    is_last = np.append(sorted_codes[1:] != sorted_codes[:-1], True)
    return np.sort(order[is_last]).astype(np.int64)


def incoming_wins(incoming: Sequence[Column], stored: Sequence[Column], length: int) -> Mask:
    """For each pair of an incoming and a stored version, whether the incoming one stays.

    `incoming` and `stored` hold the ordering columns of both sides, row by row. Without columns (commit-time ordering)
    the incoming version always stays; with them, unless its values are smaller. Null is below everything.
    """
    wins = np.ones(length, dtype=bool)
    undecided = np.ones(length, dtype=bool)
    for new, old in zip(incoming, stored, strict=True):
        greater, less = _greater(new, old), _greater(old, new)
        wins[undecided & less] = False
        undecided &= ~(greater | less)
    return wins


def _greater(left: Column, right: Column) -> Mask:
    """`left > right`, where null is below every value and equal to null."""
    compared = _as_mask(pc.fill_null(pc.greater(left, right), False))
    return compared | (_as_mask(pc.is_valid(left)) & _as_mask(pc.is_null(right)))


def _as_mask(column: Column) -> Mask:
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def _codes(identity: Sequence[Column]) -> tuple[Rows, int]:
    """One number per row, equal for equal rows, and how many distinct ones there are."""
    codes: Rows | None = None
    distinct = 1
    for column in identity:
        encoded = pa.chunked_array(column) if isinstance(column, list) else column
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        if not pa.types.is_dictionary(encoded.type):
            encoded = encoded.dictionary_encode()
        part = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        size = max(len(encoded.dictionary), 1)
        codes = part if codes is None else codes * size + part
    assert codes is not None
    if len(identity) > 1:
        values, codes = np.unique(codes, return_inverse=True)
        distinct = len(values)
    else:
        distinct = len(np.unique(codes))
    return codes, distinct
