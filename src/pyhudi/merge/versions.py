"""Merging versions of records: within a batch, among log records, and of log records with the rows of a base file.

All of it is one operation, a fold. The versions of a record are put in order, lowest first: by their ordering values
where the table has ordering fields, those with equal values and those of other tables as they arrived. A delete is a
version like any other, and hides what is below it. The topmost version is the record; with partial updates, or rows
that say some columns only, values of lower ones show through it. A delete without an ordering value (in a table without
ordering fields, every delete) is a barrier: it hides all that arrived before it and is below all that came later.

A merged row is a version again, so merging can go in steps: what it hides is kept in its control columns. The result is
that of one step, with one exception that it shares with Hudi: a partial update that arrives late, between versions that
were merged already, is above or below the merged row as a whole, as that has one ordering value for all its columns.

Source: `format/logs-and-indexes.md` 1.5, 1.7; mission rows S3-21, S3-30, S3-34, S3-35.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import InternalError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.pieces import one_batch
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.merge.pairs import (
    Column,
    Key,
    Mask,
    Rows,
    as_mask,
    choose,
    flattened,
    grouped,
    incoming_wins,
    ordering_keys,
    record_numbers,
    stacked,
)
from pyhudi.merge.rules import OF_THE_WRITE, MergeRules, merge_by

DELETED: Final = "#deleted"
"""Control column, bool: the version deletes its record. Absent or null: it does not."""
BY_COMMIT_TIME: Final = "#by_commit_time"
"""Control column, bool: a delete without an ordering value. It is a barrier."""
COLUMNS: Final = "#columns"
"""Control column, int32: the columns that the row says, null for all. A number from 0 is an index into the
`column_sets` that go with it; below 0, the union of the sets whose bits are set in its complement (`said_columns`)."""
FRESH: Final = "#fresh"
"""Control column, bool, of merged rows: there was a barrier, so a version from before does not count."""
HIDES: Final = "#hides"
"""Control column, struct of the ordering fields, of merged rows: the ordering values of a delete below this version;
null: none. A version from before with values up to these does not show through."""
CONTROL_COLUMNS: Final = (DELETED, BY_COMMIT_TIME, COLUMNS, FRESH, HIDES)

_MOST_COLUMN_SETS = 31
"""As many unions as `COLUMNS` has bits for; MERGE INTO writes one set per shape of statement."""


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """What becomes of stored rows that incoming versions met, pair by pair.

    `stays`: the stored row is unchanged; `deleted`: the record is gone; `rows`: the new version of each other pair, in
    order, with the data columns of the incoming rows.
    """

    stays: Mask
    deleted: Mask
    rows: pa.RecordBatch


def merge_versions(
    rules: MergeRules, versions: pa.Table, identity: Sequence[str], *, column_sets: Sequence[frozenset[str]] = ()
) -> pa.Table:
    """One version per record, in order of first appearance.

    Args:
        rules: How the table merges.
        versions: Rows in order of arrival, oldest first. Control columns may be among them, also those of merged rows.
            A missing ordering column is one of nulls.
        identity: The columns whose values make a record.
        column_sets: What the numbers in `COLUMNS` mean.

    Returns:
        The columns of `versions` in their order, and `DELETED`, `FRESH` and, where partial rows have an ordering,
        `HIDES`, if they were not among them. A record that is deleted has a row, too.

    Raises:
        SchemaMismatchError: an ordering column has no order; the merger returned other columns.
        InvalidRequestError: the merger returned other records.
        UnsupportedFeatureError: partial rows under a custom merger, or more than 31 column sets.

    Cost: n log n in the rows of records with several versions; one pass over each column.
    """
    sets = _ColumnSets.of(rules, versions, column_sets)
    records, count = record_numbers([versions.column(name) for name in identity])
    steps = _Steps.of(rules, versions, records)
    runs = _Runs.of(steps, count)
    fresh = np.zeros(count, dtype=bool)
    fresh[steps.record[steps.barrier]] = True
    control = {DELETED: pa.array(steps.deleted[runs.tops]), FRESH: pa.array(fresh)}
    if rules.merger is not None:
        merged = _merge_in_pairs(rules, versions, identity, steps, runs)
    elif rules.selects and not sets.are_used:
        merged = versions if count == len(records) else versions.take(pa.array(steps.row[runs.tops]))
    else:
        visible = _Visible.of(steps, runs)
        merged = _merge_by_column(rules, versions, sets, steps, runs, visible)
        if COLUMNS in versions.schema.names:
            control[COLUMNS] = sets.of_runs(steps, runs, visible)
        if rules.ordering_fields:
            control[HIDES] = _hidden(rules, steps, visible)
    for name, values in control.items():
        merged = _with_column(merged, name, values)
    return merged


def merge_pairs(
    rules: MergeRules,
    stored: pa.RecordBatch,
    incoming: pa.RecordBatch,
    *,
    column_sets: Sequence[frozenset[str]] = (),
) -> PairOutcome:
    """What becomes of stored rows: row `i` of both sides are one record.

    Args:
        rules: How the table merges.
        stored: Live rows, each with all its columns. One that it lacks is null.
        incoming: Later versions, one per record, with control columns where they come from `merge_versions`.
        column_sets: What the numbers in `COLUMNS` mean.

    Raises:
        SchemaMismatchError: stored values do not become the incoming type; ordering values do not compare.
        InvalidRequestError: the merger returned other records.
        UnsupportedFeatureError: partial rows under a custom merger, or more than 31 column sets.
    """
    assert stored.num_rows == incoming.num_rows
    versions = pa.Table.from_batches([incoming])
    sets = _ColumnSets.of(rules, versions, column_sets)
    deleted, barrier = _deletes(rules, versions)
    alone = barrier | _flags(versions, FRESH)
    wins = alone | _wins(rules, stored, incoming)
    gone = deleted & wins
    data = incoming.select([name for name in incoming.schema.names if name not in CONTROL_COLUMNS])
    if rules.selects and not sets.are_used:
        return PairOutcome(~wins, gone, data.filter(pa.array(wins & ~deleted)))
    if rules.merger is not None:
        return _merge_live_pairs(rules, stored, data, gone, alone)
    alone |= _stored_is_hidden(rules, stored, versions)
    return _overlay(rules, stored, data, sets, _Sides(wins, deleted, alone))


def said_columns(number: int, column_sets: Sequence[frozenset[str]]) -> frozenset[str]:
    """The columns that a number in the control column `COLUMNS` stands for."""
    if number >= 0:
        return column_sets[number]
    bits = ~number
    distinct = dict.fromkeys(column_sets)
    return frozenset().union(*(columns for bit, columns in enumerate(distinct) if bits >> bit & 1))


# --- the versions in order -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Steps:
    """The versions to fold in order of arrival, with the deletes that merged rows among them stand for.

    `row` is the row of a step's version; `ordering` its ordering values, `keys` what to compare for them.
    """

    row: Rows
    record: Rows
    deleted: Mask
    barrier: Mask
    ordering: list[Column]
    keys: list[Key]

    @classmethod
    def of(cls, rules: MergeRules, versions: pa.Table, records: Rows) -> _Steps:
        deleted, barrier = _deletes(rules, versions)
        ordering = [] if rules.merger is not None else ordering_columns(rules, versions)
        row = np.arange(len(records), dtype=np.int64)
        fresh = np.flatnonzero(_flags(versions, FRESH) & ~barrier)
        hides = _struct(versions, HIDES) if ordering else None
        hiding = np.flatnonzero(as_mask(hides.is_valid())) if hides is not None else np.zeros(0, dtype=np.int64)
        if len(fresh) or len(hiding):
            # A merged row is written out again as what it was made of: a barrier, a delete, the version itself.
            source = np.concatenate([fresh, hiding, row])
            kind = np.repeat([0, 1, 2], [len(fresh), len(hiding), len(row)])
            at = np.lexsort([kind, source])
            row, kind = source[at], kind[at]
            if hides is not None:
                values = hides.take(pa.array(hiding))
                ordering = [
                    stacked(stacked(column.take(pa.array(fresh)), values.field(name)), column).take(pa.array(at))
                    for name, column in zip(rules.ordering_fields, ordering, strict=True)
                ]
            else:
                ordering = [column.take(pa.array(row)) for column in ordering]
            deleted, barrier = deleted[row] | (kind < 2), (barrier[row] & (kind == 2)) | (kind == 0)
        return cls(row, records[row], deleted, barrier, ordering, ordering_keys(ordering))


@dataclass(frozen=True, slots=True)
class _Runs:
    """The steps that count, by record, lowest first: those of record `r` are `order[starts[r]:starts[r + 1]]`."""

    order: Rows
    starts: Rows

    @property
    def tops(self) -> Rows:
        """The topmost step of each record."""
        return self.order[self.ends]

    @property
    def ends(self) -> Rows:
        """The place of it in `order`."""
        return self.starts[1:] - 1

    @classmethod
    def of(cls, steps: _Steps, count: int) -> _Runs:
        if count == len(steps.record):
            every = np.arange(count + 1, dtype=np.int64)
            return cls(every[:-1], every)
        if not steps.barrier.any():
            return cls(*grouped(steps.record, count, steps.keys))
        last_barrier = np.full(count, -1, dtype=np.int64)
        barriers = np.flatnonzero(steps.barrier)
        np.maximum.at(last_barrier, steps.record[barriers], barriers)
        counts = np.flatnonzero(np.arange(len(steps.record)) >= last_barrier[steps.record])
        keys = [~steps.barrier, *steps.keys]
        order, starts = grouped(steps.record[counts], count, [key[counts] for key in keys])
        return cls(counts[order], starts)


def _deletes(rules: MergeRules, versions: pa.Table) -> tuple[Mask, Mask]:
    """Which versions delete their records, and which of them are barriers."""
    deleted = _flags(versions, DELETED) | _marked(rules, versions)
    if rules.merger is not None or not rules.ordering_fields or not deleted.any():
        return deleted, deleted
    unordered = _flags(versions, BY_COMMIT_TIME)
    without_values = np.ones(versions.num_rows, dtype=bool)
    for column in _ordering(rules, versions):
        without_values &= as_mask(column.is_null())
    return deleted, deleted & (unordered | without_values)


def _marked(rules: MergeRules, versions: pa.Table) -> Mask:
    """Which rows have the table's delete marker."""
    if rules.delete_marker is None or rules.delete_marker[0] not in versions.schema.names:
        return np.zeros(versions.num_rows, dtype=bool)
    name, value = rules.delete_marker
    column = versions.column(name)
    try:
        text = column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as cause:
        raise SchemaMismatchError(
            "the column of the delete marker holds no text", column=name, type=str(column.type)
        ) from cause
    return as_mask(pc.equal(text, value))


