"""Which file slices a read without a JVM merges at the same time, and which alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables import MOR, contents, new_table, open_table, rows

from pyhudi.read import arrow
from pyhudi.storage.memory import MemoryStorage

CITIES = ("bonn", "oslo", "rome", "wien")


@pytest.fixture
def storage() -> MemoryStorage:
    """A table with logs in each of its partitions."""
    storage = MemoryStorage()
    new_table(storage, **MOR)
    open_table(storage).bulk_insert(rows(*((key, city, 1, "old") for city in CITIES for key in range(3))))
    open_table(storage).upsert(rows(*((1, city, 2, "new") for city in CITIES)))
    return storage


EXPECTED = {(key, city, 2 if key == 1 else 1, "new" if key == 1 else "old") for city in CITIES for key in range(3)}


def test_slices_with_small_logs_are_merged_at_the_same_time(
    storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, read_slice = threading.Barrier(2), arrow.read_slice

    def met(*given: Any) -> Iterator[pa.RecordBatch]:
        both.wait(timeout=60)
        yield from read_slice(*given)

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(arrow, "read_slice", met)

    assert contents(storage) == EXPECTED


@pytest.mark.parametrize("limit", ["LOG_BYTES_AT_ONCE", "SLICE_BYTES_ALONE"])
def test_slice_with_large_logs_or_a_large_base_file_is_merged_alone(
    limit: str, storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, read_slice = set[str](), arrow.read_slice

    def alone(*given: Any) -> Iterator[pa.RecordBatch]:
        assert not now
        now.add(given[2].partition_path)
        for batch in read_slice(*given):
            assert len(now) == 1
            yield batch
        now.clear()

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(arrow, limit, 10)
    monkeypatch.setattr(arrow, "read_slice", alone)

    assert contents(storage) == EXPECTED
