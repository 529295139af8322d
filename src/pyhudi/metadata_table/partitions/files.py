"""The partition `files`: which files the table has, by partition path.

A record for each partition of the table maps the names of its files to their sizes, and one more record names the
partitions. Readers merge the records of commits file by file: a deletion takes the file out, otherwise the larger size
holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.metadata_table.keys import ALL_PARTITIONS
from pyhudi.format.metadata_table.records import make_records
from pyhudi.format.metadata_table.schema import FILES_COLUMN, RecordType
from pyhudi.metadata_table.file_changes import Change, stored_partition
from pyhudi.metadata_table.partitions.protocol import MetadataPartition, Source
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.committed_files import committed_files
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import TableState

_Entry = tuple[str, int, bool]
"""A file or partition by name: its size, and whether it is deleted."""


@dataclass(frozen=True, kw_only=True)
class FilesPartition(MetadataPartition):
    """Keeps the names and sizes of files."""

    name: str = FILES
    payload: str = FILES_COLUMN

    def initial_records(self, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.initial_records`. Memory: some 400 bytes per file.

        Cost: a listing of the table, and a read per completed write of the active timeline that this process has not
        read yet.
        """
        committed = committed_files(source.storage, source.table.timeline)
        by_partition: dict[str, list[_Entry]] = {}
        for info in list_data_files(source.storage):
            partition, _, name = info.path.rpartition("/")
            if name.startswith(PARTITION_METADATA_FILE):
                by_partition.setdefault(partition, [])
            elif _is_of_completed_write(info, source.table) and not committed.is_of_lost_attempt(info):
                by_partition.setdefault(partition, []).append((name, info.size, False))
        yield _records(source.table, by_partition, frozenset())

    def follows(self, change: Change) -> bool:
        """Statistics and names of files follow every change."""
        del change
        return True

    def records_of(self, change: Change, source: Source) -> Iterator[pa.RecordBatch]:
        """See `MetadataPartition.records_of`: one record per partition that changed, and the list of them."""
        by_partition: dict[str, list[_Entry]] = {partition: [] for partition in sorted(change.partitions)}
        for partition, files in change.added.items():
            by_partition[partition] += ((file.name, file.size, False) for file in files)
        for partition, names in change.removed.items():
            by_partition[partition] += ((name, 0, True) for name in names)
        yield _records(source.table, by_partition, change.ended)


def _is_of_completed_write(info: FileInfo, table: TableState) -> bool:
    """Whether a file counts that is in the store before any commit told of it.

    Files of pending writes do not: their commits tell of them. A file of a write that is older than the active timeline
    is one of an archived write. The name of a log of version 6 does not show its write; readers decide block by block.
    """
    name = parse_data_file(info.name)
    if name is None:
        return False
    if isinstance(name, LogFileName) and not table.version.has_completion_times:
        return True
    timeline = table.timeline
    return timeline.is_committed(name.instant_time) or timeline.starts_after(name.instant_time)


def _records(table: TableState, by_partition: dict[str, list[_Entry]], ended: Iterable[str]) -> pa.RecordBatch:
    """A record for each partition path, and the one that names them all."""
    gone = frozenset(ended)
    partitions = [(stored_partition(path), 0, path in gone) for path in by_partition]
    keys = [ALL_PARTITIONS, *(stored_partition(path) for path in by_partition)]
    types = [RecordType.PARTITIONS, *(RecordType.FILES for _ in by_partition)]
    entries = [partitions, *by_partition.values()]
    offsets = np.cumsum([0, *map(len, entries)], dtype=np.int32)
    names, sizes, deleted = (
        [entry[field] for group in entries for entry in group]  # the columns of the entries
        for field in range(3)
    )
    values = pa.StructArray.from_arrays(
        [pa.array(sizes, pa.int64()), pa.array(deleted, pa.bool_())], names=["size", "isDeleted"]
    )
    maps = pa.MapArray.from_arrays(pa.array(offsets), pa.array(names, pa.string()), values)
    return make_records(table.version, FILES_COLUMN, pa.array(keys, pa.string()), pa.array(types, pa.int32()), maps)
