"""Damage in any file of the metadata table changes no answer: rows are as without it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
import pytest
from tests.support.crashes import copied
from tests.support.tables import new_table, open_table, rows

from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo, Storage

INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": "1",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.index.type": "RECORD_INDEX",
}
CITIES = ("oslo", "rome", "bern")
PARTITIONS = (
    "files",
    "column_stats",
    "partition_stats",
    "bloom_filters",
    "record_index",
    "secondary_index_by_note",
    "expr_index_by_lower",
)
CONDITIONS: dict[str, Any] = {
    "files": [("ts", ">", 0)],
    "column_stats": [("ts", "==", 2)],
    "partition_stats": [("note", "==", "z")],
    "bloom_filters": [("id", "in", [1, 21, 41])],
    "record_index": [("id", "in", [1, 4, 7, 21, 41])],
    "secondary_index_by_note": [("note", "in", ["note 21", "note 7", "z"])],
    "expr_index_by_lower": pc.ascii_lower(pc.field("note")) == "z",
}


def _indexed_table() -> Storage:
    """Nine file slices, a row that was deleted, one that moved its value; slices with a base file and logs."""
    storage = new_table(**INDEXED).handle.state.storage
    for first in range(0, 30, 10):
        batch = [(n, CITIES[n % 3], 1, f"note {n}") for n in range(first, first + 10)]
        open_table(storage, **INDEXED).upsert(rows(*batch))
    open_table(storage, **INDEXED).indexes.create("by_note", "secondary", "note")
    open_table(storage, **INDEXED).indexes.create("by_lower", "expression", "note", expression={"expr": "lower"})
    open_table(storage, **INDEXED).delete(rows((7, "rome", 2, "")))
    open_table(storage, **INDEXED).upsert(rows((41, "rome", 2, "z"), (5, "bern", 2, "note 7")))
    return storage


@pytest.fixture(scope="module")
def indexed() -> Storage:
    return _indexed_table()


def _answers(storage: Storage, partition: str, **options: str) -> list[Any]:
    table = open_table(storage, **{**INDEXED, **options})
    found = table.scan(["id", "note"], where=CONDITIONS[partition]).to_arrow().to_pylist()
    if partition == "record_index":
        found += table.lookup([1, 7, 41], ["id", "note"]).to_pylist()
    return sorted(found, key=repr)


def _damaged(data: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield "gone", None
    yield "empty", b""
    yield "half", data[: len(data) // 2]
    # In a log: its header, the block in it, what ends it; in an HFile: blocks, index, trailer.
    for part in (8, len(data) // 3, len(data) - 20):
        yield f"at {part}", data[:part] + bytes([data[part] ^ 0x95]) + data[part + 1 :]


def _files(storage: Storage, partition: str) -> list[FileInfo]:
    return [info for info in storage.list_folder(f".hoodie/metadata/{partition}").files if info.size > 200]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_damage_in_a_file_of_the_metadata_table_changes_no_answer(indexed: Storage, partition: str) -> None:
    expected = _answers(
        indexed, partition, **{"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
    )
    assert expected
    assert _answers(indexed, partition) == expected
    files = _files(indexed, partition)
    assert files
    for info in files:
        for harm, data in _damaged(indexed.read(info.path)):
            storage: MemoryStorage = copied(indexed)
            if data is None:
                storage.delete(info.path)
            else:
                storage.put(info.path, data)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert _answers(storage, partition) == expected, (info.path, harm)


def test_key_whose_index_entry_is_lost_is_not_stored_twice(indexed: Storage) -> None:
    storage = copied(indexed)
    newest = max(_files(storage, "record_index"), key=lambda info: info.name.split("_")[1])
    storage.delete(newest.path)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        open_table(storage, **INDEXED).upsert(rows((41, "rome", 3, "again")))

    ids = open_table(storage, **{"hoodie.metadata.enable": "false"}).scan(["id"]).to_arrow()["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 30
