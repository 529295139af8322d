"""Dropping a partition beside table services that are planned for it: they take nothing of the drop back."""

from __future__ import annotations

import pytest
from tests.support.audit import audit
from tests.support.tables import MOR, new_table, open_table, rows

from pyhudi.errors import WriteConflictError
from pyhudi.storage.memory import MemoryStorage


def two_files_each() -> MemoryStorage:
    storage = MemoryStorage()
    table = new_table(storage, **MOR, **{"hoodie.parquet.small.file.limit": "0"})
    table.insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    table.refresh().insert(rows((3, "oslo", 1, "a"), (4, "rome", 1, "a")))
    return storage


def stored(storage: MemoryStorage) -> list[int]:
    found: list[int] = open_table(storage).scan(["id"]).to_arrow().column("id").to_pylist()
    return sorted(found)


def test_dropped_partition_stays_empty_when_a_compaction_that_was_planned_before_ends() -> None:
    storage = two_files_each()
    open_table(storage, **MOR).upsert(rows((1, "oslo", 2, "b"), (2, "rome", 2, "b")))
    assert open_table(storage).services.schedule("compaction") is not None

    open_table(storage).delete_partition("city=oslo")

    assert stored(storage) == [2, 4]
    open_table(storage).services.compact()
    assert stored(storage) == [2, 4]
    open_table(storage).upsert(rows((1, "oslo", 1, "again")))
    open_table(storage).services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})
    assert stored(storage) == [1, 2, 4]
    audit(storage)


def test_drop_of_a_partition_with_a_planned_clustering_is_refused_and_drops_nothing() -> None:
    storage = two_files_each()
    assert open_table(storage).services.schedule("clustering") is not None

    with pytest.raises(WriteConflictError, match="a clustering is planned for file groups"):
        open_table(storage).delete_partition("city=oslo")

    assert stored(storage) == [1, 2, 3, 4]
    open_table(storage).services.cluster()
    open_table(storage).delete_partition("city=oslo")
    assert stored(storage) == [2, 4]
