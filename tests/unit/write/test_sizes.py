"""Sizes of base files: whatever the width of rows, no file exceeds its limit by much, and none is far too small."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.tables import MOR, SCHEMA, new_table, newest_stats, rows

import pyhudi
from pyhudi.storage.memory import MemoryStorage

KB = 1 << 10
LIMITS = {
    "hoodie.parquet.max.file.size": str(600 * KB),
    "hoodie.parquet.small.file.limit": str(500 * KB),
    "hoodie.parquet.bloom.filter.enabled": "false",
}
NEARLY = 1.1
"""How much larger than the limit a file may be: by its footer, and as sizes are known only when they are written."""


def some(first: int, count: int, width: int) -> pa.Table:
    """Records with notes of so many bytes, which cannot be compressed to less than half of them."""
    source = random.Random(first)
    notes = [source.randbytes(width // 2 + 1).hex()[:width] for _ in range(count)]
    return pa.table([range(first, first + count), ["oslo"] * count, [1] * count, notes], schema=SCHEMA)


def sizes(table: pyhudi.HudiTable) -> list[int]:
    found: list[int] = table.refresh().inspect.files().column("size").to_pylist()
    return sorted(found)


def ids(table: pyhudi.HudiTable) -> list[int]:
    found: list[int] = table.refresh().scan(["id"]).to_arrow().column("id").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("options", [{}, MOR], ids=["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("packed", ["insert", "upsert"])
def test_wide_rows_packed_into_a_small_file_leave_it_within_its_limit(options: dict[str, str], packed: str) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **LIMITS, **options)
    table.insert(some(0, 10, 20))

    getattr(table, packed)(some(100, 200, 16 * KB))

    assert max(sizes(table)) < NEARLY * 600 * KB
    assert ids(table) == [*range(10), *range(100, 300)]
    audit(storage)


def test_rows_for_which_the_estimate_is_far_too_small_begin_further_file_groups() -> None:
    storage = MemoryStorage()
    index = {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.record.index.enable": "true"}
    table = new_table(storage, **LIMITS, **index, **{"hoodie.copyonwrite.record.size.estimate": "10"})
    table.insert(some(0, 10, 20))
    (packed,) = table.refresh().inspect.files().column("file_id").to_pylist()

    table.upsert(pa.concat_tables([some(0, 5, 30), some(100, 200, 16 * KB)]))

    files = table.refresh().inspect.files()
    assert packed in files.column("file_id").to_pylist()
    assert len(files) == 3
    assert max(sizes(table)) < NEARLY * 600 * KB
    table.upsert(rows(*((n, "oslo", 2, "again") for n in (0, 9, 100, 200, 299))))
    assert ids(table) == [*range(10), *range(100, 300)]
    audit(storage)


def test_a_file_that_updates_have_filled_takes_no_new_rows() -> None:
    storage = MemoryStorage()
    table = new_table(storage, **LIMITS)
    table.insert(some(0, 100, 20))

    table.upsert(pa.concat_tables([some(0, 100, 16 * KB), some(100, 40, 16 * KB)]))

    stats = newest_stats(storage)
    assert sorted((stat.num_update_writes, stat.num_inserts) for stat in stats) == [(0, 40), (100, 0)]
    assert ids(table) == list(range(140))
    audit(storage)


@pytest.mark.parametrize("packed", ["insert", "upsert"])
def test_narrow_rows_make_files_of_the_limit_and_not_of_a_thousand_bytes_a_row(packed: str) -> None:
    storage = MemoryStorage()
    table = new_table(storage, **LIMITS)

    getattr(table, packed)(some(0, 20_000, 7))

    assert len(sizes(table)) == 1
    getattr(table, packed)(some(20_000, 20_000, 7))
    assert len(sizes(table)) == 1
    assert ids(table) == list(range(40_000))


def test_bulk_insert_keeps_the_limit_with_rows_of_any_width() -> None:
    storage = MemoryStorage()
    table = new_table(storage, **LIMITS)

    table.bulk_insert(pa.concat_tables([some(0, 20_000, 7), some(20_000, 200, 16 * KB), some(30_000, 20_000, 7)]))

    assert max(sizes(table)) < NEARLY * 600 * KB
    assert len(ids(table)) == 40_200
