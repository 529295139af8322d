"""The partition `files` after every action: it knows what the store has of completed writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.crashes import opened, rows
from tests.support.metadata_tables import delta_commits, files_committed, files_known, with_files
from tests.support.table_builder import THREE_ROWS

import pyhudi
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

TABLES = [with_files(9, "cow"), with_files(9, "mor"), with_files(8, "mor"), with_files(6, "cow"), with_files(6, "mor")]
RETAINING_ONE = {"hoodie.clean.commits.retained": "1"}

ACTIONS: dict[str, Callable[[pyhudi.HudiTable], object]] = {
    "upsert": lambda table: table.upsert(rows((1, "oslo", 3, "c"), (9, "rome", 3, "c"))),
    "delete": lambda table: table.delete(rows((1, "oslo", 3, "c"))),
    "new partition": lambda table: table.bulk_insert(rows((7, "bern", 1, "a"))),
    "overwrite": lambda table: table.insert_overwrite(rows((5, "oslo", 1, "n"))),
    "overwrite of all": lambda table: table.insert_overwrite_table(rows((5, "bern", 1, "n"))),
    "end of a partition": lambda table: table.delete_partition("city=oslo"),
    "clustering": lambda table: table.services.cluster(),
}


def prepared(table: object) -> Storage:
    return table.insert(*THREE_ROWS).upsert((1, "oslo", 2, "b")).build()  # type: ignore[attr-defined, no-any-return]


def newest(storage: Storage) -> str:
    return load_table(storage).timeline.completed_writes[-1].requested_time


@pytest.mark.parametrize("table", TABLES, ids=str)
@pytest.mark.parametrize("name", ACTIONS)
def test_files_after_an_action_are_those_of_the_store_and_after_its_rollback_those_before(table, name: str) -> None:
    storage = prepared(table)
    before = files_known(storage)
    ended = newest(storage)

    ACTIONS[name](opened(storage, **{"hoodie.clean.automatic": "false"}))

    assert files_known(storage) == files_committed(storage)
    written = newest(storage)
    if written == ended:  # nothing to cluster
        assert name == "clustering"
        return
    assert written in delta_commits(storage)

    opened(storage).recovery.rollback(written)

    assert files_known(storage) == files_committed(storage)
    assert written not in delta_commits(storage)
    if table.version > 6:
        assert files_known(storage) == before


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_files_after_a_clean_are_those_of_the_store(table) -> None:
    storage = prepared(table)
    for moment in range(3, 6):
        opened(storage, **{"hoodie.clean.automatic": "false"}).upsert(rows((1, "oslo", moment, "c")))
        if table.is_merge_on_read:
            opened(storage).services.compact()
    before = files_known(storage)

    cleaned = opened(storage).services.clean(hudi_options=RETAINING_ONE)

    assert cleaned is not None
    assert cleaned.files > 0
    assert files_known(storage) == files_committed(storage) != before
    assert cleaned.instant in delta_commits(storage)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_files_after_a_restore_are_those_of_the_store(table) -> None:
    storage = prepared(table)
    target = newest(storage)
    opened(storage).upsert(rows((1, "oslo", 3, "c"), (8, "bern", 3, "c")))
    opened(storage).insert_overwrite(rows((5, "oslo", 4, "n")))

    opened(storage).recovery.restore(target)

    assert files_known(storage) == files_committed(storage)
