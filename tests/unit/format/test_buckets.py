"""Hashes of bucket indexes: against what JVM Hudi did with the same keys, and against plain programs."""

from __future__ import annotations

import random
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.buckets import (
    INT_MAX,
    HashNode,
    bucket_of_file_id,
    divisor_of,
    initial_ring,
    new_bucket_file_id,
    ring_hashes,
    shared_bucket_file_id,
    simple_hashes,
)
from pyhudi.format.hash_fields import differ_between_releases, hash_values
from pyhudi.format.hashes import java_hash, xxhash32

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def hash_code(text: str) -> int:
    """`String.hashCode`, unit by unit."""
    code, units = 0, text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        code = (31 * code + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return code


def xx(data: bytes) -> int:
    """XxHash32 by its specification, seed 0."""
    one, two, three, four, five = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask, at = 0xFFFFFFFF, 0

    def turned(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (32 - bits))) & mask

    value = five
    if len(data) >= 16:
        lanes = [(one + two) & mask, two, 0, -one & mask]
        while at + 16 <= len(data):
            for n in range(4):
                word = int.from_bytes(data[at + 4 * n : at + 4 * n + 4], "little")
                lanes[n] = turned((lanes[n] + word * two) & mask, 13) * one & mask
            at += 16
        value = sum(map(turned, lanes, (1, 7, 12, 18))) & mask
    value = (value + len(data)) & mask
    while at + 4 <= len(data):
        value = turned((value + int.from_bytes(data[at : at + 4], "little") * three) & mask, 17) * four & mask
        at += 4
    for byte in data[at:]:
        value = turned((value + byte * five) & mask, 11) * one & mask
    value = (value ^ (value >> 15)) * two & mask
    value = (value ^ (value >> 13)) * three & mask
    return value ^ (value >> 16)


def test_the_plain_programs_know_the_published_hashes() -> None:
    assert (xx(b""), xx(b"a"), hash_code("Hello")) == (0x02CC5D05, 0x550D7456, 69609650)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, max_size=20), st.integers(0, 3))
def test_hashes_of_all_strings_at_once_are_those_of_each_string(values: list[str], start: int) -> None:
    array = pa.array(values, pa.string()).slice(min(start, len(values)))

    assert java_hash(array).view(np.uint32).tolist() == [hash_code(text) for text in array.to_pylist()]
    assert xxhash32(array).tolist() == [xx(text.encode()) for text in array.to_pylist()]


def test_long_and_many_strings_are_hashed_as_short_ones() -> None:
    chance = random.Random(5)
    values = ["x" * 70_000, "", "k" * 15, "k" * 16, "k" * 17, *(chance.randbytes(8).hex() for _ in range(70_000))]
    some = [0, 1, 2, 3, 4, 65_534, 65_535, 65_536, 65_537, len(values) - 1]

    by_java, by_xx = (
        java_hash(pa.chunked_array([values[:9], values[9:]])).view(np.uint32),
        xxhash32(pa.array(values, pa.large_string())),
    )

    assert [by_java[n] for n in some] == [hash_code(values[n]) for n in some]
    assert [by_xx[n] for n in some] == [xx(values[n].encode()) for n in some]
    assert java_hash(pa.array(["", None])).tolist() == [0, 0]


#: Which of 61 buckets JVM Hudi 1.2.0 chose, by hash fields. Releases 1.0.2 and 1.2.0 agree on all of them.
SINGLE = {
    "a": 6, "é": 20, "\U0001f600k": 44, "\ue000": 35, " a": 22, "x,y": 21, "a,": 32, ":": 28, "a:": 46, ":b": 36,
    "a:b": 45, "a:b:c": 10, "2020-01-01 10:11:12": 21, "x,y:z": 27, "a:b,a:c": 18, "id:7": 54, "id:__null__": 54,
    "id:7,n:8": 25, "n:3,id:4": 22, "__null__": 26, "__empty__": 52,
}  # fmt: skip
BOTH = {
    "id:\U0001f600k,n:3": 12, "id:é,n:2": 60, "id:a,n:1": 52, "id:a:b,n:1": 41, "id:a,n:1:2": 18, "id:x,y,n:1": 29,
    "id:a,n:x,y:z": 1, "id:__empty__,n:1": 34, "id:a,n:__null__": 3, "id:__null__,n:1": 34,
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "buckets"),
    [
        (("id",), SINGLE),
        (("id", "n"), BOTH),
        (("n", "id"), {"id:é,n:2": 60, "id:a,n:1": 52}),
        (("n",), {"id:é,n:2": 20, "id:a,n:1": 19}),
        (("id",), {"id:a:b": 39, "id:a,b": 38, "id:é": 49, "id:a": 35}),
    ],
    ids=["one field", "two fields", "in the order of the key", "one of two", "a name before one field"],
)
def test_keys_are_in_the_buckets_that_jvm_hudi_chose(fields: tuple[str, ...], buckets: dict[str, int]) -> None:
    keys = pa.array(list(buckets))

    assert dict(zip(keys.to_pylist(), (simple_hashes(keys, fields) % 61).tolist(), strict=True)) == buckets
    # Each alone, too: keys that are all alike are not parsed one by one.
    assert {key: int(simple_hashes(pa.array([key]), fields)[0] % 61) for key in buckets} == buckets


