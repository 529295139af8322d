"""The values of an expression in files: their range, or a bloom filter over them. What is not known widens it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import CorruptDataError
from pyhudi.format.bloom import BloomFilter, BloomFilterBuilder, BloomFilterType
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata_table.expressions import FUNCTIONS, evaluated, result_type
from pyhudi.format.metadata_table.ranges import Range, ranges_batch, united
from pyhudi.format.metadata_table.value_types import ValueKind, ValueType, value_kind
from pyhudi.io.base_file import opened_base_file, read_batches
from pyhudi.io.column_ranges import range_of_values
from pyhudi.metadata_table.file_ranges import rows_in_log
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec

_KEYS: Final = 60_000
_KEYS_MAX: Final = 100_000
_ERROR_RATE: Final = 1e-9
"""The size of filters in JVM Hudi, without options."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A function over a column. `column_type`: that of the column in the table, for files that do not have it."""

    function: str
    column: str
    column_type: pa.DataType
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> ValueKind:
        """How bounds of its values are kept."""
        return value_kind(result_type(self.function, self.column_type)) or ValueKind(ValueType.NULL, "")


@dataclass(frozen=True, slots=True)
class ValuesTask:
    """The files of one task, by paths relative to the table, and the expression over their rows."""

    storage: StorageSpec
    paths: tuple[str, ...]
    expression: Expression


def ranges_of_expression(context: TaskContext, task: ValuesTask) -> pa.RecordBatch:
    """The range of the expression in each file, as rows of `RANGES`. Cost: the column of base files; all of logs."""
    del context
    storage = open_spec(task.storage)
    found: dict[tuple[str, str], list[Range]] = {}
    for path in task.paths:
        partition_path, _, name = path.rpartition("/")
        found[partition_path, name] = [_range_of_file(storage, path, task.expression)]
    return ranges_batch(found)


def filters_of_expression(context: TaskContext, task: ValuesTask) -> tuple[tuple[str, str, str], ...]:
    """Path, type and text of a filter over the expression in each base file. Cost: the column. Memory: the filters."""
    del context
    storage = open_spec(task.storage)
    return tuple((path, *_filter_of_file(storage, path, task.expression)) for path in task.paths)


def _range_of_file(storage: Storage, path: str, expression: Expression) -> Range:
    total: Range | None = None
    try:
        for values, rows in _columns_of(storage, path, expression.column):
            more = _unknown(expression, rows) if values is None else _range_of(values, expression)
            total = more if total is None else united(total, more)
    except CorruptDataError:
        return _unknown(expression, 2)  # who reads its rows says so; until then it is not left out of any read
    return total or Range(expression.column, expression.kind, None, None, 0, 0)


def _unknown(expression: Expression, rows: int) -> Range:
    return Range(expression.column, expression.kind, None, None, max(rows, 2), None, is_open=True)


def _range_of(values: pa.Array, expression: Expression) -> Range:
    between = evaluated(expression.function, values, expression.options)
    kind = expression.kind
    if between is None:
        if FUNCTIONS[expression.function].keeps_nulls:
            nulls = values.null_count
            return Range(expression.column, kind, None, None, len(values), nulls, is_open=nulls < len(values))
        return _unknown(expression, len(values))
    low = range_of_values(expression.column, kind, between.low)
    if between.is_exact:
        return low
    high = range_of_values(expression.column, kind, between.high)
    return Range(expression.column, kind, low.low, high.high, low.values, low.nulls)


def _columns_of(storage: Storage, path: str, column: str) -> Iterator[tuple[pa.Array | None, int]]:
    """The values of the column, batch by batch, and how many; None in the place of those that are not known."""
    if isinstance(parse_data_file(path.rpartition("/")[2]), LogFileName):
        # Of all data blocks, also of those that a rollback took out. A block of some columns alone may lack this one.
        for rows in rows_in_log(storage, path, (column,)):
            if rows is None or column not in rows.schema.names:
                yield None, 2
            else:
                values = rows.column(column)
                yield values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values, rows.num_rows
        return
    with opened_base_file(storage, path) as (_, parquet):
        rows, has_column = parquet.metadata.num_rows, column in parquet.schema_arrow.names
    if not has_column:
        yield pa.nulls(rows), rows
        return
    for batch in read_batches(storage, path, columns=(column,)):
        yield batch.column(0), batch.num_rows


def _filter_of_file(storage: Storage, path: str, expression: Expression) -> tuple[str, str]:
    """A filter over the values, or one that excludes nothing where they are not known. Nulls are in no filter."""
    builder = BloomFilterBuilder(BloomFilterType.DYNAMIC_V0, _KEYS, _ERROR_RATE, _KEYS_MAX)
    try:
        for values, _ in _columns_of(storage, path, expression.column):
            texts = None if values is None else _texts_of(values.drop_null(), expression)
            if texts is None:
                return _full_filter()
            builder.add(texts)
    except CorruptDataError:
        return _full_filter()
    return BloomFilterType.DYNAMIC_V0.value, builder.to_text()


def _texts_of(values: pa.Array, expression: Expression) -> pa.StringArray | None:
    """What JVM Hudi puts into a filter; None where it is not known, or the value is empty."""
    if not len(values):
        return pa.array([], pa.string())
    between = evaluated(expression.function, values, expression.options)
    if between is None or not between.is_exact:
        return None
    found = between.low.drop_null()
    if pa.types.is_integer(found.type):
        return found.cast(pa.string())
    if not pa.types.is_string(found.type) or not pc.all(pc.greater(pc.binary_length(found), 0), min_count=0).as_py():
        return None
    return found


def _full_filter() -> tuple[str, str]:
    kind = BloomFilterType.SIMPLE
    return kind.value, BloomFilter(kind=kind, bits=64, hashes=1, rows=(np.full(8, 255, np.uint8),)).to_text()
