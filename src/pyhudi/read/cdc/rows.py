"""Reading change data: the changes of one task of a plan, batch by batch. Runs on workers.

Memory: a batch of the files, and of what is looked up by key the changed rows, up to the limit of `SpillSettings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError
from pyhudi.format.json_rows import JsonForm, rows_as_json
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.log.cdc import AFTER, BEFORE, DELETED, INSERTED, KEY, OPERATION, UPDATED, decode_changes
from pyhudi.format.pieces import cuts, row_bytes, take_rows
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import COMMIT_SEQNO, COMMIT_TIME, META_COLUMNS, RECORD_KEY
from pyhudi.format.schema.stored_names import StoredNames
from pyhudi.io.log.records import LogVersions, gather, read_log_versions
from pyhudi.io.log.scan import open_log
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.merged import merge_base
from pyhudi.merge.pairs import as_mask
from pyhudi.read.cdc.plan import ChangePlan, ChangeTask
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.slices import missing_files_named, read_slice
from pyhudi.storage.protocol import Storage

_Mask = npt.NDArray[np.bool_]
_OPERATIONS = pa.array([INSERTED, UPDATED, DELETED])


@dataclass(frozen=True, slots=True)
class _Image:
    """Rows before or after changes. `of_log`: as a change data log has them, without meta columns."""

    rows: pa.StructArray
    of_log: bool = False


@dataclass(frozen=True, slots=True)
class _Changes:
    """Some changes of one write."""

    instant_time: str
    operations: pa.Array
    before: _Image
    after: _Image


def read_changes(storage: Storage, plan: ChangePlan, task: ChangeTask) -> Iterator[pa.RecordBatch]:
    """The changes of one task, with the schema of the plan.

    Raises:
        CorruptDataError: a file is damaged; names it.
        HistoryNotRetainedError: a file was deleted since the read was planned.
    """
    with missing_files_named(storage):
        for changes in _changes(storage, plan.rows, task):
            if len(changes.operations):
                yield _as_batch(changes, plan)


def _changes(storage: Storage, rows: ScanPlan, task: ChangeTask) -> Iterator[_Changes]:
    if task.steps:
        return _appended(storage, rows, task)
    if task.logs:
        return _logged(storage, rows, task)
    if task.before is not None and task.after is not None:
        return _compared(storage, rows, task)
    return _whole(storage, rows, task)


# --- Whole files -------------------------------------------------------------------------------------------


def _whole(storage: Storage, rows: ScanPlan, task: ChangeTask) -> Iterator[_Changes]:
    """All rows of a base file as new ones, or all rows of a slice as deleted ones."""
    scan_slice = task.before if task.after is None else task.after
    if scan_slice is None:
        return
    operation = DELETED if task.after is None else INSERTED
    for batch in _rows_of(storage, rows, task, scan_slice):
        image = _Image(_as_struct(batch, rows.schema))
        nothing = _Image(pa.nulls(batch.num_rows, image.rows.type))
        sides = (image, nothing) if operation == DELETED else (nothing, image)
        yield _Changes(task.instant_time, pa.repeat(operation, batch.num_rows), *sides)


def _rows_of(
    storage: Storage, rows: ScanPlan, task: ChangeTask, scan_slice: ScanSlice, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    if scan_slice is task.before and task.until is not None:
        blocks = replace(rows.merging.blocks, until=task.until)
        rows = replace(rows, merging=replace(rows.merging, blocks=blocks))
    return read_slice(storage, rows, scan_slice, rows.schema.names if columns is None else columns)


# --- Change data logs --------------------------------------------------------------------------------------


def _logged(storage: Storage, rows: ScanPlan, task: ChangeTask) -> Iterator[_Changes]:
    """The changes in change data logs. The images that they lack are looked up by key."""
    for path, size in task.logs:
        with open_log(storage, path, size=size) as reader:
            for block in reader.blocks():
                if block.kind is not BlockType.CDC_DATA:
                    raise CorruptDataError("a change data log is damaged", path=path, offset=block.offset)
                content = reader.content(block)
                logged = decode_changes(content, block.schema, path=path, offset=block.content_offset)
                yield from _with_images(storage, rows, task, logged)


def _with_images(storage: Storage, rows: ScanPlan, task: ChangeTask, logged: pa.RecordBatch) -> Iterator[_Changes]:
    operations, names = logged.column(OPERATION), logged.schema.names
    looked_up = {
        name: _found(storage, rows, task, source, logged.filter(pc.not_equal(operations, without)).column(KEY))
        for name, source, without in ((BEFORE, task.before, INSERTED), (AFTER, task.after, DELETED))
        if name not in names
    }
    sizes = row_bytes(logged.drop_columns([OPERATION]))
    for start, stop in cuts(sizes):
        piece = logged.slice(start, stop - start)
        images = [
            _Image(_of_today(piece.column(name), task.names_in_logs), of_log=True)
            if name in names
            else looked_up[name].images(piece.column(KEY))
            for name in (BEFORE, AFTER)
        ]
        yield _Changes(task.instant_time, piece.column(OPERATION), *images)


def _of_today(images: pa.StructArray, names: StoredNames | None) -> pa.StructArray:
    """The images with the columns that the table has today."""
    if names is None:
        return images
    rows = names.of_today(pa.RecordBatch.from_struct_array(_without_nulls(images)))
    mask = pc.is_null(images) if images.null_count else None
    return pa.StructArray.from_arrays(rows.columns, fields=list(rows.schema), mask=mask)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that were looked up by their keys."""

    table: pa.Table
    keys: pa.Array

    def images(self, keys: pa.Array) -> _Image:
        """The row of each key, null where there is none."""
        return _Image(self.take(pc.index_in(keys, value_set=self.keys)))

    def take(self, at: pa.Array) -> pa.StructArray:
        known = as_mask(at.is_valid())
        taken = _as_struct(take_rows(self.table, at.drop_null().to_numpy().astype(np.int64)), self.table.schema)
        numbers = np.cumsum(known) - 1
        return taken if known.all() else taken.take(pa.array(numbers, pa.int64(), mask=~known))


