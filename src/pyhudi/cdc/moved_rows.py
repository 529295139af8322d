"""Rows of PostgreSQL whose key changed, and of which Debezium did not send large values that did not change.

In place of such a value a message has a marker. A table keeps its stored value then, by the record key. But where the
key has changed, too, the stored value is that of the old key. The two changes of such an update, a delete of the old
key and an insert of the new one, are at one place of the log.

Debezium sends changes again when it was killed, and the old key may then have no row any more, or that of a later
insert. The row that the table has under the new key has the value then, as the change was in the table before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cdc.event_columns import DELETE, OPERATION
from pyhudi.cdc.unavailable import with_one_marker
from pyhudi.errors import InvalidRequestError
from pyhudi.merge.pairs import Mask, Rows, choose, grouped, incoming_wins, ordering_keys, record_numbers, stacked

_NONE: Final = -1
INSERT: Final = "c"


def fill_moved_rows(
    rows: pa.Table, keys: Sequence[str], ordering: Sequence[str], stored: Callable[[pa.Table], pa.Table] | None
) -> pa.Table:
    """The rows with the values of their old keys' rows. Raises as `flatten`.

    Cost: one call of `stored`, if needed, and one for each column of changes that were sent again.
    """
    rows, markers = with_one_marker(rows)
    is_insert = pc.equal(rows[OPERATION], INSERT).to_numpy()
    is_delete = pc.equal(rows[OPERATION], DELETE).to_numpy()
    wanted = {name: mask & is_insert for name, mask in markers.items() if (mask & is_insert).any()}
    if not wanted:
        return rows
    changes = _Changes.of(rows, keys, ordering, is_insert, is_delete)
    sources = {name: changes.sources(markers[name], np.flatnonzero(mask)) for name, mask in wanted.items()}
    asked = np.unique(np.concatenate([source.stored for source in sources.values()]))
    asked = asked[asked != _NONE]
    answer = _answer(rows, keys, asked, stored)
    for name, source in sources.items():
        needed = ~changes.is_settled_later(markers[name], source.rows)
        values = _values(rows, name, source, asked, answer, ordering)
        if (needed & (values.rows == _NONE)).any():
            values = _with_new_keys(rows, keys, name, source, needed, values, ordering, stored)
        rows = _filled(rows, name, source, needed, values)
    return rows


@dataclass(frozen=True, slots=True)
class _Sources:
    """For each of `rows` the row that has its missing values: in the batch (`inside`), or the `stored` one."""

    rows: Rows
    inside: Rows
    stored: Rows


@dataclass(frozen=True, slots=True)
class _Changes:
    """The changes of a batch. `order`: by key and place; `moved_from`: for inserts, the delete of the same update."""

    order: Rows
    starts: Rows
    group: Rows
    moved_from: Rows
    is_delete: Mask

    @classmethod
    def of(
        cls, rows: pa.Table, keys: Sequence[str], ordering: Sequence[str], is_insert: Mask, is_delete: Mask
    ) -> _Changes:
        records, count = record_numbers([rows[name] for name in keys])
        order, starts = grouped(records, count, ordering_keys([rows[name] for name in ordering]))
        places, place_count = record_numbers([rows[name] for name in ordering])
        delete_at = np.full(place_count, _NONE, np.int64)
        delete_at[places[is_delete]] = np.flatnonzero(is_delete)
        return cls(order, starts, records, np.where(is_insert, delete_at[places], _NONE), is_delete)

    def sources(self, is_marker: Mask, rows: Rows) -> _Sources:
        """Where the values of inserts with a marker come from. One step for each change of a key that a row had."""
        is_known = ~is_marker & ~self.is_delete
        is_stop = is_known | (is_marker & (self.moved_from != _NONE))
        before = self._last_before(is_stop)
        first = self.order[self.starts[:-1]]
        inside = np.full(len(rows), _NONE, np.int64)
        stored = np.full(len(rows), _NONE, np.int64)
        left, deletes = np.arange(len(rows)), self.moved_from[rows]
        left, deletes = left[deletes != _NONE], deletes[deletes != _NONE]
        while left.size:
            stops = before[deletes]
            is_first = stops == _NONE
            stored[left[is_first]] = first[self.group[deletes[is_first]]]
            left, stops = left[~is_first], stops[~is_first]
            ends = is_known[stops]
            inside[left[ends]] = stops[ends]
            left, deletes = left[~ends], self.moved_from[stops[~ends]]
        return _Sources(rows, inside, stored)

    def is_settled_later(self, is_marker: Mask, rows: Rows) -> Mask:
        """Whether a later change of the batch deletes the row, or says the value, so that none is needed before."""
        settles = self.is_delete | ~is_marker
        places = np.empty(len(self.order), np.int64)
        places[self.order] = np.arange(len(self.order))
        last = np.full(len(self.starts) - 1, _NONE, np.int64)
        np.maximum.at(last, self.group[settles], places[settles])
        found: Mask = last[self.group[rows]] > places[rows]
        return found

    def _last_before(self, is_stop: Mask) -> Rows:
        """For each row the last of these before it that has its key."""
        at = np.where(is_stop[self.order], np.arange(len(self.order)), _NONE)
        last = np.concatenate([[_NONE], np.maximum.accumulate(at)[:-1]])
        begins = np.repeat(self.starts[:-1], np.diff(self.starts))
        found = np.empty(len(self.order), np.int64)
        found[self.order] = np.where(last >= begins, self.order[np.maximum(last, 0)], _NONE)
        return found


def _answer(
    rows: pa.Table, keys: Sequence[str], asked: Rows, stored: Callable[[pa.Table], pa.Table] | None
) -> tuple[pa.Table, Rows] | None:
    """The stored rows with the keys of these rows, and for each of these the number of its stored row."""
    if not asked.size or stored is None:
        return None
    wanted = rows.select(list(keys)).take(pa.array(asked))
    found = stored(wanted)
    numbers, count = record_numbers([stacked(wanted[name], found[name]) for name in keys])
    row_of = np.full(count, _NONE, np.int64)
    row_of[numbers[len(asked) :]] = np.arange(found.num_rows)
    return found, row_of[numbers[: len(asked)]]


@dataclass(frozen=True, slots=True)
class _Values:
    """For each of some rows the number of its value in `pool`; -1 where there is none."""

    rows: Rows
    pool: Any


def _values(
    rows: pa.Table,
    name: str,
    source: _Sources,
    asked: Rows,
    answer: tuple[pa.Table, Rows] | None,
    ordering: Sequence[str],
) -> _Values:
    """The values of the old keys' rows. A stored row that is newer than the change is that of a later insert."""
    take, values = source.inside.copy(), rows[name]
    if answer is None or name not in answer[0].column_names:
        return _Values(take, values)
    found, row_of = answer
    has_stored = np.flatnonzero(source.stored != _NONE)
    at = row_of[np.searchsorted(asked, source.stored[has_stored])]
    is_known = at != _NONE
    is_later = np.zeros(len(at), bool)
    of_stored = _places(found, at[is_known], ordering)
    of_changes = _places(rows, source.rows[has_stored[is_known]], ordering)[: len(of_stored)]
    is_later[is_known] = ~incoming_wins(of_changes, of_stored, len(at[is_known]))
    take[has_stored] = np.where(is_known & ~is_later, at + len(values), _NONE)
    return _Values(take, stacked(values, found[name]))


