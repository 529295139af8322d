"""The comparison of indexes over record keys with the rows of the table, and of bounds of partitions with their files'.

A record index says of each record its file group, and of nothing else; a secondary index has the value of each row.
Every record of the table is looked up, and the entries are counted: where both agree, there is no other entry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.environment import SYSTEM
from pyhudi.format.metadata_table.schema import BLOOM_FILTER_COLUMN, RECORD_INDEX_COLUMN
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.metadata_table.checks.statistics import equal_values, without_bounds
from pyhudi.metadata_table.file_changes import partition_path_of
from pyhudi.metadata_table.lookup import all_records, records_with_keys, statistics_of_files, statistics_of_partitions
from pyhudi.metadata_table.merging import merged_statistics
from pyhudi.metadata_table.partitions.column_stats import columns_with_statistics
from pyhudi.metadata_table.partitions.maintained import is_by_partition, maintained_partition
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.partitions.secondary_index import SecondaryIndexPartition, SecondaryMaker
from pyhudi.metadata_table.record_changes import changed_rows, row_settings
from pyhudi.metadata_table.record_locations import location_reader
from pyhudi.metadata_table.slice_changes import SliceChange, current_slices
from pyhudi.metadata_table.state import MetadataState
from pyhudi.table.file_system_view import load_view
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS
from pyhudi.table.metadata_partitions import BLOOM_FILTERS, RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi.table.schema import load_table_schema

Difference = dict[str, Any]
_SHOWN: Final = 3
"""How many keys a difference names."""
_BOUNDS: Final = ("minValue", "maxValue")


def index_differences(state: MetadataState) -> Iterator[Difference]:
    """Where indexes say something else than the rows: rows with problem, path and detail.

    Cost: with an index over record keys the key columns of all file slices, with a secondary index its column, too, and
    all of the index; with bounds of partitions all statistics of files; with bloom filters a footer per base file.
    """
    partitions = state.table.config.metadata_partitions
    if RECORD_INDEX in partitions:
        yield from _of_records(state)
    for name in sorted(partitions):
        if name.startswith(SECONDARY_INDEX_PREFIX):
            partition = maintained_partition(name, state.table)
            assert isinstance(partition, SecondaryIndexPartition)
            yield from _of_values(state, partition)
    if {PARTITION_STATS, COLUMN_STATS} <= {*partitions}:
        yield from _of_partitions(state)
    if BLOOM_FILTERS in partitions:
        yield from _of_filters(state)


def _of_records(state: MetadataState) -> Iterator[Difference]:
    slices = tuple(_slices(state))
    if not slices and is_by_partition(state.table):
        return  # without partitions it has no file groups
    storage, reader, count = state.storage, location_reader(state), 0
    settings = row_settings(_source(state), ())
    for file_slice in slices:
        wrong: list[str] = []
        for _, rows in changed_rows(storage, file_slice, settings):
            keys = rows.column(RECORD_KEY)
            count += len(keys)
            places = reader.groups_of(file_slice.group.partition_path, keys)
            if len(strangers := keys.filter(pa.array(places < 0))):
                wrong += strangers.to_pylist()
            for group in np.unique(places[places >= 0]).tolist():
                mine = keys.filter(pa.array(places == group))
                found = reader.find(storage, group, mine)
                own = [number for number, place in enumerate(found.groups) if place == _place(file_slice)]
                wrong += mine.filter(pa.array(~np.isin(found.number, own))).to_pylist()
        if wrong:
            yield _keys_differ("without entry", file_slice, RECORD_INDEX, "are not in the index, or elsewhere", wrong)
    yield from _counted(state, RECORD_INDEX, RECORD_INDEX_COLUMN, count)


def _of_values(state: MetadataState, partition: SecondaryIndexPartition) -> Iterator[Difference]:
    settings, count = row_settings(_source(state), (partition.column,)), 0
    maker = SecondaryMaker(partition.column, 1, partition.hashes_values)
    for file_slice in _slices(state):
        wrong: list[str] = []
        for _, rows in changed_rows(state.storage, file_slice, settings):
            wanted = maker.entries(file_slice, rows, is_added=True)[0].column("key")
            count += len(wanted)
            found = records_with_keys(state, partition.name, partition.payload, wanted, hashed=partition.hashed)
            wrong += wanted.filter(pc.invert(pc.is_in(wanted, found.column(0).combine_chunks()))).to_pylist()
        if wrong:
            yield _keys_differ("without entry", file_slice, partition.name, "are not in the index", wrong)
    yield from _counted(state, partition.name, partition.payload, count)


def _counted(state: MetadataState, name: str, payload: str, count: int) -> Iterator[Difference]:
    entries = sum(group.num_rows for group in all_records(state, name, payload))
    if entries > count:
        detail = f"{name} has {entries} entries, and the table {count} rows"
        yield {"problem": "entry without row", "path": None, "detail": detail}


def _of_partitions(state: MetadataState) -> Iterator[Difference]:
    schema, view = load_table_schema(state.table), load_view(state.storage, state.table.timeline)
    if schema is None:
        return
    path_of = {
        str(file.name): path
        for path, slices in view.latest.items()
        for file_slice in slices
        for file in ([] if file_slice.base is None else [file_slice.base]) + [*file_slice.logs]
    }
    paths = sorted(view.latest)
    columns = columns_with_statistics(state.table, schema)
    of_files = statistics_of_files(state, columns, paths)
    of_paths = statistics_of_partitions(state, columns, paths)
    for column in columns:
        yield from _wider(column, path_of, of_files[column], of_paths[column])


def _wider(column: str, path_of: dict[str, str], files: pa.StructArray, bounds: pa.StructArray) -> Iterator[Difference]:
    """Partitions in which a file of the newest slices has values outside of the bounds of the partition."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(files.field("fileName").to_pylist()):
        if name in path_of:
            rows[path_of[name]].append(row)
    stored = {partition_path_of(path): row for row, path in enumerate(bounds.field("fileName").to_pylist())}
    for path, members in sorted(rows.items()):
        inside = files.take(pa.array(members))
        if pc.sum(inside.field("valueCount")).as_py() in (0, None):
            continue
        problem = None
        if path not in stored:
            problem = "without statistics"
        else:
            own = bounds.slice(stored[path], 1)
            # What a file has of a column of another type, as of one that was dropped, is not in the bounds.
            inside = inside.filter(_of_type(inside, _type_of(own)))
            is_last = np.arange(len(inside) + 1) == len(inside)
            both = merged_statistics(pa.concat_arrays([inside, own]), is_last, np.ones(len(is_last), np.bool_))
            has_nulls = (pc.sum(inside.field("nullCount")).as_py() or 0) > 0
            unbounded, wanted = (without_bounds(side.field("maxValue")).any() for side in (own, inside))
            holds = unbounded or not wanted
            if holds and not unbounded:
                holds = all(equal_values(both.field(name), own.field(name)).all() for name in _BOUNDS)
            if not holds or (has_nulls and not own.field("nullCount")[0].as_py()):
                problem = "other statistics"
        if problem is not None:
            yield {"problem": problem, "path": path, "detail": f"column {column} of the partition"}


