"""Records of the metadata table as readers see them: all of a partition, by keys, by prefixes of keys; statistics.

A file group is read as base file and logs merged. Of a base file, and of a large block in a log, a lookup reads the
index and the blocks with wanted keys; small blocks of logs are read whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format.file_names import instant_in_name
from pyhudi.format.hfile.blocks import KeysAndValues, source_of
from pyhudi.format.hfile.indexed import IndexedHFile, open_hfile, sorted_keys
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.metadata_table.keys import file_group_of, partition_stats_keys, text_id
from pyhudi.format.metadata_table.records import conformed, decode_metadata_records
from pyhudi.format.metadata_table.schema import COLUMN_STATS_COLUMN
from pyhudi.io.hfile import WHOLE_FILE_BYTES_MAX, open_hfile_of
from pyhudi.io.log.scan import LogReader, open_log, scan_blocks
from pyhudi.metadata_table.file_changes import stored_partition
from pyhudi.metadata_table.file_group import GroupSlice
from pyhudi.metadata_table.merging import REMOVED, JoinedLogs, joined_records, merged_records
from pyhudi.metadata_table.state import MetadataState
from pyhudi.storage.protocol import Storage
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS

T = TypeVar("T")
_BYTES_FOR_A_KEY: Final = 64 * 1024
"""What a key costs that is alone in its block: blocks of Hudi have 64 KiB before they are compressed."""
_PARTITIONS_MAX: Final = 64
"""So many partitions are looked up one by one; of more, all that a column has is read."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of a file group: those with some keys, which ascend by their bytes, or prefixes; all by default."""

    keys: pa.BinaryArray | None = None
    prefixes: tuple[bytes, ...] | None = None

    def of(self, hfile: IndexedHFile) -> KeysAndValues:
        """The wanted entries of an HFile."""
        if self.keys is not None:
            return hfile.with_keys(self.keys)
        return hfile.all_entries() if self.prefixes is None else hfile.with_prefixes(self.prefixes)

    def is_small_part_of(self, size: int) -> bool:
        """Whether the blocks that may have the wanted entries are few in an HFile of so many bytes."""
        return self.keys is not None and size > WHOLE_FILE_BYTES_MAX and len(self.keys) * _BYTES_FOR_A_KEY * 4 < size

    def among(self, keys: pa.Array) -> pa.BooleanArray:
        """Which of these keys are wanted."""
        if self.keys is not None:
            return pc.is_in(keys.cast(pa.binary()), self.keys)
        if self.prefixes is None:
            return pa.array(np.ones(len(keys), np.bool_))
        found = np.zeros(len(keys), np.bool_)
        for prefix in self.prefixes:
            found |= pc.starts_with(keys.cast(pa.binary()), prefix).to_numpy(zero_copy_only=False)
        return pa.array(found)


ALL = Wanted()


def all_records(state: MetadataState, partition: str, payload: str) -> Iterator[pa.Table]:
    """All records of a partition, one table for each file group: key, type and payload.

    Args:
        state: The metadata table.
        partition: A partition of it that the table's properties name.
        payload: The payload column of its records, of `pyhudi.format.metadata_table.schema`; it has the type that the
            newest table version gives it, whichever release wrote it.

    Raises:
        CorruptDataError: damage; names the file.
        UnsupportedFeatureError: what this release cannot read.

    Cost: `MetadataState.slices`, and all files of the newest slices; memory for one file group.
    """
    for file_slice in state.slices(partition):
        yield read_group(state, file_slice, payload)


def records_with_keys(
    state: MetadataState,
    partition: str,
    payload: str,
    keys: pa.Array,
    *,
    hashed: Callable[[pa.Array], pa.Array] | None = None,
) -> pa.Table:
    """The records with these keys, in no order. Arguments and errors as of `all_records`.

    `keys`: strings in any order. `hashed`: what of the keys decides their file group; None for all of it.

    Cost: in each file group that has some keys: its logs, and index and blocks with wanted keys of its base file.
    """
    groups = state.slices(partition)
    numbers = file_group_of(keys if hashed is None else hashed(keys), len(groups))
    found = [
        read_group(state, groups[number], payload, Wanted(keys=sorted_keys(keys.filter(pa.array(numbers == number)))))
        for number in np.unique(numbers)
    ]
    return pa.concat_tables(found) if found else no_records(payload)


