"""Merging versions of records: in a batch, among log records, and between log records and rows of base files.

All three are one operation, a fold. The versions of a record are ordered, lowest first: by their ordering values if the
table has ordering fields, and by arrival if the values are equal or there are none. A delete is a version, too, and
hides the versions below it. The topmost version is the record. With partial updates, and with rows that declare only
some columns, values of lower versions show through. A delete without an ordering value (every delete, in a table
without ordering fields) is a barrier: it hides all earlier versions, and is below all later ones.

A merged row is again a version, and its control columns record what it hides, so merging can be done in steps. The
result equals that of one step, with one exception, as in JVM Hudi: a late partial update, which belongs between
versions that are merged already, lands above or below the merged row, which has one ordering value for all its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import InternalError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.pieces import one_batch
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.merge.control_columns import (
    BY_COMMIT_TIME,
    COLUMNS,
    CONTROL_COLUMNS,
    DELETED,
    FRESH,
    HIDES,
    declared_columns,
)
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

_MOST_COLUMN_SETS = 31
"""The bits of `COLUMNS` limit the sets that can be united. MERGE INTO writes one set per form of statement."""


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """The result of merging pairs of a stored row and an incoming version.

    Attributes:
        stays: Mask of the pairs whose stored row is unchanged.
        deleted: Mask of the pairs whose record is deleted.
        rows: The new version of each other pair, in order, with the data columns of the incoming rows.
    """

    stays: Mask
    deleted: Mask
    rows: pa.RecordBatch


def merge_versions(
    rules: MergeRules, versions: pa.Table, identity: Sequence[str], *, column_sets: Sequence[frozenset[str]] = ()
) -> pa.Table:
    """Merge the versions of each record into one, in order of first appearance.

    Args:
        rules: How the table merges.
        versions: Rows in order of arrival, oldest first, with or without control columns. A missing ordering column
            counts as null.
        identity: The columns that identify a record.
        column_sets: The sets that the numbers in `COLUMNS` refer to.

    Returns:
        The columns of `versions` in their order, plus `DELETED`, `FRESH` and, if partial rows have an ordering,
        `HIDES`. A deleted record has a row, too.

    Raises:
        SchemaMismatchError: the type of an ordering column has no order, or the merger returned other columns.
        InvalidRequestError: the merger returned other records.
        UnsupportedFeatureError: there are partial rows and a custom merger, or more than 31 column sets.

    Cost: n log n in the rows of records with several versions, and one pass over each column.
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
    """Merge pairs of a stored row and an incoming version; row `i` of both sides belongs to one record.

    Args:
        rules: How the table merges.
        stored: Live rows that declare all columns. A missing column counts as null.
        incoming: Later versions, one per record, with control columns if they come from `merge_versions`.
        column_sets: The sets that the numbers in `COLUMNS` refer to.

    Raises:
        SchemaMismatchError: stored values cannot be converted to the incoming type, or ordering values do not compare.
        InvalidRequestError: the merger returned other records.
        UnsupportedFeatureError: there are partial rows and a custom merger, or more than 31 column sets.
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
        kept = wins & ~deleted
        return PairOutcome(~wins, gone, data if kept.all() else data.filter(pa.array(kept)))
    if rules.merger is not None:
        return _merge_live_pairs(rules, stored, data, gone, alone)
    alone |= _stored_is_hidden(rules, stored, versions)
    return _overlay(rules, stored, data, sets, _Sides(wins, deleted, alone))


# --- ordering the versions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Steps:
    """The versions to fold in order of arrival, including the deletes that are recorded in merged rows.

    Attributes:
        row: The row number of the step's version.
        record: The record number.
        deleted: Whether the step is a delete.
        barrier: Whether it is a barrier.
        ordering: The ordering values.
        keys: Sort keys of the ordering values.
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
            # A merged row is expanded into the steps that it was made of: a barrier, a delete, the version itself.
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
    """The steps that count, by record, lowest first. Those of record `r` are `order[starts[r]:starts[r + 1]]`."""

    order: Rows
    starts: Rows

    @property
    def tops(self) -> Rows:
        """The topmost step of each record."""
        return self.order[self.ends]

    @property
    def ends(self) -> Rows:
        """The index in `order` of the topmost step of each record."""
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
    """Masks of the versions that delete their records, and of those that are barriers."""
    deleted = _flags(versions, DELETED) | _marked(rules, versions)
    if rules.merger is not None or not rules.ordering_fields or not deleted.any():
        return deleted, deleted
    unordered = _flags(versions, BY_COMMIT_TIME)
    without_values = np.ones(versions.num_rows, dtype=bool)
    for column in _ordering(rules, versions):
        without_values &= as_mask(column.is_null())
    return deleted, deleted & (unordered | without_values)


