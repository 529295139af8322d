"""Files of one file group of the metadata table: its first log, its logs and its base files.

Records are HFiles: a base file is one, and a log is one data block whose content is one, with delete blocks behind it
where records are removed. Runs on the driver or in tasks; nothing written here is visible before its delta commit.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.file_names import BaseFileName, LogFileName
from pyhudi.format.hfile.codecs import HFileCodec
from pyhudi.format.hfile.writer import BLOCK_BYTES, HFileWriter
from pyhudi.format.log.blocks import BlockHeader, BlockType, encode_block
from pyhudi.format.log.delete_block_encode import encode_delete_block
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.keys import file_group_of
from pyhudi.format.metadata_table.records import encode_metadata_records, sorted_by_key
from pyhudi.format.metadata_table.schema import KEY, record_schema
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.table.metadata_partitions import RECORD_INDEX

FIRST_TASK: Final = "0-0-0"
"""The write token of the log by which JVM Hudi creates a file group."""
EXTENSION: Final = ".hfile"
LOOKED_UP: Final = frozenset({RECORD_INDEX})
"""Partitions of which readers want single records."""
LOOKUP_BLOCK_BYTES: Final = 128 * 1024
"""The size of their data blocks. A reader decodes one for each key; in those of JVM Hudi's size that takes 5 ms."""
PAYLOAD_AT: Final = 2
"""The column of a record's payload, after its key and its type."""


@dataclass(frozen=True, slots=True)
class GroupSlice:
    """The newest slice of a file group: a base file, or None, and the logs after it in the order of their writes.

    Paths are relative to the data table. `blocks`: which blocks of the logs count. `log_compactions`: instants whose
    logs stand for others; empty in version 6, where the names of logs do not show their write.
    """

    file_id: str
    base: str | None
    base_instant: str
    logs: tuple[str, ...]
    blocks: BlockFilter = field(repr=False)
    log_sizes: tuple[int, ...] = ()
    base_size: int = 0
    log_compactions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTarget:
    """Where the records of one partition of the metadata table go under one instant. Picklable, for tasks.

    Attributes:
        storage: the store of the table.
        partition: the name of the partition of the metadata table.
        file_ids: its file groups, by number.
        instant_time: the instant of the delta commit.
        version: the version of the table, which decides the schema of the records.
        names_slice: in table version 6, where names of logs carry the instant of their slice: by file id that instant
            and the number of the next log. Elsewhere empty.
        created_ms: the time that the HFiles state.
    """

    storage: StorageSpec
    partition: str
    file_ids: tuple[str, ...]
    instant_time: str
    version: TableVersion
    names_slice: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    created_ms: int = 0


def file_ids(prefix: str, groups: int) -> tuple[str, ...]:
    """The ids of so many file groups, by number."""
    return tuple(f"{prefix}{number:04d}-0" for number in range(groups))