def records_with_prefixes(state: MetadataState, partition: str, payload: str, prefixes: Sequence[str]) -> pa.Table:
    """The records whose keys begin with one of these, in no order. Arguments and errors as of `all_records`.

    Cost: in every file group its logs, and index and wanted blocks of its base file.
    """
    wanted = Wanted(prefixes=tuple(prefix.encode() for prefix in prefixes))
    found = [read_group(state, file_slice, payload, wanted) for file_slice in state.slices(partition)]
    return pa.concat_tables(found) if found else no_records(payload)


def read_group(state: MetadataState, group: GroupSlice, payload: str, wanted: Wanted = ALL) -> pa.Table:
    """The wanted records of one file group, after all of its versions. See `all_records`."""
    return read_slice(state.storage, group, payload, wanted, is_named=state.is_named)


def read_slice(
    storage: Storage,
    group: GroupSlice,
    payload: str,
    wanted: Wanted = ALL,
    *,
    is_named: Callable[[str], bool] = lambda _: True,
) -> pa.Table:
    """`read_group` for tasks. `is_named`: whether a commit names a log; a damaged one of a dead writer is left out."""
    base = no_records(payload)
    if group.base is not None:
        with open_hfile_of(storage, group.base) as reader:
            base = pa.Table.from_batches([decoded(wanted.of(reader.file), payload, reader.file.schema, group.base, 0)])
    versions = [no_records(payload).append_column(REMOVED, pa.array([], pa.bool_()))]
    versions += (found for _, found in _log_versions(storage, group, payload, wanted, is_named))
    return merged_records(base, pa.concat_tables(versions).combine_chunks(), payload)


def joined_logs(state: MetadataState, group: GroupSlice, payload: str) -> tuple[JoinedLogs, tuple[str, ...]]:
    """What the logs of a slice say together, and the instants of their blocks, also of those replaced before.

    Cost: the logs that count. Raises as `all_records`.
    """
    versions = [no_records(payload).append_column(REMOVED, pa.array([], pa.bool_()))]
    instants: set[str] = set()
    for block, found in _log_versions(state.storage, group, payload, ALL, state.is_named):
        instants.update((block.instant_time, *block.compacted_instants))
        versions.append(found)
    return joined_records(pa.concat_tables(versions), payload), tuple(sorted(instants))


def counting_logs(storage: Storage, group: GroupSlice) -> tuple[str, ...]:
    """The logs of a slice without those that log compactions replaced, which need not be read.

    Cost: a read of the headers of each log of a log compaction. Raises as `all_records`.
    """
    replaced: set[str] = set()
    for path in group.logs:
        if instant_in_name(path) not in group.log_compactions:
            continue
        for block in scan_blocks(storage, path):
            if block.kind is BlockType.CORRUPT:
                raise CorruptDataError("a log of the metadata table is damaged", path=path, offset=block.offset)
            replaced.update(block.compacted_instants)
    return tuple(path for path in group.logs if not replaced or instant_in_name(path) not in replaced)


def counting_writes(storage: Storage, group: GroupSlice) -> int:
    """How many writes the logs of a slice have blocks of, without those that log compactions replaced.

    Cost: that of `counting_logs`; in table version 6 a read of the headers of all logs.
    """
    if group.blocks.committed is None:
        return len(counting_logs(storage, group))
    found: set[str] = set()
    replaced: set[str] = set()
    for path in group.logs:
        for block in scan_blocks(storage, path):
            is_data = block.kind not in (BlockType.CORRUPT, BlockType.COMMAND)
            if is_data and group.blocks.counts(block.instant_time, path):
                found.add(block.instant_time)
                replaced.update(block.compacted_instants)
    return len(found - replaced)


def no_records(payload: str) -> pa.Table:
    """A table of records without any."""
    return pa.Table.from_batches([conformed(None, payload)])


def _log_versions(
    storage: Storage, group: GroupSlice, payload: str, wanted: Wanted, is_named: Callable[[str], bool]
) -> Iterator[tuple[LogBlock, pa.Table]]:
    """The blocks of the logs that count, in their order, and what they say."""

    def read(reader: LogReader, block: LogBlock, path: str) -> pa.Table:
        return _block_versions(reader, block, payload, wanted, path)

    yield from counting_blocks(storage, group, is_named, read, functools.partial(open_log, storage))


