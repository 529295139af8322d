"""Routing: the staged rows of each split are sent to the tasks that write the files which they belong to.

The plan assigns each file a number. Tagged rows go to the file of their file group; rows without a tag fill the quotas
that the plan gave this split, in order, so that files become as large as planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import ExchangeFolder, ExchangeReader, FilePart, Segment, open_exchange, read_segment
from pyhudi.engine.protocol import AddressedRows, TaskContext
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.merge.pairs import as_mask
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.tasks.row_changes import (
    CHANGE,
    DELETING,
    INSERTING,
    NAMED,
    UPDATING,
    Change,
    ChangeKeys,
    check_absent,
    of_codes,
    repeated_key,
)
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import BARRED, FILE, MOVED, NEW_RECORD, POSITION, TAGS_SCHEMA

DELETE = "#delete"
UNKNOWN_POSITION = -2
"""Instead of the position of a stored row: its file has not been searched for the key."""
ROUTED_FIELDS = (pa.field(POSITION, pa.int64()), pa.field(DELETE, pa.bool_()))
"""Added to routed rows: row number of the stored version in the base file (-1: a new record; or `UNKNOWN_POSITION`),
and whether the record leaves this file group."""
CHUNK_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Quota:
    """Up to `rows` new records go into the file with the number `assignment`."""

    assignment: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTask:
    """Send the rows of one split to their files.

    `quotas`: where new records of a partition path go, in order; the last one takes the rest. None: new records are
    not written (a delete). `writes_tagged`: whether rows with a tag are written (False where an insert drops them as
    duplicates). `changes`: how changes get their keys, where each row says itself what becomes of it. A tag without a
    position (`NEW_RECORD`) says where a record comes back that logs have deleted.
    """

    folder: ExchangeFolder
    split: StagedSplit
    tags: tuple[Segment, ...]
    quotas: Mapping[str, tuple[Quota, ...]] | None
    writes_tagged: bool
    delete_tagged: bool
    changes: ChangeKeys | None = None

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads."""
        yield from parts_of_split(self.split)
        for segment in self.tags:
            yield segment.part


def parts_of_split(split: StagedSplit) -> Iterator[FilePart]:
    """The rows and the keys of a split, as parts of files; none of one without rows."""
    if split.rows:
        yield FilePart(split.rows_path)
        yield FilePart(split.keys_path)


@dataclass(frozen=True, slots=True)
class Routes:
    """Parallel arrays: a row, its file, the position of the stored row, whether that is deleted."""

    row: npt.NDArray[np.int64]
    assignment: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    delete: npt.NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[Routes]) -> Routes:
        """The routes of all parts, sorted by row."""
        merged = cls(
            row=np.concatenate([np.zeros(0, np.int64), *(part.row for part in parts)]),
            assignment=np.concatenate([np.zeros(0, np.int64), *(part.assignment for part in parts)]),
            position=np.concatenate([np.zeros(0, np.int64), *(part.position for part in parts)]),
            delete=np.concatenate([np.zeros(0, np.bool_), *(part.delete for part in parts)]),
        )
        return merged.take(np.argsort(merged.row, kind="stable"))

    def take(self, order: npt.NDArray[np.int64]) -> Routes:
        """The routes of these numbers."""
        return Routes(self.row[order], self.assignment[order], self.position[order], self.delete[order])


def send_routed(assignment_of_file: Mapping[int, int], _: TaskContext, task: RouteTask) -> Iterator[AddressedRows]:
    """The rows of one split, to their files. Memory: `CHUNK_BYTES` of rows, and 25 bytes per row of the split.

    `assignment_of_file`: by the number of a tagged slice, that of the file that is written for it.
    """
    storage = open_spec(task.folder.storage)
    if task.split.rows:
        yield from routed_rows(storage, task.split, _routes_of(storage, task, assignment_of_file))


def routed_rows(storage: Storage, split: StagedSplit, routes: Routes) -> Iterator[AddressedRows]:
    """The rows of a split in the order of `routes`, with `ROUTED_FIELDS`; they are sent to the `assignment`."""
    with open_exchange(storage, split.rows_path) as reader:
        schema = pa.schema([*reader.schema, *ROUTED_FIELDS])
        for first, chunk in _chunks(reader):
            begin, end = np.searchsorted(routes.row, [first, first + chunk.num_rows])
            if begin < end:
                yield _addressed(chunk, routes.take(np.arange(begin, end)), first, schema)


def _routes_of(storage: Storage, task: RouteTask, assignment_of_file: Mapping[int, int]) -> Routes:
    tags = pa.Table.from_batches((b for segment in task.tags for b in read_segment(storage, segment)), TAGS_SCHEMA)
    changes = None if task.changes is None else changes_of(storage, task.split, task.changes)
    parts = [_tagged_routes(task, tags, changes, assignment_of_file)] if task.writes_tagged else []
    if task.quotas is not None:
        # A record that leaves its partition is a new one where it goes.
        moved = as_mask(tags.column(MOVED))
        rows = _numbers(tags.column(ROW))
        stays = ~moved
        if changes is not None:
            is_live = _numbers(tags.column(POSITION)) != NEW_RECORD
            stays |= changes.of(rows, *DELETING) | is_live & changes.of(rows, Change.INSERT_IF_ABSENT)
        parts.extend(_new_routes(storage, task, rows[stays], changes, rows[moved]))
    return Routes.joined(parts)