def _marked(rules: MergeRules, versions: pa.Table) -> Mask:
    """A mask of the rows with the table's delete marker."""
    if rules.delete_marker is None or rules.delete_marker[0] not in versions.schema.names:
        return np.zeros(versions.num_rows, dtype=bool)
    name, value = rules.delete_marker
    column = versions.column(name)
    try:
        text = column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as cause:
        raise SchemaMismatchError(
            "the column of the delete marker must hold text, or values with a text form",
            column=name,
            type=str(column.type),
        ) from cause
    return as_mask(pc.equal(text, value))


def ordering_columns(rules: MergeRules, rows: pa.Table | pa.RecordBatch) -> list[Column]:
    """The ordering columns in the form in which versions compare. Null is below all values."""
    columns = _ordering(rules, rows)
    return [_with_zeros(column) for column in columns] if rules.null_is_zero else columns


def _with_zeros(column: Column) -> Column:
    kind = column.type
    if column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return column.fill_null(pa.scalar(0, kind))
    return column


def _ordering(rules: MergeRules, rows: pa.Table | pa.RecordBatch) -> list[Column]:
    """The ordering columns, unchanged. A missing column is all null."""
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
    """The columns that rows declare.

    Attributes:
        used: The sets that occur. The first is None, for all columns.
        of_row: The index in `used` of each row's set.
        bits: The union of column sets that each of `used` is, as bits.
        numbers: The number in the control column for the set of each bit.
    """

    used: tuple[frozenset[str] | None, ...]
    of_row: Rows
    bits: tuple[int, ...]
    numbers: tuple[int, ...]

    @property
    def are_used(self) -> bool:
        """Whether any row declares only some columns."""
        return len(self.used) > 1

    @classmethod
    def of(cls, rules: MergeRules, versions: pa.Table, column_sets: Sequence[frozenset[str]]) -> _ColumnSets:
        nothing = np.zeros(versions.num_rows, dtype=np.int64)
        if COLUMNS not in versions.schema.names or versions.column(COLUMNS).null_count == versions.num_rows:
            return cls((None,), nothing, (0,), ())
        if rules.merger is not None:
            raise UnsupportedFeatureError(
                "the logs have partial rows, which a custom merger cannot merge", merger=rules.merger.name
            )
        distinct = {columns: bit for bit, columns in enumerate(dict.fromkeys(column_sets))}
        if len(distinct) > _MOST_COLUMN_SETS:
            raise UnsupportedFeatureError(
                f"the partial rows of the logs have more than {_MOST_COLUMN_SETS} sets of columns; compact the table",
                sets=len(distinct),
            )
        encoded = versions.column(COLUMNS).combine_chunks().dictionary_encode()
        numbers = encoded.dictionary.to_pylist()
        if max(numbers) >= len(column_sets) or min(numbers) < -(1 << len(distinct)):
            raise InternalError("a row refers to a set of columns that does not exist", numbers=numbers)
        indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1
        sets = [declared_columns(number, column_sets) for number in numbers]
        bits = [~number if number < 0 else 1 << distinct[column_sets[number]] for number in numbers]
        return cls((None, *sets), indices, (0, *bits), tuple(map(column_sets.index, distinct)))

    def declaring(self, name: str) -> Mask | None:
        """A mask of the rows that declare this column; None for all rows."""
        if name in OF_THE_WRITE or not self.are_used:
            return None
        declares = np.array([columns is None or name in columns for columns in self.used])
        return None if declares.all() else declares[self.of_row]

    def of_runs(self, steps: _Steps, runs: _Runs, visible: _Visible) -> pa.Array:
        """The control column `COLUMNS` of merged records: the columns that any visible version declares."""
        if not self.are_used:
            return pa.nulls(len(runs.ends), pa.int32())
        bits = np.array(self.bits)[self.of_row[steps.row[runs.order]]]
        shown = np.arange(len(bits)) >= np.repeat(visible.lowest, np.diff(runs.starts))
        declares_all = np.logical_or.reduceat((bits == 0) & shown, runs.starts[:-1]) | (visible.lowest > runs.ends)
        union = np.bitwise_or.reduceat(np.where(shown, bits, 0), runs.starts[:-1])
        # A single set keeps its number, so that a row without other versions stays unchanged.
        number = ~union
        for bit, own in enumerate(self.numbers):
            number[union == 1 << bit] = own
        return pa.array(number.astype(np.int32), mask=declares_all)