def counting_blocks(
    storage: Storage,
    group: GroupSlice,
    is_named: Callable[[str], bool],
    read: Callable[[LogReader, LogBlock, str], T],
    opened: Callable[[str], AbstractContextManager[LogReader]],
) -> list[tuple[LogBlock, T]]:
    """The blocks of the logs that count, in their order, and what `read` makes of them. `opened`: opens a log."""
    found: list[tuple[LogBlock, T]] = []
    for path in counting_logs(storage, group):
        with opened(path) as reader:
            for block in reader.blocks():
                if block.kind is BlockType.CORRUPT:
                    # In version 6 a dead writer's log stays in the slice; that of a commit is whole.
                    if group.blocks.committed is None or is_named(path):
                        raise CorruptDataError("a log of the metadata table is damaged", path=path, offset=block.offset)
                elif block.kind is BlockType.COMMAND:
                    found = [located for located in found if located[0].instant_time != block.target_instant_time]
                elif group.blocks.counts(block.instant_time, path):
                    found.append((block, read(reader, block, path)))
    replaced = {instant for block, _ in found for instant in block.compacted_instants}
    return [located for located in found if located[0].instant_time not in replaced]


def _block_versions(reader: LogReader, block: LogBlock, payload: str, wanted: Wanted, path: str) -> pa.Table:
    if block.kind is BlockType.HFILE_DATA:
        if wanted.is_small_part_of(block.content_size):
            hfile = reader.hfile(block).file
        else:
            hfile = open_hfile(source_of(reader.content(block), path, block.content_offset))
        return not_removed(decoded(wanted.of(hfile), payload, block.schema or hfile.schema, path, block.offset))
    return removed_by(reader, block, payload, path, wanted)


def not_removed(records: pa.RecordBatch) -> pa.Table:
    """Records as versions (`merged_records`)."""
    is_removed = pa.array(np.zeros(records.num_rows, np.bool_))
    return pa.Table.from_batches([records]).append_column(REMOVED, is_removed)


def removed_by(reader: LogReader, block: LogBlock, payload: str, path: str, wanted: Wanted = ALL) -> pa.Table:
    """The versions in a delete block, the only kind but HFiles. Raises `UnsupportedFeatureError` for others."""
    if block.kind is not BlockType.DELETE:
        raise UnsupportedFeatureError(
            "a log of the metadata table has a block that is no HFile",
            path=path,
            offset=block.offset,
            kind=block.kind.name,
        )
    keys = decode_delete_block(reader.content(block), (), path=path, offset=block.offset).record_keys
    keys = keys.filter(wanted.among(keys))
    empty = no_records(payload).schema
    columns = [keys, pa.nulls(len(keys), pa.int32()).fill_null(0), pa.nulls(len(keys), empty.field(payload).type)]
    return pa.table(columns, schema=empty).append_column(REMOVED, pa.array(np.ones(len(keys), np.bool_)))


def decoded(entries: KeysAndValues, payload: str, avro: str | None, path: str, offset: int) -> pa.RecordBatch:
    """Entries of an HFile as records. `avro`: the schema of the values; `path` and `offset` are for errors."""
    if avro is None:
        raise CorruptDataError("an HFile of the metadata table has no schema", path=path, offset=offset)
    batch = decode_metadata_records(*entries, payload, avro_schema=avro, path=path, offset=offset)
    return conformed(batch, payload)


def statistics_of_files(
    state: MetadataState, columns: Sequence[str], partition_paths: Sequence[str], *, partition: str = COLUMN_STATS
) -> dict[str, pa.StructArray]:
    """The statistics of the files of some partitions, and maybe of others, by column.

    `partition`: `column_stats`, or an expression index, whose statistics of partitions are among them.

    Cost: in each file group its logs, and index and wanted blocks of its base file. Raises as `records_with_prefixes`.
    """
    stored = [stored_partition(path) for path in partition_paths]
    ids = [text_id(path) for path in stored] if len(stored) <= _PARTITIONS_MAX else [""]
    prefixes = [text_id(column) + partition for column in columns for partition in ids]
    found = records_with_prefixes(state, partition, COLUMN_STATS_COLUMN, prefixes)
    return _by_column(found, columns)


def statistics_of_partitions(
    state: MetadataState, columns: Sequence[str], partition_paths: Sequence[str]
) -> dict[str, pa.StructArray]:
    """The statistics of some partitions, by column; `fileName` is the path. Cost: see `records_with_keys`."""
    stored = pa.array([stored_partition(path) for path in partition_paths], pa.string())
    keys = [partition_stats_keys(pa.array([column] * len(stored), pa.string()), stored) for column in columns]
    found = records_with_keys(state, PARTITION_STATS, COLUMN_STATS_COLUMN, pa.concat_arrays(keys))
    return _by_column(found, columns)


def _by_column(records: pa.Table, columns: Sequence[str]) -> dict[str, pa.StructArray]:
    payloads = records.column(COLUMN_STATS_COLUMN).combine_chunks()
    names = payloads.field("columnName")
    return {column: payloads.filter(pc.equal(names, column)) for column in columns}
