"""The order of rows by columns: nulls first, then values in ascending order, NaN last, as Spark sorts.

Rows that are equal in all sort columns stay in no particular order.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.options_clustering import LayoutStrategy
from pyhudi.engine.sorted_runs import in_order
from pyhudi.errors import ConfigError
from pyhudi.format.schema.type_at import type_at
from pyhudi.tasks.curves import Curve, check_curve, sampled

RUN_BYTES: Final = 192 * 1024 * 1024
"""Rows that are sorted in memory at once. Sorting them takes twice as much."""
HEAD_BYTES: Final = 2 * 1024 * 1024
"""Of each run so much is in memory while runs are merged, or less where there are many."""
HEADS_BYTES_MAX: Final = 256 * 1024 * 1024
"""All runs together."""
_ARROW_PER_STORED_BYTE: Final = 8
"""How many times larger than its file a Parquet file is in memory, for the estimate of the number of runs."""


@dataclass(frozen=True, slots=True)
class SortOrder:
    """The order of rows by some columns; without columns rows stay as they are.

    A column may be a field of a struct, `address.city`. `layout`: LINEAR is by the first column, then by the second,
    and so on; the others are along a `curve`, if there are several columns. It is made of a sample: `along_curve`.
    """

    columns: tuple[str, ...] = ()
    layout: LayoutStrategy = LayoutStrategy.LINEAR
    curve: Curve | None = None

    @property
    def needs_curve(self) -> bool:
        """Whether rows cannot be sorted before there is a curve. By one column, all layouts are the same."""
        return self.layout is not LayoutStrategy.LINEAR and len(self.columns) > 1

    def along_curve(self, batches: Iterable[pa.RecordBatch], size: int) -> SortOrder:
        """The order with a curve for rows that are distributed like these, made of at least `size` of them."""
        sample = sampled((self.columns_of(batch) for batch in batches), size)
        columns = sample.columns if sample is not None else [pa.nulls(0)] * len(self.columns)
        return replace(self, curve=Curve.of_sample(self.layout, columns))

    def columns_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns to sort by."""
        return pa.RecordBatch.from_arrays([_values_of(rows, name) for name in self.columns], names=self.columns)


def check_sort_columns(schema: pa.Schema, order: SortOrder) -> None:
    """Raise `ConfigError` for sort columns that the table does not have, or that have no order, or for too many."""
    if order.needs_curve:
        check_curve(len(order.columns))
    for name in order.columns:
        kind = type_at(schema, name)
        if kind is None:
            near = difflib.get_close_matches(name, schema.names, n=1)
            raise ConfigError(
                f"the table has no column {name!r} to sort by" + (f": did you mean {near[0]!r}?" if near else ""),
                column=name,
                columns=schema.names,
            )
        if pa.types.is_nested(kind):
            raise ConfigError(f"rows cannot be sorted by {name!r}, whose type is {kind}", column=name)


def sort_keys(rows: pa.RecordBatch, order: SortOrder) -> list[pa.Array]:
    """The values to compare rows by, one array after the other, ascending: of a curve the positions of the rows.

    Otherwise each column gives two. The first is 0 for null, 1 for a value and 2 for NaN, which Arrow would put
    elsewhere.
    """
    if order.curve is not None:
        return [order.curve.positions(order.columns_of(rows).columns)]
    keys: list[pa.Array] = []
    for name in order.columns:
        values = _values_of(rows, name)
        kinds = values.is_valid().cast(pa.int8())
        if pa.types.is_floating(values.type):
            is_nan = pc.fill_null(pc.is_nan(values), False)
            kinds = pc.add(kinds, is_nan.cast(pa.int8()))
            values = pc.if_else(is_nan, pa.scalar(0, values.type), values)
        elif pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        keys += [kinds, values]
    return keys


def _values_of(rows: pa.RecordBatch, name: str) -> pa.Array:
    first, *rest = name.split(".") if name not in rows.schema.names else (name,)
    values = rows.column(first)
    for field in rest:
        values = pc.struct_field(values, field)
    return values


def sorted_rows(
    batches: Iterable[pa.RecordBatch], order: SortOrder, *, stored_bytes: int, spill_folder: str | None
) -> Iterator[pa.RecordBatch]:
    """The rows in order. All batches have one schema.

    `stored_bytes`: about the size of the files that they come from. `spill_folder`: see `SpilledRows`. Memory:
    `RUN_BYTES` twice, then `HEADS_BYTES_MAX` twice. Rows that do not fit into one run go through local disk once.
    """
    return in_order(
        batches,
        functools.partial(sort_keys, order=order),
        run_bytes=RUN_BYTES,
        head_bytes=_head_bytes(stored_bytes),
        spill_folder=spill_folder,
    )


def _head_bytes(stored_bytes: int) -> int:
    runs = max(1, stored_bytes * _ARROW_PER_STORED_BYTE // RUN_BYTES)
    return max(1, min(HEAD_BYTES, HEADS_BYTES_MAX // runs))