def _type_of(bounds: pa.StructArray) -> str | None:
    """The wrapper of the first bound; None where it has no values."""
    values = bounds.field("minValue")
    return next((field.name for field in values.type if values.field(field.name).is_valid()[0].as_py()), None)


def _of_type(ranges: pa.StructArray, wrapper: str | None) -> pa.BooleanArray:
    values = ranges.field("minValue")
    has_none = pc.is_null(values)
    return has_none if wrapper is None else pc.or_(has_none, pc.is_valid(pc.struct_field(values, wrapper)))


def _of_filters(state: MetadataState) -> Iterator[Difference]:
    partition = maintained_partition(BLOOM_FILTERS, state.table)
    for batch in partition.initial_records(_source(state)):
        found = records_with_keys(state, BLOOM_FILTERS, BLOOM_FILTER_COLUMN, batch.column(0))
        wanted = batch.column(2)[0].as_py()
        there = [entry for entry in found.column(2).to_pylist() if entry is not None]
        if not any(entry["bloomFilter"] == wanted["bloomFilter"] and not entry["isDeleted"] for entry in there):
            yield {"problem": "without filter", "path": None, "detail": f"a base file of {wanted['timestamp']}"}


def _source(state: MetadataState) -> Source:
    """Without an engine and options, which a check is not told."""
    return Source(state.table, SYSTEM, SpillSettings())


def _slices(state: MetadataState) -> Iterator[SliceChange]:
    yield from current_slices(_source(state))


def _place(change: SliceChange) -> tuple[str, str]:
    return change.group.partition_path, change.group.file_id


def _keys_differ(problem: str, change: SliceChange, index: str, what: str, keys: list[str]) -> Difference:
    shown = ", ".join(repr(key) for key in sorted(keys)[:_SHOWN])
    path = change.after and (change.after.base or change.after.logs[0])
    return {"problem": problem, "path": path, "detail": f"{len(keys)} keys {what} {index}: {shown}"}
