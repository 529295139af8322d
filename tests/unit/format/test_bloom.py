"""Bloom filters: the bytes of Hudi's own (golden.json, by tools/oracle/BloomGolden.java), and lookups."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError, CorruptDataError, RecordKeyError, UnsupportedFeatureError
from pyhudi.format.bloom import BloomFilterBuilder, BloomFilterType, min_max_keys, parse_bloom_filter

GOLDEN: list[dict[str, Any]] = json.loads(Path(__file__).with_name("golden_bloom.json").read_text("utf-8"))
PATH = "p=1/f1_0-1-0_1.parquet"


def golden_keys(case: dict[str, Any]) -> list[str]:
    alphabet, keys = case["alphabet"], []
    for i in range(case["count"]):
        length = 1 + (7 * i) % 40
        text = "".join(alphabet[(i * 31 + j * 17 + i * j) % len(alphabet)] for j in range(length))
        keys.append(f"{text}{i}")
    return keys


def builder_of(case: dict[str, Any]) -> BloomFilterBuilder:
    return BloomFilterBuilder(BloomFilterType(case["kind"]), case["num_entries"], case["fpp"], case["max_entries"])


def golden(name: str) -> dict[str, Any]:
    return next(case for case in GOLDEN if case["name"] == name)


every_golden = pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])


@every_golden
@pytest.mark.parametrize("key_type", [pa.string(), pa.large_string()], ids=str)
def test_keys_of_golden_give_the_bytes_of_hudi(case: dict[str, Any], key_type: pa.DataType) -> None:
    builder = builder_of(case)
    builder.add(pa.array(golden_keys(case), key_type))
    assert builder.to_text() == case["text"]


@every_golden
def test_keys_in_slices_and_chunks_give_the_bytes_of_hudi(case: dict[str, Any]) -> None:
    keys = golden_keys(case)
    padded = pa.array(["before", *keys, "after"], pa.string()).slice(1, len(keys))
    cut = len(keys) // 3
    builder = builder_of(case)
    builder.add(padded.slice(0, cut))
    builder.add(pa.chunked_array([padded.slice(cut, 1), padded.slice(cut + 1, 0), padded.slice(cut + 1)]))
    assert builder.to_text() == case["text"]


@every_golden
def test_keys_added_one_by_one_give_the_bytes_of_hudi(case: dict[str, Any]) -> None:
    keys = pa.array(golden_keys(case), pa.string())
    builder = builder_of(case)
    for index in range(len(keys)):
        builder.add(keys.slice(index, 1))
    assert builder.to_text() == case["text"]


@every_golden
def test_filter_resumed_at_any_key_gives_the_bytes_of_hudi(case: dict[str, Any]) -> None:
    keys, kind = pa.array(golden_keys(case), pa.string()), BloomFilterType(case["kind"])
    for cut in sorted({0, 1, 20, 40, 41, 60, 80, 81, 90, len(keys)}):
        builder = builder_of(case)
        builder.add(keys.slice(0, cut))
        resumed = BloomFilterBuilder.resume(
            parse_bloom_filter(builder.to_text(), kind), max_entries=case["max_entries"]
        )
        resumed.add(keys.slice(cut))
        assert resumed.to_text() == case["text"]


@every_golden
def test_filter_of_hudi_contains_every_key_that_was_added(case: dict[str, Any]) -> None:
    found = parse_bloom_filter(case["text"], BloomFilterType(case["kind"])).might_contain(
        pa.array(golden_keys(case), pa.string())
    )
    assert found.dtype == np.bool_
    assert found.all()


@pytest.mark.parametrize("name", ["simple_ascii", "dynamic_one_row"])
def test_keys_that_were_not_added_are_mostly_absent(name: str) -> None:
    case = golden(name)
    stored = parse_bloom_filter(case["text"], BloomFilterType(case["kind"]))
    strangers = pa.array([f"stranger-{i * i}" for i in range(20_000)])
    assert stored.might_contain(strangers).mean() < 5 * case["fpp"]


def test_few_keys_among_strangers_are_found_in_the_order_of_the_keys() -> None:
    present = [f"{'x' * (i % 23)}{i}" for i in range(4_000)]
    builder = BloomFilterBuilder(BloomFilterType.DYNAMIC_V0, 3_000, 1e-9, 6_000)
    builder.add(pa.array(present))
    stored = parse_bloom_filter(builder.to_text(), BloomFilterType.DYNAMIC_V0)
    # Mostly strangers of many lengths, so that the lookup drops them midway and goes on with the rest.
    mixed = [part for i, key in enumerate(present) for part in (f"no{key}", key, *(f"no{i}-{j}" for j in range(8)))]
    expected = [not key.startswith("no") for key in mixed]
    assert stored.might_contain(pa.array(mixed)).tolist() == expected


def test_lookup_of_no_keys_is_empty() -> None:
    stored = parse_bloom_filter(golden("simple_ascii")["text"], BloomFilterType.SIMPLE)
    assert stored.might_contain(pa.array([], pa.string())).tolist() == []
    assert stored.might_contain(pa.chunked_array([], pa.string())).tolist() == []


def test_defaults_of_hudi_give_its_sizes() -> None:
    text = BloomFilterBuilder(BloomFilterType.DYNAMIC_V0, 60_000, 1e-9, 100_000).to_text()
    stored = parse_bloom_filter(text, BloomFilterType.DYNAMIC_V0)
    assert (stored.bits, stored.hashes, len(text)) == (2_587_966, 30, 431_380)


record_keys = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), max_size=60)


@settings(max_examples=40, deadline=None)
@given(
    keys=record_keys,
    kind=st.sampled_from(BloomFilterType),
    entries=st.integers(1, 30),
    fpp=st.sampled_from([0.5, 0.01, 1e-9]),
    maximum=st.integers(0, 80),
    cut=st.integers(0, 60),
)
def test_any_keys_are_found_and_resuming_changes_nothing(
    keys: list[str], kind: BloomFilterType, entries: int, fpp: float, maximum: int, cut: int
) -> None:
    array = pa.array(keys, pa.string())
    whole = BloomFilterBuilder(kind, entries, fpp, maximum)
    whole.add(array)
    text = whole.to_text()
    assert parse_bloom_filter(text, kind).might_contain(array).all()

    first = BloomFilterBuilder(kind, entries, fpp, maximum)
    first.add(array.slice(0, cut))
    rest = BloomFilterBuilder.resume(parse_bloom_filter(first.to_text(), kind), max_entries=maximum)
    rest.add(array.slice(cut))
    assert rest.to_text() == text


@pytest.mark.parametrize("bad", [None, ""], ids=["null", "empty"])
def test_key_without_a_value_is_refused(bad: str | None) -> None:
    keys = pa.array(["a", bad, "b"])
    builder = BloomFilterBuilder(BloomFilterType.SIMPLE, 10, 0.01, 0)
    what = "null" if bad is None else "empty"
    with pytest.raises(RecordKeyError, match=what):
        builder.add(keys)
    with pytest.raises(RecordKeyError, match=what):
        parse_bloom_filter(golden("simple_ascii")["text"], BloomFilterType.SIMPLE).might_contain(keys)


def test_null_outside_the_slice_is_ignored() -> None:
    builder = BloomFilterBuilder(BloomFilterType.SIMPLE, 10, 0.01, 0)
    builder.add(pa.array([None, "a"]).slice(1))
    reference = BloomFilterBuilder(BloomFilterType.SIMPLE, 10, 0.01, 0)
    reference.add(pa.array(["a"]))
    assert builder.to_text() == reference.to_text()


@pytest.mark.parametrize(
    ("entries", "fpp", "maximum"),
    [
        (0, 0.1, 1),
        (10, 0.0, 1),
        (10, 1.0, 1),
        (10, float("nan"), 1),
        (1 << 30, 1e-9, 1),
        (1000, 1e-9, 1 << 31),
    ],
)
def test_filter_of_impossible_size_is_refused(entries: int, fpp: float, maximum: int) -> None:
    with pytest.raises(ConfigError):
        BloomFilterBuilder(BloomFilterType.DYNAMIC_V0, entries, fpp, maximum)


def simple(bits: int = 80, *, version: int = -1, hashes: int = 7, hash_type: int = 1, size: int = 10) -> bytes:
    return struct.pack(">iibi", version, hashes, hash_type, bits) + bytes(size)


def dynamic(*, capacity: int = 8, used: int = 3, rows: int = 1, row: bytes | None = None) -> bytes:
    body = simple() if row is None else row
    return simple(size=0) + struct.pack(">iii", capacity, used, rows) + body


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        pytest.param(b"", BloomFilterType.SIMPLE, id="empty"),
        pytest.param(simple()[:12], BloomFilterType.SIMPLE, id="half_a_header"),
        pytest.param(simple(size=9), BloomFilterType.SIMPLE, id="vector_cut_off"),
        pytest.param(simple(size=11), BloomFilterType.SIMPLE, id="bytes_after_the_vector"),
        pytest.param(simple(version=1), BloomFilterType.SIMPLE, id="other_version"),
        pytest.param(simple(hashes=0), BloomFilterType.SIMPLE, id="no_hashes"),
        pytest.param(simple(hashes=1 << 30), BloomFilterType.SIMPLE, id="endless_hashing"),
        pytest.param(simple(hash_type=7), BloomFilterType.SIMPLE, id="other_hash"),
        pytest.param(simple(bits=-80), BloomFilterType.SIMPLE, id="negative_bits"),
        pytest.param(simple(bits=(1 << 31) - 1), BloomFilterType.SIMPLE, id="huge_vector_announced"),
        pytest.param(simple(), BloomFilterType.DYNAMIC_V0, id="simple_read_as_dynamic"),
        pytest.param(dynamic(), BloomFilterType.SIMPLE, id="dynamic_read_as_simple"),
        pytest.param(dynamic(capacity=0), BloomFilterType.DYNAMIC_V0, id="no_capacity"),
        pytest.param(dynamic(used=-1), BloomFilterType.DYNAMIC_V0, id="negative_count"),
        pytest.param(dynamic(used=(1 << 31) - 1), BloomFilterType.DYNAMIC_V0, id="count_that_cannot_grow"),
        pytest.param(dynamic(rows=0), BloomFilterType.DYNAMIC_V0, id="no_rows"),
        pytest.param(dynamic(rows=(1 << 31) - 1), BloomFilterType.DYNAMIC_V0, id="more_rows_than_bytes"),
        pytest.param(dynamic(row=simple(bits=79)), BloomFilterType.DYNAMIC_V0, id="row_of_other_shape"),
        pytest.param(dynamic() + b"\0", BloomFilterType.DYNAMIC_V0, id="bytes_after_the_last_row"),
    ],
)
def test_damaged_filter_is_refused_with_its_path(data: bytes, kind: BloomFilterType) -> None:
    with pytest.raises(CorruptDataError) as error:
        parse_bloom_filter(base64.b64encode(data).decode(), kind, path=PATH)
    assert error.value.context["path"] == PATH


def test_well_formed_filters_of_the_damage_tests_parse() -> None:
    assert parse_bloom_filter(base64.b64encode(simple()).decode(), BloomFilterType.SIMPLE).bits == 80
    assert parse_bloom_filter(base64.b64encode(dynamic()).decode(), BloomFilterType.DYNAMIC_V0).row_capacity == 8


@pytest.mark.parametrize("text", ["/////w=", "not base64!", "\u00e9\u00e9\u00e9\u00e9", "////\n/w=="])
def test_text_that_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(CorruptDataError):
        parse_bloom_filter(text, BloomFilterType.SIMPLE, path=PATH)


def test_filter_hashed_with_jenkins_is_refused_by_name() -> None:
    text = base64.b64encode(simple(hash_type=0)).decode()
    with pytest.raises(UnsupportedFeatureError, match="Jenkins"):
        parse_bloom_filter(text, BloomFilterType.SIMPLE, path=PATH)


@pytest.mark.parametrize(
    ("code", "kind"),
    [(None, BloomFilterType.SIMPLE), ("SIMPLE", BloomFilterType.SIMPLE), ("DYNAMIC_V0", BloomFilterType.DYNAMIC_V0)],
)
def test_footer_code_names_the_kind(code: str | None, kind: BloomFilterType) -> None:
    assert BloomFilterType.from_footer(code) is kind


def test_unknown_footer_code_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError):
        BloomFilterType.from_footer("DYNAMIC_V9", path=PATH)


def test_key_range_is_in_the_order_of_java_strings() -> None:
    keys = pa.chunked_array([["k8", "k101"], ["\U0001f680", "\uffee", "k9"]])
    assert min_max_keys(keys) == ("k101", "\uffee")
    assert min_max_keys(pa.array(["b"], pa.large_string())) == ("b", "b")


def test_key_range_of_no_keys_is_a_programmer_error() -> None:
    with pytest.raises(AssertionError):
        min_max_keys(pa.array([], pa.string()))
