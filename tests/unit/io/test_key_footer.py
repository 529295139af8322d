"""Bloom filters of files that get more keys than the options expect."""

from __future__ import annotations

import io
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.tables import SCHEMA, new_table, open_table

import pyhudi
from pyhudi.config.option import OptionWarning
from pyhudi.errors import CorruptDataError
from pyhudi.format.bloom import BLOOM_FILTER_KEY, BloomFilter, BloomFilterBuilder, BloomFilterType, parse_bloom_filter
from pyhudi.io import key_footer
from pyhudi.io.key_footer import BloomSettings, KeyFooter
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


@pytest.mark.parametrize("packed", ["insert", "upsert"])
def test_a_filter_that_packing_has_outgrown_gets_a_new_one_for_all_keys(packed: str) -> None:
    storage = MemoryStorage()

    for turn in range(10):
        getattr(open_or_new(storage), packed)(numbered(EXPECTED, first=turn * EXPECTED), hudi_options=FILTERS)

    found = filter_of(storage)
    assert found.might_contain(pa.array([str(n) for n in range(10 * EXPECTED)])).all()
    assert rate(found) < 2 * ASKED


def test_updates_without_new_keys_also_mend_the_filter_of_a_file() -> None:
    storage = MemoryStorage()
    small = {**FILTERS, "hoodie.bloom.index.filter.dynamic.max.entries": "500"}
    new_table(storage).insert(numbered(10 * EXPECTED), hudi_options=small)
    crowded = rate(filter_of(storage))

    open_table(storage).upsert(numbered(1), hudi_options=FILTERS)

    assert crowded > 0.3
    assert rate(filter_of(storage)) < 1.3 * ASKED


def test_a_filter_that_is_large_enough_is_continued_and_keys_are_not_hashed_again() -> None:
    storage = MemoryStorage()
    options = {**FILTERS, "hoodie.index.bloom.num_entries": "5000"}
    new_table(storage).insert(numbered(10), hudi_options=options)
    before = filter_of(storage)

    open_table(storage).insert(numbered(1, first=10), hudi_options=options)

    after = filter_of(storage)
    assert (after.row_capacity, after.last_row_keys) == (before.row_capacity, 11)


def test_a_filter_for_too_many_keys_has_the_fewest_false_positives_of_its_size() -> None:
    storage = MemoryStorage()
    limits = {
        **FILTERS,
        "hoodie.index.bloom.fpp": "0.000000001",
        "hoodie.bloom.index.filter.dynamic.max.entries": "1000",
    }

    new_table(storage).insert(numbered(4000), hudi_options=limits)

    found = filter_of(storage)
    assert found.might_contain(pa.array([str(n) for n in range(4000)])).all()
    assert found.bits < 44_000
    assert rate(found) < 0.01  # 0.1 with the hashes of a filter for 1,000 keys


def open_or_new(storage: MemoryStorage) -> pyhudi.HudiTable:
    return open_table(storage) if storage.info(".hoodie/hoodie.properties") else new_table(storage)


def test_filter_of_a_file_without_new_keys_is_that_of_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    new_table(storage).bulk_insert(numbered(10))
    before = filter_of(storage).to_text()
    monkeypatch.setattr(BloomFilterBuilder, "to_text", lambda _: pytest.fail("the filter is encoded again"))
    monkeypatch.setattr(key_footer, "parse_bloom_filter", lambda *_, **__: pytest.fail("the filter is decoded"))
    open_table(storage).upsert(numbered(3))

    assert len(open_table(storage).inspect.timeline()) == 2
    assert filter_of(storage).to_text() == before


def test_new_keys_for_a_damaged_filter_of_the_previous_version_name_its_file() -> None:
    settings = BloomSettings(kind=BloomFilterType.SIMPLE, num_entries=4, fpp=0.01, max_entries=8)
    first = KeyFooter(settings)
    first.add(pa.array(["a", "b"]), expected=2)
    whole = first.values()
    damaged = {**whole, BLOOM_FILTER_KEY: whole[BLOOM_FILTER_KEY][:-4]}

    resumed = KeyFooter.of_previous_version(settings, damaged, "oslo/base.parquet", keys=3)

    assert resumed is not None
    with pytest.raises(CorruptDataError, match="cut off") as error:
        resumed.add(pa.array(["c"]), expected=3)
    assert error.value.context["path"] == "oslo/base.parquet"
