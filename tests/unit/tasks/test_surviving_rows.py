"""Rows that stay in another partition than their own get what its path says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.format.keys.generator import KeyGenerator, PartitionField
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.schema.meta_columns import PARTITION_PATH
from pyhudi.tasks.surviving_rows import with_values_of_path


def keys(*names: str, hive_style: bool = False) -> KeyGenerator:
    return KeyGenerator(
        kind=KeyGeneratorType.COMPLEX,
        record_key_fields=("id", "more"),
        partition_fields=tuple(map(PartitionField, names)),
        hive_style=hive_style,
        url_encode=True,
    )


@pytest.mark.parametrize(
    ("kind", "own", "path", "expected"),
    [
        (pa.string(), "rome", "a%2Fb", "a/b"),
        (pa.int64(), 7, "42", 42),
        (pa.date32(), dt.date(2024, 1, 2), "2023-12-31", dt.date(2023, 12, 31)),
        (pa.string(), "rome", "__HIVE_DEFAULT_PARTITION__", None),
        # Its text in a path is another than the value's, so that nothing is left out by it.
        (pa.float64(), 1.5, "2.5", 1.5),
    ],
)
def test_values_of_the_path_take_the_place_of_those_staged_for_another(
    kind: pa.DataType, own: Any, path: str, expected: Any
) -> None:
    rows = pa.record_batch({PARTITION_PATH: ["elsewhere", path], "p": pa.array([own, own], kind)})

    kept = with_values_of_path(rows, path, keys("p"))

    assert kept.schema == rows.schema
    assert kept.column("p").to_pylist() == [expected, own]


def test_every_level_of_a_path_tells_its_column() -> None:
    rows = pa.record_batch({PARTITION_PATH: ["p=a/q=1"], "p": ["a"], "q": [1]})

    kept = with_values_of_path(rows, "p=b/q=2", keys("p", "q", hive_style=True))

    assert (kept.column("p").to_pylist(), kept.column("q").to_pylist()) == (["b"], [2])


def test_rows_stay_as_they_are_where_the_path_does_not_tell_its_columns() -> None:
    rows = pa.record_batch({PARTITION_PATH: ["a/1"], "p": ["a"], "q": [1]})

    assert with_values_of_path(rows, "b/c/2", keys("p", "q")).equals(rows)
