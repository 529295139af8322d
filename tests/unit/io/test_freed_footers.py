"""Footers of base files that were read: their memory is free at once, not at a later garbage collection."""

from __future__ import annotations

import gc

import pyarrow.parquet as pq
import pytest
from tests.support.tables import new_table, open_table, rows

from pyhudi.storage.memory import MemoryStorage

CITIES = ("bern", "bonn", "oslo", "rome")


def footers_in_memory() -> int:
    return sum(isinstance(found, pq.FileMetaData) for found in gc.get_objects())


@pytest.mark.parametrize("does", ["scan", "upsert"])
def test_footers_that_were_read_are_freed_without_a_garbage_collection(does: str) -> None:
    storage = MemoryStorage()
    new_table(storage, partition_fields=("city",))
    given = rows(*((number, city, 1, "x") for number, city in enumerate(CITIES)))
    open_table(storage).upsert(given)
    gc.collect()
    before = footers_in_memory()
    gc.disable()
    try:
        if does == "scan":
            assert open_table(storage).scan().to_arrow().num_rows == len(CITIES)
        else:
            open_table(storage).upsert(given)
        left = footers_in_memory() - before
    finally:
        gc.enable()
    assert left == 0
