"""Damage in any file of the metadata table changes no answer: rows are as without it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
import pytest
from tests.support.crashes import copied
from tests.support.tables import MOR, new_table, open_table, rows

from pyhudi.errors import CorruptDataError, MetadataTableWarning
from pyhudi.metadata_table.state import load_metadata_state
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
OF_VALUES = ("secondary_index_by_note", "expr_index_by_lower")
CONDITIONS: dict[str, Any] = {
    "files": [("ts", ">", 0)],
    "column_stats": [("ts", "==", 2)],
    "partition_stats": [("ts", "==", 2)],
    "bloom_filters": [("id", "in", [1, 21, 41])],
    "record_index": [("id", "in", [1, 4, 7, 21, 41])],
    "secondary_index_by_note": [("note", "in", ["note 21", "note 7", "z"])],
    "expr_index_by_lower": pc.ascii_lower(pc.field("note")) == "z",
}


def _indexed_table(version: int = 9, **options: str) -> Storage:
    """Nine file slices, a row that was deleted, one that moved its value; slices with a base file and logs."""
    given = {**INDEXED, **options}
    storage = new_table(version=version, **given).handle.state.storage
    for first in range(0, 30, 10):
        batch = [(n, CITIES[n % 3], 1, f"note {n}") for n in range(first, first + 10)]
        open_table(storage, **given).upsert(rows(*batch))
    if version >= 8:
        open_table(storage, **given).indexes.create("by_note", "secondary", "note")
        open_table(storage, **given).indexes.create("by_lower", "expression", "note", expression={"expr": "lower"})
    open_table(storage, **given).delete(rows((7, "rome", 2, "")))
    open_table(storage, **given).upsert(rows((41, "rome", 2, "z"), (5, "bern", 2, "note 7")))
    return storage


@pytest.fixture(scope="module")
def indexed() -> Storage:
    return _indexed_table()


OTHERS = [(9, MOR), (8, {}), (6, {}), (6, MOR)]


@pytest.mark.parametrize(("version", "kind"), OTHERS, ids=lambda one: "mor" if one else "")
def test_damage_in_tables_of_other_kinds_and_versions_changes_no_answer(version: int, kind: dict[str, str]) -> None:
    table = _indexed_table(version, **kind)
    listed = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
    tried = 0
    for partition in sorted({*PARTITIONS} & {*open_table(table).handle.state.config.metadata_partitions}):
        given = _asking_first(table, partition)
        expected = _answers(given, partition, **listed)
        for number, info in enumerate(_files(given, partition)):
            harms = [*_damaged(given.read(info.path))]
            # Every file goes once, and each is damaged in one of the other ways.
            for harm, data in (harms[0], harms[1 + number % (len(harms) - 1)]):
                tried += 1
                storage = _harmed(given, info.path, data)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert _answers(storage, partition) == expected, (info.path, harm)
    assert tried >= 20


def _asking_first(given: Storage, partition: str) -> Storage:
    """The table without indexes that leave too few files for this one to be asked."""
    storage = copied(given)
    before = {"bloom_filters": ("record_index", "column_stats"), "partition_stats": OF_VALUES}
    for name in before.get(partition, ()):
        if name in open_table(storage).handle.state.config.metadata_partitions:
            open_table(storage).indexes.drop(name)
    return storage


def _harmed(given: Storage, path: str, data: bytes | None) -> MemoryStorage:
    storage = copied(given)
    if data is None:
        storage.delete(path)
    else:
        storage.put(path, data)
    return storage


def _newest(given: Storage, partition: str) -> str:
    """A file with records of the newest slice of a partition."""
    (group, *_) = load_metadata_state(open_table(given).handle.state).slices(partition)
    logs = [path for path, size in zip(group.logs, group.log_sizes, strict=True) if size > 200]
    newest = logs[-1] if logs else group.base
    assert newest is not None
    return newest


@pytest.mark.parametrize(
    ("version", "partition"),
    [
        (9, "record_index"),
        (9, "column_stats"),
        (9, "partition_stats"),
        (9, "secondary_index_by_note"),
        (9, "expr_index_by_lower"),
        (9, "bloom_filters"),
        (6, "record_index"),
        (6, "column_stats"),
    ],
)
def test_read_that_passes_a_damaged_index_over_warns_once_with_a_repair_that_helps(
    version: int, partition: str
) -> None:
    repair = f"table.indexes.refresh('{partition}')"
    given = _asking_first(_indexed_table(version), partition)
    storage = _harmed(given, _newest(given, partition), None)

    with pytest.warns(MetadataTableWarning, match=re.escape(repair)):
        first = _answers(storage, partition)
    again = _answers(storage, partition)  # a second warning would be an error
    assert first == again == _answers(given, partition)

    with warnings.catch_warnings(record=True):
        open_table(storage, **INDEXED).indexes.refresh(partition)
    copy = copied(storage)  # to which nothing has been told
    assert _answers(copy, partition) == first
    assert open_table(copy, **INDEXED).inspect.metadata_check().to_pylist() == []


def test_write_that_passes_the_record_index_over_warns_with_the_repair() -> None:
    given = _indexed_table()
    storage = _harmed(given, _newest(given, "record_index"), b"")
    with pytest.warns(MetadataTableWarning, match=r"record_index.*searched.*indexes\.refresh\('record_index'\)"):
        open_table(storage, **INDEXED).upsert(rows((41, "rome", 3, "again")))


def test_write_that_asks_for_a_record_index_where_there_is_none_warns_how_to_make_it() -> None:
    storage = new_table().handle.state.storage
    open_table(storage).upsert(rows((1, "oslo", 1, "a")))
    with pytest.warns(MetadataTableWarning, match=r"indexes\.create\('record_index'\)"):
        open_table(storage, **{"hoodie.index.type": "RECORD_INDEX"}).upsert(rows((1, "oslo", 1, "a")))


@pytest.mark.parametrize("partition", ["files", "column_stats", "record_index"])
@pytest.mark.parametrize("compacts_after", ["100", "4"])
def test_log_that_is_gone_is_noticed_in_version_6_by_the_name_in_its_commit(
    partition: str, compacts_after: str
) -> None:
    """Names of logs show their slice there and not their write; the commits of the metadata table name them."""
    often = {"hoodie.metadata.compact.max.delta.commits": compacts_after}
    given = _indexed_table(6, **often)
    for moment in (3, 4):
        open_table(given, **{**INDEXED, **often}).upsert(rows((42, "rome", moment, "y"), (50 + moment, "bern", 2, "x")))
    never = {**INDEXED, "hoodie.metadata.compact.max.delta.commits": "100"}
    open_table(given, **never).upsert(rows((42, "rome", 9, "y"), (59, "bern", 2, "x")))
    state = load_metadata_state(open_table(given).handle.state)
    (group, *_) = state.slices(partition)
    logs = [path for path, size in zip(group.logs, group.log_sizes, strict=True) if size > 200]
    for path in logs:
        storage = copied(given)
        storage.delete(path)
        with pytest.raises(CorruptDataError, match="is missing"):
            load_metadata_state(open_table(storage).handle.state).slices(partition)
    assert logs


def test_index_of_version_6_that_was_built_again_is_whole() -> None:
    """The commits before name logs that are gone."""
    given = _indexed_table(6, **{"hoodie.metadata.compact.max.delta.commits": "2"})
    for name in ("record_index", "column_stats"):
        open_table(given, **INDEXED).indexes.refresh(name)
    open_table(given, **INDEXED).upsert(rows((42, "rome", 2, "y")))
    state = load_metadata_state(open_table(given).handle.state)
    assert all(state.slices(name) for name in ("files", "record_index", "column_stats"))


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
    indexed = _asking_first(indexed, partition)
    expected = _answers(
        indexed, partition, **{"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
    )
    assert expected
    assert _answers(indexed, partition) == expected
    files = _files(indexed, partition)
    assert files
    for info in files:
        for harm, data in _damaged(indexed.read(info.path)):
            storage = _harmed(indexed, info.path, data)
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
