"""Truncating a table and dropping partitions: what is gone, what older states keep, and what crashes leave."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.crashes import crash_images, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents
from tests.support.tables import rows as plain_rows

import pyhudi
from pyhudi.errors import ConfigError, HistoryNotRetainedError, InvalidRequestError, WriteConflictError
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

EVERY_KIND = pytest.mark.parametrize(
    "kind", [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (6, 8, 9)], ids=str
)
KEEP_ALL = {"hoodie.clean.automatic": "false"}


def as_of(storage: Storage, instant: str) -> set[tuple[object, ...]]:
    found = opened(storage).scan(["id", "city", "ts", "note"], as_of=instant).to_arrow()
    return {tuple(row.values()) for row in found.to_pylist()}


@EVERY_KIND
def test_truncate_deletes_all_rows_and_the_states_before_stay_until_they_are_cleaned(kind: TableBuilder) -> None:
    storage = prepared(kind)
    before, last = contents(storage), load_table(storage).timeline.completed_writes[-1].requested_time

    done = opened(storage, **KEEP_ALL).truncate()

    assert (done.operation, done.partitions) == ("delete_partition", 2)
    assert contents(storage) == set()
    assert as_of(storage, last) == before
    one_state = {"hoodie.clean.commits.retained": "1"}
    opened(storage, **one_state).upsert(rows((1, "oslo", 9, "new")))
    opened(storage, **one_state).upsert(rows((1, "oslo", 10, "newer")))
    assert contents(storage) == {(1, "oslo", 10, "newer")}
    with pytest.raises(HistoryNotRetainedError):
        as_of(storage, last)
    assert all(one.path.startswith("city=oslo/") for one in list_data_files(storage))


@pytest.mark.parametrize("is_partitioned", [True, False])
def test_truncate_of_an_empty_table_changes_nothing_and_the_table_can_be_archived(is_partitioned: bool) -> None:
    storage = replace(TableBuilder(9, "cow"), is_partitioned=is_partitioned).build()

    emptied = opened(storage).truncate()
    assert emptied.replaced_files == 0

    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for number in range(6):
        opened(storage, **keep).upsert(rows((1, "oslo", number, "a")))
    assert emptied.instant not in load_table(storage).timeline.completed_times
    assert contents(storage) == {(1, "oslo", 5, "a")}
    assert opened(storage).truncate().replaced_files == 1
    assert contents(storage) == set()


@pytest.mark.parametrize("kind", [TableBuilder(6, "cow"), TableBuilder(9, "mor")], ids=str)
def test_truncate_that_dies_anywhere_deletes_all_or_nothing(kind: TableBuilder) -> None:
    storage = prepared(kind)
    before, seen = contents(storage), set()
    for name, image in crash_images(storage, lambda table: table.truncate()):
        now = contents(image)
        assert now in (before, set()), name
        seen.add(bool(now))
        opened(image, later=True).upsert(rows((9, "bern", 1, "x")))
        assert contents(image) == {*now, (9, "bern", 1, "x")}, name
        assert not load_table(image).timeline.pending_writes, name
    assert seen == {True, False}


def test_writer_into_a_truncated_partition_gives_way_and_one_into_a_new_one_does_not() -> None:
    inner = prepared(TableBuilder(9, "cow"))

    def beside_a_truncate(*written: tuple[int, str, int, str]) -> None:
        done: list[str] = []

        def truncate(operation: str, path: str) -> None:
            if path.endswith(".parquet") and operation.startswith(("put", "create", "open_output")) and not done:
                done.append(path)
                opened(inner, **KEEP_ALL).truncate()

        opened(FaultStorage(inner, before=truncate), **KEEP_ALL).upsert(plain_rows(*written))
        assert done

    with pytest.raises(WriteConflictError):
        beside_a_truncate((1, "oslo", 9, "late"))
    assert contents(inner) == set()
    beside_a_truncate((7, "lima", 1, "new"))
    assert contents(inner) == {(7, "lima", 1, "new")}


def test_truncate_takes_no_names_of_partitions() -> None:
    table = opened(prepared(TableBuilder(9, "cow")))
    with pytest.raises(ConfigError, match="truncate removes all partitions"):
        table.truncate(hudi_options={"hoodie.datasource.write.partitions.to.delete": "city=oslo"})


@EVERY_KIND
def test_dropped_partition_is_readable_within_retention(kind: TableBuilder) -> None:
    storage = prepared(kind)
    before, last = contents(storage), load_table(storage).timeline.completed_writes[-1].requested_time

    opened(storage, **{"hoodie.clean.commits.retained": "2"}).delete_partition("city=oslo")
    opened(storage, **{"hoodie.clean.commits.retained": "3"}).upsert(rows((9, "rome", 1, "x")))

    assert as_of(storage, last) == before


def test_drop_of_several_partitions_refuses_a_name_that_none_of_them_has() -> None:
    storage = prepared(TableBuilder(9, "cow"))
    before = contents(storage)

    def drop(names: list[str]) -> pyhudi.WriteResult:
        return opened(storage).delete_partition(names)

    with pytest.raises(InvalidRequestError, match="no partition of the table matches") as refused:
        drop(["city=oslo", "city=oslou"])
    assert refused.value.context["given"] == ["city=oslou"]
    assert contents(storage) == before
    assert drop(["city=oslo", "city=r*", "city=oslo"]).partitions == 2
    assert contents(storage) == set()
