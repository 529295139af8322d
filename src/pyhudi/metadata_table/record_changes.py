"""The records that an action added to a file group, and those that it removed, with the columns that an index keeps.

A record that stays in its group with the same values is neither. Memory: the keys that the action touched; of a group
whose base file lost records, all keys of the group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import COMMIT_TIME, RECORD_KEY, with_meta_columns
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.records import read_log_versions
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, read_merged
from pyhudi.merge.control_columns import BY_COMMIT_TIME, DELETED
from pyhudi.merge.pairs import as_mask
from pyhudi.merge.table_rules import TableRules, table_rules_of
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.slice_changes import SliceChange
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.writes import block_filter
from pyhudi.table.schema import TableSchema, load_table_schema

BATCH_ROWS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSettings:
    """How the rows of file groups are read.

    Attributes:
        columns: the columns that the index keeps, besides the record key.
        merging: how slices are merged, with the blocks of the action among those that count.
        previous_blocks: the blocks that counted before the action.
        own_blocks: only the blocks of the action.
        instant_time: the action.
        merges: whether `merging` has the rules of the table. A custom merger is not at hand here: then a delete with
            an ordering value, which it may refuse, removes nothing.
        compares: whether a row in a log may be one of a record that was deleted before, so that its group must be read.
    """

    columns: tuple[str, ...]
    merging: MergeSettings
    previous_blocks: BlockFilter
    own_blocks: BlockFilter
    instant_time: str
    merges: bool = True
    compares: bool = True


def row_settings(
    source: Source, columns: tuple[str, ...], change: Change | None = None, *, compares: bool = True
) -> RowSettings:
    """The settings for a change, or, without one, for all rows of completed writes."""
    table, metadata = source.table, None if change is None else change.metadata
    if metadata is not None and metadata.schema:
        schema = TableSchema.from_avro(metadata.schema, source="the schema of the write")
    else:
        schema = load_table_schema(table) or TableSchema(pa.schema([]), "")
    try:
        rules, merges = table_rules_of(table.config), True
    except UnsupportedFeatureError:
        rules, merges = TableRules(), False
    instant_time = "" if change is None else change.instant_time
    completed = table.timeline.completed_times
    merging = MergeSettings(
        schema=with_meta_columns(schema.arrow),
        rules=rules,
        blocks=block_filter(table.timeline, completed | {instant_time}),
        spill=source.spill,
    )
    own = BlockFilter() if table.version.has_completion_times else BlockFilter(committed=frozenset({instant_time}))
    return RowSettings(
        columns=columns,
        merging=merging,
        previous_blocks=block_filter(table.timeline, completed),
        own_blocks=own,
        instant_time=instant_time,
        merges=merges,
        compares=compares,
    )


def changed_rows(storage: Storage, change: SliceChange, settings: RowSettings) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """Batches of `_hoodie_record_key` and the index's columns, each with whether the action added or removed them.

    Cost: of a new or replaced group, these columns; of a rewritten base file, of both versions, if the action added or
    removed records there or the index keeps columns; of appended logs, the logs, and the group where it must be merged.
    """
    if change.after is None or change.before is None:
        files = change.after or change.before
        assert files is not None
        for batch in _rows(storage, files, settings):
            yield change.after is not None, batch
        return
    if not change.own_logs:
        if settings.columns or change.inserts or change.deletes:
            yield from _rewritten(storage, change.before, change.after, change, settings)
        return
    yield from _appended(storage, change.before, change.after, change, settings)


def _rewritten(
    storage: Storage, before: SliceFiles, after: SliceFiles, change: SliceChange, settings: RowSettings
) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """By the commit time of rows: the action wrote those that have its own."""
    written, keys = [], []
    for batch in _rows(storage, after, settings, COMMIT_TIME):
        keys.append(batch.column(RECORD_KEY))
        own = batch.filter(pc.equal(batch.column(COMMIT_TIME), settings.instant_time))
        written.append(own.drop_columns([COMMIT_TIME]))
    new = _table(written, settings)
    alive = pa.chunked_array(keys, pa.string()) if change.deletes else None
    met = []
    for batch in _rows(storage, before, settings):
        touched = pc.is_in(batch.column(RECORD_KEY), new.column(RECORD_KEY))
        if alive is not None:
            touched = pc.or_(touched, pc.invert(pc.is_in(batch.column(RECORD_KEY), alive)))
        met.append(batch.filter(touched))
    yield from _difference(_table(met, settings), new)


def _appended(
    storage: Storage, before: SliceFiles, after: SliceFiles, change: SliceChange, settings: RowSettings
) -> Iterator[tuple[bool, pa.RecordBatch]]:
    rules = settings.merging.rules.in_logs
    versions = read_log_versions(
        storage,
        change.own_logs,
        settings.merging.needed_for([RECORD_KEY]),
        rules,
        blocks=settings.own_blocks,
        spill=settings.merging.spill,
        names=after.names,
    ).rows
    deleted = as_mask(versions.column(DELETED))
    late = deleted & ~as_mask(versions.column(BY_COMMIT_TIME))
    keys = versions.column(RECORD_KEY).combine_chunks()
    revives = settings.compares and bool(before.logs) and not deleted.all()
    is_new = before.base is None or change.inserts > 0
    if settings.merges and (settings.columns or late.any() or revives or is_new):
        touched = pc.unique(keys)
        previous = replace(settings, merging=replace(settings.merging, blocks=settings.previous_blocks))
        yield from _difference(
            _rows_with(storage, before, previous, touched), _rows_with(storage, after, settings, touched)
        )
        return
    yield False, _only_keys(keys.filter(pa.array(deleted & ~late)))
    if revives or is_new:
        yield True, _only_keys(keys.filter(pa.array(~deleted)))


def _only_keys(keys: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.unique(keys)], names=[RECORD_KEY])


def _rows_with(storage: Storage, files: SliceFiles, settings: RowSettings, keys: pa.Array) -> pa.Table:
    found = (batch.filter(pc.is_in(batch.column(RECORD_KEY), keys)) for batch in _rows(storage, files, settings))
    return _table(list(found), settings)


def _rows(storage: Storage, files: SliceFiles, settings: RowSettings, *more: str) -> Iterator[pa.RecordBatch]:
    """The rows of a slice: record key, the index's columns, and `more`."""
    names = [RECORD_KEY, *settings.columns, *more]
    if files.logs or files.base is None:
        yield from read_merged(storage, replace(files, committed=()), settings.merging, names)
        return
    schema = pa.schema([settings.merging.schema.field(name).with_nullable(True) for name in names])
    for batch in read_base_rows(storage, files, schema, batch_rows=BATCH_ROWS):
        yield align(batch, schema)