@dataclass(frozen=True, slots=True)
class _Visible:
    """Per record, the versions that show through: those above its topmost delete.

    Attributes:
        lowest: The index in the order of the lowest visible version. It is past the record's last index if the topmost
            version is a delete.
        delete: The step of the topmost delete, or -1.
        hides_below: Whether that delete is below a visible version and is not a barrier.
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
    """For each record, the highest index in the order where the mask is set, or -1."""
    last = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))[runs.ends]
    return np.where(last >= runs.starts[:-1], last, -1)


def _merge_by_column(
    rules: MergeRules, versions: pa.Table, sets: _ColumnSets, steps: _Steps, runs: _Runs, visible: _Visible
) -> pa.Table:
    """Each column from the topmost visible version with a value for it, or else that declares it, or else of all."""
    row_of_index = steps.row[runs.order]
    tops = pa.array(row_of_index[runs.ends])
    columns: list[Column] = []
    for name, column in zip(versions.schema.names, versions.columns, strict=True):
        declares = sets.declaring(name) if name not in CONTROL_COLUMNS else None
        has = _has_value(rules, name, column)
        if declares is None and has is None:
            columns.append(column.take(tops))
            continue
        index = runs.ends
        for mask in _preferences(declares, has):
            found = _topmost(mask[row_of_index], runs)
            index = np.where(found >= visible.lowest, found, index)
        columns.append(column.take(pa.array(row_of_index[index])))
    return pa.Table.from_arrays(columns, schema=versions.schema)


def _preferences(declares: Mask | None, has: Mask | None) -> list[Mask]:
    """Masks of the rows that a column may come from, with rising preference."""
    if declares is None or has is None:
        return [mask for mask in (declares, has) if mask is not None]
    return [declares, declares & has]


def _has_value(rules: MergeRules, name: str, column: Column) -> Mask | None:
    """A mask of the values that replace those of lower versions; None for all.

    Ordering values always come from the topmost version; otherwise the record would change its position in the order.
    """
    if name in OF_THE_WRITE or name in rules.ordering_fields or name in CONTROL_COLUMNS:
        return None
    match rules.partial_updates:
        case PartialUpdateMode.IGNORE_DEFAULTS:
            return as_mask(column.is_valid()) if column.null_count else None
        case PartialUpdateMode.FILL_UNAVAILABLE:
            assert rules.unavailable_value is not None
            return _differs(column, rules.unavailable_value) if _is_text(column.type) else None
        case PartialUpdateMode.NONE:
            return None


def _differs(column: Column, value: str) -> Mask:
    """A mask of the rows with another value, or null."""
    return ~as_mask(pc.equal(column, pa.scalar(value, column.type)))


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _hidden(rules: MergeRules, steps: _Steps, visible: _Visible) -> pa.StructArray:
    """The control column `HIDES` of merged records."""
    at = pa.array(visible.delete, mask=~visible.hides_below)
    values = [flattened(column).take(at) for column in steps.ordering]
    return pa.StructArray.from_arrays(values, list(rules.ordering_fields), mask=pa.array(~visible.hides_below))


# --- custom mergers ----------------------------------------------------------------------------------------


def _merge_in_pairs(
    rules: MergeRules, versions: pa.Table, identity: Sequence[str], steps: _Steps, runs: _Runs
) -> pa.Table:
    """Merges adjacent versions in rounds, so that n versions of a record take log2 n calls of the merger."""
    assert rules.merger is not None
    data = [name for name in versions.schema.names if name not in CONTROL_COLUMNS]
    # All deletes are barriers here. One can only be the first step of a record, and is not given to the merger.
    indices = np.flatnonzero(~steps.deleted[runs.order])
    record = steps.record[runs.order[indices]]
    is_repeated = np.bincount(record, minlength=len(runs.ends))[record] > 1
    indices, record = indices[is_repeated], record[is_repeated]
    rows = versions.select(data).take(pa.array(steps.row[runs.order[indices]]))
    merged = versions.take(pa.array(steps.row[runs.tops]))
    while len(record):
        begins = np.concatenate([[True], record[1:] != record[:-1]])
        index = np.arange(len(record))
        is_newer = (index - np.maximum.accumulate(np.where(begins, index, 0))) % 2 == 1
        newer = np.flatnonzero(is_newer)
        pairs = merge_by(rules.merger, rows.take(pa.array(newer - 1)), rows.take(pa.array(newer)), identity)
        rows, record = _with_rows(rows, newer - 1, pairs).filter(pa.array(~is_newer)), record[~is_newer]
        is_repeated = np.bincount(record)[record] > 1
        merged = _with_rows(merged, record[~is_repeated], rows.filter(pa.array(~is_repeated)))
        rows, record = rows.filter(pa.array(is_repeated)), record[is_repeated]
    return merged


def _with_rows(table: pa.Table, at: Rows, rows: pa.Table) -> pa.Table:
    """The table with the values of some rows replaced. Columns that `rows` lacks keep their values."""
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
    """Masks of pairs whose incoming version is above the stored row, is a delete, and hides the stored row."""

    wins: Mask
    deleted: Mask
    alone: Mask


def _wins(rules: MergeRules, stored: pa.RecordBatch, incoming: pa.RecordBatch) -> Mask:
    if rules.merger is not None:
        return np.ones(incoming.num_rows, dtype=bool)
    return incoming_wins(ordering_columns(rules, incoming), ordering_columns(rules, stored), incoming.num_rows)


def _stored_is_hidden(rules: MergeRules, stored: pa.RecordBatch, versions: pa.Table) -> Mask:
    """A mask of the pairs where a delete below the incoming version is above the stored row."""
    hides = _struct(versions, HIDES)
    if hides is None:
        return np.zeros(stored.num_rows, dtype=bool)
    deletes = [hides.field(name) for name in rules.ordering_fields]
    return as_mask(hides.is_valid()) & incoming_wins(deletes, ordering_columns(rules, stored), stored.num_rows)


def _overlay(
    rules: MergeRules, stored: pa.RecordBatch, incoming: pa.RecordBatch, sets: _ColumnSets, sides: _Sides
) -> PairOutcome:
    """Each column from the upper version with a value for it, or else from the upper version that declares it."""
    older = align(stored, incoming.schema)
    changed = sides.wins & ~sides.deleted
    comes_from_incoming: list[Mask] = []
    for name, new, old in zip(incoming.schema.names, incoming.columns, older.columns, strict=True):
        declares, has, has_below = sets.declaring(name), _has_value(rules, name, new), _has_value(rules, name, old)
        above = sides.wins if declares is None else sides.wins & declares
        gives = above
        if has is not None or has_below is not None:
            gives = _gives(above, declares, has, has_below)
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


def _gives(above: Mask, declares: Mask | None, has: Mask | None, has_below: Mask | None) -> Mask:
    """A mask of the pairs whose column comes from the incoming version; `above`: it wins and declares the column."""
    every = np.ones(len(above), dtype=bool)
    new = every if has is None else has
    new = new if declares is None else new & declares
    old = every if has_below is None else has_below
    return np.where(above, new | ~old, new & ~old)


def _chunked(column: Column) -> pa.ChunkedArray:
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
