"""Footers of base files that were read: their memory is free at once, not at a later garbage collection."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.tables import new_table, open_table, rows

from pyhudi.io.column_statistics import read_bounds
from pyhudi.storage.memory import MemoryStorage

CITIES = ("bern", "bonn", "oslo", "rome")
STATISTICS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


def footers_in_memory() -> int:
    return sum(isinstance(found, pq.FileMetaData) for found in gc.get_objects())


@pytest.mark.parametrize("does", ["scan", "upsert", "upsert with statistics", "look at bounds"])
def test_footers_that_were_read_are_freed_without_a_garbage_collection(does: str) -> None:
    storage = MemoryStorage()
    options: dict[str, Any] = STATISTICS if does == "upsert with statistics" else {}
    new_table(storage, partition_fields=("city",), **options)
    given = rows(*((number, city, 1, "x") for number, city in enumerate(CITIES)))
    open_table(storage).upsert(given, hudi_options=options)
    paths = [info.path for info in storage.list_recursive("") if info.path.endswith(".parquet")]
    gc.collect()
    before = footers_in_memory()
    gc.disable()
    try:
        if does == "scan":
            assert open_table(storage).scan().to_arrow().num_rows == len(CITIES)
        elif does == "look at bounds":
            assert [set(read_bounds(storage, path, ["id", "city"])) for path in paths] == [{"id", "city"}] * len(paths)
        else:
            open_table(storage).upsert(given, hudi_options=options)
        left = footers_in_memory() - before
    finally:
        gc.enable()
    assert left == 0
