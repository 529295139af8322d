"""Keys of the metadata table: hashes of Java and XXH64, the file groups of keys, keys of secondary indexes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.seconds import cpu_seconds

from pyhudi.errors import CorruptDataError
from pyhudi.format.hashes import java_hash
from pyhudi.format.metadata_table.keys import (
    bloom_filter_keys,
    column_stats_keys,
    expression_partition_stats_keys,
    file_group_of,
    file_name_ids,
    partition_stats_keys,
    secondary_keys,
    secondary_prefixes,
    split_secondary_keys,
    text_id,
    text_ids,
    xxhash64,
)
from pyhudi.format.metadata_table.records import make_records, sorted_by_key
from pyhudi.format.timeline.table_version import V9

TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=20)


def hash_by_definition(text: str) -> int:
    units = text.encode("utf-16-be")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


@given(TEXTS)
def test_java_hash_of_any_texts_is_that_of_the_definition(texts: list[str]):
    assert java_hash(pa.array(texts, pa.string())).tolist() == [hash_by_definition(text) for text in texts]


def test_java_hash_counts_a_character_beyond_16_bits_as_two():
    # What Java's "😀".hashCode() and "\uffff".hashCode() return.
    assert java_hash(pa.array(["\U0001f600", "\uffff", "", "a"])).tolist() == [1772899, 65535, 0, 97]


def test_java_hash_of_a_part_of_an_array_is_that_of_its_texts():
    texts = ["x", "yé", "", "\U0001f600z", "w"]
    assert java_hash(pa.array(texts)[1:4]).tolist() == [hash_by_definition(text) for text in texts[1:4]]
    assert java_hash(pa.array(texts).cast(pa.large_string())).tolist() == [hash_by_definition(text) for text in texts]


def test_java_hash_of_texts_longer_than_a_piece_is_right():
    texts = ["é" + "a" * 1_200_000, "b", "c" * 1_048_576, "d"]
    assert java_hash(pa.array(texts)).tolist() == [hash_by_definition(text) for text in texts]


def test_java_hash_of_bytes_that_are_no_text_is_damage():
    with pytest.raises(CorruptDataError):
        java_hash(pa.array([b"\xff"]))


def test_million_keys_are_hashed_in_well_under_a_second():
    keys = pa.array([f"key-of-some-length-{number:>17}" for number in range(1_000_000)])
    assert cpu_seconds(lambda: file_group_of(keys, 10)) < 0.7
    assert np.bincount(file_group_of(keys, 10)).min() > 50_000


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
    ],
)
def test_xxhash64_gives_the_published_values(data: bytes, seed: int, expected: int):
    assert xxhash64(data, seed) == expected


def test_ids_are_those_in_metadata_tables_of_jvm_hudi():
    assert text_id("_hoodie_commit_time") == "JBBzUToHtLc="
    assert text_id("p=2") == "ER3dHOVak6g="
    assert text_id("__partition_stat__") == "2CMHrhWVE9w="
    name = "dd53814c-15ac-46c3-8b6a-1fdfea8c6fbd-0_0-88-365_20261123020511589.parquet"
    keys = column_stats_keys(pa.array(["d"]), pa.array(["a"]), pa.array([name]))
    assert keys.to_pylist() == ["4/hcUlKiZ3Y=BFHqp2KLzrM=bmsfmVAFDrJ7ylf64XB/Tg=="]


def test_keys_join_the_ids_of_column_partition_and_file():
    columns, partitions, names = pa.array(["a", "b", "a"]), pa.array(["p", "p", "."]), pa.array(["f", "g", "f"])
    column_ids, partition_ids, name_ids = (
        text_ids(columns).to_pylist(),
        text_ids(partitions).to_pylist(),
        file_name_ids(names).to_pylist(),
    )
    assert column_ids == [text_id(name) for name in "aba"]
    zipped = list(zip(column_ids, partition_ids, name_ids, strict=True))
    assert column_stats_keys(columns, partitions, names).to_pylist() == ["".join(ids) for ids in zipped]
    assert partition_stats_keys(columns, partitions).to_pylist() == [ids[0] + ids[1] for ids in zipped]
    assert bloom_filter_keys(partitions, names).to_pylist() == [ids[1] + ids[2] for ids in zipped]
    middle = text_id("__partition_stat__")
    assert expression_partition_stats_keys(columns, partitions).to_pylist() == [
        ids[0] + middle + ids[1] for ids in zipped
    ]


def test_file_group_of_the_least_hash_is_not_negative():
    # The hash of this text is -2 ** 31, whose absolute value Java leaves negative.
    assert hash_by_definition("polygenelubricants") == -(2**31)
    assert file_group_of(pa.array(["polygenelubricants"]), 10).tolist() == [8]
    assert file_group_of(pa.array(["polygenelubricants", "x"]), 1).tolist() == [0, 0]


@given(st.lists(st.tuples(st.one_of(st.none(), st.text("ab\\$\0é😀", max_size=5)), st.text("ab\\$\0", max_size=5))))
def test_secondary_keys_of_any_values_split_into_the_same(pairs: list[tuple[str | None, str]]):
    values, record_keys = (pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1))
    keys = secondary_keys(values, record_keys)
    assert [found.to_pylist() for found in split_secondary_keys(keys, path="x")] == [
        values.to_pylist(),
        record_keys.to_pylist(),
    ]
    for key, prefix in zip(keys.to_pylist(), secondary_prefixes(values).to_pylist(), strict=True):
        assert key.startswith(prefix)


def test_secondary_keys_escape_as_jvm_hudi_does():
    keys = secondary_keys(pa.array(["s$0", None, "a\\b\0"]), pa.array(["k0", "k$1", "k2"]))
    assert keys.to_pylist() == ["s\\$0$k0", "\0$k\\$1", "a\\\\b\\\0$k2"]


def test_secondary_key_without_separator_is_damage():
    with pytest.raises(CorruptDataError, match="separator"):
        split_secondary_keys(pa.array(["a$b", "a\\$b"]), path="x")


def test_byte_order_and_order_in_java_differ_and_keys_are_sorted_by_bytes():
    """Java compares units of UTF-16; HFiles compare bytes."""
    keys = pa.array(["\U00010000", "\ue000", "\uffff", "a", "\ud7ff"])
    rows = len(keys)
    payload = pa.array([{"isDeleted": False}] * rows, pa.struct([pa.field("isDeleted", pa.bool_(), nullable=False)]))
    records = make_records(V9, "SecondaryIndexMetadata", keys, pa.array([7] * rows, pa.int32()), payload)
    found = sorted_by_key(records).column(0).to_pylist()
    assert found == sorted(keys.to_pylist(), key=str.encode)
    assert found != sorted(keys.to_pylist(), key=lambda key: key.encode("utf-16-be"))
