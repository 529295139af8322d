"""The partition `column_stats`: the bounds and null counts of the indexed columns of each file.

A record per file and column. What wrote a file reports the ranges of its columns (`WriteStat.column_ranges`); of other
files they are read. When a file is deleted, its records are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.file_names import is_change_log, parse_data_file
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.format.metadata_table.keys import column_stats_keys
from pyhudi.format.metadata_table.records import make_records
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN, RecordType, payload_type
from pyhudi.format.metadata_table.statistics import statistics_payloads
from pyhudi.format.metadata_table.value_types import ValueKind, value_kind
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.metadata_table.file_changes import Change, stored_partition
from pyhudi.metadata_table.file_ranges import read_file_ranges
from pyhudi.metadata_table.partitions.protocol import MetadataPartition, Source
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_system_view import load_view
from pyhudi.table.index_definitions import (
    COLUMN_STATS,
    COLUMNS_MAX_KEY,
    INDEXED_COLUMNS_MAX,
    INDEXED_META_COLUMNS,
    can_be_indexed,
    default_indexed_columns,
    indexed_columns,
    listed_columns,
    load_index_definitions,
    put_index_definitions,
    types_at,
)
from pyhudi.table.schema import TableSchema, load_table_schema
from pyhudi.table.state import TableState

_FILES_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class ColumnStatsPartition(MetadataPartition):
    """See `MetadataPartition`.

    When it is built: `columns` are the indexed columns; if there are none, the first `columns_max` of the table. Later
    the definition of the index says which they are.
    """

    name: str = COLUMN_STATS
    payload: str = COLUMN_STATS_COLUMN
    file_groups: int = 2
    columns: tuple[str, ...] = ()
    columns_max: int = INDEXED_COLUMNS_MAX

    @property
    def file_id_prefix(self) -> str:
        """Shorter than its name, as in JVM Hudi."""
        return "col-stats-"

    def check(self, table: TableState) -> None:
        """Raise `ConfigError` for a column to index that the table does not have."""
        schema = load_table_schema(table) if self.columns else None
        if schema is not None:
            listed_columns(self.columns, schema.arrow, table.version)

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Cost: a footer per base file, and all logs."""
        table = source.table
        schema = load_table_schema(table)
        if schema is None:
            _define(table, load_index_definitions(table), (*_meta_columns(table), *self.columns), self._options)
            return
        columns = self._first_columns(table, schema)
        _define(table, load_index_definitions(table), columns, self._options)
        paths = live_paths(table)
        for start in range(0, len(paths), _FILES_AT_ONCE):
            ranges = read_file_ranges(source.storage, source.engine, paths[start : start + _FILES_AT_ONCE], columns)
            yield from (column_stats_records(table.version, batch) for batch in ranges if batch.num_rows)

    def _first_columns(self, table: TableState, schema: TableSchema) -> tuple[str, ...]:
        if self.columns:
            return (*_meta_columns(table), *listed_columns(self.columns, schema.arrow, table.version))
        has_meta_columns = table.config.populate_meta_fields
        return default_indexed_columns(
            schema.arrow, table.version, columns_max=self.columns_max, meta_columns=has_meta_columns
        )

    @property
    def _options(self) -> Mapping[str, str]:
        return {} if self.columns_max == INDEXED_COLUMNS_MAX else {COLUMNS_MAX_KEY: str(self.columns_max)}

    def follows(self, change: Change) -> bool:
        """Statistics and names of files follow every change."""
        del change
        return True

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`. Cost: a read of the definitions; of files without ranges a footer."""
        table = source.table
        columns = columns_after(change, table)
        for batch in ranges_of_change(change, source, columns):
            if batch.num_rows:
                yield column_stats_records(table.version, batch)
        removed = [(partition, name) for partition, names in change.removed.items() for name in names]
        if removed and columns:
            yield _removals(table.version, removed, columns)


def columns_with_statistics(table: TableState, schema: TableSchema) -> tuple[str, ...]:
    """The columns of which the table keeps statistics now. Cost: a read of the definitions."""
    definition = load_index_definitions(table).get(COLUMN_STATS)
    if definition is None:
        return columns_to_report(table, schema)
    kinds = types_at(schema.arrow, definition.source_columns)
    return tuple(name for name, kind in kinds.items() if can_be_indexed(kind, table.version))


def columns_to_report(table: TableState, schema: TableSchema) -> tuple[str, ...]:
    """The columns of which a write under a schema may have to keep statistics. Cost: a read of the definitions."""
    definition = load_index_definitions(table).get(COLUMN_STATS)
    return indexed_columns(definition, schema.arrow, table.version, meta_columns=table.config.populate_meta_fields)


def columns_after(change: Change, table: TableState) -> tuple[str, ...]:
    """The columns of which the table keeps statistics from a change on; new ones are put into the definition.

    A column that files had before, and the index not, as one behind the first 32 when one of these is dropped, gets
    none: bounds of a partition would know of its new files alone. Cost: two reads; where there are new columns one for
    each write of the active timeline, too.
    """
    schema = _schema_after(change, table)
    if schema is None:
        return ()
    definitions = load_index_definitions(table)
    definition = definitions.get(COLUMN_STATS)
    has_meta_columns = table.config.populate_meta_fields
    columns = indexed_columns(definition, schema.arrow, table.version, meta_columns=has_meta_columns)
    if definition is not None:
        late = _in_files(table, {*columns} - {*definition.source_columns})
        columns = tuple(name for name in columns if name not in late)
    _define(table, definitions, columns)
    return columns


def _in_files(table: TableState, columns: Collection[str]) -> Collection[str]:
    """Those of some columns that files may have: a write of the active timeline has them, and not a change of columns.

    Where columns go by names, one that was dropped and is added again has its values in older files.
    """
    found: set[str] = set()
    previous = load_table_schema(table) if columns else None
    for write in reversed(table.timeline.completed_writes) if previous is not None else ():
        metadata = load_commit_metadata(table.storage, write, table.version)
        if metadata.stats_by_partition and metadata.schema:
            schema = TableSchema.from_avro(metadata.schema, source=write.requested_time)
            found |= types_at(schema.arrow, list(columns)).keys()
            if previous is not None and previous.columns is not None:
                break  # older files have other columns, which are not looked up by these names
        if found >= {*columns}:
            break
    return found


def kinds_after(change: Change, table: TableState, columns: Sequence[str]) -> dict[str, ValueKind]:
    """How the bounds of columns are kept from a change on, by their names."""
    schema = _schema_after(change, table)
    types = {} if schema is None else types_at(schema.arrow, columns)
    kinds = {name: value_kind(kind) for name, kind in types.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _schema_after(change: Change, table: TableState) -> TableSchema | None:
    text = None if change.metadata is None else change.metadata.schema
    return TableSchema.from_avro(text, source=change.instant_time) if text else load_table_schema(table)


def _meta_columns(table: TableState) -> tuple[str, ...]:
    return INDEXED_META_COLUMNS if table.config.populate_meta_fields else ()


def _define(
    table: TableState,
    definitions: dict[str, IndexDefinition],
    columns: Sequence[str],
    options: Mapping[str, str] | None = None,
) -> None:
    """Put the definition of the index, where it is another one. Table version 6 has none.

    `options`: None keeps those of the definition. Cost: a put where it is another one.
    """
    if not table.version.has_secondary_indexes:
        return
    previous = definitions.get(COLUMN_STATS)
    kept = {} if previous is None else previous.options
    if previous is not None and previous.source_columns == tuple(columns) and options in (None, kept):
        return
    definitions[COLUMN_STATS] = IndexDefinition(
        name=COLUMN_STATS,
        kind=COLUMN_STATS,
        function=COLUMN_STATS,
        source_columns=tuple(columns),
        options=kept if options is None else options,
        version=("V2" if table.version.has_value_types else None) if previous is None else previous.version,
    )
    put_index_definitions(table, definitions.values())


def ranges_of_change(change: Change, source: Source, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The ranges of the files that a change added: as its tasks report them, else read."""
    unknown: list[str] = []
    wanted = pa.array(columns, pa.string())
    for partition, files in sorted(change.added.items()):
        for file in files:
            if parse_data_file(file.name) is None or is_change_log(file.name):
                continue
            ranges = None if file.stat is None else file.stat.column_ranges
            if ranges is not None:
                yield ranges.filter(pc.is_in(ranges.column("column"), value_set=wanted))
            else:
                unknown.append(f"{partition}/{file.name}" if partition else file.name)
    if unknown and columns:
        yield from read_file_ranges(source.storage, source.engine, unknown, columns)


def live_paths(table: TableState) -> list[str]:
    """The files of completed writes that a clean has not deleted, replaced file groups too. Cost: see `load_view`."""
    view = load_view(table.storage, table.timeline, lister=table.lister, skips_damaged=True)
    return sorted(
        file.path for group in view.groups.values() for files in (group.base_files, group.logs) for file in files
    )


def column_stats_records(version: TableVersion, ranges: pa.RecordBatch) -> pa.RecordBatch:
    """Records of the ranges of files."""
    payloads = statistics_payloads(ranges, payload_type(version, COLUMN_STATS_COLUMN), is_tight=False)
    partitions = pa.array(map(stored_partition, ranges.column("partition_path").to_pylist()), pa.string())
    keys = column_stats_keys(ranges.column("column"), partitions, ranges.column("file"))
    return make_records(version, COLUMN_STATS_COLUMN, keys, _types(len(keys)), payloads)


def _removals(version: TableVersion, files: Sequence[tuple[str, str]], columns: Sequence[str]) -> pa.RecordBatch:
    rows = [(column, stored_partition(partition), name) for partition, name in files for column in columns]
    keys = column_stats_keys(*(pa.array(values, pa.string()) for values in zip(*rows, strict=True)))
    kind = payload_type(version, COLUMN_STATS_COLUMN)
    return make_records(version, COLUMN_STATS_COLUMN, keys, _types(len(keys)), pa.nulls(len(keys), kind))


def _types(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(int(RecordType.COLUMN_STATS), pa.int32()), count)