def ordering_columns(rules: MergeRules, rows: pa.Table | pa.RecordBatch) -> list[Column]:
    """The ordering columns as versions are compared by them: null is below everything."""
    columns = _ordering(rules, rows)
    return [_with_zeros(column) for column in columns] if rules.null_is_zero else columns


def _with_zeros(column: Column) -> Column:
    kind = column.type
    if column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return column.fill_null(pa.scalar(0, kind))
    return column


def _ordering(rules: MergeRules, rows: pa.Table | pa.RecordBatch) -> list[Column]:
    """The ordering columns as they are; a column that is missing is one of nulls."""
    names = set(rows.schema.names)
    return [rows.column(name) if name in names else pa.nulls(rows.num_rows) for name in rules.ordering_fields]


def _flags(versions: pa.Table, name: str) -> Mask:
    if name not in versions.schema.names:
        return np.zeros(versions.num_rows, dtype=bool)
    return as_mask(versions.column(name))


def _struct(versions: pa.Table, name: str) -> pa.StructArray | None:
    if name not in versions.schema.names:
        return None
    column = versions.column(name).combine_chunks()
    return column if column.null_count < len(column) else None


def _with_column(table: pa.Table, name: str, values: Column) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.append_column(name, values) if at < 0 else table.set_column(at, name, values)


