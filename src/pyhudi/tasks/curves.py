"""Space-filling curves: the order in which a clustering puts rows, so that files are narrow in several columns.

A curve visits the cells of a grid. Each column of the grid is cut at quantiles of a sample of the rows, so that each
cell has about as many rows as any other, whatever the distribution of the values. Ranks are stretched over the whole
grid; otherwise a column of few values would only count where all others are equal.

Within a column, null comes first and NaN last; both 0.0 and -0.0 are one value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.options_clustering import LayoutStrategy
from pyhudi.errors import ConfigError

COLUMNS_MAX: Final = 32
"""A position has 64 bits, and a column needs two: null, NaN and two ranges of values are four cells."""
_POSITION_BITS: Final = 64
_BITS_MAX: Final = 12
"""Bits of one column: 4,096 ranges are narrower than a file in any group that a clustering sorts."""
_BYTE: Final = 8
_CELLS_OF_NO_VALUE: Final = 2
"""Null and NaN."""

_Cells: TypeAlias = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve over some columns.

    Attributes:
        kind: ZORDER or HILBERT.
        boundaries: per column the values at which its cells begin, ascending, each once. Of cells that are equal in
            all but one column, the earlier column decides first.
    """

    kind: LayoutStrategy
    boundaries: tuple[pa.Array, ...]

    @classmethod
    def of_sample(cls, kind: LayoutStrategy, sample: Sequence[pa.Array]) -> Curve:
        """A curve for rows that are distributed like these, the columns of a sample; there may be no row.

        Raises `ConfigError` for more columns than a curve can have (`check_curve`).
        """
        check_curve(len(sample))
        values_max = 2 ** _bits_of(len(sample)) - _CELLS_OF_NO_VALUE
        return cls(kind, tuple(_boundaries(_sortable(column), values_max - 1) for column in sample))

    def positions(self, columns: Sequence[pa.Array]) -> pa.UInt64Array:
        """Where on the curve rows with these columns are: sorted by it, they are in the order of the curve.

        Cost: a sort of each column. Memory: 8 bytes per row and column.
        """
        bits = _bits_of(len(self.boundaries))
        cells = [_cells(_sortable(values), cut, bits) for values, cut in zip(columns, self.boundaries, strict=True)]
        if self.kind is LayoutStrategy.HILBERT:
            cells = hilbert_cells(cells, bits)
        return pa.array(interleaved(cells, bits))


def check_curve(columns: int) -> None:
    """Raise `ConfigError` unless a curve can have so many columns."""
    if not 1 <= columns <= COLUMNS_MAX:
        raise ConfigError(f"a curve needs one to {COLUMNS_MAX} columns to sort by", columns=columns)


def sampled(batches: Iterable[pa.RecordBatch], size: int) -> pa.RecordBatch | None:
    """Rows from all over the batches: all of them, or at least `size` and less than four times as many.

    They are as far from each other as their number allows, because neighbours are often alike. Memory: these rows.
    """
    kept: list[pa.RecordBatch] = []
    step, skipped, rows = 1, 0, 0
    for batch in batches:
        chosen = np.arange(-skipped % step, batch.num_rows, step)
        skipped += batch.num_rows
        kept.append(batch.take(pa.array(chosen)))
        rows += len(chosen)
        while rows >= 4 * size:
            # Half of the rows are forgotten, so that the others are twice as far apart.
            whole = pa.concat_batches(kept)
            kept = [whole.take(pa.array(np.arange(0, whole.num_rows, 2)))]
            step, rows = 2 * step, kept[0].num_rows
    return pa.concat_batches(kept) if kept else None


def interleaved(cells: Sequence[_Cells], bits: int) -> npt.NDArray[np.uint64]:
    """One number per row of the lowest `bits` bits of its cells: the highest bit of each, then the next of each."""
    apart = len(cells)
    positions = np.zeros(len(cells[0]), dtype=np.uint64)
    for first in range(0, bits, _BYTE):
        spread = _spread_bits(apart, min(_BYTE, bits - first))
        for number, of_column in enumerate(cells):
            part = spread[(of_column >> np.uint32(first)) & np.uint32(len(spread) - 1)]
            positions |= part << np.uint64(first * apart + apart - 1 - number)
    return positions


