"""Unions of bloom filters have every key, and no more false positives than a filter that was made of the keys."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.format.bloom import BloomFilter, BloomFilterBuilder, BloomFilterType, parse_bloom_filter
from pyhudi.format.bloom_union import BloomUnion

KINDS = pytest.mark.parametrize("kind", list(BloomFilterType))


def filter_of(keys: list[str], kind: BloomFilterType, *, entries: int = 20, maximum: int = 60) -> BloomFilter:
    builder = BloomFilterBuilder(kind, entries, 1e-3, maximum)
    builder.add(pa.array(keys, pa.string()))
    return parse_bloom_filter(builder.to_text(), kind)


def union_of(filters: list[BloomFilter], maximum: int = 60) -> BloomFilter:
    union = BloomUnion(filters[0], max_entries=maximum)
    for other in filters[1:]:
        assert union.fits(other)
        union.add(other)
    found = union.joined()
    return parse_bloom_filter(found.to_text(), found.kind)


@KINDS
@given(st.lists(st.lists(st.text(min_size=1, max_size=5), max_size=90), min_size=1, max_size=6))
def test_every_key_of_every_filter_is_found(kind: BloomFilterType, files: list[list[str]]) -> None:
    union = union_of([filter_of(keys, kind) for keys in files])
    for keys in files:
        assert union.might_contain(pa.array(keys, pa.string())).all()


def keys_of(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@KINDS
def test_filters_of_few_keys_become_the_filter_of_all_keys(kind: BloomFilterType) -> None:
    parts = [keys_of(5, prefix) for prefix in "abc"]
    union = union_of([filter_of(keys, kind) for keys in parts])
    assert union.to_text() == filter_of([key for keys in parts for key in keys], kind).to_text()


def test_rows_are_joined_up_to_their_keys_and_then_another_begins() -> None:
    kind = BloomFilterType.DYNAMIC_V0
    union = union_of([filter_of(keys_of(15, prefix), kind) for prefix in "abc"])
    assert (len(union.rows), union.last_row_keys) == (3, 15)
    union = union_of([filter_of(keys_of(10, prefix), kind) for prefix in "abc"])
    assert (len(union.rows), union.last_row_keys) == (2, 10)


def test_union_beyond_the_largest_size_is_continued_as_an_overfull_filter() -> None:
    kind = BloomFilterType.DYNAMIC_V0
    files = [keys_of(50, prefix) for prefix in "abcd"]
    union = union_of([filter_of(keys, kind) for keys in files])
    assert len(union.rows) == 3
    assert union.last_row_keys > union.row_capacity
    builder = BloomFilterBuilder.resume(union, max_entries=60)
    builder.add(pa.array(["new"]))
    resumed = parse_bloom_filter(builder.to_text(), kind)
    assert len(resumed.rows) == 3
    assert resumed.might_contain(pa.array([*(key for keys in files for key in keys), "new"])).all()


@KINDS
def test_filters_of_other_sizes_do_not_fit(kind: BloomFilterType) -> None:
    union = BloomUnion(filter_of(["a"], kind), max_entries=60)
    assert not union.fits(filter_of(["a"], kind, entries=30))
    other = next(one for one in BloomFilterType if one is not kind)
    assert not union.fits(filter_of(["a"], other))
