"""Sorting more rows than fit into memory: sorted runs on local disk, which are merged.

Nulls come first, then values in ascending order, NaN last, as Spark sorts. Rows that are equal in all sort columns
stay in no particular order.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.options_clustering import LayoutStrategy
from pyhudi.engine.spilled_rows import SpilledRows
from pyhudi.errors import ConfigError
from pyhudi.format.pieces import reordered
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
    head_bytes = _head_bytes(stored_bytes)
    with SpilledRows(spill_folder) as spilled:
        runs = 0
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            for piece in _pieces(batch, RUN_BYTES // 4):
                if size + piece.nbytes > RUN_BYTES and waiting:
                    _spill(spilled, str(runs), _sorted(waiting, order), head_bytes)
                    runs, size = runs + 1, 0
                waiting.append(piece)
                size += piece.nbytes
        if runs == 0:
            if waiting:
                yield from _pieces(_sorted(waiting, order), head_bytes)
            return
        if waiting:
            _spill(spilled, str(runs), _sorted(waiting, order), head_bytes)
            runs += 1
        yield from _merged([spilled.read(str(number)) for number in range(runs)], order)


def _head_bytes(stored_bytes: int) -> int:
    runs = max(1, stored_bytes * _ARROW_PER_STORED_BYTE // RUN_BYTES)
    return max(1, min(HEAD_BYTES, HEADS_BYTES_MAX // runs))


def _pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of about so many bytes."""
    rows = max(1, int(batch.num_rows * size / max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _sorted(waiting: list[pa.RecordBatch], order: SortOrder) -> pa.RecordBatch:
    """The rows of these batches in order. Empties the list, which would keep a second copy of them in memory."""
    rows = pa.concat_batches(waiting)
    waiting.clear()
    return rows.take(_ranks(sort_keys(rows, order)))


def _spill(spilled: SpilledRows, name: str, rows: pa.RecordBatch, head_bytes: int) -> None:
    for piece in _pieces(rows, head_bytes):
        spilled.write(name, piece)


def _ranks(keys: Sequence[pa.Array]) -> pa.Array:
    """The numbers of rows in their order; equal rows stay in theirs."""
    names = [str(number) for number in range(len(keys))]
    by = [(name, "ascending") for name in names]
    return pc.sort_indices(pa.RecordBatch.from_arrays(list(keys), names), sort_keys=by)


@dataclass(slots=True)
class _Head:
    """What is in memory of a run: rows in order, and their keys."""

    rows: pa.RecordBatch
    keys: list[pa.Array]
    rest: Iterator[pa.RecordBatch]

    def part_of_keys(self, start: int) -> list[pa.Array]:
        return [key.slice(start, 1) for key in self.keys]


def _merged(runs: Iterable[Iterator[pa.RecordBatch]], order: SortOrder) -> Iterator[pa.RecordBatch]:
    """The rows of sorted runs in order.

    Of all heads one ends first. Everything up to its last row can go, because what the runs still have comes later.
    """
    heads = [_Head(rows, sort_keys(rows, order), rest) for rest in runs if (rows := next(rest, None)) is not None]
    while len(heads) > 1:
        ends = [head.part_of_keys(head.rows.num_rows - 1) for head in heads]
        first_end = _ranks(_joined(ends))[0].as_py()
        ending = heads[first_end]
        # The end of a head comes last among rows that are equal to it, so that these go with it.
        begins = [head.part_of_keys(0) for head in heads]
        ranks = _ranks(_joined([*begins, ends[first_end]])).to_numpy()
        before = ranks[: np.flatnonzero(ranks == len(heads))[0]].tolist()
        taking = [*(heads[number] for number in before if number != first_end), ending]
        ranks = _ranks(_joined([head.keys for head in taking])).to_numpy()
        total = sum(head.rows.num_rows for head in taking)
        chosen = ranks[: np.flatnonzero(ranks == total - 1)[0] + 1]
        rows = pa.Table.from_batches([head.rows for head in taking])
        yield from reordered(rows, chosen.astype(np.int64)).to_batches()
        bounds = np.cumsum([0, *(head.rows.num_rows for head in taking)])
        counts, _ = np.histogram(chosen, bounds)
        for head, count in zip(taking, counts.tolist(), strict=True):
            _advance(head, count, order)
        heads = [head for head in heads if head.rows.num_rows]
    for head in heads:
        yield head.rows
        yield from head.rest


def _advance(head: _Head, count: int, order: SortOrder) -> None:
    """Drop the first rows of a head; if they are all, it takes what comes next in its run."""
    if count < head.rows.num_rows:
        head.rows, head.keys = head.rows.slice(count), [key.slice(count) for key in head.keys]
        return
    following = next(head.rest, None)
    head.rows = head.rows.slice(0, 0) if following is None else following
    head.keys = sort_keys(head.rows, order)


def _joined(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    return [pa.concat_arrays(columns) for columns in zip(*parts, strict=True)]
