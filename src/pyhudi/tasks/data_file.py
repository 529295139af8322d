"""One base file being written for an instant: marker, meta columns, counts, write stat."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.config.option import OptionWarning
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import AlreadyExistsError, LockLostError
from pyhudi.format.file_names import BaseFileName
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.keys.partition_paths import partition_depth
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE, encode_partition_metadata
from pyhudi.format.metadata_table.ranges import Range, ranges_batch
from pyhudi.format.pieces import row_bytes
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    with_meta_columns,
)
from pyhudi.format.schema.stored_names import NamesByWrite
from pyhudi.format.tombstones import (
    TOMBSTONES_BYTES_MAX,
    TOMBSTONES_KEY,
    encode_tombstones,
    joined_tombstones,
    united_tombstones,
)
from pyhudi.io.base_file import BaseFileSettings, BaseFileWriter, footer_values, read_footer
from pyhudi.io.key_footer import KeyFooter
from pyhudi.io.slices.files import SliceFiles, SourceFile
from pyhudi.merge.pairs import flattened
from pyhudi.merge.rules import MergeRules
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.file_slice import BaseFile
from pyhudi.tasks.cdc import ChangeDataLog, ChangeDataSettings, change_log_path
from pyhudi.tasks.event_times import EventTimes
from pyhudi.transaction.markers.announcing import DIRECT_MARKERS, TaskMarkers, create_markers, remove_markers


@dataclass(frozen=True, kw_only=True)
class WriteTarget:
    """Where and as what rows are written; the same for all tasks of a write. `schema` is without meta columns.

    `markers`: how tasks create markers. `tombstones_since`: base files keep deletes of this and later
    instants; None: of none. `heartbeat`: a file that exists while the write runs; None: it is not checked.
    `stays_by`: rows for records in other partitions stay there (`staying_rows`), whose paths are made by this.
    `change_data`: how the changes to replaced base files are logged; None: they are not.
    `event_time`: the column of whose values stats keep the smallest and largest one; None: they do not.
    """

    storage: StorageSpec
    instant_time: str
    schema: pa.Schema
    rules: MergeRules
    files: BaseFileSettings
    markers: TaskMarkers = DIRECT_MARKERS
    tombstones_since: str | None = None
    heartbeat: str | None = None
    stays_by: KeyGenerator | None = None
    change_data: ChangeDataSettings | None = None
    event_time: str | None = None

    @cached_property
    def whole_schema(self) -> pa.Schema:
        """The schema of stored rows: with the meta columns."""
        return with_meta_columns(self.schema)

    @cached_property
    def file_schema(self) -> pa.Schema:
        """`whole_schema`, and the two columns that are the same in all rows of a file are dictionaries."""
        schema = self.whole_schema
        for name in (PARTITION_PATH, FILE_NAME):
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.dictionary(pa.int32(), pa.string())))
        return schema


@dataclass(frozen=True, slots=True)
class PreviousVersion:
    """The previous base file of a file group, which a new version is made from."""

    path: str
    file_name: str
    instant_time: str
    source: SourceFile | None = None
    names: NamesByWrite | None = None

    @classmethod
    def of(cls, base: BaseFile) -> PreviousVersion:
        """A base file as the previous version of the next one."""
        return cls(base.path, str(base.name), base.instant_time, base.source, base.names)

    @property
    def files(self) -> SliceFiles:
        """It, without logs, in the form for readers."""
        return SliceFiles(self.path, (), source=self.source, names=self.names)


_META_BYTES_PER_ROW = 64
"""About what the meta columns of a new row take in memory beside its key."""
COPIED_META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY)
"""The meta columns that a rewrite copies row by row; the other two are the same for all rows of a file."""


class SequenceNumbers:
    """Numbers the rows of one task for `_hoodie_commit_seqno`, `<instant>_<task>_<row>`; each number is used once."""

    def __init__(self, instant_time: str, context: TaskContext) -> None:
        self._prefix = f"{instant_time}_{context.partition}_"
        self._given = 0

    def take(self, count: int) -> pa.StringArray:
        """The numbers of the next rows, whichever file of the task they are in."""
        numbers = np.arange(self._given, self._given + count)
        self._given += count
        return pc.binary_join_element_wise(self._prefix, pa.array(numbers).cast(pa.string()), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFileSpec:
    """Which base file a task writes.

    `previous`: the base file that it is the next version of; None for the first one of a file group. `keeps_keys`: no
    record of that version is left out, so its bloom filter can be continued if it is large enough for `new_keys` more.
    `has_marker`: its marker is stored already. `previous_footer`: that of `previous`, if the caller has it open.
    """

    target: WriteTarget
    context: TaskContext
    partition_path: str
    file_id: str
    previous: PreviousVersion | None = None
    keeps_keys: bool = False
    new_keys: int = 0
    has_marker: bool = False
    previous_footer: pq.ParquetFile | None = None

    @property
    def name(self) -> BaseFileName:
        """The name of the file."""
        return BaseFileName(self.file_id, self.context.write_token, self.target.instant_time, ".parquet")

    @property
    def path(self) -> str:
        """Its path, relative to the table."""
        return f"{self.partition_path}/{self.name}" if self.partition_path else str(self.name)

    @property
    def logs_changes(self) -> bool:
        """Whether there is a change data log beside it."""
        return self.target.change_data is not None and self.previous is not None

    @property
    def markers(self) -> list[Marker]:
        """Its marker, and that of its change data log, if there is one."""
        marker = Marker(self.path, MarkerKind.CREATE if self.previous is None else MarkerKind.MERGE)
        if not self.logs_changes:
            return [marker]
        return [marker, Marker(change_log_path(self.partition_path, self.name), MarkerKind.CREATE)]


def check_write_is_running(storage: Storage, target: WriteTarget, marker: Marker, *, is_of_slice: bool = False) -> None:
    """Delete a finished file and its marker again if its write has ended meanwhile.

    A task may outlive its write: Spark lets losers of speculation run on, and a lost executor may live. No process
    would search for its file any more, and JVM Hudi might show it. Cost: one request.

    `is_of_slice`: the file is a log of table version 6. It is kept with its marker: compaction plans name all logs of
    their slice, and a plan cannot be executed if one of them is missing.

    Raises:
        LockLostError: the write was completed without this task, or rolled back.
    """
    if target.heartbeat is None or storage.info(target.heartbeat) is not None:
        return
    if not is_of_slice:
        storage.delete(marker.data_path)
        remove_markers(storage, target.instant_time, target.markers, [marker])
    raise LockLostError(
        "this write ended while a task of it was still running; what the task wrote "
        + ("does not count" if is_of_slice else "is removed"),
        path=marker.data_path,
        instant=target.instant_time,
    )


def column_ranges(
    target: WriteTarget, partition_path: str, name: str, ranges: Sequence[Range]
) -> pa.RecordBatch | None:
    """What a stat says of the columns of its file; None where the metadata table keeps no statistics."""
    return ranges_batch({(partition_path, name): ranges}) if target.files.indexed_columns else None


class DataFile:
    """A base file being written: creates its marker, adds the meta columns and counts the rows.

    A context manager: leaving it by an exception removes the file, not the marker.
    """

    def __init__(self, storage: Storage, spec: DataFileSpec, numbers: SequenceNumbers) -> None:
        target, previous = spec.target, spec.previous
        self._storage, self._target, self._previous = storage, target, previous
        self._partition_path = spec.partition_path
        self._name = spec.name
        self._place = (pa.array([spec.partition_path]), pa.array([str(spec.name)]))
        self._numbers = numbers
        self._inserts = self._updates = self._deletes = 0
        self._event_times = EventTimes(target.event_time)
        self._schema = target.file_schema
        self._path = spec.path
        self._changes: ChangeDataLog | None = None
        if target.change_data is not None and spec.logs_changes:
            self._changes = ChangeDataLog(storage, target.change_data, self._partition_path, self._name, target.schema)
        self._marker, *self._marker_of_changes = markers = spec.markers
        if not spec.has_marker:
            create_markers(storage, target.instant_time, target.markers, markers, groups_exist=previous is not None)
        previous_keys = _previous_keys(storage, spec, previous) if previous is not None and spec.keeps_keys else None
        self._continues_keys = previous_keys is not None
        keys = previous_keys or (KeyFooter(target.files.bloom) if target.files.bloom is not None else None)
        self._previous_tombstones: str | None = None
        if target.tombstones_since is not None and previous is not None:
            self._previous_tombstones = _previous_values(storage, spec, previous)[1].get(TOMBSTONES_KEY)
        self._buried: list[pa.RecordBatch] = []
        self._writer = BaseFileWriter(storage, self._path, self._schema, target.files, keys)

    def __enter__(self) -> DataFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and self._changes is not None:
            self._changes.discard(kind, error, trace)
        self._writer.__exit__(kind, error, trace)

    @property
    def logs_changes(self) -> bool:
        """Whether the changes to the previous version are logged: `update` and `forget` then need its rows."""
        return self._changes is not None

    def carry(self, updated: pa.RecordBatch, inserted: pa.RecordBatch) -> None:
        """Copy rows from logs, `updated` ones of the previous version and `inserted` ones; otherwise like `copy`."""
        self._updates += updated.num_rows
        self._inserts += inserted.num_rows
        for rows in (updated, inserted):
            if rows.num_rows:
                self.copy(rows)

    def copy(self, stored: pa.RecordBatch) -> None:
        """Copy rows of the previous version unchanged, except for the name of their file.

        `stored` has the `COPIED_META_COLUMNS` and the table's own columns, as the previous version has them.
        """
        rows = align(stored.drop_columns(COPIED_META_COLUMNS), self._target.schema)
        meta = [stored.column(name) for name in COPIED_META_COLUMNS]
        self._write(meta, rows, keys_are_known=self._continues_keys)

    def update(self, rows: pa.RecordBatch, previous: pa.RecordBatch | None = None) -> None:
        """Write new versions of records that are in the file group already. `previous`: their rows in it."""
        self._updates += rows.num_rows
        self._event_times.add(rows)
        if self._changes is not None and previous is not None:
            self._changes.updated(previous, rows)
        self._write_new(rows, keys_are_known=self._continues_keys)

    def append(self, rows: pa.RecordBatch) -> None:
        """Write records that are new to the table."""
        self._inserts += rows.num_rows
        self._event_times.add(rows)
        if self._changes is not None:
            self._changes.inserted(rows)
        self._write_new(rows, keys_are_known=False)

    def forget(self, count: int, previous: pa.RecordBatch | None = None) -> None:
        """Count records that the new version leaves out. `previous`: their rows in the previous one."""
        self._deletes += count
        if self._changes is not None and previous is not None:
            self._changes.deleted(previous)

    def append_fitting(self, rows: pa.RecordBatch) -> int:
        """Append as many of the rows as the row group and the file have room for. Returns their number."""
        count = self._fitting(rows, _META_BYTES_PER_ROW)
        self.append(rows.slice(0, count))
        return count

    def carry_fitting(self, rows: pa.RecordBatch) -> int:
        """Copy as many of the rows as the row group and the file have room for, like `carry`, as new ones of the file.

        Returns their number.
        """
        count = self._fitting(rows, 0)
        self._inserts += count
        self.copy(rows.slice(0, count))
        return count

    def inherit(self, tombstones: Mapping[str, str]) -> None:
        """Keep what the footers of other base files remember of deleted records: their texts by path."""
        if self._target.tombstones_since is not None:
            self._previous_tombstones = united_tombstones(tombstones)

    def bury(self, deleted: pa.RecordBatch) -> None:
        """Keep deletes with their ordering values in the footer, so that late rows do not restore the records.

        `deleted` has keys and ordering columns. Does nothing if the target does not ask for it. Memory: these columns.
        """
        fields = self._target.rules.ordering_fields
        if self._target.tombstones_since is not None and deleted.num_rows:
            self._buried.append(deleted.select([RECORD_KEY, *fields]))

    def _fitting(self, rows: pa.RecordBatch, more_bytes_per_row: int) -> int:
        room, count = self._writer.room, int(rows.num_rows)
        rows_bytes = rows.nbytes + count * more_bytes_per_row
        if rows_bytes <= room:
            return count
        # Of rows of one width more than these cannot fit; of others perhaps, and they come with the next call.
        likely = rows.slice(0, max(1, math.ceil(count * room / rows_bytes)))
        ends = np.cumsum(row_bytes(likely) + more_bytes_per_row)
        return max(1, int(np.searchsorted(ends, room, side="right")))

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes held in memory for the next row group."""
        return self._writer.buffered_bytes

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        self._writer.flush()

    def is_full(self) -> bool:
        """Whether the file has its maximum size. Writes a row group where only that can tell."""
        return self._writer.is_full()

    def close(self) -> WriteStat:
        """Finish the file."""
        logged = None if self._changes is None else self._changes.close()
        written = self._writer.close(self._tombstones())
        try:
            check_write_is_running(self._storage, self._target, self._marker)
        except LockLostError:
            for path in logged or ():
                self._storage.delete(path)
            remove_markers(self._storage, self._target.instant_time, self._target.markers, self._marker_of_changes)
            raise
        return WriteStat(
            file_id=self._name.file_id,
            path=self._path,
            prev_commit="null" if self._previous is None else self._previous.instant_time,
            num_writes=written.rows,
            num_inserts=self._inserts,
            num_update_writes=self._updates,
            num_deletes=self._deletes,
            total_write_bytes=written.size,
            file_size_in_bytes=written.size,
            partition_path=self._partition_path,
            prev_base_file=None if self._previous is None else self._previous.file_name,
            cdc_stats=logged,
            min_event_time=self._event_times.smallest,
            max_event_time=self._event_times.largest,
            column_ranges=column_ranges(self._target, self._partition_path, str(self._name), written.ranges),
        )

    def _tombstones(self) -> dict[str, str]:
        if self._target.tombstones_since is None:
            return {}
        entry = None
        if self._buried:
            rows = pa.Table.from_batches(self._buried).combine_chunks()
            paths = pa.repeat(self._partition_path, rows.num_rows)
            ordering = [flattened(rows.column(name)) for name in self._target.rules.ordering_fields]
            entry = encode_tombstones(flattened(rows.column(RECORD_KEY)), paths, ordering)
            if len(entry) > TOMBSTONES_BYTES_MAX:
                warnings.warn(
                    f"{rows.num_rows} deletes in one file are more than its footer can remember: late rows of these"
                    " records, and of those deleted before, will bring them back",
                    OptionWarning,
                    stacklevel=2,
                )
        text = joined_tombstones(
            self._previous_tombstones,
            self._target.instant_time,
            entry,
            since=self._target.tombstones_since,
            path=self._path,
        )
        return {} if text is None else {TOMBSTONES_KEY: text}

    def _write_new(self, rows: pa.RecordBatch, *, keys_are_known: bool) -> None:
        count = rows.num_rows
        if count == 0:
            return
        meta = [pa.repeat(self._target.instant_time, count), self._numbers.take(count), rows.column(RECORD_KEY)]
        self._write(meta, rows.select(self._target.schema.names), keys_are_known=keys_are_known)

    def _write(self, meta: list[pa.Array], rows: pa.RecordBatch, *, keys_are_known: bool) -> None:
        first = pa.array(np.zeros(rows.num_rows, dtype=np.int32))
        place = [pa.DictionaryArray.from_arrays(first, value) for value in self._place]
        batch = pa.RecordBatch.from_arrays([*meta, *place, *rows.columns], schema=self._schema)
        self._writer.write(batch, keys_are_known=keys_are_known)


def _previous_values(storage: Storage, spec: DataFileSpec, previous: PreviousVersion) -> tuple[int, dict[str, str]]:
    """The number of rows of the previous version, and the values in its footer."""
    if spec.previous_footer is not None:
        return spec.previous_footer.metadata.num_rows, footer_values(spec.previous_footer, previous.path)
    footer = read_footer(storage, previous.path)
    return footer.rows, footer.values


def _previous_keys(storage: Storage, spec: DataFileSpec, previous: PreviousVersion) -> KeyFooter | None:
    bloom = spec.target.files.bloom
    if bloom is None:
        return None
    rows, values = _previous_values(storage, spec, previous)
    return KeyFooter.of_previous_version(bloom, values, previous.path, keys=rows + spec.new_keys)


def ensure_partition(storage: Storage, partition_path: str, instant_time: str) -> None:
    """Put the partition metadata file; without it JVM Hudi reads no rows of the folder."""
    path = f"{partition_path}/{PARTITION_METADATA_FILE}" if partition_path else PARTITION_METADATA_FILE
    try:
        storage.put_if_absent(path, encode_partition_metadata(instant_time, partition_depth(partition_path)))
    except AlreadyExistsError:
        # Another task, or an earlier write, created the partition.
        return
