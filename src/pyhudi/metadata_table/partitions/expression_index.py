"""Partitions `expr_index_*`: statistics, or bloom filters, of an expression over a column.

Those of statistics have a record per file, and one for each partition of the table, which is only ever widened. They
are too wide where the values of the expression are not known without Spark, and never too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import CorruptDataError
from pyhudi.format.file_names import BaseFileName, has_rows, parse_data_file
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.expressions import FUNCTIONS
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.format.metadata_table.keys import bloom_filter_keys, column_stats_keys, expression_partition_stats_keys
from pyhudi.format.metadata_table.ranges import Range, ranges_batch, ranges_of_batch, united
from pyhudi.format.metadata_table.records import make_records
from pyhudi.format.metadata_table.schema import BLOOM_FILTER_COLUMN, COLUMN_STATS_COLUMN, RecordType, payload_type
from pyhudi.format.metadata_table.statistics import statistics_payloads
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.metadata_table.file_changes import Change, stored_partition
from pyhudi.metadata_table.file_group import GroupTarget, by_file_group, write_base, write_log
from pyhudi.metadata_table.partitions.column_stats import column_stats_records, live_paths
from pyhudi.metadata_table.partitions.expression_values import (
    Expression,
    ValuesTask,
    filters_of_expression,
    ranges_of_expression,
)
from pyhudi.metadata_table.partitions.partition_stats import is_united_wrongly, maybe_null, wide
from pyhudi.metadata_table.partitions.protocol import LargePartition, Source
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_FILES_PER_TASK: Final = 16
_FILE_BYTES: Final = 1024 * 1024
"""About what the column of a file is; an engine may run small work in this process."""
_BY_DRIVER: Final = "0-0-1"
"""The write token of logs that the driver writes."""
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class ExpressionIndexPartition(LargePartition):
    """See `MetadataPartition`. `has_filters`: it has bloom filters of base files, else statistics of all files."""

    file_groups: int = 2
    expression: Expression
    has_filters: bool

    def follows(self, change: Change) -> bool:
        """See `MetadataPartition.follows`: bounds of partitions become no tighter, so they hold after all changes."""
        del change
        return True

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Cost: the column of all base files, and all logs."""
        yield from self._records(live_paths(source.table), (), source, "")

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`. Cost: the column of the new base files, and the new logs."""
        added = [
            f"{path}/{file.name}" if path else file.name
            for path, files in sorted(change.added.items())
            for file in files
            if has_rows(file.name)
        ]
        removed = [(path, name) for path, names in sorted(change.removed.items()) for name in names]
        yield from self._records(added, removed, source, change.instant_time)

    def write_ahead(self, change: Change, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_ahead`. Cost: as `records_of`, in tasks."""
        return self._write(self.records_of(change, source), source, groups, is_base=False)

    def write_initial(self, source: Source, groups: GroupTarget) -> tuple[WriteStat, ...]:
        """See `LargePartition.write_initial`. Cost: as `initial_records`, in tasks."""
        return self._write(self.initial_records(source), source, groups, is_base=True)

    def _write(
        self, batches: Iterable[pa.RecordBatch], source: Source, groups: GroupTarget, *, is_base: bool
    ) -> tuple[WriteStat, ...]:
        found = [batch for batch in batches if batch.num_rows]
        if not found:
            return ()
        records = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        write = write_base if is_base else write_log
        return tuple(
            write(source.storage, groups, group, part, _BY_DRIVER)
            for group, part in by_file_group(self.hashed(records.column(0)), records, len(groups.file_ids))
        )

    def _records(
        self, added: Sequence[str], removed: Sequence[tuple[str, str]], source: Source, instant_time: str
    ) -> Iterator[pa.RecordBatch]:
        if self.has_filters:
            yield from self._filters(added, removed, source, instant_time)
        else:
            yield from self._statistics(added, removed, source)

    def _statistics(
        self, added: Sequence[str], removed: Sequence[tuple[str, str]], source: Source
    ) -> Iterator[pa.RecordBatch]:
        version = source.table.version
        of_partitions: dict[str, Range] = {}
        for ranges in _in_tasks(ranges_of_expression, self._tasks(added, source), source):
            if ranges.num_rows:
                yield column_stats_records(version, ranges)
            for path, _, range_ in ranges_of_batch(ranges):
                if range_.values:
                    previous = of_partitions.get(path)
                    of_partitions[path] = range_ if previous is None else united(previous, range_)
        loose = {path: maybe_null(range_) for path, range_ in of_partitions.items() if not is_united_wrongly(range_)}
        tight = {path: wide(maybe_null(range_)) for path, range_ in of_partitions.items() if is_united_wrongly(range_)}
        for found, is_tight in ((loose, False), (tight, True)):
            if found:
                yield _partition_records(source.table, found, is_tight=is_tight)
        if removed:
            partitions = pa.array([stored_partition(path) for path, _ in removed], pa.string())
            names = pa.array([name for _, name in removed], pa.string())
            columns = pa.array([self.expression.column] * len(removed), pa.string())
            nothing = pa.nulls(len(removed), payload_type(version, COLUMN_STATS_COLUMN))
            types = _types(RecordType.COLUMN_STATS, len(removed))
            keys = column_stats_keys(columns, partitions, names)
            yield make_records(version, COLUMN_STATS_COLUMN, keys, types, nothing)

    def _filters(
        self, added: Sequence[str], removed: Sequence[tuple[str, str]], source: Source, instant_time: str
    ) -> Iterator[pa.RecordBatch]:
        tasks = self._tasks([path for path in added if _base_name(path) is not None], source)
        for filters in _in_tasks(filters_of_expression, tasks, source):
            for path, kind, text in filters:
                parsed = _base_name(path)
                assert parsed is not None
                time = instant_time or parsed.instant_time
                yield self._filter_record(source, path, {"type": kind, "timestamp": time, "bloomFilter": text.encode()})
        for partition, name in removed:
            path = f"{partition}/{name}" if partition else name
            if _base_name(path) is not None:
                gone = {"type": "", "timestamp": instant_time, "bloomFilter": b"", "isDeleted": True}
                yield self._filter_record(source, path, gone)

    def _filter_record(self, source: Source, path: str, payload: dict[str, object]) -> pa.RecordBatch:
        version = source.table.version
        partition, _, name = path.rpartition("/")
        keys = bloom_filter_keys(pa.array([stored_partition(partition)]), pa.array([name]))
        payloads = pa.array([{"isDeleted": False, **payload}], payload_type(version, BLOOM_FILTER_COLUMN))
        return make_records(version, BLOOM_FILTER_COLUMN, keys, _types(RecordType.BLOOM_FILTER, 1), payloads)

    def _tasks(self, paths: Sequence[str], source: Source) -> list[ValuesTask]:
        return [
            ValuesTask(source.storage.spec, tuple(paths[start : start + _FILES_PER_TASK]), self.expression)
            for start in range(0, len(paths), _FILES_PER_TASK)
        ]


def expression_index_of(definition: IndexDefinition, table: TableState) -> ExpressionIndexPartition:
    """What maintains the expression index of a definition. Cost: that of the schema of the table.

    Raises `CorruptDataError` where the definition names no column of the table, or a function that is not known.
    """
    schema = load_table_schema(table)
    columns = with_meta_columns(schema.arrow) if schema is not None else pa.schema([])
    (column, *others) = definition.source_columns or ("",)
    if others or definition.function not in FUNCTIONS or column not in columns.names:
        raise CorruptDataError(
            "the definition of the expression index cannot be understood: drop it", index=definition.name
        )
    expression = Expression(definition.function, column, columns.field(column).type, dict(definition.options))
    has_filters = definition.kind == "bloom_filters"
    return ExpressionIndexPartition(
        name=definition.name,
        payload=BLOOM_FILTER_COLUMN if has_filters else COLUMN_STATS_COLUMN,
        expression=expression,
        has_filters=has_filters,
    )


def _in_tasks(
    function: Callable[[TaskContext, ValuesTask], Found], tasks: Sequence[ValuesTask], source: Source
) -> Iterator[Found]:
    """By the engine, or, where there is none, in this process."""
    if source.engine is not None:
        size = len(tasks) * _FILES_PER_TASK * _FILE_BYTES
        yield from source.engine.map(function, tasks, size_bytes=size, description="index an expression")
        return
    for number, task in enumerate(tasks):
        yield function(TaskContext(number, 0, 0), task)


def _base_name(path: str) -> BaseFileName | None:
    name = parse_data_file(path.rpartition("/")[2])
    return name if isinstance(name, BaseFileName) else None


def _partition_records(table: TableState, found: dict[str, Range], *, is_tight: bool) -> pa.RecordBatch:
    stored = {(stored_partition(path), stored_partition(path)): [statistics] for path, statistics in found.items()}
    ranges = ranges_batch(stored)
    keys = expression_partition_stats_keys(ranges.column("column"), ranges.column("partition_path"))
    payloads = statistics_payloads(ranges, payload_type(table.version, COLUMN_STATS_COLUMN), is_tight=is_tight)
    types = _types(RecordType.PARTITION_STATS, len(keys))
    return make_records(table.version, COLUMN_STATS_COLUMN, keys, types, payloads)


def _types(kind: RecordType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(int(kind), pa.int32()), count)
