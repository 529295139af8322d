"""Partitions that some of their columns name."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi.format.keys.generator import KeyGenerator, PartitionField
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.keys.partition_pattern import PartitionPattern, pattern_of


def keys_of(*names: str) -> KeyGenerator:
    fields = tuple(PartitionField(name) for name in names)
    return KeyGenerator(
        kind=KeyGeneratorType.COMPLEX, record_key_fields=("id",), partition_fields=fields, hive_style=True
    )


@pytest.mark.parametrize(
    ("values", "matching"),
    [
        ({"a": 1}, ["a=1/b=x", "a=1/b=y"]),
        ({"b": "x"}, ["a=1/b=x", "a=2/b=x"]),
        ({"a": 2, "b": "x"}, ["a=2/b=x"]),
        ({"a": 11}, []),
    ],
)
def test_partitions_with_these_values_match(values, matching):
    pattern = pattern_of(keys_of("a", "b"), pa.RecordBatch.from_pylist([values]))
    assert [path for path in ("a=1/b=x", "a=1/b=y", "a=2/b=x", "a=2", "") if pattern.matches(path)] == matching


def test_path_of_one_column_is_compared_as_a_whole():
    assert PartitionPattern(("2024/01/02",)).matches("2024/01/02")
    assert not PartitionPattern(("2024/01/02",)).matches("2024/01/03")
