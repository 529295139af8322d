"""The overlap of the ranges of a column among the files of a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many files have a value: on average, at most, and at percentiles of the values that bound ranges."""

    average: float
    most: int
    percentiles: tuple[int, int, int, int]
    values: int


def overlap_of(ranges: Sequence[tuple[Any, Any]]) -> Overlap:
    """The overlap of the ranges of some files, each from its least to its greatest value."""
    points = sorted([(low, 0) for low, _ in ranges] + [(high, 1) for _, high in ranges])
    covering: dict[Any, int] = {}
    open_ranges = most = 0
    for value, is_end in points:
        if is_end:
            covering.setdefault(value, open_ranges)
            open_ranges -= 1
        else:
            open_ranges += 1
            most = max(most, open_ranges)
            covering[value] = open_ranges
    counts = sorted(covering.values())
    at = [counts[int(percent / 100 * (len(counts) - 1))] for percent in (50, 75, 95, 99)]
    return Overlap(sum(counts) / len(counts), most, (at[0], at[1], at[2], at[3]), len(counts))
