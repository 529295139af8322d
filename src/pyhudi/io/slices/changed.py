"""Reading what some writes changed in a slice with logs: the records that they wrote, as they are at the end.

The logs tell which records were written, and the whole slice what became of them: a row that lost against an older one
is no change. The base file is read only where it may have such rows: its footer tells whether a row of the logs can
lose by its ordering value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.metadata_table.value_types import ValueType
from pyhudi.format.schema.meta_columns import COMMIT_TIME, RECORD_KEY
from pyhudi.io.base_file import opened_base_file
from pyhudi.io.column_ranges import range_of_values, ranges_of_footer
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.records import LogVersions, read_log_versions
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.mask import KEY_BATCH_ROWS
from pyhudi.io.slices.merged import MergeSettings, merge_base
from pyhudi.merge.control_columns import BY_COMMIT_TIME, COLUMNS, DELETED
from pyhudi.merge.table_rules import TableRules
from pyhudi.storage.protocol import Storage

_UNORDERED: Final = frozenset({ValueType.FLOAT, ValueType.DOUBLE})
"""Types whose footers do not tell of all values: NaN is above them."""


@dataclass(frozen=True, slots=True)
class _Written:
    """What the logs say: the records that the writes wrote, and the versions of before that delete some of them.

    `before`: all versions of before of the records that one of them deletes.
    """

    keys: pa.Array
    before: pa.Table


def read_changed(
    storage: Storage, files: SliceFiles, earlier: SliceFiles | None, settings: MergeSettings, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of the records that the writes `settings.commit_times` wrote, as they are by all of `settings.blocks`.

    `files`: the logs of the slice, and its base file if one of the writes made it; `earlier`: its base file if it is
    older. Where versions of a record are combined, the row is the combination. A record whose row is that of an earlier
    write is left out, unless it was deleted before and is there again, or versions are combined.

    Cost: the logs of the slice, without ordering fields only those of the writes. A base file of the writes is read; of
    an earlier one the footer, and where rows of the logs may lose against its rows the keys and ordering values, or,
    where rules combine versions, the columns. Memory and errors: as `merge_slice`.
    """
    assert settings.commit_times is not None
    rules = settings.rules
    selects = rules.with_base.selects and rules.in_logs.selects
    # Whether a combination changes a row shows in all of its columns.
    result = list(dict.fromkeys([*columns, RECORD_KEY, COMMIT_TIME])) if selects else settings.schema.names
    schema = settings.needed_for(result)
    versions = _log_versions(storage, files, settings, schema)
    selects = selects and not versions.column_sets
    written = _written(versions, settings.commit_times)
    stored: Iterator[pa.RecordBatch] | None = None
    gone = pa.array([], pa.string())
    if files.base is None:
        if not len(written.keys):
            return
        if written.before.num_rows and earlier is not None:
            gone = _gone_before(storage, files, earlier, replace(versions, rows=written.before), settings)
        versions = replace(versions, rows=_of_records(versions.rows, written.keys))
        whole = not selects or len(gone) > 0
        stored = _stored(storage, earlier, versions, settings, schema, written.keys, whole=whole)
    in_range = pa.array(sorted(settings.commit_times), pa.string())
    for piece in merge_base(storage, files, versions, settings, schema, result, stored=stored):
        is_there_again = pc.is_in(piece.stored.column(RECORD_KEY), value_set=gone)
        kept = pc.or_(pc.is_in(piece.stored.column(COMMIT_TIME), value_set=in_range), is_there_again)
        yield from _some(piece.stored.filter(kept), columns)
        for rows in (piece.updated, piece.inserted):
            # A combination may keep the meta columns of an earlier write.
            of_writes = rows.filter(pc.is_in(rows.column(COMMIT_TIME), value_set=in_range)) if selects else rows
            yield from _some(of_writes, columns)


def _log_versions(storage: Storage, files: SliceFiles, settings: MergeSettings, schema: pa.Schema) -> LogVersions:
    """The versions in the logs: where the later one always wins, and whole, only those of the writes."""
    rules, blocks = settings.rules, files.judged_by(settings.blocks)

    def read(blocks: BlockFilter) -> LogVersions:
        return read_log_versions(
            storage, files.logs, schema, rules.in_logs, blocks=blocks, spill=settings.spill, names=files.names
        )

    if rules.in_logs.selects and rules.with_base.selects and not rules.in_logs.ordering_fields:
        of_writes = read(replace(blocks, committed=settings.commit_times, archived_before=""))
        if not of_writes.column_sets:
            return of_writes
    return read(blocks)


