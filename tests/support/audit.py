"""What must hold of a table on disk after any sequence of writes: counts, meta columns, footers, nothing left over."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomKind,
    parse_bloom_filter,
)
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.partition_metadata import PARTITION_METADATA_FILE
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import list_data_files, load_view
from pyhudi.table.state import TableState, load_table
from pyhudi.table.timeline import load_commit_metadata


def audit(storage: Storage) -> None:
    """Raise AssertionError where the table contradicts itself."""
    table = load_table(storage)
    _check_nothing_left_over(storage, table)
    _check_commits(storage, table)
    view = load_view(storage, table.timeline)
    seqnos: Counter[str] = Counter()
    for partition_path, files in view.latest.items():
        folder = f"{partition_path}/" if partition_path else ""
        assert storage.info(f"{folder}{PARTITION_METADATA_FILE}") is not None, partition_path
        for file in files:
            rows = _rows(storage, file.path)
            assert {row["_hoodie_file_name"] for row in rows} <= {str(file.name)}
            assert {row["_hoodie_partition_path"] for row in rows} <= {partition_path}
            assert {row["_hoodie_commit_time"] for row in rows} <= table.timeline.completed_times
            seqnos.update(row["_hoodie_commit_seqno"] for row in rows)
            _check_footer(storage, file.path, [row["_hoodie_record_key"] for row in rows])
    assert not [seqno for seqno, count in seqnos.items() if count > 1]


def _check_nothing_left_over(storage: Storage, table: TableState) -> None:
    assert not table.timeline.pending_writes
    assert not table.timeline.pending_rollbacks
    for folder in (".hoodie/.temp", ".hoodie/.aux/.exchange", ".hoodie/.heartbeat"):
        assert storage.list_recursive(folder) == (), folder
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        assert name is None or table.timeline.is_committed(name.instant_time), info.path


def _check_commits(storage: Storage, table: TableState) -> None:
    """Each commit's counts are those of the files that it wrote."""
    for instant in table.timeline.completed_writes:
        metadata = load_commit_metadata(storage, instant, table.version)
        for partition_path, stats in metadata.stats_by_partition.items():
            for stat in stats:
                assert stat.path is not None
                info = storage.info(stat.path)
                assert info is not None, stat.path
                rows = _rows(storage, stat.path)
                fresh = [row for row in rows if row["_hoodie_commit_time"] == instant.requested_time]
                assert stat.partition_path == partition_path
                assert stat.file_size_in_bytes == stat.total_write_bytes == info.size
                assert stat.num_writes == len(rows), stat.path
                assert stat.num_inserts + stat.num_update_writes == len(fresh), stat.path
                if stat.prev_commit != "null":
                    former = _rows(storage, _former_path(storage, partition_path, stat))
                    assert len(former) + stat.num_inserts - stat.num_deletes == len(rows), stat.path


def _former_path(storage: Storage, partition_path: str, stat: WriteStat) -> str:
    """The base file that a stat says it replaced; version 6 does not name it."""
    for info in storage.list_folder(partition_path).files:
        name = parse_data_file(info.name)
        if name is not None and (name.file_id, name.instant_time) == (stat.file_id, stat.prev_commit):
            assert stat.prev_base_file in (None, info.name)
            return info.path
    raise AssertionError(f"the former version of {stat.path} is gone")


def _check_footer(storage: Storage, path: str, keys: list[str]) -> None:
    with storage.open_input(path) as source:
        values = {k.decode(): v.decode() for k, v in pq.ParquetFile(source).metadata.metadata.items()}
    if keys and BLOOM_FILTER_KEY in values:
        assert values[MIN_RECORD_KEY_KEY] <= min(keys)
        assert values[MAX_RECORD_KEY_KEY] >= max(keys)
        kind = BloomKind.from_footer(values.get(BLOOM_FILTER_KIND_KEY), path=path)
        assert parse_bloom_filter(values[BLOOM_FILTER_KEY], kind, path=path).might_contain(pa.array(keys)).all()


def _rows(storage: Storage, path: str) -> list[dict[str, Any]]:
    with storage.open_input(path) as source:
        return list(pq.ParquetFile(source).read().to_pylist())
