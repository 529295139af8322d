"""Keys that were deleted and come back in merge-on-read tables: each is there once, and found by every verb.

What a slice holds is decided by its logs, too, where these add records or delete some.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.tables import MOR, contents, log_files, new_table, newest_stats, open_table, rows

import pyhudi
from pyhudi.errors import InvalidRequestError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
INDEXES = pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "INMEMORY"])
KEY = rows((1, "oslo", 0, "")).select(["id", "city"])
NEIGHBOUR = (2, "oslo", 1, "stays")


def with_a_deleted_key(version: int, index: str = "SIMPLE") -> pyhudi.HudiTable:
    storage = MemoryStorage()
    table = new_table(storage, version=version, **MOR, **{"hoodie.index.type": index})
    table.upsert(rows((1, "oslo", 1, "first"), NEIGHBOUR))
    table.delete(KEY)
    return table.refresh()


def back_by_an_insert(version: int, index: str = "SIMPLE") -> pyhudi.HudiTable:
    """The key is in a base file under a deletion, and alive in another file group."""
    table = with_a_deleted_key(version, index)
    table.insert(rows((1, "oslo", 2, "back")))
    return table.refresh()


def back_before_a_compaction(version: int, index: str = "SIMPLE") -> pyhudi.HudiTable:
    """The key is alive in a log alone: the compaction that was planned before has merged its deletion."""
    table = with_a_deleted_key(version, index)
    table.services.schedule("compaction")
    table.upsert(rows((1, "oslo", 2, "back")))
    table.refresh().services.run()
    return table.refresh()


BACK = pytest.mark.parametrize("back", [back_by_an_insert, back_before_a_compaction])


def held(table: pyhudi.HudiTable) -> list[tuple[int, str, int, str]]:
    return sorted(contents(table.handle.state.storage))


@VERSIONS
@INDEXES
@BACK
def test_upsert_of_a_key_that_came_back_updates_its_one_row(back, index, version) -> None:
    table = back(version, index)

    result = table.upsert(rows((1, "oslo", 3, "again")))

    assert (result.inserted, result.updated) == (0, 1)
    assert table.refresh().scan(["id", "note"]).to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "note": "again"},
        {"id": 2, "note": "stays"},
    ]


@VERSIONS
@INDEXES
@BACK
def test_delete_of_a_key_that_came_back_deletes_it(back, index, version) -> None:
    table = back(version, index)

    result = table.delete(KEY)

    assert result.deleted == 1
    assert table.refresh().scan(["id"]).to_arrow().column("id").to_pylist() == [2]


@VERSIONS
@BACK
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table: table.update({"note": pa.scalar("set")}, where=[("id", "==", 1)]), ["set", "stays"]),
        (lambda table: table.delete_where([("id", "==", 1)]), ["stays"]),
        (
            lambda table: (
                table.merge(rows((1, "oslo", 9, "merged")), on=["id", "city"])
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            ),
            ["merged", "stays"],
        ),
    ],
    ids=["update", "delete_where", "merge"],
)
def test_change_by_condition_reaches_a_key_that_came_back(change, expected, back, version) -> None:
    table = back(version)

    change(table)

    assert sorted(table.refresh().scan(["note"]).to_arrow().column("note").to_pylist()) == expected


@VERSIONS
@pytest.mark.parametrize("policy", ["drop", "fail"])
def test_insert_of_a_deleted_key_finds_it_nowhere(policy, version) -> None:
    table = with_a_deleted_key(version)

    result = table.insert(rows((1, "oslo", 2, "back")), hudi_options={"hoodie.datasource.insert.dup.policy": policy})

    assert result.inserted == 1
    assert len(held(table)) == 2


@VERSIONS
@BACK
def test_insert_of_a_key_that_came_back_finds_it(back, version) -> None:
    table = back(version)

    with pytest.raises(InvalidRequestError, match="keys that are in the table already"):
        table.insert(rows((1, "oslo", 3, "x")), hudi_options={"hoodie.datasource.insert.dup.policy": "fail"})


@VERSIONS
def test_upsert_of_a_deleted_key_goes_back_to_its_file_group_and_is_an_insert(version) -> None:
    table = with_a_deleted_key(version)
    before = {stat.file_id for stat in newest_stats(table.handle.state.storage)}

    result = table.upsert(rows((1, "oslo", 2, "back")))

    assert (result.inserted, result.updated) == (1, 0)
    assert {stat.file_id for stat in newest_stats(table.handle.state.storage)} == before


@VERSIONS
def test_key_that_two_file_groups_have_deleted_comes_back_in_one(version) -> None:
    table = back_by_an_insert(version)
    table.delete(KEY)

    table.refresh().upsert(rows((1, "oslo", 3, "again"), (3, "oslo", 3, "new")))

    assert [row[0] for row in held(table)] == [1, 2, 3]


@VERSIONS
def test_key_moved_away_and_back_by_a_global_index_is_there_once(version) -> None:
    table = new_table(MemoryStorage(), version=version, **MOR)
    table.upsert(rows((1, "oslo", 1, "first"), NEIGHBOUR))
    everywhere = {"hoodie.index.type": "GLOBAL_BLOOM"}
    table.upsert(rows((1, "rome", 2, "away")), hudi_options=everywhere)
    table.upsert(rows((1, "oslo", 3, "back")), hudi_options=everywhere)

    table.upsert(rows((1, "oslo", 4, "again")))

    assert held(table.refresh()) == [(1, "oslo", 4, "again"), NEIGHBOUR]


def test_deleted_key_that_comes_back_is_in_the_record_index() -> None:
    index = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    }
    storage = MemoryStorage()
    table = new_table(storage, **MOR, **index)
    table.upsert(rows((1, "oslo", 1, "first"), NEIGHBOUR))
    table.delete(KEY)
    table.upsert(rows((1, "oslo", 2, "back")), hudi_options={"hoodie.index.type": "SIMPLE"})

    table = open_table(storage, **index)

    assert table.inspect.metadata_check().num_rows == 0
    assert table.lookup([1]).column("note").to_pylist() == ["back"]


def test_logs_with_updates_alone_are_not_read_by_an_upsert() -> None:
    storage = MemoryStorage()
    table = new_table(storage, **MOR)
    table.upsert(rows((1, "oslo", 1, "first"), NEIGHBOUR))
    table.upsert(rows((1, "oslo", 2, "second")))
    (log,) = log_files(storage)
    watched = FaultStorage(storage)

    open_table(watched, **MOR).upsert(rows((1, "oslo", 3, "third")))

    assert [one for one in watched.operations if one.path == log and one.name.startswith(("read", "open"))] == []