def _found(storage: Storage, rows: ScanPlan, task: ChangeTask, scan_slice: ScanSlice | None, keys: pa.Array) -> _Rows:
    """The rows of a slice with these keys. Cost: the slice."""
    batches: Iterator[pa.RecordBatch] = iter(())
    if scan_slice is not None and len(keys):
        batches = _with_keys(_rows_of(storage, rows, task, scan_slice), keys)
    return _gathered(batches, rows.schema, rows)


def _gathered(batches: Iterator[pa.RecordBatch], schema: pa.Schema, rows: ScanPlan) -> _Rows:
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    table = gather((align(batch, nullable) for batch in batches), nullable, rows.merging.spill)
    return _Rows(table, _one_array(table.column(RECORD_KEY)))


def _with_keys(batches: Iterable[pa.RecordBatch], keys: pa.Array) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = batch.filter(pc.is_in(batch.column(RECORD_KEY), value_set=keys))
        if found.num_rows:
            yield found


# --- Comparing states --------------------------------------------------------------------------------------


def _compared(storage: Storage, rows: ScanPlan, task: ChangeTask) -> Iterator[_Changes]:
    """A rewritten base file whose changes were not logged: what it has of this write, and what it no longer has."""
    assert task.before is not None
    assert task.after is not None
    names = [RECORD_KEY, COMMIT_TIME]
    after = pa.Table.from_batches(
        _rows_of(storage, rows, task, task.after, names), pa.schema([(name, pa.string()) for name in names])
    )
    before = pa.Table.from_batches(
        _rows_of(storage, rows, task, task.before, names[:1]), pa.schema([(RECORD_KEY, pa.string())])
    )
    written = after.filter(pc.equal(after.column(COMMIT_TIME), task.instant_time)).column(RECORD_KEY)
    gone = before.filter(
        pc.invert(pc.is_in(before.column(RECORD_KEY), value_set=_one_array(after.column(RECORD_KEY))))
    ).column(RECORD_KEY)
    keys = _one_array(pa.chunked_array([*written.chunks, *gone.chunks], pa.string()))
    sides = [_found(storage, rows, task, source, keys) for source in (task.before, task.after)]
    yield from _between(task.instant_time, keys, sides[0], sides[1])


def _between(
    instant_time: str, keys: pa.Array, before: _Rows, after: _Rows, *, by_value: bool = False
) -> Iterator[_Changes]:
    """The changes of these records from one state to the next. A record whose row was not written again has none.

    `by_value`: merging may change values of a row that keeps its meta columns.
    """
    at_before, at_after = (pc.index_in(keys, value_set=side.keys) for side in (before, after))
    was, remains = as_mask(at_before.is_valid()), as_mask(at_after.is_valid())
    both = np.flatnonzero(was & remains)
    same = np.zeros(len(keys), dtype=bool)
    pairs = ((before, at_before.take(pa.array(both))), (after, at_after.take(pa.array(both))))
    same[both] = _same_rows(pairs)
    if by_value and same.any():
        texts = (rows_as_json(side.take(at), JsonForm.OF_ROW) for side, at in pairs)
        same[both] &= as_mask(pc.equal(*texts))
    changed = np.flatnonzero((was | remains) & ~same)
    kinds = np.where(was[changed], np.where(remains[changed], 1, 2), 0)
    operations = _OPERATIONS.take(pa.array(kinds))
    at_before, at_after = at_before.take(pa.array(changed)), at_after.take(pa.array(changed))
    sizes = _sizes(before.table, at_before) + _sizes(after.table, at_after)
    for start, stop in cuts(sizes):
        count = stop - start
        images = (_Image(side.take(at.slice(start, count))) for side, at in ((before, at_before), (after, at_after)))
        yield _Changes(instant_time, operations.slice(start, count), *images)


def _same_rows(pairs: Sequence[tuple[_Rows, pa.Array]]) -> _Mask:
    """Mask of the pairs that are one row: of one write, with one number."""
    same = np.ones(len(pairs[0][1]), dtype=bool)
    for name in (COMMIT_TIME, COMMIT_SEQNO):
        same &= as_mask(pc.equal(*(side.table.column(name).take(at) for side, at in pairs)))
    return same