@dataclass(frozen=True, slots=True)
class StagedChanges:
    """The rows of a split of changes, ascending, and what each is."""

    row: npt.NDArray[np.int64]
    code: npt.NDArray[np.int8]
    named: npt.NDArray[np.int32]
    key: pa.ChunkedArray
    how: ChangeKeys

    def of(self, rows: npt.NDArray[np.int64], *kinds: Change) -> npt.NDArray[np.bool_]:
        """A mask of the rows with one of these changes."""
        return of_codes(self.code[np.searchsorted(self.row, rows)], *kinds)

    def keys(self, rows: npt.NDArray[np.int64]) -> pa.ChunkedArray:
        """Their record keys."""
        return self.key.take(pa.array(np.searchsorted(self.row, rows)))

    def check_apart(self, found: npt.NDArray[np.int64]) -> None:
        """Raise `AmbiguousChangeError` where a change of a stored row would change other rows of its key, too.

        `found`: the rows of changes, once for each stored row that the index found. All rows of a key may be deleted,
        if the condition holds for each of them.
        """
        rows, counts = np.unique(found, return_counts=True)
        named = self.named[np.searchsorted(self.row, rows)]
        repeated = (named > 0) & (counts > 1)
        if not self.how.is_merge:
            repeated &= ~self.of(rows, Change.DELETE)
            repeated |= (named != counts) & self.of(rows, Change.DELETE)
        if repeated.any():
            raise repeated_key(self.keys(rows[repeated])[0].as_py())


def changes_of(storage: Storage, split: StagedSplit, how: ChangeKeys) -> StagedChanges:
    """The changes of a split. Memory: their keys."""
    with open_exchange(storage, split.keys_path) as reader:
        batches = [
            reader.get_batch(partition.batch).select([ROW, CHANGE, NAMED, RECORD_KEY]) for partition in split.partitions
        ]
    rows = pa.Table.from_batches(batches)
    order = np.argsort(_numbers(rows.column(ROW)), kind="stable")
    rows = rows.take(pa.array(order))
    return StagedChanges(
        row=_numbers(rows.column(ROW)),
        code=np.asarray(rows.column(CHANGE)),
        named=np.asarray(rows.column(NAMED)),
        key=rows.column(RECORD_KEY),
        how=how,
    )


def _tagged_routes(
    task: RouteTask, tags: pa.Table, changes: StagedChanges | None, assignment_of_file: Mapping[int, int]
) -> Routes:
    tags = tags.filter(pc.not_equal(tags.column(FILE), BARRED))
    delete = as_mask(tags.column(MOVED)) | task.delete_tagged
    if changes is not None:
        rows = _numbers(tags.column(ROW))
        is_live = _numbers(tags.column(POSITION)) != NEW_RECORD
        check_absent(changes.keys(rows[is_live & changes.of(rows, Change.INSERT)]))
        changes.check_apart(rows[is_live])
        # A deleted record comes back where it was: its key may be in one file group only.
        written = np.where(is_live, changes.of(rows, *UPDATING, *DELETING), changes.of(rows, *INSERTING))
        delete = (delete | is_live & changes.of(rows, *DELETING))[written]
        tags = tags.filter(pa.array(written))
    numbers = np.array(sorted(assignment_of_file), dtype=np.int64)
    assignments = np.array([assignment_of_file[int(number)] for number in numbers], dtype=np.int64)
    return Routes(
        row=_numbers(tags.column(ROW)),
        assignment=assignments[np.searchsorted(numbers, _numbers(tags.column(FILE)))],
        position=_numbers(tags.column(POSITION)),
        delete=delete,
    )


def _new_routes(
    storage: Storage,
    task: RouteTask,
    known: npt.NDArray[np.int64],
    changes: StagedChanges | None,
    moved: npt.NDArray[np.int64],
) -> Iterator[Routes]:
    assert task.quotas is not None
    with open_exchange(storage, task.split.keys_path) as reader:
        for partition in task.split.partitions:
            rows = _numbers(reader.get_batch(partition.batch).column(ROW))
            new = np.sort(rows[~np.isin(rows, known)])
            if changes is not None:
                new = new[changes.of(new, *INSERTING) | np.isin(new, moved)]
            if len(new) == 0:
                continue
            quotas = task.quotas[partition.partition_path]
            bounds = np.cumsum([quota.rows for quota in quotas])
            index = np.minimum(np.searchsorted(bounds, np.arange(len(new)), side="right"), len(quotas) - 1)
            assignments = np.array([quota.assignment for quota in quotas], dtype=np.int64)[index]
            yield Routes(new, assignments, np.full(len(new), NEW_RECORD, np.int64), np.zeros(len(new), np.bool_))


def _chunks(reader: ExchangeReader) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows file in pieces of about `CHUNK_BYTES`, each with the number of its first row."""
    first, pending, size = 0, [], 0
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        pending.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES or number == reader.num_record_batches - 1:
            chunk = pending[0] if len(pending) == 1 else pa.concat_batches(pending)
            pending = []
            yield first, chunk
            first, size = first + chunk.num_rows, 0


def _addressed(chunk: pa.RecordBatch, routes: Routes, first: int, schema: pa.Schema) -> AddressedRows:
    routes = routes.take(np.argsort(routes.assignment, kind="stable"))
    rows = chunk.take(pa.array(routes.row - first))
    columns = [*rows.columns, pa.array(routes.position), pa.array(routes.delete)]
    return AddressedRows(pa.RecordBatch.from_arrays(columns, schema=schema), routes.assignment)


def _numbers(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(column).astype(np.int64, copy=False)
