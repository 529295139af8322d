"""A compaction of the metadata table merges a file group in pieces: as many records as memory has room for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.metadata_table import merged_pieces
from pyhudi.metadata_table.lookup import read_group
from pyhudi.metadata_table.merged_pieces import merged_in_pieces
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table

ROWS = 600
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
}


def rows(first: int, count: int, ts: int) -> pa.Table:
    ids = list(range(first, first + count))
    # Texts whose order by bytes is another one than by numbers, some beyond ASCII.
    keys = [f"{'k' if n % 7 else 'ø'}{n}" for n in ids]
    return pa.table({"id": keys, "part": [f"p{n % 3}" for n in ids], "ts": [ts] * count})


def written(path: Path, version: int, *, ends_with_compaction: bool = False) -> MetadataState:
    """A table whose metadata table has base files, and logs that add, change and remove records."""
    options = {**OPTIONS, "hoodie.write.table.version": str(version)}
    pyhudi.save(rows(0, ROWS, 1), str(path), hudi_options=options)
    table = pyhudi.HudiTable.for_path(str(path))
    for turn in range(2, 5 if ends_with_compaction else 6):
        table.upsert(rows(turn * 100, 300 + turn * 50, turn), hudi_options=options)
    never = {**options, "hoodie.metadata.compact.max.delta.commits": "100"}
    table.delete(rows(250, 90, 9).select(["id", "part"]), hudi_options=never)
    table.upsert(rows(280, 20, 10), hudi_options=never)
    return load_metadata_state(load_table(LocalStorage(path)))


@pytest.mark.parametrize("entries", [1, 50, 1_000_000])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_pieces_of_a_file_group_are_its_merged_records_in_the_order_of_keys(
    version: int, entries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merged_pieces, "PIECE_ENTRIES", entries)
    # Blocks of JVM Hudi's size would hold all records of so small a table.
    monkeypatch.setattr("pyhudi.metadata_table.file_group.LOOKUP_BLOCK_BYTES", 2_000)
    monkeypatch.setattr("pyhudi.metadata_table.file_group.BLOCK_BYTES", 500)
    state = written(tmp_path, version)

    seen: dict[str, int] = {}
    for partition in kept_partitions(state.table):
        payload = partition.payload
        for group in state.slices(partition.name):
            pieces = [piece for piece in merged_in_pieces(state, group, payload) if piece.num_rows]
            whole = read_group(state, group, payload)
            found = pa.concat_tables(pieces)
            keys = [key.encode() for key in found.column(KEY).to_pylist()]
            assert keys == sorted(keys)
            assert found.to_pylist() == sorted(whole.to_pylist(), key=lambda record: record[KEY].encode())
            if group.base is not None and group.logs:
                seen[partition.name] = max(seen.get(partition.name, 0), len(pieces))
    assert {"files", "record_index", "column_stats"} <= seen.keys()
    assert (seen["record_index"] > 5) is (entries < 1_000_000)


def test_base_file_written_in_pieces_is_read_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_pieces, "PIECE_ENTRIES", 50)
    monkeypatch.setattr("pyhudi.metadata_table.file_group.LOOKUP_BLOCK_BYTES", 2_000)
    written(tmp_path, 9, ends_with_compaction=True)
    table = pyhudi.HudiTable.for_path(str(tmp_path))
    table.services.run(only="metadata_table")

    assert table.inspect.metadata_check().num_rows == 0
    for key in ("k1", "ø7", "k300", "k299", "ø329", "k700"):
        expected = table.scan().to_arrow().filter(pc.field("id") == key)
        assert table.lookup([key]).to_pylist() == expected.to_pylist()