def _some(rows: pa.RecordBatch, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if rows.num_rows:
        yield rows.select(list(columns))


def _written(versions: LogVersions, writes: Collection[str]) -> _Written:
    """A log compaction has rows of several writes, so rows count by their commit time, too."""
    counts = list(versions.rows_of.values())
    of_writes = np.repeat([instant in writes for instant in versions.written_by], counts).astype(bool)
    times = versions.rows.column(COMMIT_TIME)
    of_writes |= np.asarray(pc.is_in(times, value_set=pa.array(sorted(writes), pa.string())), dtype=bool)
    keys = versions.rows.column(RECORD_KEY)
    touched = _array(keys.filter(pa.array(of_writes)).unique())
    before = _of_records(versions.rows.filter(pa.array(~of_writes)), touched)
    deleted = _array(before.filter(before.column(DELETED)).column(RECORD_KEY).unique())
    return _Written(touched, _of_records(before, deleted))


def _gone_before(
    storage: Storage, files: SliceFiles, earlier: SliceFiles, before: LogVersions, settings: MergeSettings
) -> pa.Array:
    """The records of these versions that the slice did not have before the writes: their rows may be there again."""
    keys, schema = _array(before.rows.column(RECORD_KEY).unique()), settings.needed_for([RECORD_KEY])
    before = replace(before, rows=before.rows.select([*schema.names, DELETED, BY_COMMIT_TIME, COLUMNS]))
    stored = _rows_of(storage, earlier, schema, keys)
    there = [pa.array([], pa.string())]
    for piece in merge_base(storage, files, before, settings, schema, [RECORD_KEY], stored=stored):
        there += [rows.column(RECORD_KEY) for rows in (piece.stored, piece.updated, piece.inserted)]
    return keys.filter(pc.invert(pc.is_in(keys, value_set=pa.concat_arrays(there))))


def _array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _of_records(rows: pa.Table, keys: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows.column(RECORD_KEY), value_set=keys))


def _stored(
    storage: Storage,
    earlier: SliceFiles | None,
    versions: LogVersions,
    settings: MergeSettings,
    schema: pa.Schema,
    keys: pa.Array,
    *,
    whole: bool,
) -> Iterator[pa.RecordBatch]:
    """The rows of the earlier base file with which those of the logs have to be compared, or combined: `whole` rows."""
    if earlier is None:
        return
    if not whole:
        if not _may_lose(storage, earlier, settings.rules, versions.rows):
            return
        schema = settings.needed_for([RECORD_KEY])  # which rows of the logs lose is all that is asked
    yield from _rows_of(storage, earlier, schema, keys)


def _rows_of(storage: Storage, base: SliceFiles, schema: pa.Schema, keys: pa.Array) -> Iterator[pa.RecordBatch]:
    """The rows of a base file with these keys."""
    for batch in read_base_rows(storage, base, schema, batch_rows=KEY_BATCH_ROWS):
        rows = batch.filter(pc.is_in(batch.column(RECORD_KEY), value_set=keys))
        if rows.num_rows:
            yield rows


def _may_lose(storage: Storage, base: SliceFiles, rules: TableRules, rows: pa.Table) -> bool:
    """Whether some of the rows may have ordering values below those of a base file. Cost: its footer, if they order."""
    assert base.base is not None
    if not rules.in_logs.ordering_fields:
        return False
    name = rules.in_logs.ordering_fields[0]
    values = rows.filter(pc.invert(rows.column(DELETED))).column(name)
    with opened_base_file(storage, base.base) as (_, parquet):
        stored = next(iter(ranges_of_footer(parquet.metadata, [name])), None)
    if stored is None or stored.is_open or stored.high is None or values.null_count or not len(values):
        return True
    if stored.kind.type in _UNORDERED or (rules.in_logs.null_is_zero and stored.nulls != 0):
        return True
    lowest = range_of_values(name, stored.kind, values).low
    is_alone = len(rules.in_logs.ordering_fields) == 1
    return bool(lowest < stored.high if is_alone else lowest <= stored.high)
