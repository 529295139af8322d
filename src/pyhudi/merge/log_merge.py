"""Log merge rules: which versions in the logs count where JVM Hudi's result is not that of plain order.

JVM Hudi reads the versions of a record in the order of writing and keeps one, a row or a delete. Each next version
replaces the kept one, or is dropped. If one rule compares all versions, the topmost version wins, and `merge_versions`
is enough. This module handles the other cases, which `docs/design/merge_on_read_facts.md` lists:

- A delete without an ordering value stays one, whatever deletes follow.
- Releases up to 1.0.2 see the ordering values of a delete and of a row as different Java classes in most cases, and do
  not compare them.
- In version 6, a row that follows a delete replaces it, whatever the two ordering values are.
- Some payload classes compare rows by arrival, but deletes by ordering values.
- With partial updates, a late row is below all rows before it, even below those that were late themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.merge.control_columns import BY_COMMIT_TIME, COLUMNS, DELETED
from pyhudi.merge.pairs import Key, Mask, Rows, as_mask, ordering_keys, record_numbers
from pyhudi.merge.rules import OF_THE_WRITE, MergeRules
from pyhudi.merge.versions import ordering_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMergeRule:
    """When a version replaces the previous one, if the versions of a record are read one after the other.

    Attributes:
        rows_compare: A row with lower ordering values than the previous row is late. If false, no row is late.
        deletes_compare: A delete with lower ordering values than the previous row has no effect, whatever their type.
            If false, this holds for some types only; with values of other types every delete takes effect.
        dates_compare: Dates are among those types.
        rows_follow_deletes: A row replaces a delete, whatever their ordering values are.
        lower_rows_show: Rows show through those that replace them (partial updates). If false, they are dropped.
        late_rows_show: A late row shows through the rows before it. If false, it has no effect.
        latest_write: The record carries the meta columns of its latest row, even if that row was late.
    """

    rows_compare: bool = True
    deletes_compare: bool = True
    dates_compare: bool = False
    rows_follow_deletes: bool = False
    lower_rows_show: bool = True
    late_rows_show: bool = True
    latest_write: bool = False

    def matters(self, rules: MergeRules, versions: pa.Table) -> bool:
        """Whether the result for these versions may differ from that of plain order."""
        return not (self.rows_compare and rules.selects) or _has_some(versions, DELETED) or _has_some(versions, COLUMNS)


def apply_log_merge_rule(log_rule: LogMergeRule, rules: MergeRules, versions: pa.Table) -> pa.Table:
    """The versions of each record that count, lowest first, to be merged without further comparison.

    If the result for a record is a delete, only that delete is returned. If a record is written again after a delete,
    the delete and everything before it are left out. So the last version of each record is its result, and with partial
    updates the versions before it show through.

    Args:
        log_rule: When a version replaces the previous one.
        rules: How versions compare.
        versions: Rows in order of arrival, with record keys, the ordering columns and the control columns of
            `merge_versions`.

    Raises:
        SchemaMismatchError: the type of an ordering column has no order.

    Cost: a few passes over these columns, and a copy of the result.
    """
    records, count = record_numbers([versions.column(RECORD_KEY)])
    if count == len(records):
        return versions
    outcome = _read_in_turn(log_rule, _Versions.of(log_rule, rules, versions), records, count)
    if not log_rule.lower_rows_show:
        return versions.take(pa.array(outcome.kept))
    order = _visible(outcome, records)
    counted = versions.take(pa.array(order))
    if not log_rule.latest_write:
        return counted
    source = order.copy()
    is_kept = order == outcome.kept[records[order]]
    source[is_kept] = outcome.latest[records[order[is_kept]]]
    return _with_columns_of(counted, versions.take(pa.array(source)), OF_THE_WRITE)


@dataclass(frozen=True, slots=True)
class _Versions:
    """Per row, whether it is a delete, whether it is one without an ordering value, and its rank in the order.

    `deletes_compare`: whether deletes compare with rows.
    """

    deletes: Mask
    barrier: Mask
    rank: Rows
    deletes_compare: bool

    @classmethod
    def of(cls, log_rule: LogMergeRule, rules: MergeRules, versions: pa.Table) -> _Versions:
        deletes = as_mask(versions.column(DELETED))
        without_values = np.ones(versions.num_rows, dtype=bool)
        for name in rules.ordering_fields:
            without_values &= as_mask(versions.column(name).is_null())
        barrier = deletes & (as_mask(versions.column(BY_COMMIT_TIME)) | without_values)
        ordering = ordering_columns(rules, versions)
        deletes_compare = log_rule.deletes_compare or all(_comparable(column.type, log_rule) for column in ordering)
        return cls(deletes, barrier, _ranks(ordering_keys(ordering), versions.num_rows), deletes_compare)


@dataclass(slots=True)
class _Outcome:
    """The result of reading all versions: per record the kept version, and the last row and delete with an effect.

    -1 stands for none. `late` marks rows that are below the rows before them, `dropped` versions without effect.
    """

    kept: Rows
    latest: Rows
    deleted_at: Rows
    late: Mask
    dropped: Mask


def _read_in_turn(log_rule: LogMergeRule, versions: _Versions, records: Rows, count: int) -> _Outcome:
    """Read all records in parallel: the first version of each, then the second of each, and so on."""
    none, nothing = np.full(count, -1, dtype=np.int64), np.zeros(len(records), dtype=bool)
    outcome = _Outcome(none.copy(), none.copy(), none.copy(), nothing.copy(), nothing.copy())
    for new in _turns(records, count):
        record = records[new]
        replaces = _replaces(log_rule, versions, new, outcome.kept[record])
        deletes = versions.deletes[new]
        has_effect = replaces
        if log_rule.late_rows_show:
            has_effect = replaces | ~(deletes | versions.deletes[outcome.kept[record]])
        outcome.late[new] = has_effect & ~replaces
        outcome.dropped[new] = ~has_effect
        outcome.latest[record[has_effect]] = new[has_effect]
        outcome.kept[record[replaces]] = new[replaces]
        outcome.deleted_at[record[replaces & deletes]] = new[replaces & deletes]
    return outcome


def _turns(records: Rows, count: int) -> Sequence[Rows]:
    """The row numbers of the first versions of all records, of the second versions, and so on."""
    by_record = np.argsort(records, kind="stable")
    sizes = np.bincount(records, minlength=count)
    turn = np.arange(len(records)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    by_turn = by_record[np.argsort(turn, kind="stable")]
    return np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


def _replaces(log_rule: LogMergeRule, versions: _Versions, new: Rows, old: Rows) -> Mask:
    """A mask of the new versions that replace the old ones (-1: there is none)."""
    is_not_lower = versions.rank[new] >= versions.rank[old]
    old_deletes, new_deletes = versions.deletes[old], versions.deletes[new]
    is_ordered = is_not_lower | (not versions.deletes_compare)
    delete_replaces = versions.barrier[new] | (is_ordered & ~versions.barrier[old])
    after_delete = is_not_lower | versions.barrier[old] | log_rule.rows_follow_deletes
    after_row = is_not_lower if log_rule.rows_compare else np.ones(len(new), dtype=bool)
    replaces = np.where(new_deletes, delete_replaces, np.where(old_deletes, after_delete, after_row))
    return np.asarray((old < 0) | replaces)


def _visible(outcome: _Outcome, records: Rows) -> Rows:
    """The rows that count, by record, lowest first: a late row below all rows before it, any other above them."""
    rows = np.arange(len(records))
    counts = ~outcome.dropped & (rows > outcome.deleted_at[records])
    counts[outcome.kept] = True
    rows = rows[counts]
    position = np.where(outcome.late[rows], -rows, rows)
    return rows[np.lexsort([position, records[rows]])]


def _with_columns_of(rows: pa.Table, others: pa.Table, names: frozenset[str]) -> pa.Table:
    """`rows` with some columns replaced by those of `others`, if both have them."""
    for at, name in enumerate(rows.schema.names):
        if name in names and name in others.schema.names:
            rows = rows.set_column(at, rows.schema.field(at), others.column(name))
    return rows


def _comparable(kind: pa.DataType, log_rule: LogMergeRule) -> bool:
    """Whether releases up to 1.0.2 compare the ordering value of a delete with that of a row of this type.

    They only compare values of one Java class. Text and decimals have different classes in a delete and in a row. So do
    dates in 0.15.0; 1.0.2 compares dates that the delete holds as numbers, as rows do.
    """
    if pa.types.is_date32(kind):
        return log_rule.dates_compare
    checks = (pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_boolean)
    return any(check(kind) for check in checks)


def _has_some(versions: pa.Table, name: str) -> bool:
    """Whether a control column has any value other than false."""
    if name not in versions.schema.names:
        return False
    column = versions.column(name)
    return bool(as_mask(column).any()) if pa.types.is_boolean(column.type) else column.null_count < len(column)


def _ranks(keys: Sequence[Key], length: int) -> Rows:
    """Numbers that compare as rows do by several keys; the first key is the major one."""
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
