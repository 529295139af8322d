"""The tables that the builder of the tests makes are in the states that its steps are named for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.audit import audit
from tests.support.minio import Minio, minio
from tests.support.table_builder import COW_TABLES, MOR_TABLES, THREE_ROWS, Stage, TableBuilder
from tests.support.tables import contents, log_files

from pyhudi.format.timeline.instant import InstantState
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table

__all__ = ["minio"]

every_table = pytest.mark.parametrize("table", [*COW_TABLES, *MOR_TABLES], ids=str)


@every_table
def test_commits_and_updates_are_there(table: TableBuilder) -> None:
    storage = table.commit(rows=4).delta_commit(updates=2).build()

    assert {(row[0], row[3]) for row in contents(storage)} == {(0, "updated"), (1, "updated"), (2, "new"), (3, "new")}
    assert bool(log_files(storage)) == table.is_merge_on_read
    audit(storage)


@pytest.mark.parametrize(
    ("stage", "state", "files"),
    [
        ("requested", InstantState.REQUESTED, 0),
        ("inflight", InstantState.INFLIGHT, 0),
        ("written", InstantState.INFLIGHT, 1),
    ],
)
@every_table
def test_dead_writer_is_found_in_its_stage_and_rolled_back_by_the_next_write(
    table: TableBuilder, stage: Stage, state: InstantState, files: int
) -> None:
    filled = table.insert(*THREE_ROWS)
    storage = filled.dead_writer((9, "bern", 1, "dead"), stage=stage).build()

    (died,) = load_table(storage).timeline.pending_writes
    assert died.state is state
    assert len(storage.list_recursive("city=bern")) >= files
    assert contents(storage) == {*THREE_ROWS}

    filled.open(storage).insert(filled.batch((10, "bern", 1, "next")))

    assert contents(storage) == {*THREE_ROWS, (10, "bern", 1, "next")}
    assert load_table(storage).timeline.pending_writes == ()
    audit(storage)


@pytest.mark.parametrize("table", MOR_TABLES, ids=str)
def test_planned_compaction_is_pending(table: TableBuilder) -> None:
    storage = table.commit(rows=4).delta_commit(updates=2).pending_compaction().build()

    assert len(load_table(storage).timeline.pending_compactions) == 1


def test_table_on_an_object_store_has_its_rows(minio: Minio) -> None:
    storage = MOR_TABLES[-1].commit(rows=2).delta_commit(updates=1).build(open_storage(minio.new_root(), minio.options))

    assert {(row[0], row[3]) for row in contents(storage)} == {(0, "updated"), (1, "new")}


def test_table_without_partitions_lies_in_the_store_that_was_given(tmp_path: Path) -> None:
    storage = TableBuilder(is_partitioned=False).commit(rows=3).build(LocalStorage(tmp_path))

    assert [path for path in tmp_path.iterdir() if path.suffix == ".parquet"]
    assert len(contents(storage)) == 3