# --- column by column ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ColumnSets:
    """The columns that rows say.

    `used` are the sets that occur, the first of them all columns; `of_row` is the place of each row's among them;
    `bits` what each is a union of; `numbers` what the control column writes for the set of each bit.
    """

    used: tuple[frozenset[str] | None, ...]
    of_row: Rows
    bits: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def are_used(self) -> bool:
        """Whether any row says some columns only."""
        return len(self.used) > 1

    @classmethod
    def of(cls, rules: MergeRules, versions: pa.Table, column_sets: Sequence[frozenset[str]]) -> _ColumnSets:
        nothing = np.zeros(versions.num_rows, dtype=np.int64)
        if COLUMNS not in versions.schema.names or versions.column(COLUMNS).null_count == versions.num_rows:
            return cls((None,), nothing, (0,), ())
        if rules.merger is not None:
            raise UnsupportedFeatureError(
                "a log has rows with some columns only, which a custom merger cannot merge", merger=rules.merger.name
            )
        distinct = {columns: bit for bit, columns in enumerate(dict.fromkeys(column_sets))}
        if len(distinct) > _MOST_COLUMN_SETS:
            raise UnsupportedFeatureError(
                f"the logs' partial updates name more than {_MOST_COLUMN_SETS} different sets of columns",
                sets=len(distinct),
            )
        encoded = versions.column(COLUMNS).combine_chunks().dictionary_encode()
        numbers = encoded.dictionary.to_pylist()
        if max(numbers) >= len(column_sets) or min(numbers) < -(1 << len(distinct)):
            raise InternalError("a row names a set of columns that is not there", numbers=numbers)
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        sets = [said_columns(number, column_sets) for number in numbers]
        bits = [~number if number < 0 else 1 << distinct[column_sets[number]] for number in numbers]
        return cls((None, *sets), places, (0, *bits), tuple(map(column_sets.index, distinct)))

    def say(self, name: str) -> Mask | None:
        """Which rows say this column; None: all."""
        if name in OF_THE_WRITE or not self.are_used:
            return None
        says = np.array([columns is None or name in columns for columns in self.used])
        return None if says.all() else says[self.of_row]

    def of_runs(self, steps: _Steps, runs: _Runs, visible: _Visible) -> pa.Array:
        """The control column `COLUMNS` of merged records: the columns that any visible version says."""
        if not self.are_used:
            return pa.nulls(len(runs.ends), pa.int32())
        bits = np.array(self.bits)[self.of_row[steps.row[runs.order]]]
        shown = np.arange(len(bits)) >= np.repeat(visible.lowest, np.diff(runs.starts))
        says_all = np.logical_or.reduceat((bits == 0) & shown, runs.starts[:-1]) | (visible.lowest > runs.ends)
        union = np.bitwise_or.reduceat(np.where(shown, bits, 0), runs.starts[:-1])
        # A set by itself keeps its own number, so that a row which met no other is as it was.
        number = ~union
        for bit, own in enumerate(self.numbers):
            number[union == 1 << bit] = own
        return pa.array(number.astype(np.int32), mask=says_all)


