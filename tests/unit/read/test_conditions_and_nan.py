"""What conditions may ask the statistics of files, which leave NaN out in files of other writers."""

from __future__ import annotations

import io
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.support.tables import new_table, open_table

from pyhudi.read.conditions import condition_of
from pyhudi.storage.memory import MemoryStorage

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.struct([("x", pa.float64())])),
    ]
)
VALUES = [5.0, math.nan, 5.0]
ROWS = pa.table(
    [[1, 2, 3], ["oslo"] * 3, [1] * 3, VALUES, pa.array(VALUES, pa.float32()), [{"x": value} for value in VALUES]],
    schema=SCHEMA,
)


@pytest.fixture(scope="module")
def storage() -> MemoryStorage:
    """A table whose base file is as pyarrow writes it by itself."""
    storage = MemoryStorage()
    new_table(storage, schema=SCHEMA).insert(ROWS)
    (path,) = open_table(storage).inspect.files().column("path").to_pylist()
    stored = pq.ParquetFile(io.BytesIO(storage.read(path)))
    careless = io.BytesIO()
    with pq.ParquetWriter(careless, stored.schema_arrow) as writer:
        writer.write_table(stored.read())
        writer.add_key_value_metadata({key.decode(): value.decode() for key, value in stored.metadata.metadata.items()})
    chunk = pq.ParquetFile(careless).metadata.row_group(0).column(8)
    assert (chunk.path_in_schema, chunk.statistics.min, chunk.statistics.max) == ("f", 5.0, 5.0)
    storage.put(path, careless.getvalue())
    return storage


@pytest.mark.parametrize(
    "where",
    [
        [("f", "!=", 5.0)],
        [("g", "!=", 5.0)],
        [("f", "not in", [5.0])],
        [("f", "in", [math.nan])],
        [("f", "==", 5.0)],
        [("f", ">=", 5.0)],
        [("f", ">", 6.0)],
        [("id", ">", 1), ("f", "!=", 5.0)],
        [[("id", "==", 1)], [("f", "!=", 5.0)]],
        pc.field("f").is_nan(),
        ~pc.field("f").is_nan(),
        ~(pc.field("g") <= 5.0),
        (pc.field("f") != 5.0) & (pc.field("id") > 1),
        pc.field("s", "x") != 5.0,
    ],
    ids=str,
)
def test_conditions_find_the_rows_of_nan_that_they_find_in_memory(storage: MemoryStorage, where: Any) -> None:
    expression = pq.filters_to_expression(where) if isinstance(where, list) else where

    found = open_table(storage).scan(["id"], where=where).to_arrow()

    assert found == ROWS.filter(expression).select(["id"])


@pytest.mark.parametrize(
    ("where", "asked"),
    [
        ([("id", "!=", 5)], [("id", "!=", 5)]),
        ([("f", ">", 5.0), ("g", "==", 1.0)], [("f", ">", 5.0), ("g", "==", 1.0)]),
        ([("id", ">", 1), ("f", "!=", 5.0)], [("id", ">", 1)]),
        ([[("id", ">", 1), ("f", "!=", 5.0)], [("f", "<", 1.0)]], [[("id", ">", 1)], [("f", "<", 1.0)]]),
        ([("f", "!=", 5.0)], None),
        ([[("id", "==", 1)], [("f", "!=", 5.0)]], None),
        (pc.field("id") == 1, pc.field("id") == 1),
        (pc.field("f") == 1.0, None),
    ],
    ids=str,
)
def test_statistics_are_asked_for_all_that_nan_does_not_matter_to(where: Any, asked: Any) -> None:
    condition = condition_of(where, SCHEMA)

    assert condition is not None
    expected = pq.filters_to_expression(asked) if isinstance(asked, list) else asked
    assert (condition.prunes is None) == (expected is None)
    assert expected is None or expected.equals(condition.prunes)
    assert condition.is_tested_by_pruning == (condition.prunes is not None and condition.prunes.equals(condition.whole))