def _table(batches: Sequence[pa.RecordBatch], settings: RowSettings) -> pa.Table:
    names = (RECORD_KEY, *settings.columns)
    schema = pa.schema([settings.merging.schema.field(name).with_nullable(True) for name in names])
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema).combine_chunks()


def _difference(before: pa.Table, after: pa.Table) -> Iterator[tuple[bool, pa.RecordBatch]]:
    """The rows of `before` that are not in `after`, and the other way round: by key and values."""
    gone, new = np.ones(before.num_rows, dtype=bool), np.ones(after.num_rows, dtype=bool)
    if before.num_rows and after.num_rows:
        at = pc.index_in(before.column(RECORD_KEY), value_set=after.column(RECORD_KEY)).combine_chunks()
        here = np.flatnonzero(as_mask(at.is_valid()))
        there = at.drop_null().to_numpy().astype(np.int64)
        same = np.ones(len(here), dtype=bool)
        for name in before.column_names[1:]:
            same &= _equal(before.column(name).take(pa.array(here)), after.column(name).take(pa.array(there)))
        gone[here[same]] = False
        new[there[same]] = False
    for is_added, rows, mask in ((False, before, gone), (True, after, new)):
        for batch in rows.filter(pa.array(mask)).to_batches():
            yield is_added, batch


def _equal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Whether values are equal, null to null, too."""
    both_null = pc.and_(pc.is_null(left), pc.is_null(right))
    return as_mask(pc.or_(pc.fill_null(pc.equal(left, right), False), both_null))
