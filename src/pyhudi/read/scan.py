"""What a read needs: which files, which of their rows, and under which schema. Resolved on the driver, without Spark.

Source: mission rows S1-45, S1-46, S3-13, S3-14; `format/timeline.md` section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.config.choices import KeyGeneratorType, PartitionKind, QueryType
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import ConfigError
from pyhudi.format.instant import instant_time_from_user
from pyhudi.format.keys import partition_field_names
from pyhudi.format.meta_columns import with_meta_columns, without_meta_columns
from pyhudi.format.partition_paths import partition_values
from pyhudi.io.base_file import read_footer
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import BaseFile, load_view
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import position_of


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A base file to read: relative path, size in bytes, and its partition's values as (column, text or None).

    Only of columns whose text in the path is their value, or which are in the path alone: the path of a timestamp is
    another text than the timestamp.
    """

    path: str
    size: int
    partition_path: str
    partition_values: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """A resolved read.

    `schema` has the meta columns first. `commit_times`: keep only rows whose `_hoodie_commit_time` is among them (None:
    all). `path_columns`: columns that the files lack and whose values are those of the partition path.
    """

    uri: str
    files: tuple[ScanFile, ...]
    schema: pa.Schema
    commit_times: frozenset[str] | None
    path_columns: tuple[str, ...]


def plan_scan(storage: Storage, config: ReadConfig) -> ScanPlan:
    """Resolve a read against the table as it is now. Cost: see `load_view`; no data file is opened."""
    return plan_table_scan(load_table(storage), config)


def plan_table_scan(table: TableState, config: ReadConfig) -> ScanPlan:
    """Resolve a read against a loaded table.

    Raises `ConfigError` for a time that cannot be parsed or an incremental range that ends before it begins.
    """
    if config.query_type is QueryType.INCREMENTAL:
        return _plan_incremental(table, config)
    if config.as_of is None:
        return _plan(table, load_view(table.storage, table.timeline).latest, None)
    as_of = instant_time_from_user(config.as_of)
    past = table.with_timeline(table.timeline.until(as_of))
    # Files are judged by the whole timeline: where it starts must not move with the time asked for.
    view = load_view(table.storage, table.timeline)
    return _plan(past, view.latest_until(as_of), None)


def _plan_incremental(table: TableState, config: ReadConfig) -> ScanPlan:
    """Rows last written in (begin, end], in their newest version as of end.

    Versions 8 and 9 go by completion time, version 6 by instant time. A row that was written in the range and again
    after it is not in the result, as in Hudi's latest-state incremental query.
    """
    begin = EARLIEST if config.begin == EARLIEST else instant_time_from_user(config.begin)
    end = instant_time_from_user(config.end) if config.end is not None else None
    if end is not None and end < begin:
        raise ConfigError("the incremental range ends before it begins", begin=begin, end=end)
    written = [i for i in table.timeline.completed_writes if _in_range(position_of(i), begin, end)]
    commit_times = frozenset(instant.requested_time for instant in written)
    if not written:
        return _plan(table, {}, commit_times)
    view = load_view(table.storage, table.timeline)
    # Not "the newest until the last of them": a write that began earlier than it may have ended after `end`.
    ended = frozenset(i.requested_time for i in table.timeline.completed_writes if _in_range(position_of(i), "", end))
    touched = view.latest_of(ended, written=commit_times)
    return _plan(table.with_timeline(table.timeline.until(max(commit_times))), touched, commit_times)


def _in_range(position: str, begin: str, end: str | None) -> bool:
    return begin < position and (end is None or position <= end)


def _plan(
    table: TableState, latest: Mapping[str, tuple[BaseFile, ...]], commit_times: frozenset[str] | None
) -> ScanPlan:
    schema = _schema(table, latest)
    fields = partition_field_names(table.config.values)
    path_columns: tuple[str, ...] = ()
    if table.config.drop_partition_columns:
        path_columns = tuple(name for name in fields if name not in schema.names)
        schema = pa.schema([*schema, *(pa.field(name, pa.string()) for name in path_columns)])
    shown = {*path_columns, *_plain_fields(table.config, fields)}
    files = tuple(
        ScanFile(file.path, file.size, partition_path, values)
        for partition_path, group in latest.items()
        for values in [_values(table.config, fields, partition_path, shown)]
        for file in group
    )
    return ScanPlan(table.storage.uri, files, with_meta_columns(schema), commit_times, path_columns)


def _schema(table: TableState, latest: Mapping[str, tuple[BaseFile, ...]]) -> pa.Schema:
    """The newest commit's schema; of a table whose commits carry none, that of a data file."""
    if (schema := load_table_schema(table)) is not None:
        return schema.arrow
    for files in latest.values():
        for file in files:
            return without_meta_columns(read_footer(table.storage, file.path).schema)
    return pa.schema([])


def _plain_fields(config: TableConfig, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The partition columns whose own text is in the path. Nobody knows for a CUSTOM table that does not say."""
    if config.key_generator_type is KeyGeneratorType.CUSTOM:
        kinds = zip(fields, config.partition_kinds, strict=False)
        return tuple(name for name, kind in kinds if kind is PartitionKind.SIMPLE)
    return () if config.key_generator_type is KeyGeneratorType.TIMESTAMP else fields


def _values(
    config: TableConfig, fields: tuple[str, ...], partition_path: str, shown: Collection[str]
) -> tuple[tuple[str, str | None], ...]:
    if not shown:
        return ()
    values = partition_values(partition_path, fields, hive_style=config.hive_style, url_encoded=config.url_encode)
    return tuple((name, text) for name, text in values.items() if name in shown)
