"""Reading a merged file slice: the base file with the changes of its logs.

The base file is streamed, so memory is bounded by a batch of it and the log records of the slice. The versions in the
logs are merged first (`merge/versions.py`), then with the stored row; records that are only in logs come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.pieces import cuts, meetings
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import COMMIT_TIME, RECORD_KEY
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.changes import merge_logs
from pyhudi.io.log.records import LogVersions, read_log_versions, with_record_keys
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.merge.control_columns import BY_COMMIT_TIME, DELETED
from pyhudi.merge.pairs import as_mask, choose, flattened, incoming_wins
from pyhudi.merge.rules import OF_THE_WRITE
from pyhudi.merge.table_rules import TableRules
from pyhudi.merge.versions import merge_pairs, ordering_columns
from pyhudi.storage.protocol import Storage

BATCH_ROWS = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """How slices of one table are merged; `schema` is the table's, with the meta columns.

    `rules` merge versions in logs, and the result with stored rows: see `TableRules`. `commit_times`: the writes whose
    changes are asked for (`read_changed`); None: all rows are. `keys`: the key generator of a table without meta
    columns; the reader must not ask for meta columns then.
    """

    schema: pa.Schema
    rules: TableRules
    blocks: BlockFilter = field(default_factory=BlockFilter)
    spill: SpillSettings = field(default_factory=SpillSettings)
    commit_times: frozenset[str] | None = None
    keys: KeyGenerator | None = None

    def needed_for(self, columns: Sequence[str]) -> pa.Schema:
        """The columns that merging needs to return `columns`; a custom merger may need any."""
        rules = self.rules.in_logs
        if rules.merger is not None:
            return self.schema
        needed = {*columns, RECORD_KEY, *rules.ordering_fields}
        if self.commit_times is not None:
            needed.add(COMMIT_TIME)
        if self.keys is not None:
            needed |= {part for name in self.keys.record_key_fields for part in (name, name.partition(".")[0])}
        if rules.delete_marker is not None:
            needed.add(rules.delete_marker[0])
        return pa.schema([field for field in self.schema if field.name in needed])


@dataclass(frozen=True, slots=True)
class MergedRows:
    """A piece of a merged slice: unchanged stored rows, updated stored rows, and rows that are only in logs.

    `deleted` counts stored records that the logs delete. All three have the schema that was asked for.
    """

    stored: pa.RecordBatch
    updated: pa.RecordBatch
    inserted: pa.RecordBatch
    deleted: int = 0


def read_merged(
    storage: Storage, files: SliceFiles, settings: MergeSettings, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The records of a slice with these columns, batch by batch. Cost and errors: see `merge_slice`."""
    for piece in merge_slice(storage, files, settings, columns):
        for rows in (piece.stored, piece.updated, piece.inserted):
            if rows.num_rows:
                yield rows


def merge_slice(
    storage: Storage, files: SliceFiles, settings: MergeSettings, columns: Sequence[str]
) -> Iterator[MergedRows]:
    """The pieces of a merged slice, with these columns.

    Cost: the requested columns of the base file and those that merging needs, and the whole logs. Raises
    `CorruptDataError` naming a damaged file, `SchemaMismatchError` for a log whose rows do not fit the table, and
    `UnsupportedFeatureError` for tables without the meta columns.
    """
    schema = settings.needed_for(columns)
    if RECORD_KEY not in schema.names:
        raise UnsupportedFeatureError("logs cannot be merged without the column _hoodie_record_key", base=files.base)
    versions = read_log_versions(
        storage,
        files.logs,
        schema,
        settings.rules.in_logs,
        blocks=files.judged_by(settings.blocks),
        spill=settings.spill,
        keys=settings.keys,
        names=files.names,
    )
    yield from merge_base(storage, files, versions, settings, schema, columns)


