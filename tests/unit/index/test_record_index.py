"""The record index as an index of writes: which files it reads, and what it does where it cannot be believed."""

from __future__ import annotations

import logging

import pytest
from tests.support.tables import MOR, contents, new_table, open_table, rows

from pyhudi.errors import MetadataTableWarning
from pyhudi.index.selection import SimpleIndex
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

BUILD = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.parquet.small.file.limit": "0",
}
INDEXED = {**BUILD, "hoodie.index.type": "RECORD_INDEX"}


def _table(**options: str) -> Storage:
    table = new_table(**BUILD, **options)
    table.upsert(rows(*((number, "oslo", 1, "a") for number in range(6))))
    storage = table.handle.state.storage
    open_table(storage, **BUILD).upsert(rows(*((number, "rome", 1, "a") for number in range(6, 12))))
    return storage


def test_a_lookup_opens_only_the_data_files_that_it_rewrites() -> None:
    storage = FaultStorage(_table())
    before = {info.path for info in storage.list_recursive("city=rome")}
    open_table(storage, **INDEXED).upsert(rows((1, "oslo", 2, "b"), (99, "rome", 2, "c")))
    opened = {one.path for one in storage.operations if one.name == "open_input"}
    assert not opened & before
    assert len(contents(storage)) == 13


@pytest.mark.parametrize("name", ["RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX"])
def test_both_names_of_the_index_find_by_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = _table()
    monkeypatch.setattr(SimpleIndex, "tag", None)
    open_table(storage, **INDEXED | {"hoodie.index.type": name}).upsert(rows((1, "oslo", 2, "b")))
    assert (1, "oslo", 2, "b") in contents(storage)
    assert len(contents(storage)) == 12


def test_without_a_record_index_files_are_searched_and_a_warning_says_so() -> None:
    table = new_table()
    table.upsert(rows((1, "oslo", 1, "a")))
    storage = table.handle.state.storage
    told = r"the table has none; files are searched .*indexes\.create\('record_index'\)"
    with pytest.warns(MetadataTableWarning, match=told):
        open_table(storage, **{"hoodie.index.type": "RECORD_INDEX"}).upsert(rows((1, "rome", 2, "b")))
    assert contents(storage) == {(1, "oslo", 2, "b")}


@pytest.mark.parametrize(("index", "warns"), [("SIMPLE", True), ("BLOOM", True), ("GLOBAL_SIMPLE", False)])
def test_an_index_that_may_repeat_a_key_beside_the_record_index_warns(
    index: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    storage = _table()
    with caplog.at_level(logging.WARNING, logger="pyhudi"):
        open_table(storage, **{"hoodie.index.type": index}).upsert(rows((1, "oslo", 2, "b")))
    assert ("has each key once" in caplog.text) is warns


def test_a_damaged_index_is_not_used_and_no_key_is_stored_twice() -> None:
    storage = _table()
    for info in storage.list_recursive(".hoodie/metadata/record_index"):
        if ".log." in info.name and info.size > 100:
            storage.put(info.path, storage.read(info.path)[:-900] + bytes(900))
    with pytest.warns(MetadataTableWarning, match="files are searched instead"):
        open_table(storage, **INDEXED).upsert(rows(*((number, "oslo", 2, "b") for number in range(12))))
    assert len(contents(storage)) == 12


def test_a_writer_whose_options_do_not_name_the_index_keeps_it() -> None:
    storage = _table()
    open_table(storage).upsert(rows((20, "oslo", 1, "a")))
    table = open_table(storage, **INDEXED)
    assert "record_index" in table.handle.state.config.metadata_partitions
    table.upsert(rows((20, "oslo", 2, "b")))
    assert len(contents(storage)) == 13


def test_an_entry_whose_file_group_was_replaced_is_a_new_record() -> None:
    storage = _table()
    open_table(storage, **BUILD).delete_partition(["city=rome"])
    open_table(storage, **INDEXED).upsert(rows((7, "oslo", 2, "b")))
    assert len(contents(storage)) == 7


def test_an_update_of_a_group_with_logs_reads_none_of_its_files() -> None:
    storage = _table(**MOR)
    open_table(storage, **INDEXED, **MOR).upsert(rows((1, "oslo", 2, "b")))
    counting = FaultStorage(storage)
    open_table(counting, **INDEXED, **MOR).upsert(rows((1, "oslo", 3, "c"), (2, "oslo", 3, "c")))
    opened = {one.path for one in counting.operations if one.name == "open_input" and one.path.startswith("city=")}
    assert opened == set()
    assert (1, "oslo", 3, "c") in contents(storage)
    open_table(storage, **INDEXED, **MOR).delete(rows((1, "oslo", 0, "")).select(["id", "city"]))
    open_table(storage, **INDEXED, **MOR).upsert(rows((1, "oslo", 4, "again")))
    open_table(storage, **INDEXED, **MOR).upsert(rows((1, "oslo", 5, "and again")))
    assert sum(row[0] == 1 for row in contents(storage)) == 1
