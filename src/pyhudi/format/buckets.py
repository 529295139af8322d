"""Bucket indexes: from a record key to the number of its bucket, and from a bucket to the ids of file groups. Pure.

SIMPLE: a fixed number of buckets in each partition; a file id begins with the number of its bucket. CONSISTENT_HASHING:
each partition has a ring of buckets, whose ranges can be split and merged (`metadata/hashing.py`).
"""

from __future__ import annotations

import hashlib
import math
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.file_names import file_id
from pyhudi.format.hash_fields import HashValues, hash_values
from pyhudi.format.hashes import java_hash, xxhash32

Numbers = npt.NDArray[np.int64]
INT_MAX: Final = 2**31 - 1
BUCKETS_MAX: Final = 99_999_999
"""File ids have eight digits for the number of the bucket."""
_NUMBERED_ID: Final = re.compile(r"([0-9]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-[0-9]+)?")
_SHARED_SUFFIX: Final = "-0000-0000-0000-000000000000"


def simple_hashes(keys: pa.Array, fields: tuple[str, ...]) -> Numbers:
    """The hashes of record keys in a simple bucket index: Java's `List.hashCode` of their values, without its sign."""
    values = hash_values(keys, fields)
    hashes = java_hash(values.value).view(np.uint32)
    found = np.ones(values.keys, np.uint32)
    if len(values.of_key) == values.keys:
        found = np.uint32(31) + hashes
    else:
        rank = np.arange(len(values.of_key)) - np.searchsorted(values.of_key, values.of_key)
        for number in range(int(rank.max(initial=-1)) + 1):
            at = np.flatnonzero(rank == number)
            found[values.of_key[at]] = found[values.of_key[at]] * np.uint32(31) + hashes[at]
    return (found & np.uint32(INT_MAX)).astype(np.int64)


def ring_hashes(keys: pa.Array, fields: tuple[str, ...]) -> Numbers:
    """The places of record keys on the ring of a consistent bucket index: xxHash32 of their joined values."""
    return (xxhash32(_joined(hash_values(keys, fields))) & np.uint32(INT_MAX)).astype(np.int64)


def _joined(values: HashValues) -> pa.Array:
    texts = pc.fill_null(values.value, "null")
    if len(values.of_key) == values.keys:
        return texts
    offsets = np.searchsorted(values.of_key, np.arange(values.keys + 1))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts), pa.scalar("", texts.type))


# -- simple -----------------------------------------------------------------------------------------------------------


def bucket_of_file_id(text: str) -> int | None:
    """The number of the bucket that the id of a file group begins with; None for an id of another form."""
    match = _NUMBERED_ID.fullmatch(text)
    return int(match[1]) if match else None


def new_bucket_file_id(bucket: int, random_uuid: str) -> str:
    """The id of a new file group for a bucket."""
    return file_id(f"{bucket:08d}{random_uuid[8:]}", 0)


def shared_bucket_file_id(bucket: int) -> str:
    """The id of a new file group that lock-less writers, who do not see one another, all give to a bucket."""
    return file_id(f"{bucket:08d}{_SHARED_SUFFIX}", 0)


def divisor_of(hashes: Numbers, bucket: int) -> int:
    """The largest number of buckets by which all these hashes belong to a bucket; 0 if any number does."""
    return math.gcd(*(np.abs(hashes - bucket)).tolist()) if len(hashes) else 0


REMOVED: Final = "DELETE"
"""The tag of a node that a resize removes; it has no file group in a plan."""
REPLACING: Final = "REPLACE"
"""The tag of a node that a resize makes."""


# -- consistent -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HashNode:
    """A bucket on the ring: it ends at `value`, and begins after the value of the node before. `tag` as JVM Hudi's."""

    value: int
    file_id_prefix: str
    tag: str = "NORMAL"

    @property
    def file_id(self) -> str:
        """The id of its file group."""
        return file_id(self.file_id_prefix, 0)


@dataclass(frozen=True)
class HashRing:
    """The buckets of a partition, by their values. `instant`: the resize that made them; `initial_buckets` before any.

    `sequence`: how many resizes came before.
    """

    partition_path: str
    instant: str
    initial_buckets: int
    sequence: int
    nodes: tuple[HashNode, ...]
    version: int = field(default=0, repr=False)

    def nodes_of(self, hashes: Numbers) -> Numbers:
        """The numbers of the nodes that take hashes: the first whose value is not below; after the last, the first."""
        values = np.array([node.value for node in self.nodes], np.int64)
        found = np.searchsorted(values, hashes, side="left")
        return np.where(found == len(values), 0, found).astype(np.int64)

    def with_children(self, instant: str, changes: tuple[HashNode, ...]) -> HashRing:
        """The ring after a resize whose plan has these nodes, tagged DELETE, REPLACE or NORMAL (new)."""
        by_value = {node.value: node for node in self.nodes}
        for node in changes:
            if node.tag == REMOVED:
                by_value.pop(node.value, None)
            else:
                by_value[node.value] = replace(node, tag="NORMAL")
        nodes = tuple(node for _, node in sorted(by_value.items()))
        return replace(self, instant=instant, sequence=self.sequence + 1, nodes=nodes)

    def halves_of(self, number: int, first_id: str, second_id: str) -> tuple[HashNode, HashNode] | None:
        """The two nodes that a node is split into, with these prefixes of file ids; None if it has a single hash."""
        end = self.nodes[number].value
        start = self.nodes[number - 1].value
        # Before the first node comes the last one, over the end of the ring.
        middle = ((start + end + (0 if start < end else INT_MAX + 1)) >> 1) & INT_MAX
        if middle in (start, end):
            return None
        return HashNode(middle, first_id, REPLACING), HashNode(end, second_id, REPLACING)

    def joined(self, numbers: Sequence[int], file_id_prefix: str) -> tuple[HashNode, ...]:
        """Neighbours, in their order on the ring, as they become one: all go but the last, which takes their hashes."""
        gone = (HashNode(self.nodes[number].value, "", REMOVED) for number in numbers[:-1])
        return (*gone, HashNode(self.nodes[numbers[-1]].value, file_id_prefix, REPLACING))

    def renewed(self, number: int, file_id_prefix: str) -> HashNode:
        """A node with another file group."""
        return HashNode(self.nodes[number].value, file_id_prefix, REPLACING)


INITIAL_INSTANT: Final = "00000000000000"


def initial_ring(partition_path: str, buckets: int) -> HashRing:
    """The ring of a new partition. Every writer computes the same one."""
    step = (INT_MAX + buckets - 1) // buckets
    ends = [min(INT_MAX, step * (n + 1)) for n in range(buckets)]
    nodes = tuple(
        HashNode(end, _range_uuid(start, end, partition_path)) for start, end in zip([0, *ends], ends, strict=False)
    )
    return HashRing(partition_path, INITIAL_INSTANT, buckets, 0, nodes)


def _range_uuid(start: int, end: int, partition_path: str) -> str:
    """Java's `UUID.nameUUIDFromBytes` of the range and the partition."""
    name = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition_path.encode()
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))
