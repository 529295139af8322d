"""Ranges of the columns of a data file: what the metadata table keeps of it as column statistics.

Where the bounds of a column that has values are not known, the widest are written: readers take a missing record, and
one without bounds, for a column without any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.format.metadata_table.value_types import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    ValueKind,
    ValueType,
    unscaled_bytes,
)

_WRAPPERS: Final = {
    **dict.fromkeys((ValueType.V1, ValueType.NULL), ""),
    ValueType.BOOLEAN: BOOLEAN,
    **dict.fromkeys((ValueType.INT, ValueType.DATE, ValueType.TIME_MILLIS), INT),
    ValueType.FLOAT: FLOAT,
    ValueType.DOUBLE: DOUBLE,
    ValueType.STRING: STRING,
    **dict.fromkeys((ValueType.BYTES, ValueType.FIXED, ValueType.DECIMAL, ValueType.UUID), BYTES),
    **dict.fromkeys((ValueType.LONG, *[member for member in ValueType if member >= ValueType.TIME_MICROS]), LONG),
}
WRAPPED: Final = pa.struct(
    [
        (BOOLEAN, pa.bool_()),
        (INT, pa.int32()),
        (LONG, pa.int64()),
        (FLOAT, pa.float32()),
        (DOUBLE, pa.float64()),
        (BYTES, pa.binary()),
        (STRING, pa.string()),
    ]
)
"""A bound: at most one field has a value; none where all values of the column are null."""
RANGES: Final = pa.schema(
    [
        ("partition_path", pa.string()),
        ("file", pa.string()),
        ("column", pa.string()),
        ("low", WRAPPED),
        ("high", WRAPPED),
        ("values", pa.int64()),
        ("nulls", pa.int64()),
        ("size", pa.int64()),
        ("uncompressed_size", pa.int64()),
        ("type", pa.int32()),
        ("info", pa.string()),
    ]
)
"""One row per file and column. `values`: the rows, nulls too. Sizes are in bytes, 0 for logs."""

_HIGHEST_TEXT: Final = "\U0010ffff" * 8
_HIGHEST_BYTES: Final = b"\xff" * 32


@dataclass(frozen=True, slots=True)
class Range:
    """The range of a column in a file: bounds as their wrapper has them, None where there is no value.

    `nulls` None: they were not counted. `is_open`: there are values, whose bounds are not known.
    """

    column: str
    kind: ValueKind
    low: Any
    high: Any
    values: int
    nulls: int | None
    size: int = 0
    uncompressed_size: int = 0
    is_open: bool = False


def joined_bounds(kind: ValueKind, bounds: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The bounds of all; none of them is None."""
    if not bounds:
        return None, None
    lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
    if kind.type is ValueType.STRING:
        return min(lows, key=str.encode), max(highs, key=str.encode)
    if kind.type in (ValueType.FLOAT, ValueType.DOUBLE):
        # NaN is above all numbers, for every reader of Hudi's statistics.
        return _least(lows), _greatest(highs)
    return min(lows), max(highs)


def _least(values: Sequence[float]) -> float:
    numbers = [value for value in values if value == value]  # noqa: PLR0124 - NaN
    return min(numbers) if numbers else float("nan")


def _greatest(values: Sequence[float]) -> float:
    return max(values) if all(value == value for value in values) else float("nan")  # noqa: PLR0124


def united(one: Range, other: Range) -> Range:
    """The range of the values of both, of one column.

    If its type was changed between them, the bounds are those of the wider type; where neither type is the wider one,
    they are the widest bounds.
    """
    kind = one.kind if one.kind == other.kind else _wider(one.kind, other.kind)
    nulls = None if one.nulls is None or other.nulls is None else one.nulls + other.nulls
    known = [(range_.low, range_.high) for range_ in (one, other)]
    is_open = one.is_open or other.is_open
    if _are_apart(one.kind, other.kind):
        kind, known, is_open = other.kind, [], is_open or one.low is not None or other.low is not None
    low, high = joined_bounds(kind, [(low, high) for low, high in known if low is not None])
    return Range(
        one.column,
        kind,
        low,
        high,
        one.values + other.values,
        nulls,
        one.size + other.size,
        one.uncompressed_size + other.uncompressed_size,
        is_open,
    )


def promoted(range_: Range, kind: ValueKind) -> Range:
    """A range of a column whose type was widened since, as a range of its new type."""
    return range_ if _are_apart(range_.kind, kind) else replace(range_, kind=_wider(range_.kind, kind))


_WIDTHS: Final = (
    {ValueType.INT: 0, ValueType.LONG: 1},
    {ValueType.FLOAT: 0, ValueType.DOUBLE: 1},
)


def _wider(one: ValueKind, other: ValueKind) -> ValueKind:
    for widths in _WIDTHS:
        if one.type in widths and other.type in widths:
            return one if widths[one.type] >= widths[other.type] else other
    if _scale(one) is not None and _scale(one) == _scale(other):
        return max(one, other, key=lambda kind: int((kind.info or "").partition(",")[0]))
    return other