@dataclass(frozen=True, slots=True)
class _Visible:
    """Per record, the place in the order above its topmost delete, from where versions show through, and that delete's.

    `lowest` is above the record's last place where its topmost version is a delete; `delete` is -1 where there is none.
    """

    lowest: Rows
    delete: Rows
    hides_below: Mask

    @classmethod
    def of(cls, steps: _Steps, runs: _Runs) -> _Visible:
        delete = _topmost(steps.deleted[runs.order], runs)
        lowest = np.maximum(runs.starts[:-1], delete + 1)
        below = (delete >= 0) & (delete < runs.ends)
        below[below] &= ~steps.barrier[runs.order[delete[below]]]
        return cls(lowest, np.where(delete >= 0, runs.order[delete], -1), below)


def _topmost(mask: Mask, runs: _Runs) -> Rows:
    """The topmost place of each record where the mask is set, -1 where it is nowhere."""
    last = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))[runs.ends]
    return np.where(last >= runs.starts[:-1], last, -1)


def _merge_by_column(
    rules: MergeRules, versions: pa.Table, sets: _ColumnSets, steps: _Steps, runs: _Runs, visible: _Visible
) -> pa.Table:
    """Each column from the topmost visible version that has a value for it; else that says it; else the topmost."""
    row_of_place = steps.row[runs.order]
    tops = pa.array(row_of_place[runs.ends])
    columns: list[Column] = []
    for name, column in zip(versions.schema.names, versions.columns, strict=True):
        says = sets.say(name) if name not in CONTROL_COLUMNS else None
        has = _has_value(rules, name, column)
        if says is None and has is None:
            columns.append(column.take(tops))
            continue
        place = runs.ends
        for mask in _preferences(says, has):
            found = _topmost(mask[row_of_place], runs)
            place = np.where(found >= visible.lowest, found, place)
        columns.append(column.take(pa.array(row_of_place[place])))
    return pa.Table.from_arrays(columns, schema=versions.schema)


