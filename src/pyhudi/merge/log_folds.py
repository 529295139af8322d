"""Which versions of a record in its logs count, where that is not plain order: as real Hudi's releases fold them.

Hudi reads the versions of a record one after the other, in the order in which they were written, and keeps one: a row,
or a delete. What comes next takes its place, or does not and is forgotten. Where every version is compared with every
other by the same rule, the topmost one is what comes of that, and `merge_versions` needs no more. Here is the rest:

- A delete without an ordering value stays that, whatever delete follows it.
- Releases up to 1.0.2 find most ordering values of deletes and of rows of unlike classes, and do not compare them.
- In version 6, a row that follows a delete takes its place, whatever the two ordering values are.
- Some payload classes compare rows by time of arrival, but deletes by ordering values.
- With partial updates, a row that comes late is below all rows before it, even below those that came late earlier.

Source: `docs/design/merge_on_read_facts.md`; the tables of `tests/golden/mor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.merge.pairs import Key, Mask, Rows, as_mask, ordering_keys, record_numbers
from pyhudi.merge.rules import OF_THE_WRITE, MergeRules
from pyhudi.merge.versions import BY_COMMIT_TIME, COLUMNS, DELETED, ordering_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFold:
    """What takes the place of what, when the versions of a record are read one after the other.

    Attributes:
        rows_compare: A row with lower ordering values than the row before it comes late; else no row does.
        deletes_compare: A delete with lower ordering values than the row before it does nothing, whatever their type;
            else only with values of some types, and with others every delete takes effect.
        dates_compare: Dates are among those types.
        rows_follow_deletes: A row takes the place of a delete whatever their ordering values are.
        lower_rows_show: Rows show through those that take their place (partial updates); else they are forgotten.
        late_rows_show: So does a row that comes late through those before it; else it does nothing.
        latest_write: The record is of the write of its latest row, also if that came late.
    """

    rows_compare: bool = True
    deletes_compare: bool = True
    dates_compare: bool = False
    rows_follow_deletes: bool = False
    lower_rows_show: bool = True
    late_rows_show: bool = True
    latest_write: bool = False

    def matters(self, rules: MergeRules, versions: pa.Table) -> bool:
        """Whether these versions, merged by the rules, may come out otherwise than in plain order."""
        return not (self.rows_compare and rules.selects) or _has_some(versions, DELETED) or _has_some(versions, COLUMNS)


def fold_versions(fold: LogFold, rules: MergeRules, versions: pa.Table) -> pa.Table:
    """The versions of each record that count, lowest first: what is left to do is to merge them as they stand.

    A record that ends as a delete has that one only; of one that is written again after a delete, none from before the
    delete is left, nor the delete. So the last version of each record is what it is, and with partial updates those
    before it show through.

    `rules`: how versions compare. `versions`: rows in order of arrival, with record keys, the ordering columns and the
    control columns of `merge_versions`. Cost: a few passes over these columns, and a copy of what is left.

    Raises `SchemaMismatchError` for an ordering column without an order.
    """
    records, count = record_numbers([versions.column(RECORD_KEY)])
    if count == len(records):
        return versions
    outcome = _read_in_turn(fold, _Versions.of(fold, rules, versions), records, count)
    if not fold.lower_rows_show:
        return versions.take(pa.array(outcome.kept))
    order = _visible(outcome, records)
    folded = versions.take(pa.array(order))
    if not fold.latest_write:
        return folded
    source = order.copy()
    is_kept = order == outcome.kept[records[order]]
    source[is_kept] = outcome.latest[records[order[is_kept]]]
    return _with_columns_of(folded, versions.take(pa.array(source)), OF_THE_WRITE)


@dataclass(frozen=True, slots=True)
class _Versions:
    """What is known of each row: whether it is a delete, one without an ordering value, and its place in the order.

    `deletes_compare`: whether deletes compare with rows.
    """

    deletes: Mask
    barrier: Mask
    rank: Rows
    deletes_compare: bool

    @classmethod
    def of(cls, fold: LogFold, rules: MergeRules, versions: pa.Table) -> _Versions:
        deletes = as_mask(versions.column(DELETED))
        without_values = np.ones(versions.num_rows, dtype=bool)
        for name in rules.ordering_fields:
            without_values &= as_mask(versions.column(name).is_null())
        barrier = deletes & (as_mask(versions.column(BY_COMMIT_TIME)) | without_values)
        ordering = ordering_columns(rules, versions)
        deletes_compare = fold.deletes_compare or all(_comparable(column.type, fold) for column in ordering)
        return cls(deletes, barrier, _ranks(ordering_keys(ordering), versions.num_rows), deletes_compare)


@dataclass(slots=True)
class _Outcome:
    """Per record, the version that is left, the last row that counts, and the last delete that did (-1: none).

    `late`: rows that are below those before them; `dropped`: versions that did nothing.
    """

    kept: Rows
    latest: Rows
    deleted_at: Rows
    late: Mask
    dropped: Mask


def _read_in_turn(fold: LogFold, versions: _Versions, records: Rows, count: int) -> _Outcome:
    """All records at once: of each its first version, then of each its second, and so on."""
    nowhere, nothing = np.full(count, -1, dtype=np.int64), np.zeros(len(records), dtype=bool)
    outcome = _Outcome(nowhere.copy(), nowhere.copy(), nowhere.copy(), nothing.copy(), nothing.copy())
    for new in _turns(records, count):
        record = records[new]
        takes_place = _takes_place(fold, versions, new, outcome.kept[record])
        deletes = versions.deletes[new]
        does_something = takes_place
        if fold.late_rows_show:
            does_something = takes_place | ~(deletes | versions.deletes[outcome.kept[record]])
        outcome.late[new] = does_something & ~takes_place
        outcome.dropped[new] = ~does_something
        outcome.latest[record[does_something]] = new[does_something]
        outcome.kept[record[takes_place]] = new[takes_place]
        outcome.deleted_at[record[takes_place & deletes]] = new[takes_place & deletes]
    return outcome


def _turns(records: Rows, count: int) -> Sequence[Rows]:
    """The rows with the first version of each record, those with the second version, and so on."""
    by_record = np.argsort(records, kind="stable")
    sizes = np.bincount(records, minlength=count)
    turn = np.arange(len(records)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    by_turn = by_record[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _takes_place(fold: LogFold, versions: _Versions, new: Rows, old: Rows) -> Mask:
    """Whether each of the new versions takes the place of the old one (-1: of none)."""
    is_not_lower = versions.rank[new] >= versions.rank[old]
    old_deletes, new_deletes = versions.deletes[old], versions.deletes[new]
    is_ordered = is_not_lower | (not versions.deletes_compare)
    delete_takes = versions.barrier[new] | (is_ordered & ~versions.barrier[old])
    after_delete = is_not_lower | versions.barrier[old] | fold.rows_follow_deletes
    after_row = is_not_lower if fold.rows_compare else np.ones(len(new), dtype=bool)
    takes_place = np.where(new_deletes, delete_takes, np.where(old_deletes, after_delete, after_row))
    return np.asarray((old < 0) | takes_place)


def _visible(outcome: _Outcome, records: Rows) -> Rows:
    """The rows that count, by record, lowest first: late ones below all before them, the others above."""
    rows = np.arange(len(records))
    counts = ~outcome.dropped & (rows > outcome.deleted_at[records])
    counts[outcome.kept] = True
    rows = rows[counts]
    place = np.where(outcome.late[rows], -rows, rows)
    return rows[np.lexsort([place, records[rows]])]


def _with_columns_of(rows: pa.Table, others: pa.Table, names: frozenset[str]) -> pa.Table:
    """`rows` with some columns of `others`, row by row, where both have them."""
    for at, name in enumerate(rows.schema.names):
        if name in names and name in others.schema.names:
            rows = rows.set_column(at, rows.schema.field(at), others.column(name))
    return rows


def _comparable(kind: pa.DataType, fold: LogFold) -> bool:
    """Whether releases up to 1.0.2 compare the ordering value of a delete with that of a row of this type.

    They compare values of one Java class. Text and decimals have one class in a delete, another in a row; so have dates
    in 0.15.0, while 1.0.2 takes those that are written as the numbers that they are in rows.
    """
    if pa.types.is_date32(kind):
        return fold.dates_compare
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_boolean)
    return any(check(kind) for check in checks)


def _has_some(versions: pa.Table, name: str) -> bool:
    """Whether a control column has a value, other than false, anywhere."""
    if name not in versions.schema.names:
        return False
    column = versions.column(name)
    return bool(as_mask(column).any()) if pa.types.is_boolean(column.type) else column.null_count < len(column)


def _ranks(keys: Sequence[Key], length: int) -> Rows:
    """Numbers that compare as rows do by several keys, the first of them first."""
    if len(keys) == 1:
        return keys[0].astype(np.int64)
    ranks = np.zeros(length, dtype=np.int64)
    if keys:
        order = np.lexsort(list(reversed(keys)))
        steps = np.zeros(length, dtype=bool)
        for key in keys:
            steps[1:] |= key[order[1:]] != key[order[:-1]]
        ranks[order] = np.cumsum(steps)
    return ranks