def _scale(kind: ValueKind) -> str | None:
    return (kind.info or "").partition(",")[2] if kind.type is ValueType.DECIMAL else None


def _are_apart(one: ValueKind, other: ValueKind) -> bool:
    """Whether the values of two types do not compare as they are kept."""
    if _scale(one) is not None and _scale(one) == _scale(other):
        return False
    return one != other and not any(one.type in widths and other.type in widths for widths in _WIDTHS)


def ranges_of_batch(batch: pa.RecordBatch) -> Iterator[tuple[str, str, Range]]:
    """The rows of `RANGES` as ranges, with partition path and file name."""
    lows, highs = (_unwrapped(batch.column(name)) for name in ("low", "high"))
    columns = [batch.column(name).to_pylist() for name in batch.schema.names if name not in ("low", "high")]
    for low, high, *fields in zip(lows, highs, *columns, strict=True):
        partition_path, file, column, values, nulls, size, uncompressed_size, number, info = fields
        kind = ValueKind(ValueType(number), _WRAPPERS[number], info)
        if kind.type is ValueType.DECIMAL and low is not None:
            low, high = (int.from_bytes(bound, "big", signed=True) for bound in (low, high))  # noqa: PLW2901
        yield partition_path, file, Range(column, kind, low, high, values, nulls, size, uncompressed_size)


def _unwrapped(bounds: pa.StructArray) -> list[Any]:
    found: list[Any] = [None] * len(bounds)
    for field in bounds.flatten():
        if field.null_count < len(field):
            found = [
                previous if value is None else value for previous, value in zip(found, field.to_pylist(), strict=True)
            ]
    return found


def ranges_without_rows(columns: Iterable[str]) -> list[Range]:
    """The ranges of a log that has no rows, but deletes."""
    kind = ValueKind(ValueType.NULL, "")
    return [Range(name, kind, None, None, 0, 0) for name in columns]


def ranges_batch(files: Mapping[tuple[str, str], Sequence[Range]]) -> pa.RecordBatch:
    """The ranges of files, by partition path and file name, as rows of `RANGES`."""
    rows = [(*file, range_) for file, ranges in files.items() for range_ in ranges]
    bounds = [_written_bounds(range_) for _, _, range_ in rows]
    counts = [_written_counts(range_) for _, _, range_ in rows]
    columns: list[pa.Array] = [
        pa.array([partition for partition, _, _ in rows], pa.string()),
        pa.array([name for _, name, _ in rows], pa.string()),
        pa.array([range_.column for _, _, range_ in rows], pa.string()),
        _wrapped([range_.kind.wrapper for _, _, range_ in rows], [low for low, _ in bounds]),
        _wrapped([range_.kind.wrapper for _, _, range_ in rows], [high for _, high in bounds]),
        pa.array([values for values, _ in counts], pa.int64()),
        pa.array([nulls for _, nulls in counts], pa.int64()),
        pa.array([range_.size for _, _, range_ in rows], pa.int64()),
        pa.array([range_.uncompressed_size for _, _, range_ in rows], pa.int64()),
        pa.array([int(range_.kind.type) for _, _, range_ in rows], pa.int32()),
        pa.array([range_.kind.info for _, _, range_ in rows], pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RANGES)


def _written_bounds(range_: Range) -> tuple[Any, Any]:
    low, high = widest(range_.kind) if range_.is_open else (range_.low, range_.high)
    if range_.kind.type is ValueType.DECIMAL and low is not None:
        return unscaled_bytes(low), unscaled_bytes(high)
    return low, high


def _written_counts(range_: Range) -> tuple[int, int]:
    """The counts that are written. Unknown nulls are one of at least two values: no reader then takes none, or all."""
    if range_.nulls is None:
        return max(range_.values, 2), 1
    return range_.values, range_.nulls


def widest(kind: ValueKind) -> tuple[Any, Any]:
    """The bounds that hold for all values of a type. NaN is above all numbers; decimals are without their point."""
    if kind.type is ValueType.DECIMAL:
        precision, _, _ = (kind.info or "").partition(",")
        return -(10 ** int(precision)) + 1, 10 ** int(precision) - 1
    return _WIDEST[kind.wrapper]


_WIDEST: Final[dict[str, tuple[Any, Any]]] = {
    BOOLEAN: (False, True),
    INT: (int(np.iinfo(np.int32).min), int(np.iinfo(np.int32).max)),
    LONG: (int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)),
    FLOAT: (float("-inf"), float("nan")),
    DOUBLE: (float("-inf"), float("nan")),
    STRING: ("", _HIGHEST_TEXT),
    BYTES: (b"", _HIGHEST_BYTES),
}


def _wrapped(wrappers: Sequence[str], values: Sequence[Any]) -> pa.StructArray:
    fields = [
        pa.array(
            [value if wrapper == field.name else None for wrapper, value in zip(wrappers, values, strict=True)],
            field.type,
        )
        for field in WRAPPED
    ]
    return pa.StructArray.from_arrays(fields, fields=list(WRAPPED))
