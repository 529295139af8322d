"""Writing log files: block after block, with a new file when one reaches its maximum size.

Each writer creates its own files and never appends to an existing one, so no store needs to append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import IO

import pyarrow as pa

from pyhudi.config.options_logs import BLOCK_BYTES_MAX
from pyhudi.engine.protocol import TaskContext
from pyhudi.format.avro.records import encode_avro_records
from pyhudi.format.file_names import LogFileName
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.log.delete_block_encode import encode_delete_block
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.ranges import ranges_without_rows
from pyhudi.format.schema.avro_arrow import avro_of_columns
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.column_ranges import RangesOfRows
from pyhudi.io.row_groups import RowGroupWriter
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.tasks.data_file import WriteTarget, check_write_is_running, column_ranges
from pyhudi.tasks.event_times import EventTimes
from pyhudi.transaction.markers.announcing import create_markers

WRITE_TOKEN_NUMBERS = 2**31 - 1
"""JVM Hudi reads the parts of a write token as 32-bit numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How logs are written: sizes in bytes. `in_parquet`: data blocks are Parquet, otherwise Avro.

    `wraps_arrays` and `wraps_dates`: whether readers of the table version support deletes with several ordering values,
    and with one that is marked as a date.
    """

    in_parquet: bool
    wraps_arrays: bool
    wraps_dates: bool
    block_size: int
    file_size: int

    @property
    def rows_size(self) -> int:
        """Arrow bytes of the rows of one block."""
        return min(self.block_size, BLOCK_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceToAppend:
    """Where the changes of a write to one file group go.

    `name_time`: the instant in the names of its logs. `first_version`: the number of its first log file. The other
    fields are for the stats of the write: the name of the base file of the slice, its logs so far (version 6 only), and
    the commit before. `stage`: replaces the task's stage number in write tokens. Needed where the log names of several
    writes are equal (version 6), so that concurrent writes never create the same file.
    """

    partition_path: str
    file_id: str
    name_time: str
    first_version: int
    base_file: str
    known_logs: tuple[str, ...]
    prev_commit: str
    marker: MarkerKind
    stage: int | None = None

    @property
    def is_named_after_slice(self) -> bool:
        """Whether names of logs carry the instant of their slice, not of their write: in table version 6."""
        return self.marker is MarkerKind.APPEND

    def log_name(self, version: int, context: TaskContext) -> LogFileName:
        """The name of a log that a task writes."""
        token = (context if self.stage is None else replace(context, stage=self.stage)).write_token
        return LogFileName(self.file_id, self.name_time, version, token)

    def log_path(self, version: int, context: TaskContext) -> str:
        """Its path, relative to the table."""
        name = str(self.log_name(version, context))
        return f"{self.partition_path}/{name}" if self.partition_path else name


def slice_to_append(
    view: FileSystemView, to: FileSlice, instant_time: str, *, names_slice: bool = False
) -> SliceToAppend:
    """Where, and under which names, a write of this instant appends to a slice.

    From version 8 on the name of a log carries the instant of its write. In version 6 it carries the instant of its
    slice, which is that of a pending compaction if there is one, and the next number after the existing logs.

    `names_slice`: also from version 8 on the stat names the files that were there before, from which JVM Hudi reads
    the rows before a change.
    """
    base_file = str(to.base.name) if to.base is not None else ""
    if view.timeline.version.has_completion_times:
        return SliceToAppend(
            partition_path=to.partition_path,
            file_id=to.file_id,
            name_time=instant_time,
            first_version=1,
            base_file=base_file if names_slice else "",
            known_logs=tuple(str(log.name) for log in to.logs) if names_slice else (),
            prev_commit=to.instant_time if names_slice else instant_time,
            marker=MarkerKind.CREATE,
        )
    name_time = view.slice_time_for_appends(to)
    same_slice = [log.name for log in to.logs if log.name.instant_time == name_time]
    return SliceToAppend(
        partition_path=to.partition_path,
        file_id=to.file_id,
        name_time=name_time,
        first_version=max((name.version for name in same_slice), default=0) + 1,
        base_file=base_file if name_time == to.instant_time else "",
        known_logs=tuple(str(name) for name in same_slice),
        prev_commit=name_time,
        marker=MarkerKind.APPEND,
        stage=int(instant_time) % WRITE_TOKEN_NUMBERS,
    )


class LogWriter:
    """The log files of one task. A file is created at its first block, after its marker.

    `headers` are in every block, beside its instant and schema. A context manager: leaving it by an exception removes
    the open file, not its marker.
    """

    def __init__(
        self,
        storage: Storage,
        target: WriteTarget,
        logs: LogSettings,
        to: SliceToAppend,
        context: TaskContext,
        headers: Mapping[BlockHeader, str] | None = None,
    ) -> None:
        self._storage, self._target, self._logs, self._to, self._context = storage, target, logs, to, context
        self._headers = {
            BlockHeader.INSTANT_TIME: target.instant_time,
            BlockHeader.SCHEMA: target.files.avro_schema,
            **(headers or {}),
        }
        self._version = to.first_version
        self._sink: IO[bytes] | None = None
        self._path = ""
        self._size = self._rows = self._inserts = self._deletes = 0
        self._stats: list[WriteStat] = []
        self._ranges = RangesOfRows(target.files.indexed_columns)
        self._event_times = EventTimes(target.event_time)

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._sink is not None:
            self._sink.__exit__(kind, error, trace)

    def write_rows(self, rows: pa.RecordBatch, columns: Sequence[str] | None = None, *, inserts: int = 0) -> None:
        """Write rows as one data block; they have the meta columns.

        `columns`: the block has these and the meta columns only, as partial updates. `inserts`: how many of the rows
        are of records that the slice does not hold.
        """
        if rows.num_rows == 0:
            return
        stored, schema, headers = rows, self._target.files.avro_schema, {}
        if columns is not None:
            names = [name for name in rows.schema.names if name in META_COLUMNS or name in columns]
            stored, schema = rows.select(names), avro_of_columns(schema, names)
            headers = {BlockHeader.SCHEMA: schema, BlockHeader.IS_PARTIAL: "true"}
        if self._logs.in_parquet:
            self._write_block(BlockType.PARQUET_DATA, self._parquet(stored), headers)
        else:
            self._write_block(BlockType.AVRO_DATA, encode_avro_records(stored, schema), headers)
        self._rows += rows.num_rows
        self._inserts += inserts
        self._ranges.add(rows)
        self._event_times.add(rows)

    def write_deletes(self, record_keys: pa.Array, ordering: Sequence[pa.Array], *, counted: bool = True) -> None:
        """Write one delete block. Without `ordering` columns the deletes go by commit time.

        They have the partition path of the file group, also where the row that deletes the record has another one:
        the compaction of JVM Hudi 0.15 fails at records of other partitions.
        """
        if len(record_keys) == 0:
            return
        content = encode_delete_block(
            record_keys,
            pa.repeat(self._to.partition_path, len(record_keys)),
            ordering,
            array_wrapper_allowed=self._logs.wraps_arrays,
            dates_as_ints=not self._logs.wraps_dates,
        )
        self._write_block(BlockType.DELETE, content)
        self._deletes += len(record_keys) if counted else 0

    def close(self) -> list[WriteStat]:
        """Finish the last file. Returns the stats of all files, in the order of their versions."""
        self._finish()
        return self._stats

    def _parquet(self, rows: pa.RecordBatch) -> pa.Buffer:
        sink = pa.BufferOutputStream()
        files = self._target.files
        row_groups = RowGroupWriter(sink, rows.schema, codec=files.codec, page_size=files.page_size)
        row_groups.write(pa.Table.from_batches([rows]))
        row_groups.close({})
        return sink.getvalue()

    def _write_block(
        self, kind: BlockType, content: pa.Buffer | bytes, headers: Mapping[BlockHeader, str] | None = None
    ) -> None:
        if self._sink is not None and self._size >= self._logs.file_size:
            self._finish()
        sink = self._sink or self._opened()
        for piece in encode_block(kind, {**self._headers, **(headers or {})}, content):
            self._size += memoryview(piece).nbytes
            sink.write(piece)

    def _opened(self) -> IO[bytes]:
        to = self._to
        self._path = to.log_path(self._version, self._context)
        # The marker of the first log shows other writers that this write changes the file group.
        create_markers(
            self._storage,
            self._target.instant_time,
            self._target.markers,
            [Marker(self._path, to.marker)],
            groups_exist=not self._stats,
        )
        self._sink = self._storage.open_output(self._path)
        return self._sink

    @property
    def _name(self) -> str:
        return self._path.rpartition("/")[2]

    def _column_ranges(self) -> pa.RecordBatch | None:
        """Those of all blocks of the file."""
        columns = self._target.files.indexed_columns
        ranges = self._ranges.ranges() if self._rows else ranges_without_rows(columns)
        return column_ranges(self._target, self._to.partition_path, self._name, ranges)

    def _finish(self) -> None:
        if self._sink is None:
            return
        self._sink.close()
        to = self._to
        marker = Marker(self._path, to.marker)
        check_write_is_running(self._storage, self._target, marker, is_of_slice=to.is_named_after_slice)
        self._stats.append(
            WriteStat(
                file_id=to.file_id,
                path=self._path,
                partition_path=to.partition_path,
                prev_commit=to.prev_commit,
                num_writes=self._rows + self._deletes,
                num_inserts=self._inserts,
                num_update_writes=self._rows - self._inserts,
                num_deletes=self._deletes,
                total_write_bytes=self._size,
                file_size_in_bytes=self._size,
                log_version=self._version,
                log_offset=0,
                base_file=to.base_file,
                log_files=(*to.known_logs, *(stat.path.rpartition("/")[2] for stat in self._stats), self._name),
                column_ranges=self._column_ranges(),
                min_event_time=self._event_times.smallest,
                max_event_time=self._event_times.largest,
            )
        )
        self._ranges = RangesOfRows(self._target.files.indexed_columns)
        self._event_times = EventTimes(self._target.event_time)
        self._sink, self._size, self._rows, self._inserts, self._deletes = None, 0, 0, 0, 0
        self._version += 1
