"""Changes: rows that say what becomes of their records, as a merge, an update or a deletion by condition makes them.

Beside the columns of the table they have those of `CONTROL_FIELDS`. A row of a stored record names it by the record key
and the partition path that it has; a new one has neither, and gets both from its columns, like the row of an upsert.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import AmbiguousChangeError, RecordKeyError, UnsafePathError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.safe_paths import data_path_problem
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.merge.pairs import as_mask, grouped, ordering_keys, record_numbers
from pyhudi.tasks.hash_keys import keyed_rows, keyed_schema

CHANGE: Final = "#change"
"""The column with the code of `Change`, int8."""
NAMED: Final = "#named"
"""The column with how many changes of a record were computed from a stored row, int32. 0: the row of a source names the
record by its key, and means all stored rows of that key."""
CONTROL_FIELDS: Final = (
    pa.field(RECORD_KEY, pa.string()),
    pa.field(PARTITION_PATH, pa.string()),
    pa.field(CHANGE, pa.int8()),
)


class Change(enum.IntEnum):
    """What becomes of the record of a row, by whether the table has it."""

    UPDATE = 1
    """The row is a new version of it. Not stored: nothing happens."""
    INSERT = 2
    """The row is a new record. Stored: the write is refused."""
    DELETE = 3
    """It is deleted. Not stored: nothing happens."""
    INSERT_IF_ABSENT = 4
    """The row is a new record. Stored: nothing happens."""
    UPSERT = 5
    """Stored: as `UPDATE`; not stored: as `INSERT`."""
    DELETE_OR_INSERT = 6
    """Stored: as `DELETE`; not stored: as `INSERT`."""
    LEAVE = 7
    """Deleted because an update moves it to another partition, where an `INSERT` adds it again."""


UPDATING: Final = (Change.UPDATE, Change.UPSERT)
DELETING: Final = (Change.DELETE, Change.DELETE_OR_INSERT, Change.LEAVE)
INSERTING: Final = (Change.INSERT, Change.INSERT_IF_ABSENT, Change.UPSERT, Change.DELETE_OR_INSERT)


@dataclass(frozen=True, slots=True)
class ChangeKeys:
    """How the rows of changes get their keys.

    `rekeys`: an update may give a column of the record key, so the key is made again and has to be the same.
    `moves`: it may give the record another partition path, to which the record then moves. `is_merge`: each row of a
    source may make a change of a stored row; otherwise a stored row has one change at most.
    `by_meta_columns`: the rows are as reads give them, without `CHANGE`: each is an `UPSERT` (`named_upserts`).
    """

    rekeys: bool
    moves: bool
    is_merge: bool
    by_meta_columns: bool = False


def of_codes(codes: pa.Array | pa.ChunkedArray, *kinds: Change) -> npt.NDArray[np.bool_]:
    """A mask of the rows with one of these changes."""
    return np.isin(np.asarray(codes), [int(kind) for kind in kinds])


def keyed_changes(
    keys: KeyGenerator,
    schema: pa.Schema,
    row_id: str,
    context: TaskContext,
    batch: pa.RecordBatch,
    first_row: int,
    how: ChangeKeys,
) -> pa.RecordBatch:
    """The changes as `keyed_schema(schema)`, `CHANGE` and `NAMED`; a record that moves has two rows.

    Raises `RecordKeyError` where a row of a stored record would have another key.
    """
    named = batch.column(RECORD_KEY)
    stored = named.is_valid()
    made = keyed_rows(keys, schema, row_id, context, batch.drop_columns([RECORD_KEY, PARTITION_PATH]), first_row)
    if how.rekeys and keys.record_key_fields:
        _check_keys(named, made.column(RECORD_KEY), pc.and_(stored, _is(batch, Change.UPDATE)))
    paths = made.column(PARTITION_PATH)
    was = batch.column(PARTITION_PATH)
    rows = made.set_column(0, RECORD_KEY, pc.coalesce(named, made.column(RECORD_KEY)))
    rows = rows.set_column(1, PARTITION_PATH, pc.coalesce(was, paths)).append_column(CHANGE, batch.column(CHANGE))
    rows = rows.append_column(NAMED, stored.cast(pa.int32()))
    if not how.moves:
        return rows
    updates = pa.array(of_codes(batch.column(CHANGE), Change.UPDATE, Change.UPSERT))
    moved = pc.and_(pc.and_(was.is_valid(), updates), pc.fill_null(pc.not_equal(was, paths), False))
    if not pc.any(moved).as_py():
        return rows
    staying = rows.filter(pc.invert(moved))
    leaving = _as(rows.filter(moved), Change.LEAVE)
    coming = _as(rows.filter(moved), Change.INSERT).set_column(1, PARTITION_PATH, paths.filter(moved))
    return pa.concat_batches([staying, leaving, coming])


def named_upserts(batch: pa.RecordBatch, *, table_wide_keys: bool) -> pa.RecordBatch:
    """Rows as reads give them as changes: each is the new version of the record that its meta columns name.

    A row without a key is a new one. With `table_wide_keys` the key alone names a record.

    Raises `RecordKeyError` and `UnsafePathError` as `named_records`.
    """
    is_new = _text(batch, RECORD_KEY).is_null()
    names = [_text(batch, RECORD_KEY), _checked_paths(_text(batch, PARTITION_PATH), is_new)]
    if table_wide_keys:
        names[1] = pa.nulls(batch.num_rows, pa.string())
    rest = batch.drop_columns([RECORD_KEY, PARTITION_PATH])
    codes = pa.repeat(pa.scalar(int(Change.UPSERT), pa.int8()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*names, codes, *rest.columns], schema=pa.schema([*CONTROL_FIELDS, *rest.schema]))


def named_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The record keys and partition paths that the meta columns of rows name, as `keyed_schema` of no columns.

    Raises:
        RecordKeyError: a row has no key, or a key and no partition path.
        UnsafePathError: a partition path leads out of the table.
    """
    keys = _text(batch, RECORD_KEY)
    if keys.null_count:
        raise RecordKeyError(f"rows have no {RECORD_KEY}, by which this table finds them", rows=keys.null_count)
    paths = _checked_paths(_text(batch, PARTITION_PATH), keys.is_null())
    return pa.RecordBatch.from_arrays([keys, paths], schema=keyed_schema(pa.schema([])))