def by_file_group(hashed: pa.Array, records: pa.RecordBatch, groups: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records of each file group that has some, by the group's number; `hashed`: what of their keys is hashed."""
    if groups == 1:
        yield 0, records
        return
    numbers = pa.array(file_group_of(hashed, groups))
    for number in sorted(pc.unique(numbers).to_pylist()):
        yield number, records.filter(pc.equal(numbers, number))


def write_log(
    storage: Storage,
    target: GroupTarget,
    group: int,
    records: pa.RecordBatch,
    token: str,
    *,
    instead_of: Iterable[str] = (),
    cleared: pa.Array | None = None,
) -> WriteStat:
    """Write the log with these records of one file group, in any order (`partition.py` says what records are).

    `instead_of`: the instants whose logs it replaces. `cleared`: keys of which nothing older counts, some of them with
    records here. Cost: one put. Memory: about three times the records. Raises what `HFileWriter.add` does.
    """
    pieces = [sorted_by_key(records)]
    return write_log_of_pieces(storage, target, group, pieces, token, instead_of=instead_of, cleared=cleared)


def write_log_of_pieces(
    storage: Storage,
    target: GroupTarget,
    group: int,
    pieces: Iterable[pa.RecordBatch],
    token: str,
    *,
    instead_of: Iterable[str] = (),
    cleared: pa.Array | None = None,
) -> WriteStat:
    """`write_log` of records that ascend by the bytes of their keys; equal keys are in one piece.

    Cost: one put. Memory: three times the log, and about three times a piece.
    """
    file_id = target.file_ids[group]
    name_time, number = target.names_slice.get(file_id, (target.instant_time, 1))
    name = str(LogFileName(file_id, name_time, number, token))
    content = _LogContent(target, ",".join(instead_of), cleared)
    for records in pieces:
        content.add(records)
    data = content.close()
    storage.put(f"{partition_folder(target.partition)}/{name}", data)
    return WriteStat(
        file_id=file_id,
        path=f"{target.partition}/{name}",
        partition_path=target.partition,
        prev_commit=name_time,
        num_writes=content.record_count,
        num_update_writes=content.record_count,
        num_deletes=content.removed_count,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        log_version=number,
        log_offset=0,
        base_file="",
        log_files=(name,),
    )


def write_base(
    storage: Storage, target: GroupTarget, group: int, records: pa.RecordBatch, token: str, previous: str | None = None
) -> WriteStat:
    """Write the base file of one file group: all of its records, none of them removed. `previous`: the one before.

    Cost: one put. Memory: about three times the records.
    """
    return write_base_of_pieces(storage, target, group, [sorted_by_key(records)], token, previous)


def write_base_of_pieces(
    storage: Storage,
    target: GroupTarget,
    group: int,
    pieces: Iterable[pa.RecordBatch],
    token: str,
    previous: str | None = None,
) -> WriteStat:
    """`write_base` of records that ascend by the bytes of their keys; equal keys are in one piece.

    Cost: one put. Memory: twice the file, and about three times a piece.
    """
    file_id = target.file_ids[group]
    name = str(BaseFileName(file_id, token, target.instant_time, EXTENSION))
    file = io.BytesIO()
    writer = HFileWriter(file.write, codec=HFileCodec.GZ, block_bytes=_block_bytes(target))
    first = last = None
    for rows in pieces:
        if rows.num_rows:
            keys, values = encode_metadata_records(rows, target.version)
            writer.add(keys, values)
            first, last = first or keys[0].as_py().encode(), keys[-1].as_py().encode()
    range_of_keys = {} if first is None or last is None else {"minRecordKey": first, "maxRecordKey": last}
    writer.close(schema=record_schema(target.version), created_ms=target.created_ms, file_info=range_of_keys)
    data = file.getvalue()
    storage.put(f"{partition_folder(target.partition)}/{name}", data)
    return WriteStat(
        file_id=file_id,
        path=f"{target.partition}/{name}",
        partition_path=target.partition,
        num_writes=writer.entry_count,
        num_inserts=writer.entry_count,
        total_write_bytes=len(data),
        file_size_in_bytes=len(data),
        prev_base_file=previous,
    )


def create_group(storage: Storage, target: GroupTarget, group: int) -> None:
    """Put the first log of a file group, which has no records: its name makes the group exist. Cost: one put."""
    name = LogFileName(target.file_ids[group], target.instant_time, 1, FIRST_TASK)
    nothing = pa.array([], pa.string())
    content = encode_delete_block(nothing, nothing, [], array_wrapper_allowed=False)
    block = encode_block(BlockType.DELETE, {BlockHeader.INSTANT_TIME: target.instant_time}, content)
    storage.put(f"{partition_folder(target.partition)}/{name}", b"".join(block))


class _LogContent:
    """The bytes of a log, made of some records at a time."""

    def __init__(self, target: GroupTarget, instead_of: str, cleared: pa.Array | None) -> None:
        self._target = target
        self._headers = {
            BlockHeader.INSTANT_TIME: target.instant_time,
            BlockHeader.SCHEMA: record_schema(target.version),
        }
        if instead_of:
            self._headers[BlockHeader.COMPACTED_BLOCK_TIMES] = instead_of
        self._cleared = [] if cleared is None else self._deletes(cleared)
        self._removed: list[bytes] = []
        self.removed_count = 0
        self._file = io.BytesIO()
        self._hfile = HFileWriter(self._file.write, codec=HFileCodec.GZ, block_bytes=_block_bytes(target))

    def add(self, records: pa.RecordBatch) -> None:
        """Append records whose keys are above those that were added before; equal ones of these say the same."""
        is_there = pc.is_valid(records.column(PAYLOAD_AT))
        self._hfile.add(*encode_metadata_records(records.filter(is_there), self._target.version))
        removed = records.filter(pc.invert(is_there)).column(KEY)
        self._removed += self._deletes(removed)
        self.removed_count += len(removed)

    def close(self) -> bytes:
        """The whole log."""
        blocks = [*self._cleared]
        if self.record_count:
            self._hfile.close(schema=record_schema(self._target.version), created_ms=self._target.created_ms)
            blocks += encode_block(BlockType.HFILE_DATA, self._headers, self._file.getvalue())
        return b"".join([*blocks, *self._removed])

    @property
    def record_count(self) -> int:
        """How many records it has, without those that are removed."""
        return self._hfile.entry_count

    def _deletes(self, keys: pa.Array) -> Sequence[bytes]:
        """A block that removes the records with these keys, if there are any."""
        if not len(keys):
            return ()
        partitions = pa.repeat(self._target.partition, len(keys))
        ordering = [pa.repeat(pa.scalar(0, pa.int32()), len(keys))]
        content = encode_delete_block(keys, partitions, ordering, array_wrapper_allowed=False)
        return encode_block(BlockType.DELETE, self._headers, content)


def _block_bytes(target: GroupTarget) -> int:
    return LOOKUP_BLOCK_BYTES if target.partition in LOOKED_UP else BLOCK_BYTES
