"""Procedures of the metadata table: what it lists and knows, whether that is right, and making and dropping it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from pyhudi.errors import InvalidRequestError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.metadata_table.lister import MetadataLister
from pyhudi.metadata_table.lookup import all_records, statistics_of_files
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.services.metadata_table.rebuild import build_metadata_table, remove_metadata_table
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE,
    TABLE_OR_PATH,
    Rows,
    flag,
    number,
    procedure,
    text,
)
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_system_view import load_view
from pyhudi.table.index_definitions import COLUMN_STATS
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, has_metadata_table
from pyhudi.table.state import TableState

_COLUMNS = (*TABLE_OR_PATH, text("partition"), text("targetColumns"), FILTER)


@dataclass(frozen=True, slots=True)
class Overlap:
    """How many files have a value: on average, at most, and at percentiles of the values that bound ranges."""

    average: float
    most: int
    percentiles: tuple[int, int, int, int]
    values: int


def _metadata(table: TableState) -> MetadataState:
    if FILES not in table.config.metadata_partitions:
        raise InvalidRequestError("the table has no metadata table: create_metadata_table builds one")
    return load_metadata_state(table)


@procedure(
    *TABLE_OR_PATH, text("partition", ""), number("limit", 100), FILTER, answer="file_path string", limits_rows=True
)
def show_metadata_table_files(context: CallContext, given: Given) -> Rows:
    """The files of a partition, as the metadata table lists them; of all partitions, if none is given.

    Those of one partition; without one, of all partitions.
    """
    lister = MetadataLister(_metadata(context.table(given).handle.state))
    wanted = given.text_or_none("partition")
    found = lister.table() if wanted is None else lister.partition(wanted)
    return ((info.name,) for info in sorted(found, key=lambda info: info.path))


@procedure(*TABLE_OR_PATH, FILTER, answer="partition string")
def show_metadata_table_partitions(context: CallContext, given: Given) -> Rows:
    """The partitions of the table, as the metadata table lists them."""
    state = _metadata(context.table(given).handle.state)
    paths = {info.path.rpartition("/")[0] for info in MetadataLister(state).table()}
    return ((path,) for path in sorted(paths))


@procedure(*TABLE_OR_PATH, FILTER, answer="stat_key string, stat_value string")
def show_metadata_table_stats(context: CallContext, given: Given) -> Rows:
    """How many files each partition of the metadata table has, and their size in bytes.

    Count and size of the newest files of each partition of the metadata table, under the names of Hudi's metrics.
    """
    state = _metadata(context.table(given).handle.state)
    for partition in sorted(state.table.config.metadata_partitions):
        slices = state.slices(partition)
        facts = {
            "baseFileCount": sum(file_slice.base is not None for file_slice in slices),
            "logFileCount": sum(len(file_slice.logs) for file_slice in slices),
            "totalBaseFileSizeInBytes": sum(file_slice.base_size for file_slice in slices),
            "totalLogFileSizeInBytes": sum(sum(file_slice.log_sizes) for file_slice in slices),
        }
        for name, value in facts.items():
            yield (f"{partition}.{name}", str(value))


def _statistics(table: TableState, given: Given) -> Iterator[tuple[str, dict[str, Any]]]:
    """The partition path of each newest base file, and its statistics by column."""
    state = _metadata(table)
    if COLUMN_STATS not in table.config.metadata_partitions:
        raise InvalidRequestError(
            "the table has no column statistics: table.indexes.create('column_stats') builds them"
        )
    wanted, prefixes = given.words("targetColumns"), given.words("partition")
    latest = load_view(table.storage, table.timeline).latest
    paths = {
        str(file_slice.base.name): file_slice.partition_path
        for slices in latest.values()
        for file_slice in slices
        if file_slice.base is not None and (not prefixes or file_slice.partition_path.startswith(prefixes))
    }
    names = wanted or None
    if names is None:
        records = all_records(state, COLUMN_STATS, COLUMN_STATS_COLUMN)
        batches = (found.column(COLUMN_STATS_COLUMN).combine_chunks() for found in records)
    else:
        batches = (found for found in statistics_of_files(state, names, sorted(set(paths.values()))).values())
    for payloads in batches:
        for record in payloads.filter(pc.is_valid(payloads)).to_pylist():
            is_asked_for = bool(wanted) or record["columnName"] not in META_COLUMNS
            if record["fileName"] in paths and is_asked_for and not record["isDeleted"]:
                yield paths[record["fileName"]], record


@procedure(
    *_COLUMNS, answer="file_name string, column_name string, min_value string, max_value string, null_number bigint"
)
def show_metadata_table_column_stats(context: CallContext, given: Given) -> Rows:
    """The statistics of columns in the newest base files; of all but the meta columns, if none are given."""
    found = _statistics(context.table(given).handle.state, given)
    for _, record in sorted(found, key=lambda pair: (pair[1]["columnName"], pair[1]["fileName"])):
        low, high = bound_of(record["minValue"]), bound_of(record["maxValue"])
        yield (record["fileName"], record["columnName"], bound_text(low), bound_text(high), record["nullCount"])


@procedure(
    *_COLUMNS,
    answer="Partition path string, Field name string, Average overlap double, Maximum file overlap int, "
    "Total file number int, 50% overlap int, 75% overlap int, 95% overlap int, 99% overlap int, "
    "Total value number int",
)
def show_metadata_column_stats_overlap(context: CallContext, given: Given) -> Rows:
    """How much the ranges of columns overlap among the files of a partition: what skipping files can gain."""
    table = context.table(given).handle.state
    ranges: dict[tuple[str, str], list[tuple[Any, Any]]] = defaultdict(list)
    files: dict[str, set[str]] = defaultdict(set)
    for partition, record in _statistics(table, given):
        low, high = bound_of(record["minValue"]), bound_of(record["maxValue"])
        files[partition].add(record["fileName"])
        if low is not None and high is not None:
            ranges[partition, record["columnName"]].append((low, high))
    rows = [
        (partition, column, found.average, found.most, len(files[partition]), *found.percentiles, found.values)
        for (partition, column), pairs in ranges.items()
        for found in [overlap_of(pairs)]
    ]
    return sorted(rows, key=lambda row: (row[1], row[2], row[0]))


@procedure(
    TABLE,
    flag("verbose", False),
    answer="partition string, file_name string, is_present_in_fs boolean, is_present_in_metadata boolean, "
    "fs_size bigint, metadata_size bigint",
)
def validate_metadata_table_files(context: CallContext, given: Given) -> Rows:
    """The files in which the metadata table differs from the store; all files with verbose => true.

    Data files that only one side has, or both in another size; all of them where the call is verbose.
    """
    table = context.table(given).handle.state
    listed = _by_path(MetadataLister(_metadata(table)).table())
    stored = _by_path(list_data_files(table.storage))
    counted = {file.path for file in _counted(table)} | listed.keys()
    for path in sorted(counted):
        ours, theirs = stored.get(path), listed.get(path)
        sizes = (ours.size if ours else 0, theirs.size if theirs else 0)
        if given.flag("verbose") or ours is None or theirs is None or sizes[0] != sizes[1]:
            partition, _, name = path.rpartition("/")
            yield (partition, name, ours is not None, theirs is not None, *sizes)


def _counted(table: TableState) -> Iterator[FileInfo]:
    """The data files of completed writes: those of pending ones are not listed yet."""
    timeline = table.timeline
    for info in list_data_files(table.storage):
        name = parse_data_file(info.name)
        if name is not None and (timeline.is_committed(name.instant_time) or timeline.starts_after(name.instant_time)):
            yield info


def _by_path(files: list[FileInfo]) -> dict[str, FileInfo]:
    return {info.path: info for info in files if not info.name.startswith(PARTITION_METADATA_FILE)}


@procedure(TABLE, answer="result string")
def create_metadata_table(context: CallContext, given: Given) -> Rows:
    """Builds the metadata table of a table that has none."""
    table = context.table(given)
    call = table.handle.service_call(None, call="create_metadata_table")
    return _timed(table.handle.state, "Created", "secs", lambda: build_metadata_table(call), call.environment.clock)


@procedure(TABLE, flag("read_only", False), answer="result string")
def init_metadata_table(context: CallContext, given: Given) -> Rows:
    """Builds the metadata table, also where there is one; with read_only => true it only opens it."""
    table = context.table(given)
    state, clock = table.handle.state, table.handle.environment.clock
    if given.flag("read_only"):
        return _timed(state, "Opened", "sec", lambda: MetadataLister(_metadata(state)).table(), clock)
    if has_metadata_table(state):
        return _timed(state, "Initialized", "sec", table.recovery.rebuild_metadata_table, clock)
    call = table.handle.service_call(None, call="init_metadata_table")
    return _timed(state, "Initialized", "sec", lambda: build_metadata_table(call), clock)


@procedure(TABLE, answer="result string")
def delete_metadata_table(context: CallContext, given: Given) -> Rows:
    """Drops the metadata table: reads and writes list the store then."""
    table = context.table(given)
    remove_metadata_table(table.handle.service_call(None, call="delete_metadata_table"))
    return [(f"Deleted Metadata Table at '{_place(table.handle.state)}'",)]


def _timed(table: TableState, verb: str, unit: str, work: Callable[[], object], clock: Any) -> Rows:
    begun = clock.now_ms()
    work()
    return [(f"{verb} Metadata Table in {_place(table)} (duration={(clock.now_ms() - begun) / 1000}{unit})",)]


def _place(table: TableState) -> str:
    return f"{table.storage.uri.rstrip('/')}/{METADATA_TABLE_FOLDER}"


def overlap_of(ranges: Sequence[tuple[Any, Any]]) -> Overlap:
    """The overlap of the ranges of some files, each from its least to its greatest value."""
    points = sorted([(low, 0) for low, _ in ranges] + [(high, 1) for _, high in ranges])
    covering: dict[Any, int] = {}
    open_ranges = most = 0
    for value, is_end in points:
        if is_end:
            covering.setdefault(value, open_ranges)
            open_ranges -= 1
        else:
            open_ranges += 1
            most = max(most, open_ranges)
            covering[value] = open_ranges
    counts = sorted(covering.values())
    at = [counts[int(percent / 100 * (len(counts) - 1))] for percent in (50, 75, 95, 99)]
    return Overlap(sum(counts) / len(counts), most, (at[0], at[1], at[2], at[3]), len(counts))


def bound_of(wrapped: Any) -> Any:
    """The value in the union of a bound, whatever its type; None where there is none."""
    if not isinstance(wrapped, dict):
        return None
    for member in wrapped.values():
        if isinstance(member, dict) and member.get("value") is not None:
            return member["value"]
    return None


def bound_text(value: Any) -> str | None:
    """A bound as JVM Hudi shows it: truth values in lower case, dates and times by their numbers."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
