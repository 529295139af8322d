"""Sorting more rows than fit into memory: sorted runs on local disk, which are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.spilled_rows import SpilledRows
from pyhudi.format.pieces import reordered

KeysOf = Callable[[pa.RecordBatch], list[pa.Array]]
"""The values to compare rows by, one array after the other, ascending."""


def in_order(
    batches: Iterable[pa.RecordBatch], keys_of: KeysOf, *, run_bytes: int, head_bytes: int, spill_folder: str | None
) -> Iterator[pa.RecordBatch]:
    """The rows in order, in pieces of about `head_bytes`. All batches have one schema.

    `run_bytes`: what is sorted in memory at once. `head_bytes`: how much of each run is in memory while runs are
    merged. `spill_folder`: see `SpilledRows`. Memory: a run twice, then the heads twice. Rows that do not fit into one
    run go through local disk once.
    """
    with SpilledRows(spill_folder) as spilled:
        runs = 0
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            for piece in _pieces(batch, max(1, run_bytes // 4)):
                if size + piece.nbytes > run_bytes and waiting:
                    _spill(spilled, str(runs), sorted_batch(waiting, keys_of), head_bytes)
                    runs, size = runs + 1, 0
                waiting.append(piece)
                size += piece.nbytes
        if runs == 0:
            if waiting:
                yield from _pieces(sorted_batch(waiting, keys_of), head_bytes)
            return
        if waiting:
            _spill(spilled, str(runs), sorted_batch(waiting, keys_of), head_bytes)
            runs += 1
        yield from _merged([spilled.read(str(number)) for number in range(runs)], keys_of)


def sorted_batch(waiting: list[pa.RecordBatch], keys_of: KeysOf) -> pa.RecordBatch:
    """The rows of these batches in order. Empties the list, which would keep a second copy of them in memory."""
    rows = pa.concat_batches(waiting)
    waiting.clear()
    return rows.take(_ranks(keys_of(rows)))


def _pieces(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """The batch in parts of about so many bytes."""
    rows = max(1, int(batch.num_rows * size / max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


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


def _merged(runs: Iterable[Iterator[pa.RecordBatch]], keys_of: KeysOf) -> Iterator[pa.RecordBatch]:
    """The rows of sorted runs in order.

    Of all heads one ends first. Everything up to its last row can go, because what the runs still have comes later.
    """
    heads = [_Head(rows, keys_of(rows), rest) for rest in runs if (rows := next(rest, None)) is not None]
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
            _advance(head, count, keys_of)
        heads = [head for head in heads if head.rows.num_rows]
    for head in heads:
        yield head.rows
        yield from head.rest


def _advance(head: _Head, count: int, keys_of: KeysOf) -> None:
    """Drop the first rows of a head; if they are all, it takes what comes next in its run."""
    if count < head.rows.num_rows:
        head.rows, head.keys = head.rows.slice(count), [key.slice(count) for key in head.keys]
        return
    following = next(head.rest, None)
    head.rows = head.rows.slice(0, 0) if following is None else following
    head.keys = keys_of(head.rows)


def _joined(parts: Sequence[Sequence[pa.Array]]) -> list[pa.Array]:
    return [pa.concat_arrays(columns) for columns in zip(*parts, strict=True)]