def _preferences(says: Mask | None, has: Mask | None) -> list[Mask]:
    """Which rows a column may come from, from the least to the most wanted."""
    if says is None or has is None:
        return [mask for mask in (says, has) if mask is not None]
    return [says, says & has]


def _has_value(rules: MergeRules, name: str, column: Column) -> Mask | None:
    """Which values of a column take the place of those below them; None: all.

    The ordering values of a record are those of its topmost version, else it would not stay where it is in the order.
    """
    if name in OF_THE_WRITE or name in rules.ordering_fields or name in CONTROL_COLUMNS:
        return None
    match rules.partial_updates:
        case PartialUpdateMode.IGNORE_DEFAULTS:
            if name in rules.defaults:
                return _differs(column, rules.defaults[name])
            return as_mask(column.is_valid()) if column.null_count else None
        case PartialUpdateMode.FILL_UNAVAILABLE:
            assert rules.unavailable_value is not None
            return _differs(column, rules.unavailable_value) if _is_text(column.type) else None
        case PartialUpdateMode.NONE:
            return None


def _differs(column: Column, value: object) -> Mask:
    """Which rows of a column hold something else, null among it."""
    try:
        scalar = pa.scalar(value, column.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as cause:
        raise SchemaMismatchError(
            "a column's default is no value of its type", default=repr(value), type=str(column.type)
        ) from cause
    return ~as_mask(pc.equal(column, scalar))


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _hidden(rules: MergeRules, steps: _Steps, visible: _Visible) -> pa.StructArray:
    """The control column `HIDES` of merged records."""
    at = pa.array(visible.delete, mask=~visible.hides_below)
    values = [flattened(column).take(at) for column in steps.ordering]
    return pa.StructArray.from_arrays(values, list(rules.ordering_fields), mask=pa.array(~visible.hides_below))


# --- by a merger of the user's ---------------------------------------------------------------------------


def _merge_in_pairs(
    rules: MergeRules, versions: pa.Table, identity: Sequence[str], steps: _Steps, runs: _Runs
) -> pa.Table:
    """Neighbours are merged with each other, round by round: a record of n versions takes log2 n calls."""
    assert rules.merger is not None
    data = [name for name in versions.schema.names if name not in CONTROL_COLUMNS]
    # All deletes are barriers here, so the first of a record's steps may be one, and is no version if others follow.
    places = np.flatnonzero(~steps.deleted[runs.order])
    record = steps.record[runs.order[places]]
    is_repeated = np.bincount(record, minlength=len(runs.ends))[record] > 1
    places, record = places[is_repeated], record[is_repeated]
    rows = versions.select(data).take(pa.array(steps.row[runs.order[places]]))
    merged = versions.take(pa.array(steps.row[runs.tops]))
    while len(record):
        begins = np.concatenate([[True], record[1:] != record[:-1]])
        place = np.arange(len(record))
        is_newer = (place - np.maximum.accumulate(np.where(begins, place, 0))) % 2 == 1
        newer = np.flatnonzero(is_newer)
        pairs = merge_by(rules.merger, rows.take(pa.array(newer - 1)), rows.take(pa.array(newer)), identity)
        rows, record = _with_rows(rows, newer - 1, pairs).filter(pa.array(~is_newer)), record[~is_newer]
        is_repeated = np.bincount(record)[record] > 1
        merged = _with_rows(merged, record[~is_repeated], rows.filter(pa.array(~is_repeated)))
        rows, record = rows.filter(pa.array(is_repeated)), record[is_repeated]
    return merged


def _with_rows(table: pa.Table, at: Rows, rows: pa.Table) -> pa.Table:
    """The table with other values in some rows; columns that `rows` lacks keep theirs."""
    source = np.arange(table.num_rows, dtype=np.int64)
    source[at] = table.num_rows + np.arange(len(at))
    take = pa.array(source)
    for number, name in enumerate(table.schema.names):
        if name in rows.schema.names:
            both = pa.chunked_array([*table.column(name).chunks, *rows.column(name).chunks], table.schema.types[number])
            table = table.set_column(number, table.schema.field(number), both.take(take))
    return table


def _merge_live_pairs(
    rules: MergeRules, stored: pa.RecordBatch, incoming: pa.RecordBatch, gone: Mask, alone: Mask
) -> PairOutcome:
    assert rules.merger is not None
    remaining = np.flatnonzero(~gone)
    rows = pa.Table.from_batches([incoming.take(pa.array(remaining))])
    at = np.flatnonzero(~alone[remaining])
    if len(at):
        met = stored.take(pa.array(remaining[at]))
        older = align(pa.Table.from_batches([met]), rows.schema)
        identity = [RECORD_KEY] if RECORD_KEY in rows.schema.names else []
        rows = _with_rows(rows, at, merge_by(rules.merger, older, rows.take(pa.array(at)), identity))
    return PairOutcome(np.zeros(len(gone), dtype=bool), gone, one_batch(rows))


# --- pairs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sides:
    """Of pairs, whether the incoming version is above the stored one; is a delete; and hides the stored one."""

    wins: Mask
    deleted: Mask
    alone: Mask


def _wins(rules: MergeRules, stored: pa.RecordBatch, incoming: pa.RecordBatch) -> Mask:
    if rules.merger is not None:
        return np.ones(incoming.num_rows, dtype=bool)
    return incoming_wins(ordering_columns(rules, incoming), ordering_columns(rules, stored), incoming.num_rows)


def _stored_is_hidden(rules: MergeRules, stored: pa.RecordBatch, versions: pa.Table) -> Mask:
    """Where a delete below the incoming version is above the stored one."""
    hides = _struct(versions, HIDES)
    if hides is None:
        return np.zeros(stored.num_rows, dtype=bool)
    deletes = [hides.field(name) for name in rules.ordering_fields]
    return as_mask(hides.is_valid()) & incoming_wins(deletes, ordering_columns(rules, stored), stored.num_rows)


def _overlay(
    rules: MergeRules, stored: pa.RecordBatch, incoming: pa.RecordBatch, sets: _ColumnSets, sides: _Sides
) -> PairOutcome:
    """Pairs column by column: from the upper version that has a value, else from the upper one that says the column."""
    older = align(stored, incoming.schema)
    changed = sides.wins & ~sides.deleted
    comes_from_incoming: list[Mask] = []
    for name, new, old in zip(incoming.schema.names, incoming.columns, older.columns, strict=True):
        says, has, has_below = sets.say(name), _has_value(rules, name, new), _has_value(rules, name, old)
        above = sides.wins if says is None else sides.wins & says
        gives = above
        if has is not None or has_below is not None:
            gives = _gives(above, says, has, has_below)
        gives = gives | sides.alone
        comes_from_incoming.append(gives)
        changed |= gives & ~sides.deleted
    gone = sides.deleted & sides.wins
    kept = pa.array(changed)
    columns = [
        choose(gives[changed], new.filter(kept), old.filter(kept))
        for gives, new, old in zip(comes_from_incoming, incoming.columns, older.columns, strict=True)
    ]
    rows = pa.Table.from_arrays([_chunked(column) for column in columns], schema=incoming.schema)
    return PairOutcome(~changed & ~gone, gone, one_batch(rows))


def _gives(above: Mask, says: Mask | None, has: Mask | None, has_below: Mask | None) -> Mask:
    """Where a column comes from the incoming version, which is `above` the stored one where it says the column."""
    every = np.ones(len(above), dtype=bool)
    new = every if has is None else has
    new = new if says is None else new & says
    old = every if has_below is None else has_below
    return np.where(above, new | ~old, new & ~old)


def _chunked(column: Column) -> pa.ChunkedArray:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
