"""The partition `partition_stats`: the bounds and null counts of the indexed columns of each partition of the table.

A commit that only adds files or versions of them widens the bounds: its records are not tight, and readers unite them
with those before. What takes files out of the newest state, as a compaction or a clustering does, makes the bounds
tight again: they are computed anew from all file slices of the partition, and readers forget the previous ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.metadata_table.keys import partition_stats_keys, text_id
from pyhudi.format.metadata_table.ranges import RANGES, Range, promoted, ranges_batch, ranges_of_batch, united, widest
from pyhudi.format.metadata_table.records import make_records
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, RecordType, payload_type
from pyhudi.format.metadata_table.statistics import statistics_payloads
from pyhudi.format.metadata_table.value_types import BYTES, DATE, DECIMAL, ValueKind, ValueType
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.metadata_table.file_changes import Change, partition_path_of, stored_partition
from pyhudi.metadata_table.file_ranges import read_file_ranges
from pyhudi.metadata_table.lookup import all_records
from pyhudi.metadata_table.partitions.column_stats import (
    columns_after,
    columns_with_statistics,
    kinds_after,
    ranges_of_change,
)
from pyhudi.metadata_table.partitions.protocol import MetadataPartition, Source
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import load_view
from pyhudi.table.index_definitions import (
    COLUMN_STATS,
    PARTITION_STATS,
    load_index_definitions,
    put_index_definitions,
)
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_TIGHTENS: Final = frozenset({WriteOperation.COMPACT, WriteOperation.LOG_COMPACT, WriteOperation.CLUSTER})
_LOGICAL_WRAPPERS: Final = frozenset({DATE, DECIMAL})
"""Of version 1: types that a column keeps."""
_TYPES_KEY: Final = "pyhudi.partition.stats.types"
"""The option of the definition of column statistics: an id of the types that all bounds of partitions have."""
_Place = tuple[str, str]
"""A partition path, and a column."""


@dataclass(frozen=True, kw_only=True)
class PartitionStatsPartition(MetadataPartition):
    """Keeps the bounds of columns by partition."""

    name: str = PARTITION_STATS
    payload: str = COLUMN_STATS_COLUMN

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Cost: as of `ColumnStatsPartition.initial_records`."""
        table = source.table
        schema = load_table_schema(table)
        if schema is None:
            return
        columns = columns_with_statistics(table, schema)
        latest = load_view(table.storage, table.timeline, lister=table.lister).latest
        found = _united(read_file_ranges(source.storage, source.engine, _paths(latest.values()), columns))
        yield from _records(table.version, _with_absent(found), is_tight=True)

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`.

        Cost: as of `ColumnStatsPartition.records_of`; for a compaction, a clustering and an overwrite also a view of
        the table, and a footer per base file and all logs of the partitions that it touches.
        """
        version = source.table.version
        columns = columns_after(change, source.table)
        added = list(ranges_of_change(change, source, columns))
        if change.operation in _TIGHTENS or change.replaced:
            yield from _anew(change, source, columns, added, {*change.added, *change.replaced})
            return
        found = _united(added)
        other = self._with_other_types(change, source.table, columns) if found else set()
        if other:
            yield from _anew(change, source, columns, added, other)
        tight: list[tuple[_Place, Range]] = []
        loose: list[tuple[_Place, Range]] = []
        for place, statistics in found.values():
            if place[0] not in other:
                (tight if is_united_wrongly(statistics) else loose).append((place, statistics))
        yield from _records(version, [(place, maybe_null(range_)) for place, range_ in loose], is_tight=False)
        yield from _records(version, [(place, wide(maybe_null(range_))) for place, range_ in tight], is_tight=True)

    def _with_other_types(self, change: Change, table: TableState, columns: Sequence[str]) -> set[str]:
        """The partition paths whose bounds must not be united with new ones, as the type of a column was changed.

        The definition remembers the types that all bounds have, so the bounds are read only when the types change.
        """
        kinds = kinds_after(change, table, columns)
        types = text_id(repr(sorted((name, int(kind.type), kind.info) for name, kind in kinds.items())))
        definitions = load_index_definitions(table)
        definition = definitions.get(COLUMN_STATS)
        if definition is None or definition.options.get(_TYPES_KEY) == types:
            return set()
        other = _of_other_types(table, kinds)
        if other:
            return other  # remembered when that has been committed
        definitions[COLUMN_STATS] = replace(definition, options={**definition.options, _TYPES_KEY: types})
        put_index_definitions(table, definitions.values())
        return set()


def _anew(
    change: Change, source: Source, columns: Sequence[str], added: Sequence[pa.RecordBatch], touched: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Tight records of partitions that a change touches, and none of those that are empty after it."""
    table = source.table
    latest = load_view(table.storage, table.timeline, lister=table.lister).latest
    left = [_without(latest.get(path, ()), change, path) for path in sorted(touched)]
    added = [batch.filter(pc.is_in(batch.column("partition_path"), pa.array(sorted(touched)))) for batch in added]
    found = _united([*read_file_ranges(source.storage, source.engine, _paths(left), columns), *added])
    kinds = kinds_after(change, table, columns)
    newest = ((place, promoted(range_, kinds.get(range_.column, range_.kind))) for place, range_ in _with_absent(found))
    yield from _records(table.version, newest, is_tight=True)
    gone = [(path, column) for path in sorted(touched) for column in columns if (path, column) not in found]
    if gone:
        kind = payload_type(table.version, COLUMN_STATS_COLUMN)
        keys = partition_stats_keys(
            pa.array([column for _, column in gone], pa.string()),
            pa.array([stored_partition(path) for path, _ in gone], pa.string()),
        )
        yield make_records(table.version, COLUMN_STATS_COLUMN, keys, _types(len(gone)), pa.nulls(len(gone), kind))


def _of_other_types(table: TableState, kinds: Mapping[str, ValueKind]) -> set[str]:
    """The partition paths of which a column had another type when its bounds were written.

    JVM Hudi cannot unite bounds of two types, and would fail. Cost: two listings, and the whole of this partition of
    the metadata table.
    """
    state = load_metadata_state(table)
    found = pa.concat_tables(all_records(state, PARTITION_STATS, COLUMN_STATS_COLUMN))
    payloads = found.column(COLUMN_STATS_COLUMN).combine_chunks()
    columns, stored = payloads.field("columnName").to_pylist(), payloads.field("fileName").to_pylist()
    return {
        partition_path_of(path)
        for path, column, kept in zip(stored, columns, _kinds_of(payloads), strict=True)
        if kept is not None and column in kinds and not _is_of_kind(kinds[column], kept, table.version)
    }


def _kinds_of(payloads: pa.StructArray) -> Iterator[tuple[str, int | None, str | None] | None]:
    """The wrapper, the number of the type and what it needs beside it; None for a column without any value."""
    types = payloads.field("valueType").to_pylist()
    for wrapped, kept in zip(payloads.field("minValue").to_pylist(), types, strict=True):
        names = [name for name, value in (wrapped or {}).items() if value is not None]
        number, info = (None, None) if kept is None else (kept["typeOrdinal"], kept["additionalInfo"])
        yield (names[0], number, info) if names else None


def _is_of_kind(kind: ValueKind, kept: tuple[str, int | None, str | None], version: TableVersion) -> bool:
    wrapper, number, info = kept
    if version.has_value_types:
        return (number, info) == (int(kind.type), kind.info)
    return wrapper == kind.wrapper or wrapper in _LOGICAL_WRAPPERS


def _without(slices: Iterable[FileSlice], change: Change, partition_path: str) -> list[FileSlice]:
    """The slices of a partition that a change leaves as they are.

    A compaction replaces the base file and the logs of a group until its instant; logs since then stay with their base
    file, whose bounds hold for the new one, too. A log is added to its group.
    """
    replaced = {*change.replaced.get(partition_path, ())}
    names = [parse_data_file(file.name) for file in change.added.get(partition_path, ())]
    rewritten = {name.file_id for name in names if isinstance(name, BaseFileName)}
    return [
        file_slice
        for file_slice in slices
        if file_slice.file_id not in replaced
        and (
            file_slice.file_id not in rewritten
            or any(log.instant_time >= change.instant_time for log in file_slice.logs)
        )
    ]


def _paths(slices: Iterable[Iterable[FileSlice]]) -> list[str]:
    return [
        path
        for group in slices
        for file_slice in group
        for path in (
            *([] if file_slice.base is None else [file_slice.base.path]),
            *(log.path for log in file_slice.logs),
        )
    ]


def _united(batches: Iterable[pa.RecordBatch]) -> Mapping[_Place, tuple[_Place, Range]]:
    """The ranges of the rows of `RANGES` by partition path and column, as the values of a mapping."""
    found: dict[_Place, tuple[_Place, Range]] = {}
    for batch in batches:
        for partition_path, _, range_ in ranges_of_batch(batch):
            if range_.values == 0:
                continue  # a log with deletes alone
            place = (partition_path, range_.column)
            previous = found.get(place)
            found[place] = (place, range_ if previous is None else united(previous[1], range_))
    return found


def is_united_wrongly(range_: Range) -> bool:
    """Whether JVM Hudi would unite such bounds with those before in another order than that in which it reads them."""
    if range_.kind.type is ValueType.STRING:
        return any(character > "\ud7ff" for text in (range_.low, range_.high) for character in text or "")
    return range_.kind.wrapper == BYTES and range_.kind.type is not ValueType.DECIMAL


def maybe_null(range_: Range) -> Range:
    """The range with one null at least: in files of the partition that lack the column, all its values are null."""
    nulls = max(range_.nulls or 0, 1)
    return replace(range_, nulls=nulls, values=max(range_.values, nulls + (range_.low is not None)))


def _with_absent(found: Mapping[_Place, tuple[_Place, Range]]) -> Iterator[tuple[_Place, Range]]:
    """The ranges of partitions, with the nulls of those files that lack a column."""
    rows: dict[str, int] = {}
    for (path, _), range_ in found.values():
        rows[path] = max(rows.get(path, 0), range_.values)
    for place, statistics in found.values():
        absent = rows[place[0]] - statistics.values
        yield place, replace(statistics, nulls=(statistics.nulls or 0) + absent, values=statistics.values + absent)


def wide(range_: Range) -> Range:
    """The range with the widest bounds of its type."""
    low, high = widest(range_.kind)
    return replace(range_, low=low, high=high)


def _records(
    version: TableVersion, found: Iterable[tuple[_Place, Range]], *, is_tight: bool
) -> Iterator[pa.RecordBatch]:
    files: dict[tuple[str, str], list[Range]] = {}
    for (partition_path, _), range_ in found:
        stored = stored_partition(partition_path)
        files.setdefault((stored, stored), []).append(range_)
    if not files:
        return
    ranges = ranges_batch(files)
    assert ranges.schema == RANGES
    keys = partition_stats_keys(ranges.column("column"), ranges.column("partition_path"))
    payloads = statistics_payloads(ranges, payload_type(version, COLUMN_STATS_COLUMN), is_tight=is_tight)
    yield make_records(version, COLUMN_STATS_COLUMN, keys, _types(len(keys)), payloads)


def _types(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(int(RecordType.PARTITION_STATS), pa.int32()), count)
