"""One base file being written for an instant: marker, meta columns, counts, write stat.

Source: `format/timeline.md` 1.4, 4.1 to 4.4, 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import AlreadyExistsError
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.evolution import align
from pyhudi.format.file_names import BaseFileName
from pyhudi.format.markers import MarkerKind, marker_path
from pyhudi.format.meta_columns import META_COLUMNS, RECORD_KEY, with_meta_columns
from pyhudi.format.partition_metadata import PARTITION_METADATA_FILE, encode_partition_metadata
from pyhudi.format.partition_paths import partition_depth
from pyhudi.io.base_file import BaseFileSettings, BaseFileWriter
from pyhudi.storage.protocol import Storage, StorageSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTarget:
    """Where and as what rows are written; the same for all tasks of a write. `schema` is without meta columns."""

    storage: StorageSpec
    instant_time: str
    schema: pa.Schema
    ordering_fields: tuple[str, ...]
    files: BaseFileSettings


@dataclass(frozen=True, slots=True)
class FormerVersion:
    """The base file that a new version is made from."""

    path: str
    file_name: str
    instant_time: str


class DataFile:
    """A base file being written: announces itself by a marker, adds the meta columns and counts the rows.

    A context manager: leaving it by an exception removes the file, not the marker.
    """

    def __init__(
        self,
        storage: Storage,
        target: WriteTarget,
        context: TaskContext,
        partition_path: str,
        file_id: str,
        former: FormerVersion | None,
    ) -> None:
        name = BaseFileName(file_id, context.write_token, target.instant_time, ".parquet")
        self._target, self._partition_path, self._name, self._former = target, partition_path, name, former
        self._seqno_prefix = f"{target.instant_time}_{context.partition}_"
        self._numbered = 0
        self._inserts = self._updates = self._deletes = 0
        self._schema = with_meta_columns(target.schema)
        self._path = f"{partition_path}/{name}" if partition_path else str(name)
        kind = MarkerKind.CREATE if former is None else MarkerKind.MERGE
        storage.put(marker_path(target.instant_time, partition_path, str(name), kind), b"", durable=False)
        self._writer = BaseFileWriter(storage, self._path, self._schema, target.files)

    def __enter__(self) -> DataFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def copy(self, stored: pa.RecordBatch) -> None:
        """Take over rows of the former version: everything stays but the name of the file they are in."""
        rows = align(stored.drop_columns(META_COLUMNS), self._target.schema)
        meta = [stored.column(name) for name in META_COLUMNS[:-1]]
        self._write(meta, rows)

    def update(self, rows: pa.RecordBatch) -> None:
        """Write new versions of records that the group holds already."""
        self._updates += rows.num_rows
        self._write_new(rows)

    def append(self, rows: pa.RecordBatch) -> None:
        """Write records that are new to the table."""
        self._inserts += rows.num_rows
        self._write_new(rows)

    def forget(self, count: int) -> None:
        """Count records that the new version leaves out."""
        self._deletes += count

    @property
    def size_estimate(self) -> int:
        """About how large the file would be if it were closed now, in bytes."""
        return self._writer.size_estimate

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes held in memory for the next row group."""
        return self._writer.buffered_bytes

    def flush(self) -> None:
        """Write the buffered rows as a row group."""
        self._writer.flush()

    def close(self) -> WriteStat:
        """Finish the file."""
        written = self._writer.close()
        return WriteStat(
            file_id=self._name.file_id,
            path=self._path,
            prev_commit="null" if self._former is None else self._former.instant_time,
            num_writes=written.rows,
            num_inserts=self._inserts,
            num_update_writes=self._updates,
            num_deletes=self._deletes,
            total_write_bytes=written.size,
            file_size_in_bytes=written.size,
            partition_path=self._partition_path,
            prev_base_file=None if self._former is None else self._former.file_name,
        )

    def _write_new(self, rows: pa.RecordBatch) -> None:
        count = rows.num_rows
        if count == 0:
            return
        numbers = np.arange(self._numbered, self._numbered + count)
        self._numbered += count
        seqno = pc.binary_join_element_wise(self._seqno_prefix, pa.array(numbers).cast(pa.string()), "")
        meta = [
            pa.repeat(self._target.instant_time, count),
            seqno,
            rows.column(RECORD_KEY),
            pa.repeat(self._partition_path, count),
        ]
        self._write(meta, rows.select(self._target.schema.names))

    def _write(self, meta: list[pa.Array], rows: pa.RecordBatch) -> None:
        file_name = pa.repeat(str(self._name), rows.num_rows)
        self._writer.write(pa.RecordBatch.from_arrays([*meta, file_name, *rows.columns], schema=self._schema))


def ensure_partition(storage: Storage, partition_path: str, instant_time: str) -> None:
    """Make the folder a partition; without this file real Hudi sees no rows in it (`format/timeline.md` 8.3)."""
    path = f"{partition_path}/{PARTITION_METADATA_FILE}" if partition_path else PARTITION_METADATA_FILE
    try:
        storage.put_if_absent(path, encode_partition_metadata(instant_time, partition_depth(partition_path)))
    except AlreadyExistsError:
        # Another task, or an earlier write, made the partition.
        return
