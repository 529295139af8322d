"""Ranges of the columns of files that are there already: read from the footers of base files, and from logs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.records import decode_avro_records
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.hfile.reader import decode_hfile_records
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata_table.ranges import RANGES, Range, ranges_batch, ranges_without_rows
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.io.base_file import read_ranges
from pyhudi.io.column_ranges import RangesOfRows
from pyhudi.io.log.scan import open_log
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec

_FILES_PER_TASK = 64
_FOOTER_BYTES = 64 * 1024
"""About what is read per file; an engine may run small work in this process."""


@dataclass(frozen=True, slots=True)
class RangesTask:
    """The files of one task, by paths relative to the table, and the columns that are wanted."""

    storage: StorageSpec
    paths: tuple[str, ...]
    columns: tuple[str, ...]


def read_file_ranges(
    storage: Storage, engine: Engine | None, paths: Sequence[str], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The ranges of files, as rows of `RANGES`; files in which something is damaged have none.

    Cost: a footer per base file; the whole of each log. Memory: the rows of one block, and the ranges of 64 files.
    """
    tasks = [
        RangesTask(storage.spec, tuple(paths[start : start + _FILES_PER_TASK]), tuple(columns))
        for start in range(0, len(paths), _FILES_PER_TASK)
    ]
    if engine is None:
        yield from (ranges_of_files(storage, task) for task in tasks)
        return
    size = len(paths) * _FOOTER_BYTES
    yield from engine.map(_ranges_of_files, tasks, size_bytes=size, description="read column statistics")


def _ranges_of_files(_: TaskContext, task: RangesTask) -> pa.RecordBatch:
    return ranges_of_files(open_spec(task.storage), task)


def ranges_of_files(storage: Storage, task: RangesTask) -> pa.RecordBatch:
    """The rows of the files of a task."""
    found: dict[tuple[str, str], Sequence[Range]] = {}
    for path in task.paths:
        partition_path, _, name = path.rpartition("/")
        parsed = parse_data_file(name)
        try:
            if isinstance(parsed, LogFileName):
                found[partition_path, name] = _ranges_of_log(storage, path, task.columns)
            elif parsed is not None:
                found[partition_path, name] = read_ranges(storage, path, task.columns)
        except CorruptDataError:
            continue  # who reads its rows says so; until then it is not left out of any read
    return ranges_batch(found) if found else pa.RecordBatch.from_pylist([], RANGES)


def _ranges_of_log(storage: Storage, path: str, columns: Sequence[str]) -> list[Range]:
    """Of all data blocks, also of those that a rollback took out: bounds may be too wide, but not too narrow."""
    found = RangesOfRows(columns)
    has_rows = False
    for rows in rows_in_log(storage, path, {name.split(".")[0] for name in columns}):
        if rows is None:
            return []
        has_rows = True
        found.add(rows)
    return found.ranges() if has_rows else ranges_without_rows(columns)


def rows_in_log(storage: Storage, path: str, wanted: Collection[str]) -> Iterator[pa.Table | pa.RecordBatch | None]:
    """The wanted columns that each data block of a log has, rolled back or not; None for a block that is damaged."""
    with open_log(storage, path) as log:
        for block in log.blocks():
            if block.kind is BlockType.CORRUPT:
                yield None
                continue
            if block.kind in (BlockType.DELETE, BlockType.COMMAND) or block.schema is None:
                continue
            content = log.content(block)
            if block.kind is BlockType.PARQUET_DATA:
                names = pq.read_schema(pa.BufferReader(content)).names
                yield pq.read_table(pa.BufferReader(content), columns=[name for name in names if name in wanted])
                continue
            present = [name for name in avro_to_arrow(block.schema, source=path).names if name in wanted]
            decode = decode_avro_records if block.kind is BlockType.AVRO_DATA else decode_hfile_records
            yield decode(content, block.schema, columns=present, path=path, offset=block.offset)
