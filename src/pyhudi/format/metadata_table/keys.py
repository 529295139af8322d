"""Keys of the metadata table's records, and the file groups they are in.

    column statistics     id(column) id(partition) id(file name)
    partition statistics  id(column) id(partition)
    bloom filters         id(partition) id(file name)
    record index          record key
    secondary index       escaped value $ escaped record key

The id of a column or a partition is its XXH64, that of a file name its MD5, in base64. A partition is named as in
`files`: `.` is that of a table without partitions.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptDataError
from pyhudi.format.hashes import Hashes, java_hash

ALL_PARTITIONS: Final = "__all_partitions__"
"""The key of the record that lists the partitions."""
NO_PARTITION: Final = "."
"""How the metadata table calls the only partition of a table without partitions, whose path is empty."""

EXPRESSION_PARTITION_STATS: Final = "__partition_stat__"
"""Stands between column and partition where an expression index has the statistics of a partition."""

_SEED: Final = 0xFFFFFFFFDABADABA
"""JVM Hudi's 32 bits of seed, with its sign in the other 32."""
_SEPARATOR: Final = "$"
_NULL_VALUE: Final = "\0"
_SPECIAL: Final = ("\\", _SEPARATOR, _NULL_VALUE)
_SPLIT: Final = r"(?s)^(?P<value>(?:[^\\$]|\\.)*)\$(?P<record_key>.*)$"
_ALL_ONES: Final = (1 << 64) - 1
_PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE: Final = struct.Struct("<4Q")


def file_group_of(hashed: pa.Array, file_groups: int) -> Hashes:
    """The number of the file group that has each of these texts, among so many of an index.

    Args:
        hashed: What is hashed: whole keys; in a secondary index of version 2, `secondary_prefixes`.
        file_groups: How many the partition has, or in a partitioned record index those of one data partition.

    Raises: as `java_hash`.
    """
    if file_groups == 1:
        return np.zeros(len(hashed), np.int32)
    return (np.abs(java_hash(hashed).astype(np.int64)) % file_groups).astype(np.int32)


def text_id(text: str) -> str:
    """The id of a column, by its dotted path, or of a partition: 12 characters."""
    return base64.b64encode(xxhash64(text.encode(), _SEED).to_bytes(8, "big")).decode()


def text_ids(texts: pa.Array) -> pa.StringArray:
    """`text_id` of each, computed once for equal texts."""
    return _of_distinct(texts, text_id)


def file_name_ids(names: pa.Array) -> pa.StringArray:
    """The id of each file name, without folder: 24 characters."""
    return _of_distinct(names, _file_name_id)


def column_stats_keys(columns: pa.Array, partitions: pa.Array, file_names: pa.Array) -> pa.StringArray:
    """Keys of column statistics: the statistics of each column in the file at the same place."""
    return pc.binary_join_element_wise(text_ids(columns), text_ids(partitions), file_name_ids(file_names), "")


def bloom_filter_keys(partitions: pa.Array, file_names: pa.Array) -> pa.StringArray:
    """Keys of bloom filters."""
    return pc.binary_join_element_wise(text_ids(partitions), file_name_ids(file_names), "")


def partition_stats_keys(columns: pa.Array, partitions: pa.Array) -> pa.StringArray:
    """Keys of partition statistics."""
    return pc.binary_join_element_wise(text_ids(columns), text_ids(partitions), "")


def expression_partition_stats_keys(columns: pa.Array, partitions: pa.Array) -> pa.StringArray:
    """Keys of partition statistics in an expression index; `columns` are its source columns."""
    middle = text_id(EXPRESSION_PARTITION_STATS)
    return pc.binary_join_element_wise(text_ids(columns), middle, text_ids(partitions), "")


def secondary_prefixes(values: pa.Array) -> pa.StringArray:
    """What the keys of each value in a secondary index begin with, the separator included; values may be null."""
    return pc.binary_join_element_wise(_escaped(values), _SEPARATOR, "")


def secondary_keys(values: pa.Array, record_keys: pa.Array) -> pa.StringArray:
    """Keys of a secondary index: each value, which may be null, with the record key that has it."""
    return pc.binary_join_element_wise(_escaped(values), _escaped(record_keys), _SEPARATOR)


def split_secondary_keys(keys: pa.Array, *, path: str) -> tuple[pa.StringArray, pa.StringArray]:
    """The values, and the record keys, of keys of a secondary index.

    Raises:
        CorruptDataError: a key without separator; it names `path`.
    """
    parts = pc.extract_regex(keys, _SPLIT)
    if parts.null_count:
        raise CorruptDataError("a key of the secondary index has no separator", path=path)
    values, record_keys = parts.field("value"), parts.field("record_key")
    is_null = pc.equal(values, _NULL_VALUE)
    return pc.if_else(is_null, pa.scalar(None, pa.string()), _unescaped(values)), _unescaped(record_keys)


def _escaped(texts: pa.Array) -> pa.StringArray:
    for character in _SPECIAL:
        texts = pc.replace_substring(texts, character, f"\\{character}")
    return pc.fill_null(texts, _NULL_VALUE)


def _unescaped(texts: pa.StringArray) -> pa.StringArray:
    return pc.replace_substring_regex(texts, r"(?s)\\(.)", r"\1")


def _of_distinct(texts: pa.Array, of_one: Callable[[str], str]) -> pa.StringArray:
    distinct = texts.dictionary_encode()
    found = pa.array(map(of_one, distinct.dictionary.to_pylist()), pa.string())
    return found.take(distinct.indices)


def _file_name_id(name: str) -> str:
    return base64.b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode()


def xxhash64(data: bytes, seed: int) -> int:
    """The unsigned XXH64 hash of some bytes. Cost: about 3 µs, for names of columns and partitions.

    https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
    """
    first, second, third, fourth, fifth = _PRIMES
    position = 0
    if len(data) >= _STRIPE.size:
        lanes = [seed + first + second, seed + second, seed, seed - first]
        while position + _STRIPE.size <= len(data):
            stripe = _STRIPE.unpack_from(data, position)
            lanes = [_round(lane & _ALL_ONES, word) for lane, word in zip(lanes, stripe, strict=True)]
            position += _STRIPE.size
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * first + fourth) & _ALL_ONES
    else:
        found = seed + fifth
    found = (found + len(data)) & _ALL_ONES
    while position + 8 <= len(data):
        word = int.from_bytes(data[position : position + 8], "little")
        found = (_rotated(found ^ _round(0, word), 27) * first + fourth) & _ALL_ONES
        position += 8
    if len(data) & 4:
        word = int.from_bytes(data[position : position + 4], "little")
        found = (_rotated(found ^ (word * first & _ALL_ONES), 23) * second + third) & _ALL_ONES
        position += 4
    for byte in data[position:]:
        found = _rotated(found ^ (byte * fifth & _ALL_ONES), 11) * first & _ALL_ONES
    found = (found ^ found >> 33) * second & _ALL_ONES
    found = (found ^ found >> 29) * third & _ALL_ONES
    return found ^ found >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _ALL_ONES, 31) * _PRIMES[0] & _ALL_ONES


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _ALL_ONES
