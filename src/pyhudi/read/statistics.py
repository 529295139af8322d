"""The statistics of the base files of a table, collected from their footers by the tasks of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.errors import ConfigError
from pyhudi.format.schema.meta_columns import with_meta_columns
from pyhudi.format.schema.result_tables import schema_of
from pyhudi.io.column_statistics import matching, read_statistics
from pyhudi.read.slices import missing_files_named
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_slice import BaseFile
from pyhudi.table.file_system_view import SlicesByPartition
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_FILES_PER_TASK = 64
_FOOTER_BYTES = 64 * 1024
"""About what is read per file; an engine may run small work in this process."""
STATISTICS_SCHEMA = schema_of(
    "partition_path string, file_id string, path string, column string, rows int64, nulls int64, min string, "
    "max string, bytes int64"
)


@dataclass(frozen=True, slots=True)
class StatisticsTask:
    """The base files of one task, and the names or paths of the columns that are wanted."""

    storage: StorageSpec
    files: tuple[BaseFile, ...]
    columns: tuple[str, ...]


def collect_statistics(
    table: TableState, engine: Engine, latest: SlicesByPartition, columns: Sequence[str] | None
) -> pa.Table:
    """One row per base file and column; `columns` None means those of the table's schema, without meta columns.

    Raises `ConfigError` for a column that the table does not have.
    """
    schema = load_table_schema(table)
    if schema is None:
        return STATISTICS_SCHEMA.empty_table()
    known = with_meta_columns(schema.arrow).names
    wanted = tuple(schema.arrow.names if columns is None else columns)
    for name in wanted:
        if name not in known and not name.startswith(tuple(f"{top}." for top in known)):
            raise ConfigError("the table has no such column", unknown=name, columns=known)
    files = [
        file_slice.base for _, slices in sorted(latest.items()) for file_slice in slices if file_slice.base is not None
    ]
    tasks = [
        StatisticsTask(table.storage.spec, tuple(files[start : start + _FILES_PER_TASK]), wanted)
        for start in range(0, len(files), _FILES_PER_TASK)
    ]
    size = len(files) * _FOOTER_BYTES
    found = engine.map(statistics_of_files, tasks, size_bytes=size, description="read statistics")
    return pa.Table.from_batches(found, STATISTICS_SCHEMA)


def statistics_of_files(_: TaskContext, task: StatisticsTask) -> pa.RecordBatch:
    """The rows of the files of a task. Memory: these rows, and one footer."""
    storage = open_spec(task.storage)
    values: dict[str, list[object]] = {name: [] for name in STATISTICS_SCHEMA.names}
    with missing_files_named(storage):
        for file in task.files:
            statistics = read_statistics(storage, file.path)
            place = (file.partition_path, file.file_id, file.path)
            for column in matching(statistics, task.columns):
                row = (*place, column.column, statistics.rows, column.nulls, column.low, column.high, column.size)
                for of_column, value in zip(values.values(), row, strict=True):
                    of_column.append(value)
    return pa.RecordBatch.from_pydict(values, schema=STATISTICS_SCHEMA)
