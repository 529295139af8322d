"""What must hold of a table on disk after any sequence of writes: counts, meta columns, footers, nothing left over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.avro.records import decode_avro_records
from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomFilterType,
    parse_bloom_filter,
)
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Instant
from pyhudi.io.log.scan import LogReader, open_log
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import load_view
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState, load_table
from pyhudi.testing.simulation.invariants import clean_plans


@dataclass
class LogContents:
    """What a log file holds: blocks by the instant of their write, rows of data blocks, keys of delete blocks."""

    instants: set[str] = field(default_factory=set)
    rolled_back: set[str] = field(default_factory=set)
    rows: list[dict[str, Any]] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)


def log_contents(storage: Storage, path: str) -> LogContents:
    """Read a log of our own making; AssertionError where a block is damaged."""
    found = LogContents()
    with open_log(storage, path) as reader:
        for block in reader.blocks():
            assert block.kind is not BlockType.CORRUPT, f"{path} at {block.offset}"
            found.instants.add(block.instant_time)
            if block.kind is BlockType.COMMAND:
                found.rolled_back.add(block.target_instant_time or "")
            elif block.kind is BlockType.DELETE:
                found.deletes += _deleted_keys(reader, block, path)
            else:
                found.rows += _block_rows(reader, block, path)
    return found


def _deleted_keys(reader: LogReader, block: LogBlock, path: str) -> list[str]:
    deletes = decode_delete_block(reader.content(block), ordering_types=[], path=path, offset=block.content_offset)
    return list(deletes.record_keys.to_pylist())


def _block_rows(reader: LogReader, block: LogBlock, path: str) -> list[dict[str, Any]]:
    content = reader.content(block)
    if block.kind is BlockType.PARQUET_DATA:
        return list(pq.ParquetFile(pa.BufferReader(content)).read().to_pylist())
    assert block.kind is BlockType.AVRO_DATA
    assert block.schema is not None
    return list(decode_avro_records(content, block.schema, path=path, offset=block.offset).to_pylist())


def audit(storage: Storage) -> None:
    """Raise AssertionError where the table contradicts itself."""
    table = load_table(storage)
    _assert_nothing_left_over(storage, table)
    _check_commits(storage, table)
    view = load_view(storage, table.timeline)
    seqnos: Counter[str] = Counter()
    for partition_path, slices in view.latest.items():
        folder = f"{partition_path}/" if partition_path else ""
        assert storage.info(f"{folder}{PARTITION_METADATA_FILE}") is not None, partition_path
        for one in slices:
            for rows in _rows_of_slice(storage, table, one):
                assert {row["_hoodie_partition_path"] for row in rows} <= {partition_path}
                assert {row["_hoodie_commit_time"] for row in rows} <= _completed(storage, table)
                seqnos.update(row["_hoodie_commit_seqno"] for row in rows)
    assert not [seqno for seqno, count in seqnos.items() if count > 1]


def _rows_of_slice(storage: Storage, table: TableState, one: FileSlice) -> list[list[dict[str, Any]]]:
    """The rows of each file of a slice, after what each kind of file must look like was checked."""
    found = []
    if one.base is not None:
        rows = _rows(storage, one.base.path)
        assert {row["_hoodie_file_name"] for row in rows} <= {str(one.base.name)}
        _check_footer(storage, one.base.path, [row["_hoodie_record_key"] for row in rows])
        found.append(rows)
    contents = {log.path: log_contents(storage, log.path) for log in one.logs}
    # Version 6: the command that takes a block back lies in a log file after it, seldom in the same one.
    rolled_back = {instant for log in contents.values() for instant in log.rolled_back}
    for path, log in contents.items():
        assert log.instants - rolled_back <= _completed(storage, table) | _rollbacks(table), path
        # Hudi, too, writes the id of the group in the place of the file's name.
        assert {row["_hoodie_file_name"] for row in log.rows} <= {one.file_id}
        found.append([row for row in log.rows if row["_hoodie_commit_time"] not in rolled_back])
    return found


def _completed(storage: Storage, table: TableState) -> frozenset[str]:
    """The instants of completed writes, active and archived."""
    archived = (write.requested_time for write, _ in archived_metadata(storage, table.version))
    return table.timeline.completed_times.union(archived)


def _rollbacks(table: TableState) -> set[str]:
    return {str(instant.requested_time) for instant in table.timeline.instants if instant.action.value == "rollback"}


def _assert_nothing_left_over(storage: Storage, table: TableState) -> None:
    assert not table.timeline.pending_writes
    assert not table.timeline.pending_rollbacks
    passing = (".intents", ".runs", ".writers")
    for folder in (".hoodie/.temp", ".hoodie/.heartbeat", *(f".hoodie/.aux/{name}" for name in passing)):
        assert [info.path for info in storage.list_recursive(folder)] == []
    pending = {instant.requested_time for instant in table.timeline.pending_compactions}
    completed = _completed(storage, table)
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        # In version 6 the logs of a slice that a planned compaction begins carry the compaction's instant.
        begun = (
            isinstance(name, LogFileName) and not table.version.has_completion_times and name.instant_time in pending
        )
        assert name is None or begun or name.instant_time in completed, info.path


def _check_commits(storage: Storage, table: TableState) -> None:
    """Each commit's counts are those of the files that it wrote, but for those that cleans have deleted since."""
    cleaned = frozenset().union(*(plan.paths for plan in clean_plans(storage, table.timeline)))
    for instant in table.timeline.completed_writes:
        metadata = load_commit_metadata(storage, instant, table.version)
        is_compaction = metadata.operation is WriteOperation.COMPACT
        keeps_times = is_compaction or metadata.operation is WriteOperation.CLUSTER
        assert metadata.compacted is (is_compaction or metadata.operation is WriteOperation.LOG_COMPACT)
        for partition_path, stats in metadata.stats_by_partition.items():
            for stat in stats:
                assert stat.path is not None
                info = storage.info(stat.path)
                if info is None and stat.path in cleaned:
                    continue
                assert info is not None, stat.path
                assert stat.partition_path == partition_path
                assert stat.file_size_in_bytes == stat.total_write_bytes == info.size
                if isinstance(parse_data_file(info.name), LogFileName):
                    _check_log_stat(storage, instant, stat)
                else:
                    _check_base_stat(storage, instant, stat, cleaned, keeps_times=keeps_times)


