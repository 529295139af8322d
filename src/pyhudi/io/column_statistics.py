"""Column statistics in the footer of a base file: sizes, nulls, smallest and largest values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyhudi.io.base_file import opened_base_file
from pyhudi.io.parquet_batches import leaf_columns, schema_of
from pyhudi.storage.protocol import Storage


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """A column of a file; of a nested one, the values at one path in it.

    `nulls` None: the writer did not count them. `low` and `high` as text; None where there is no value, or one of the
    row groups with values has no bounds. `size`: compressed, in bytes.
    """

    column: str
    nulls: int | None
    low: str | None
    high: str | None
    size: int


@dataclass(frozen=True, slots=True)
class FooterBounds:
    """A column of a file with `rows` rows: `low` and `high` as Python's values, else as `ColumnStatistics`."""

    rows: int
    nulls: int | None
    low: Any
    high: Any

    @property
    def has_only_nulls(self) -> bool:
        """Whether it is known to have no value."""
        return self.nulls is not None and self.nulls >= self.rows


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """The rows of a file, and its columns."""

    rows: int
    columns: tuple[ColumnStatistics, ...]


def read_statistics(storage: Storage, path: str) -> FileStatistics:
    """The statistics in the footer of a base file. Cost: one or two ranged reads.

    Raises `CorruptDataError` naming the file when its footer does not parse.
    """
    with opened_base_file(storage, path) as (_, parquet):
        footer = parquet.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        columns = tuple(
            _column([group.column(number) for group in groups], path)
            for number, (path, _) in enumerate(leaf_columns(footer))
        )
        return FileStatistics(footer.num_rows, columns)


def read_bounds(storage: Storage, path: str, names: Collection[str]) -> dict[str, FooterBounds]:
    """The bounds of those of these columns that the file has and that are not nested. Cost: one or two ranged reads.

    Raises `CorruptDataError` naming the file when its footer does not parse, and `NotFoundError`.
    """
    with opened_base_file(storage, path) as (_, parquet):
        footer = parquet.metadata
        schema = schema_of(footer)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        found = {}
        for number, column in enumerate(map(schema.column, range(len(schema)))):
            # The path of a nested column has a dot, which a name in Avro cannot have.
            if column.path in names and "." not in column.path:
                nulls, low, high, _ = _summed([group.column(number) for group in groups])
                if _is_coarser_in_python(column):
                    low = high = None
                found[column.path] = FooterBounds(footer.num_rows, nulls, low, high)
        return found


def _is_coarser_in_python(column: Any) -> bool:
    """Whether Python's values may be below those of the column: Python's times have no nanoseconds."""
    return "nanoseconds" in str(column.logical_type)


def _column(chunks: Iterable[Any], path: str) -> ColumnStatistics:
    nulls, low, high, size = _summed(chunks)
    return ColumnStatistics(
        path, nulls, None if low is None else _text(low), None if high is None else _text(high), size
    )


def _summed(chunks: Iterable[Any]) -> tuple[int | None, Any, Any, int]:
    """The number of nulls, the bounds and the size of the chunks of a column."""
    nulls: int | None = 0
    bounds: list[tuple[Any, Any]] | None = []
    size = 0
    for chunk in chunks:
        size += chunk.total_compressed_size
        statistics = chunk.statistics
        has_count = statistics is not None and statistics.has_null_count
        nulls = nulls + statistics.null_count if nulls is not None and has_count else None
        if has_count and statistics.null_count == chunk.num_values:
            continue
        found = _bounds(statistics)
        bounds = None if bounds is None or found is None else [*bounds, found]
    if not bounds:
        return nulls, None, None, size
    return nulls, min(low for low, _ in bounds), max(high for _, high in bounds), size


def _bounds(statistics: Any) -> tuple[Any, Any] | None:
    """The least and greatest value of a row group. None for bounds that Python cannot hold, such as the year 10000."""
    if statistics is None or not statistics.has_min_max:
        return None
    try:
        bounds = statistics.min, statistics.max
    except (ValueError, OverflowError):
        return None
    return bounds if all(bound is not None and bound == bound for bound in bounds) else None  # noqa: PLR0124 - NaN


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def matching(statistics: FileStatistics, wanted: Iterable[str]) -> Iterator[ColumnStatistics]:
    """The columns with these names, or at or below these paths, in the order of the file."""
    names = tuple(wanted)
    prefixes = tuple(f"{name}." for name in names)
    return (column for column in statistics.columns if column.column in names or column.column.startswith(prefixes))
