"""Ranges of columns, found in the footer of a base file or in the rows of a log's blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.format.metadata_table.ranges import Range, joined_bounds, united
from pyhudi.format.metadata_table.value_types import LONG, ValueKind, ValueType, value_kind
from pyhudi.format.schema.type_at import type_at
from pyhudi.io.parquet_batches import leaf_columns, schema_of

_INT96: Final = "INT96"


_NONE: Final[Mapping[str, Range]] = MappingProxyType({})


def ranges_of_footer(
    footer: pq.FileMetaData, columns: Iterable[str], *, unlisted: Mapping[str, Range] = _NONE
) -> list[Range]:
    """The ranges of those columns that the file has and that can have statistics.

    `columns`: dotted paths. `unlisted`: what is known of a column in the row groups without statistics of it.
    """
    leaves = leaf_columns(footer)
    places = {path: number for number, (path, _) in enumerate(leaves)}
    wanted = [(name, places[name]) for name in columns if name in places]
    if not wanted:
        return []
    schema = schema_of(footer).to_arrow_schema()
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = []
    for name, place in wanted:
        stored = pa.timestamp("us", "UTC") if leaves[place][1] == _INT96 else type_at(schema, name)
        kind = None if stored is None else value_kind(stored)
        if kind is not None:
            found.append(_of_chunks(name, kind, [group.column(place) for group in groups], unlisted.get(name)))
    return found


def _of_chunks(column: str, kind: ValueKind, chunks: Sequence[Any], unlisted: Range | None) -> Range:
    values = size = uncompressed = 0
    nulls: int | None = 0 if unlisted is None else unlisted.nulls
    bounds: list[tuple[Any, Any]] = []
    is_open = False
    if unlisted is not None and unlisted.low is not None:
        bounds.append((unlisted.low, unlisted.high))
    for chunk in chunks:
        values += chunk.num_values
        size += chunk.total_compressed_size
        uncompressed += chunk.total_uncompressed_size
        statistics = chunk.statistics
        if statistics is None and unlisted is not None:
            continue
        counted = statistics.null_count if statistics is not None and statistics.has_null_count else None
        nulls = None if nulls is None or counted is None else nulls + counted
        if chunk.num_values in (0, counted):
            continue
        raw = None if statistics is None or not statistics.has_min_max else (statistics.min_raw, statistics.max_raw)
        found = None if raw is None else _wrapped_raw(kind, *raw)
        if found is None:
            is_open = True
        else:
            bounds.append(found)
    low, high = joined_bounds(kind, bounds)
    return Range(column, kind, low, high, values, nulls, size, uncompressed, is_open)


def _wrapped_raw(kind: ValueKind, low: Any, high: Any) -> tuple[Any, Any] | None:
    """Bounds of a footer; None where they may be false."""
    if kind.type is ValueType.DECIMAL and isinstance(low, bytes):
        return int.from_bytes(low, "big", signed=True), int.from_bytes(high, "big", signed=True)
    if kind.type is ValueType.STRING:
        try:
            return low.decode(), high.decode()
        except UnicodeDecodeError:
            return None
    if kind.type in (ValueType.FLOAT, ValueType.DOUBLE):
        has_nan = low != low or high != high  # noqa: PLR0124
        return None if has_nan else (_with_sign(low, -0.0), _with_sign(high, 0.0))
    return low, high


def _with_sign(value: float, zero: float) -> float:
    """Both zeros are equal: the lower bound is the negative one, the upper bound the positive one."""
    return zero if value == 0 else value


class RangesOfRows:
    """The ranges of the columns of rows, batch after batch: those of a log, or of a column without statistics.

    `columns`: dotted paths; those that the rows lack, and those of types without statistics, are left out.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self._columns = tuple(columns)
        self._found: dict[str, Range] = {}

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Count more rows."""
        for name in self._columns:
            values = _values_at(rows, name)
            kind = None if values is None else value_kind(values.type)
            if values is None or kind is None:
                continue
            more = range_of_values(name, kind, values)
            previous = self._found.get(name)
            self._found[name] = more if previous is None else united(previous, more)

    def ranges(self) -> list[Range]:
        """The ranges of all rows so far."""
        return list(self._found.values())


def _values_at(rows: pa.RecordBatch | pa.Table, path: str) -> Any:
    if path in rows.schema.names:
        return rows.column(path)
    first, *rest = path.split(".")
    if not rest or first not in rows.schema.names:
        return None
    values = rows.column(first)
    for name in rest:
        if not pa.types.is_struct(values.type) or values.type.get_field_index(name) < 0:
            return None
        values = pc.struct_field(values, name)
    return values


def range_of_values(column: str, kind: ValueKind, values: Any) -> Range:
    """The range of an array. NaN is the greatest number, as in JVM Hudi."""
    nulls = values.null_count
    if nulls == len(values):
        return Range(column, kind, None, None, len(values), nulls)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    ends = pc.min_max(values)
    low, high = (_wrapped_scalar(kind, ends[name]) for name in ("min", "max"))
    if kind.type in (ValueType.FLOAT, ValueType.DOUBLE):
        has_nan = bool(pc.any(pc.is_nan(values)).as_py())
        low = float("nan") if low != low or low is None else _with_sign(low, -0.0)  # noqa: PLR0124
        high = float("nan") if has_nan or high is None else _with_sign(high, 0.0)
    return Range(column, kind, low, high, len(values), nulls)


def _wrapped_scalar(kind: ValueKind, bound: pa.Scalar) -> Any:
    if kind.type is ValueType.DECIMAL:
        return int(bound.as_py().scaleb(bound.type.scale)) if bound.is_valid else None
    if kind.type is ValueType.DATE:
        return bound.cast(pa.int32()).as_py()
    if kind.wrapper == LONG:
        return bound.cast(pa.int64()).as_py()
    return bound.as_py()