def _places(rows: pa.Table, chosen: Rows, ordering: Sequence[str]) -> list[pa.ChunkedArray]:
    """Where some rows are in the log of the database; nothing, which is as new as all, where they do not say it."""
    return [rows[name].take(pa.array(chosen)) for name in ordering if name in rows.column_names]


def _with_new_keys(
    rows: pa.Table,
    keys: Sequence[str],
    name: str,
    source: _Sources,
    needed: Mask,
    values: _Values,
    ordering: Sequence[str],
    stored: Callable[[pa.Table], pa.Table] | None,
) -> _Values:
    """The values with those of the new keys' stored rows, where these are of the same change or a later one."""
    which = np.flatnonzero(needed & (values.rows == _NONE))
    answer = _answer(rows, keys, source.rows[which], stored)
    if answer is None or not {name, *ordering} <= set(answer[0].column_names):
        return values
    found, row_of = answer
    which, at = which[row_of != _NONE], row_of[row_of != _NONE]
    of_stored = _places(found, at, ordering)
    is_same = incoming_wins(of_stored, _places(rows, source.rows[which], ordering), len(at))
    take = values.rows.copy()
    take[which[is_same]] = at[is_same] + len(values.pool)
    return _Values(take, stacked(values.pool, found[name]))


def _filled(rows: pa.Table, name: str, source: _Sources, needed: Mask, values: _Values) -> pa.Table:
    missing = np.flatnonzero(needed & (values.rows == _NONE))
    if missing.size:
        row = int(source.rows[missing[0]])
        raise InvalidRequestError(
            "the key of a row changed, and a large value that did not change is neither sent nor stored under the old "
            "key: give the source table the replica identity FULL, and let it send the row again",
            column=name,
            row=row,
        )
    is_known = values.rows != _NONE
    places = np.zeros(rows.num_rows, np.int64)
    places[source.rows[is_known]] = values.rows[is_known]
    chosen = np.zeros(rows.num_rows, bool)
    chosen[source.rows[is_known]] = True
    filled = choose(chosen, values.pool.take(pa.array(places)), rows[name])
    return rows.set_column(rows.column_names.index(name), rows.schema.field(name), filled)