def merge_base(
    storage: Storage,
    files: SliceFiles,
    versions: LogVersions,
    settings: MergeSettings,
    schema: pa.Schema,
    columns: Sequence[str],
    *,
    stored: Iterable[pa.RecordBatch] | None = None,
) -> Iterator[MergedRows]:
    """The pieces of a slice whose log records are loaded. `schema`: the columns of the pieces.

    `stored`: some rows of its base file, with this schema; None: the file is read.
    """
    changes = merge_logs(settings.rules, versions)
    sizes, met = changes.sizes(), np.zeros(changes.count, dtype=bool)
    result = pa.schema([schema.field(name).with_nullable(True) for name in columns])
    if stored is None:
        stored = read_base_rows(storage, files, schema, batch_rows=BATCH_ROWS) if files.base is not None else ()
    stored_schema = pa.schema([field.with_nullable(True) for field in schema])
    for batch in stored:
        rows = align(batch, stored_schema)
        if settings.keys is not None:
            rows = with_record_keys(rows, settings.keys)
        at = pc.index_in(rows.column(RECORD_KEY), value_set=changes.keys)
        places = np.flatnonzero(as_mask(at.is_valid()))
        changed_by = at.drop_null().to_numpy().astype(np.int64)
        met[changed_by] = True
        for begin, end, low, high in meetings(places, sizes[changed_by], rows.num_rows):
            piece, part = rows.slice(begin, end - begin), changes.take(changed_by[low:high])
            yield _merged(piece, places[low:high] - begin, part, settings.rules, versions.column_sets, result)
    nothing = pa.RecordBatch.from_pylist([], schema=result)
    alone = np.flatnonzero(~met & ~as_mask(changes.deleted))
    for first in range(0, len(alone), BATCH_ROWS):
        numbers = alone[first : first + BATCH_ROWS]
        for low, high in cuts(sizes[numbers]):
            yield MergedRows(nothing, nothing, _project(changes.take(numbers[low:high]), result))


def _merged(
    rows: pa.RecordBatch,
    places: npt.NDArray[np.int64],
    changes: pa.RecordBatch,
    rules: TableRules,
    column_sets: Sequence[frozenset[str]],
    result: pa.Schema,
) -> MergedRows:
    """Stored rows with their changes: change `i` belongs to row `places[i]`."""
    nothing = pa.RecordBatch.from_pylist([], schema=result)
    met = rows.take(pa.array(places))
    effective = _effective(rules, met, changes)
    if not effective.all():
        places = places[effective]
        met, changes = met.filter(pa.array(effective)), changes.filter(pa.array(effective))
    if len(places) == 0:
        return MergedRows(_project(rows, result), nothing, nothing)
    latest_write = rules.log_merge is not None and rules.log_merge.latest_write
    if latest_write:
        met = _of_the_write(met, changes)
    outcome = merge_pairs(rules.with_base, met, changes, column_sets=column_sets)
    updated, stays = _project(outcome.rows, result), outcome.stays
    if latest_write:
        updated = pa.concat_batches([updated, _project(met.filter(pa.array(stays)), result)])
        stays = np.zeros_like(stays)
    untouched = np.ones(rows.num_rows, dtype=bool)
    untouched[places[~stays]] = False
    deleted = int(np.count_nonzero(outcome.deleted))
    return MergedRows(_project(rows.filter(pa.array(untouched)), result), updated, nothing, deleted)


def stays_as_it_is(rules: TableRules, stored: pa.RecordBatch, changes: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Mask of stored rows that their changes do not supersede: row `i` of both is one record. For selecting rules."""
    stays = ~_effective(rules, stored, changes)
    met, meeting = stored.filter(pa.array(~stays)), changes.filter(pa.array(~stays))
    stays[~stays] = merge_pairs(rules.with_base, met, meeting).stays
    return stays


def _effective(rules: TableRules, stored: pa.RecordBatch, changes: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Mask of the log changes that affect their stored row, in the two cases that `merge_pairs` does not decide.

    One: the payload class orders rows by arrival, but deletes by ordering values. Two: a late row must not even fill
    columns where the stored row is null.
    """
    fold, ordering = rules.log_merge, rules.with_base.ordering_fields
    if fold is None:
        return np.ones(stored.num_rows, dtype=bool)
    late_rows_count = fold.late_rows_show or rules.with_base.selects or not ordering
    deletes_differ = not rules.deletes_reach_base and ordering != rules.in_logs.ordering_fields
    if late_rows_count and not deletes_differ:
        return np.ones(stored.num_rows, dtype=bool)
    new, old = (ordering_columns(rules.in_logs, side) for side in (changes, stored))
    deletes = as_mask(changes.column(DELETED))
    compares = np.where(deletes, ~as_mask(changes.column(BY_COMMIT_TIME)), not late_rows_count)
    return incoming_wins(new, old, stored.num_rows) | ~compares


def _of_the_write(stored: pa.RecordBatch, changes: pa.RecordBatch) -> pa.RecordBatch:
    """The stored rows with the meta columns of the writes of their changes, except for deletes."""
    is_row = ~as_mask(changes.column(DELETED))
    columns = {name: stored.column(name) for name in stored.schema.names}
    for name in OF_THE_WRITE.intersection(columns, changes.schema.names):
        columns[name] = flattened(choose(is_row, changes.column(name), columns[name]))
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=stored.schema)


def _project(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([rows.column(name) for name in schema.names], schema=schema)