def _text(batch: pa.RecordBatch, name: str) -> pa.StringArray:
    return batch.column(name).cast(pa.string())


def _checked_paths(paths: pa.StringArray, is_new: pa.BooleanArray) -> pa.StringArray:
    """The partition paths that meta columns name, where each row that is not new has one, and all are safe."""
    if without := pc.sum(pc.and_(paths.is_null(), pc.invert(is_new))).as_py():
        raise RecordKeyError(f"rows have a {RECORD_KEY} and no {PARTITION_PATH}, where it is", rows=without)
    for path in paths.unique().drop_null().to_pylist():
        if (problem := data_path_problem(path)) is not None:
            raise UnsafePathError(f"{PARTITION_PATH} of a row {problem}; nothing was written", path=path)
    return paths


def settled(changes: pa.Table, identity: list[str], ordering_fields: tuple[str, ...], how: ChangeKeys) -> pa.Table:
    """One change per record, in order. `changes`: the identity, ordering values, `CHANGE` and `NAMED`.

    Of several changes of a record the one with the largest ordering values is kept, as in the batch of an upsert;
    several deletions are one. Raises `AmbiguousChangeError` where ordering values do not decide, or where changes of
    several rows are about one record without a merge.
    """
    records, count = record_numbers([changes.column(name) for name in identity])
    if count == len(records):
        return changes
    codes = changes.column(CHANGE)
    ordering = [changes.column(name) for name in ordering_fields]
    keys = ordering_keys(ordering)
    order, starts = grouped(records, count, keys)
    top = order[starts[1:] - 1]
    several = np.flatnonzero(np.diff(starts) > 1)
    below = order[starts[1:][several] - 2]
    decided = np.zeros(len(several), dtype=bool)
    for key in keys:
        decided |= np.asarray(key)[top[several]] != np.asarray(key)[below]
    for column in ordering:  # a change without an ordering value cannot be compared
        unknown = np.flatnonzero(as_mask(column.is_null()))
        decided &= ~np.isin(several, records[unknown])
    decided &= how.is_merge
    not_deletes = np.bincount(records[~of_codes(codes, Change.DELETE)], minlength=count)
    leaves = np.bincount(records[of_codes(codes, Change.LEAVE)], minlength=count)
    decided &= leaves[several] == 0
    decided |= not_deletes[several] == 0
    if not decided.all():
        row = int(top[several[~decided]][0])
        if not how.is_merge:
            raise repeated_key(changes.column(RECORD_KEY)[row].as_py())
        raise AmbiguousChangeError(
            "several rows of the source are about one record, and the table's ordering fields do not say which of them "
            "counts: make the source have one row per record; nothing was written",
            records=int(np.count_nonzero(~decided)),
            first_key=changes.column(RECORD_KEY)[row].as_py(),
        )
    named = np.bincount(records, weights=np.asarray(changes.column(NAMED)), minlength=count)[records]
    place = changes.schema.get_field_index(NAMED)
    return changes.set_column(place, NAMED, pa.array(named.astype(np.int32))).take(pa.array(np.sort(top)))


def repeated_key(key: str) -> AmbiguousChangeError:
    """The error for a change of a stored row whose record key other rows of its partition have, too."""
    return AmbiguousChangeError(
        "the table has several rows with one record key, as INSERT may leave them, and a change of one of them would "
        "change them all; nothing was written: delete all rows of the key, by a condition that each of them meets, and "
        "insert the one that stays",
        first_key=key,
    )


def check_absent(keys: pa.Array | pa.ChunkedArray) -> None:
    """Raise `RecordKeyError` if there are keys of records that are inserted though the table has them."""
    if len(keys):
        raise RecordKeyError(
            "a row that is to be inserted has a record key that the table has already; nothing was written: compare "
            "all record key fields in ON, so that the row is matched",
            rows=len(keys),
            first_key=keys[0].as_py(),
        )


def _check_keys(named: pa.Array, made: pa.Array, of: pa.Array) -> None:
    changed = pc.and_(of, pc.fill_null(pc.not_equal(named, made), False))
    if pc.any(changed).as_py():
        raise RecordKeyError(
            "an update would change the record key of a record, which makes it another one; nothing was written: "
            "delete the record, and insert the new one",
            first_key=named.filter(changed)[0].as_py(),
            becomes=made.filter(changed)[0].as_py(),
        )


def _is(batch: pa.RecordBatch, change: Change) -> pa.Array:
    return pc.equal(batch.column(CHANGE), pa.scalar(int(change), pa.int8()))


def _as(rows: pa.RecordBatch, change: Change) -> pa.RecordBatch:
    at = rows.schema.get_field_index(CHANGE)
    return rows.set_column(at, rows.schema.field(at), pa.repeat(pa.scalar(int(change), pa.int8()), rows.num_rows))
