"""Rows of PostgreSQL whose key changed (`moved_rows.py`), of a batch in parts, two of which may have one update.

Such rows are few, and so are the rows that have their missing values: those with the old and the new keys. They are
taken out of all parts, filled together, and put back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import DELETE, OPERATION
from pyhudi.cdc.moved_rows import INSERT, fill_moved_rows
from pyhudi.cdc.unavailable import with_one_marker
from pyhudi.merge.pairs import Mask, choose, record_numbers, stacked

ROW: Final = "_row_of_part"
"""The column that says which row of its part each is."""


def inserts_without_values(rows: pa.Table, names: Sequence[str]) -> tuple[pa.Table, list[str]]:
    """Keys and places of the inserts that lack a value, and the columns that it is of. `names`: of keys and places."""
    _, markers = with_one_marker(rows)
    is_insert = pc.equal(rows[OPERATION], INSERT).to_numpy()
    columns = [name for name, mask in markers.items() if (mask & is_insert).any()]
    lacks = np.zeros(rows.num_rows, bool)
    for name in columns:
        lacks |= markers[name] & is_insert
    return rows.select(names).filter(pa.array(lacks)), columns


def deleted_at(rows: pa.Table, names: Sequence[str], places: pa.Table) -> pa.Table:
    """Keys and places of the deletes that are at one of these places of the log."""
    is_delete = pc.equal(rows[OPERATION], DELETE).to_numpy()
    return rows.select(names).filter(pa.array(is_delete & _are_among(rows, places)))


def rows_with_keys(rows: pa.Table, names: Sequence[str], keys: pa.Table) -> pa.Table:
    """The rows of a part with one of these keys, with those of the columns `names` that they have, for `filled`."""
    found = np.flatnonzero(_are_among(rows, keys))
    known = [name for name in rows.column_names if name in names]
    return rows.select(known).take(pa.array(found)).append_column(ROW, pa.array(found))


def filled(
    rows: pa.Table, keys: Sequence[str], ordering: Sequence[str], stored: Callable[[pa.Table], pa.Table] | None
) -> pa.Table:
    """The rows of all parts that have the keys, those of a part in its order: see `fill_moved_rows`."""
    return fill_moved_rows(rows.drop([ROW]), keys, ordering, stored).append_column(ROW, rows[ROW])


def with_filled(rows: pa.Table, found: pa.Table) -> pa.Table:
    """The rows of a part, with what `filled` has found for some of them: the columns that lacked values, and `ROW`."""
    places = found[ROW].to_numpy()
    chosen, source = np.zeros(rows.num_rows, bool), np.zeros(rows.num_rows, np.int64)
    chosen[places], source[places] = True, np.arange(len(places))
    for name in found.column_names:
        if name != ROW and name in rows.column_names:
            values = choose(chosen, found[name].take(pa.array(source)), rows[name])
            rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), values)
    return rows


def _are_among(rows: pa.Table, wanted: pa.Table) -> Mask:
    """Which rows have the values of one of the wanted rows in all of its columns."""
    numbers, _ = record_numbers([stacked(rows[name], wanted[name]) for name in wanted.column_names])
    found: Mask = np.isin(numbers[: rows.num_rows], numbers[rows.num_rows :])
    return found