def _sizes(table: pa.Table, at: pa.Array) -> npt.NDArray[np.int64]:
    known = as_mask(at.is_valid())
    sizes = np.zeros(len(at), dtype=np.int64)
    sizes[known] = row_bytes(table)[at.drop_null().to_numpy()]
    return sizes


# --- Logs --------------------------------------------------------------------------------------------------


def _appended(storage: Storage, rows: ScanPlan, task: ChangeTask) -> Iterator[_Changes]:
    """The records in the log blocks of each write, as they were before it and after it."""
    assert task.after is not None
    slice_ = task.after.files
    columns = [name for name in rows.schema.names if name not in rows.path_columns]
    schema = rows.merging.needed_for(columns)
    blocks = slice_.judged_by(rows.merging.blocks)
    if task.until is not None:
        blocks = replace(blocks, until=task.steps[-1])
    versions = read_log_versions(
        storage,
        slice_.logs,
        schema,
        rows.merging.rules.in_logs,
        blocks=blocks,
        spill=rows.merging.spill,
        names=slice_.names,
    )
    writes = np.repeat(list(versions.written_by), list(versions.rows_of.values())).tolist()
    steps = {instant: number for number, instant in enumerate(task.steps)}
    ranks = np.array([_rank(write, steps, task) for write in writes], dtype=np.int64)
    keys = _one_array(versions.rows.column(RECORD_KEY))
    touched = keys.filter(pa.array(ranks >= 0)).unique()
    base: Iterator[pa.RecordBatch] = iter(())
    if slice_.base is not None:
        base = _with_keys(read_base_rows(storage, slice_, schema), touched)
    stored = _gathered(base, schema, rows)
    for number, instant in enumerate(task.steps):
        changed = keys.filter(pa.array(ranks == number)).unique()
        of_records = as_mask(pc.is_in(keys, value_set=changed))
        held = stored.table.filter(pc.is_in(stored.table.column(RECORD_KEY), value_set=changed))
        sides = []
        for last in (number - 1, number):
            part = replace(versions, rows=versions.rows.filter(pa.array(of_records & (ranks <= last))))
            sides.append(_state(storage, rows, task.after, held, part, schema, columns))
        yield from _between(instant, changed, sides[0], sides[1], by_value=not rows.merging.rules.in_logs.selects)


def _rank(write: str, steps: dict[str, int], task: ChangeTask) -> int:
    """The step of a block's write, or that before which it counts; -1: it was there before the first."""
    if write in steps:
        return steps[write]
    position = task.positions.get(write, write)
    return sum(task.positions.get(step, step) < position for step in task.steps) - 1


def _state(
    storage: Storage,
    rows: ScanPlan,
    scan_slice: ScanSlice,
    held: pa.Table,
    versions: LogVersions,
    schema: pa.Schema,
    columns: Sequence[str],
) -> _Rows:
    pieces = merge_base(storage, scan_slice.files, versions, rows.merging, schema, columns, stored=held.to_batches())
    batches = (batch for piece in pieces for batch in (piece.stored, piece.updated, piece.inserted) if batch.num_rows)
    kept = pa.schema([rows.merging.schema.field(name) for name in columns])
    return _gathered(batches, kept, rows)


# --- Results -----------------------------------------------------------------------------------------------


def _as_batch(changes: _Changes, plan: ChangePlan) -> pa.RecordBatch:
    count = len(changes.operations)
    images = [_image_column(image, plan) for image in (changes.before, changes.after)]
    columns = [changes.operations, pa.repeat(changes.instant_time, count), *images]
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def _image_column(image: _Image, plan: ChangePlan) -> pa.Array:
    if plan.images is not None:
        kind = plan.schema.field(BEFORE).type
        own = [name for name in image.rows.type.names if name not in META_COLUMNS]
        rows = pa.RecordBatch.from_struct_array(_without_nulls(image.rows)).select(own)
        typed = align(rows, pa.schema(list(kind)))
        mask = None if not image.rows.null_count else pc.is_null(image.rows)
        return pa.StructArray.from_arrays(typed.columns, fields=list(kind), mask=mask)
    if not image.of_log:
        return rows_as_json(image.rows, JsonForm.OF_ROW)
    # JVM Hudi prints what a log does not have as the text `null`.
    return pc.fill_null(rows_as_json(image.rows, JsonForm.OF_LOG), "null")


def _without_nulls(rows: pa.StructArray) -> pa.StructArray:
    """The columns of null rows are null themselves."""
    if not rows.null_count:
        return rows
    fields = [field.with_nullable(True) for field in rows.type]
    return pa.StructArray.from_arrays(rows.flatten(), fields=fields)


def _as_struct(rows: pa.RecordBatch, schema: pa.Schema) -> pa.StructArray:
    fields = [
        schema.field(name).with_nullable(True).with_type(column.type)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.StructArray.from_arrays(rows.columns, fields=fields)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