def test_keys_of_several_fields_are_hashed_alike_whether_they_are_parsed_or_not() -> None:
    alike = [f"id:{n}-é,n:{n * n}" for n in range(50)]
    odd = "id:x,y,n:1"

    for hashes in (simple_hashes, ring_hashes):
        together = hashes(pa.array([*alike, odd]), ("n", "id"))
        assert together[:-1].tolist() == hashes(pa.array(alike), ("n", "id")).tolist()
        assert together[-1] == hashes(pa.array([odd]), ("n", "id"))[0]


def test_a_nul_in_a_key_that_must_be_parsed_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="NUL"):
        hash_values(pa.array(["id:a,n:1", "id:x,y\0,n:1"]), ("id",))


@pytest.mark.parametrize(
    ("fields", "differing", "agreed"),
    [(1, ["a:b", ":", "2020-01-01 10:11:12"], ["a", "x,y", ""]), (2, ["id:x,y,n:1"], ["id:a:b,n:1", "id:a,n:"])],
)
def test_keys_that_hudi_0_15_puts_elsewhere_are_known(fields: int, differing: list[str], agreed: list[str]) -> None:
    assert differ_between_releases(pa.array(differing + agreed), fields).to_pylist() == [True] * len(differing) + [
        False
    ] * len(agreed)


def test_file_ids_begin_with_the_number_of_the_bucket() -> None:
    assert new_bucket_file_id(3, "5f0e1a2b-25c8-466a-9d8d-10dd609ff310") == "00000003-25c8-466a-9d8d-10dd609ff310-0"
    assert shared_bucket_file_id(12) == "00000012-0000-0000-0000-000000000000-0"
    assert bucket_of_file_id("00000003-25c8-466a-9d8d-10dd609ff310-0") == 3
    assert bucket_of_file_id("00000117-25c8-466a-9d8d-10dd609ff310") == 117  # of a bulk insert of JVM Hudi
    assert bucket_of_file_id("5f0e1a2b-25c8-466a-9d8d-10dd609ff310-0") is None


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 500), st.integers(0, 10_000))
def test_keys_of_a_bucket_show_the_number_of_buckets(number: int, start: int) -> None:
    hashes = simple_hashes(pa.array([f"k{n}" for n in range(start, start + 20_000)]), ("id",))
    bucket = int(hashes[0] % number)

    divisor = divisor_of(hashes[hashes % number == bucket], bucket)

    assert divisor % number == 0
    assert divisor_of(hashes[:0], bucket) == 0


def test_the_first_ring_is_that_of_jvm_hudi() -> None:
    ring = initial_ring("0", 4)

    assert [node.value for node in ring.nodes] == [536870912, 1073741824, 1610612736, 2147483647]
    assert [node.file_id for node in ring.nodes] == [
        "32dfbee9-1d02-3dec-a9bb-36d97c4de53a-0",
        "ea0e5b3f-12e0-394c-a77f-380b8652b963-0",
        "d2bdd952-f534-337b-9de3-e92c3c661a3c-0",
        "0b8e59cc-5e07-3587-82cb-5a05bdef45b2-0",
    ]
    assert ring.nodes_of(np.array([0, 536870912, 536870913, INT_MAX])).tolist() == [0, 0, 1, 3]


def test_splits_and_merges_keep_every_hash_in_one_bucket() -> None:
    chance = random.Random(7)
    hashes = np.array([chance.randint(0, INT_MAX) for _ in range(400)])
    ring = initial_ring("p", 4)
    for step in range(1000):
        before = ring
        changes = _split(ring, chance) if chance.random() < 0.5 or len(ring.nodes) < 3 else _merge(ring, chance)
        ring = ring.with_children(f"{step:014}", changes)
        values = [node.value for node in ring.nodes]
        assert values == sorted(set(values)), step
        moved = ring.nodes_of(hashes)
        of_before = before.nodes_of(hashes)
        changed = {node.file_id_prefix for node in changes if node.tag != "DELETE"}
        for value, node, previous in zip(hashes.tolist(), moved.tolist(), of_before.tolist(), strict=True):
            prefix = ring.nodes[node].file_id_prefix
            assert prefix in changed or prefix == before.nodes[previous].file_id_prefix, (step, value)
    assert ring.sequence == 1000


def _split(ring, chance: random.Random) -> tuple[HashNode, ...]:
    at = chance.randrange(1, len(ring.nodes))
    low, node = ring.nodes[at - 1].value, ring.nodes[at]
    if node.value - low < 4:
        return ()
    new = [
        HashNode(low + (node.value - low) // 2, str(uuid.uuid4())),
        HashNode(node.value, str(uuid.uuid4()), "REPLACE"),
    ]
    return tuple(new)


def _merge(ring, chance: random.Random) -> tuple[HashNode, ...]:
    at = chance.randrange(len(ring.nodes) - 1)
    return (
        HashNode(ring.nodes[at].value, ring.nodes[at].file_id_prefix, "DELETE"),
        HashNode(ring.nodes[at + 1].value, str(uuid.uuid4()), "REPLACE"),
    )
