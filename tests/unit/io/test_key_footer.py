"""Bloom filters of files that get more keys than the options expect."""

from __future__ import annotations

import io
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import SCHEMA, new_table, open_table

from pyhudi.config.option import OptionWarning
from pyhudi.format.bloom import BLOOM_FILTER_KEY, BloomFilter, BloomFilterType, parse_bloom_filter
from pyhudi.storage.memory import MemoryStorage

EXPECTED, ASKED = 500, 0.01
ABSENT = pa.array([f"absent-{number}" for number in range(50_000)])
FILTERS = {"hoodie.index.bloom.num_entries": str(EXPECTED), "hoodie.index.bloom.fpp": str(ASKED)}


def numbered(count: int, first: int = 0) -> pa.Table:
    ids = range(first, first + count)
    return pa.table([ids, ["oslo"] * count, [1] * count, ["a"] * count], schema=SCHEMA)


def filter_of(storage: MemoryStorage) -> BloomFilter:
    (path,) = open_table(storage).inspect.files().column("path").to_pylist()
    footer = pq.ParquetFile(io.BytesIO(storage.read(path))).metadata.metadata
    return parse_bloom_filter(footer[BLOOM_FILTER_KEY.encode()].decode(), BloomFilterType.DYNAMIC_V0)


def rate(found: BloomFilter) -> float:
    return float(found.might_contain(ABSENT).mean())


@pytest.mark.parametrize("operation", ["bulk_insert", "insert"])
@pytest.mark.parametrize("block_size", ["100000000", "100000"], ids=["one row group", "several"])
def test_a_dynamic_filter_keeps_its_rate_at_ten_times_the_expected_keys(operation: str, block_size: str) -> None:
    storage = MemoryStorage()

    options = {**FILTERS, "hoodie.parquet.block.size": block_size}
    getattr(new_table(storage), operation)(numbered(10 * EXPECTED), hudi_options=options)

    found = filter_of(storage)
    assert found.might_contain(pa.array([str(n) for n in range(10 * EXPECTED)])).all()
    assert rate(found) < 1.3 * ASKED


def test_a_filter_for_as_many_keys_as_expected_is_as_large_as_asked() -> None:
    storage = MemoryStorage()

    new_table(storage).bulk_insert(numbered(EXPECTED), hudi_options=FILTERS)

    assert (filter_of(storage).row_capacity, len(filter_of(storage).rows)) == (EXPECTED, 1)


@pytest.mark.parametrize(("kind", "option"), [("DYNAMIC_V0", "dynamic.max.entries"), ("SIMPLE", "num_entries")])
def test_a_filter_that_may_not_grow_so_far_is_said_where_the_index_asks_it(kind: str, option: str) -> None:
    limits = {
        **FILTERS,
        "hoodie.bloom.index.filter.dynamic.max.entries": "1000",
        "hoodie.bloom.index.filter.type": kind,
    }
    table = new_table(MemoryStorage())

    with pytest.warns(OptionWarning, match=rf"5000 records and a bloom filter for (1000|500), .*{option}"):
        table.bulk_insert(numbered(5000), hudi_options={**limits, "hoodie.index.type": "BLOOM"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.refresh().bulk_insert(numbered(5000, first=5000), hudi_options={**limits, "hoodie.index.type": "SIMPLE"})