def _spread_bits(apart: int, bits: int) -> npt.NDArray[np.uint64]:
    """Each number of so many bits, with its bits `apart` from each other."""
    numbers = np.arange(2**bits, dtype=np.uint64)
    spread = np.zeros_like(numbers)
    for bit in range(bits):
        spread |= ((numbers >> np.uint64(bit)) & np.uint64(1)) << np.uint64(bit * apart)
    return spread


def hilbert_cells(cells: Sequence[_Cells], bits: int) -> list[_Cells]:
    """Cells whose `interleaved` bits are the cell's place on the Hilbert curve of a grid of `2^bits` cells per column.

    After John Skilling, "Programming the Hilbert curve" (2004), on all rows at once.
    """
    axes = [of_column.copy() for of_column in cells]
    if len(axes) == 1:
        return axes
    first = axes[0]
    for bit in reversed(range(1, bits)):
        below = np.uint32((1 << bit) - 1)
        for axis in axes:
            flips = _where_set(axis, bit) & below
            swaps = (first ^ axis) & (below ^ flips)
            axis ^= swaps  # noqa: PLW2901 - in place
            # Of the first axis itself nothing is swapped, so the order of the two does not matter.
            first ^= flips | swaps
    for before, axis in itertools.pairwise(axes):
        axis ^= before  # noqa: PLW2901 - in place
    flips = np.zeros_like(first)
    for bit in reversed(range(1, bits)):
        flips ^= _where_set(axes[-1], bit) & np.uint32((1 << bit) - 1)
    for axis in axes:
        axis ^= flips  # noqa: PLW2901 - in place
    return axes


def _where_set(axis: _Cells, bit: int) -> _Cells:
    """All bits for the cells with this bit, none for the others."""
    return np.uint32(0) - ((axis >> np.uint32(bit)) & np.uint32(1))


def _bits_of(columns: int) -> int:
    return min(_BITS_MAX, _POSITION_BITS // columns)


def _boundaries(values: pa.Array, count_max: int) -> pa.Array:
    """Quantiles of the values in a sample: `count_max` at most, ascending, each once."""
    values = values.filter(pa.array(_has_value(values)))
    ordered = values.take(pc.sort_indices(values))
    if len(ordered) > count_max:
        # The middles of equal parts: the least value would begin a cell that has nothing before it.
        middles = (np.arange(count_max) * 2 + 1) * len(ordered) // (2 * count_max)
        ordered = ordered.take(pa.array(middles))
    if len(ordered) < 2:
        return ordered
    differs = pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1))
    return ordered.filter(pa.concat_arrays([pa.array([True]), differs]))


def _cells(values: pa.Array, boundaries: pa.Array, bits: int) -> _Cells:
    """The cell of each value: null, the ranges that the boundaries cut, NaN; stretched over `2^bits` cells."""
    cell_of_nan = len(boundaries) + _CELLS_OF_NO_VALUE
    cells = np.zeros(len(values), dtype=np.uint32)
    has_value = _has_value(values)
    cells[_is_nan(values)] = cell_of_nan
    cells[has_value] = 1 + _ranks(values.filter(pa.array(has_value)), boundaries)
    cells *= np.uint32(2**bits - 1)
    cells //= np.uint32(cell_of_nan)
    return cells


def _ranks(values: pa.Array, boundaries: pa.Array) -> npt.NDArray[Any]:
    """How many boundaries are at or below each value."""
    # The sort is stable, so a boundary comes before the values that equal it.
    order = pc.sort_indices(pa.concat_arrays([boundaries, values])).to_numpy()
    is_boundary = order < len(boundaries)
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order[~is_boundary] - len(boundaries)] = np.cumsum(is_boundary)[~is_boundary]
    return ranks


def _has_value(values: pa.Array) -> npt.NDArray[np.bool_]:
    flags = np.asarray(values.is_valid())
    return flags & ~_is_nan(values)


def _is_nan(values: pa.Array) -> npt.NDArray[np.bool_]:
    if not pa.types.is_floating(values.type):
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(values.is_nan().fill_null(False))


def _sortable(column: pa.Array) -> pa.Array:
    """The column with a type that Arrow sorts by its values."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column.cast(pa.float32()) if pa.types.is_float16(column.type) else column