def _check_log_stat(storage: Storage, instant: Instant, stat: WriteStat) -> None:
    contents = log_contents(storage, stat.path)
    assert instant.requested_time in contents.instants, stat.path
    assert {row["_hoodie_commit_time"] for row in contents.rows} <= {instant.requested_time}, stat.path
    # A record that comes back after a deletion is an insert.
    assert stat.num_inserts + stat.num_update_writes == len(contents.rows), stat.path
    # A row that starts its record afresh is written after a deletion that is not counted.
    deleted = Counter(contents.deletes) - Counter(row["_hoodie_record_key"] for row in contents.rows)
    assert stat.num_deletes == deleted.total(), stat.path
    assert stat.num_writes == len(contents.rows) + stat.num_deletes
    assert stat.log_files is not None
    assert stat.log_files[-1] == stat.path.rpartition("/")[2]


def _check_base_stat(
    storage: Storage, instant: Instant, stat: WriteStat, cleaned: Collection[str], *, keeps_times: bool
) -> None:
    rows = _rows(storage, stat.path)
    fresh = [row for row in rows if row["_hoodie_commit_time"] == instant.requested_time]
    assert stat.num_writes == len(rows), stat.path
    # Compactions and clusterings keep the times of the writes that their rows are from.
    assert len(fresh) == (0 if keeps_times else stat.num_inserts + stat.num_update_writes), stat.path
    if stat.prev_commit != "null" and not _previous_is_cleaned(stat, cleaned):
        previous = _rows(storage, _previous_path(storage, stat.partition_path or "", stat))
        assert len(previous) + stat.num_inserts - stat.num_deletes == len(rows), stat.path


def _previous_is_cleaned(stat: WriteStat, cleaned: Collection[str]) -> bool:
    names = (parse_data_file(path.rpartition("/")[2]) for path in cleaned)
    previous = (stat.file_id, stat.prev_commit)
    return any(isinstance(name, BaseFileName) and (name.file_id, name.instant_time) == previous for name in names)


def _previous_path(storage: Storage, partition_path: str, stat: WriteStat) -> str:
    """The base file that a stat says it replaced; version 6 does not name it."""
    for info in storage.list_folder(partition_path).files:
        name = parse_data_file(info.name)
        if isinstance(name, BaseFileName) and (name.file_id, name.instant_time) == (stat.file_id, stat.prev_commit):
            assert stat.prev_base_file in (None, info.name)
            return info.path
    raise AssertionError(f"the previous version of {stat.path} is gone")


def _check_footer(storage: Storage, path: str, keys: list[str]) -> None:
    with storage.open_input(path) as source:
        values = {k.decode(): v.decode() for k, v in pq.ParquetFile(source).metadata.metadata.items()}
    if keys and BLOOM_FILTER_KEY in values:
        assert values[MIN_RECORD_KEY_KEY] <= min(keys)
        assert values[MAX_RECORD_KEY_KEY] >= max(keys)
        kind = BloomFilterType.from_footer(values.get(BLOOM_FILTER_KIND_KEY), path=path)
        assert parse_bloom_filter(values[BLOOM_FILTER_KEY], kind, path=path).might_contain(pa.array(keys)).all()


def _rows(storage: Storage, path: str) -> list[dict[str, Any]]:
    with storage.open_input(path) as source:
        return list(pq.ParquetFile(source).read().to_pylist())
