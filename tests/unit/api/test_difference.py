"""`HudiTable.diff`: rows that differ between two moments, for every kind of table and column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.support.table_builder import COW_TABLES, MOR_TABLES, TableBuilder
from tests.support.tables import open_table

import pyhudi
from pyhudi.storage.local import LocalStorage
from pyhudi.testing.faults import FaultStorage


def seen(found: pa.Table) -> list[tuple[str, str, Any, Any]]:
    return [
        (row["op"], row["record_key"], row["before"] and row["before"]["note"], row["after"] and row["after"]["note"])
        for row in found.to_pylist()
    ]


@pytest.mark.parametrize("builder", [*COW_TABLES, *MOR_TABLES], ids=str)
def test_rows_that_came_went_and_changed_are_found_in_both_directions(builder: TableBuilder) -> None:
    storage = (
        builder.insert((1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"))
        .upsert((2, "oslo", 2, "b"), (4, "oslo", 2, "new"))
        .delete((1, "oslo", 3, ""))
        .build()
    )
    table = open_table(storage)
    first, _, last = table.inspect.timeline()["instant"].to_pylist()
    forward = [("d", "1", "a", None), ("u", "2", "a", "b"), ("i", "4", None, "new")]
    assert seen(table.diff(first)) == forward
    assert seen(table.diff(first, last)) == forward
    assert seen(table.diff(last, first)) == [("i", "1", None, "a"), ("u", "2", "b", "a"), ("d", "4", "new", None)]
    assert table.diff(first, first).num_rows == 0


@pytest.mark.parametrize("builder", [*COW_TABLES, *MOR_TABLES], ids=str)
def test_row_that_is_written_again_with_its_values_does_not_differ(builder: TableBuilder) -> None:
    storage = builder.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 1, "a")).build()
    table = open_table(storage)
    assert table.diff(table.inspect.timeline()["instant"][0].as_py()).num_rows == 0


def test_row_that_moves_to_another_partition_goes_and_comes() -> None:
    moves = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    storage = TableBuilder(9, "cow").insert((1, "oslo", 1, "a")).upsert((1, "rome", 2, "a"), **moves).build()
    table = open_table(storage)
    found = table.diff(table.inspect.timeline()["instant"][0].as_py())
    assert [(row["op"], row["partition_path"]) for row in found.to_pylist()] == [
        ("d", "city=oslo"),
        ("i", "city=rome"),
    ]


def test_nested_values_nulls_and_nan_are_compared_by_value(tmp_path: Any) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("point", pa.struct([("x", pa.int64())])),
            ("tags", pa.list_(pa.string())),
            ("fare", pa.float64()),
        ]
    )
    table = pyhudi.HudiTable.create(tmp_path, schema=schema, record_key="id")
    rows = [
        {"id": 1, "point": {"x": 1}, "tags": ["a"], "fare": float("nan")},
        {"id": 2, "point": None, "tags": ["a", None], "fare": None},
        {"id": 3, "point": {"x": None}, "tags": [], "fare": 1.0},
    ]
    first = table.insert(pa.Table.from_pylist(rows, schema)).instant
    changed = [rows[0], {**rows[1], "tags": ["a"]}, {**rows[2], "point": {"x": 3}}]
    table.upsert(pa.Table.from_pylist(changed, schema))
    assert table.refresh().diff(first)["record_key"].to_pylist() == ["2", "3"]


def test_file_slices_that_both_moments_share_are_not_read() -> None:
    storage = TableBuilder(9, "cow").commit(rows=9).upsert((0, "oslo", 9, "b")).build()
    counting = FaultStorage(storage)
    table = open_table(counting)
    first = table.inspect.timeline()["instant"][0].as_py()
    before = len(counting.operations)
    assert table.diff(first).num_rows == 1
    read = {one.path.split("/")[0] for one in counting.operations[before:] if one.path.endswith(".parquet")}
    assert read == {"city=oslo"}


def test_table_that_generates_its_keys_is_refused(tmp_path: Any) -> None:
    table = pyhudi.HudiTable.create(tmp_path, schema=pa.schema([("id", pa.int64())]))
    first = table.insert(pa.table({"id": [1]})).instant
    with pytest.raises(pyhudi.errors.UnsupportedFeatureError, match="keys"):
        table.refresh().diff(first)


def test_unchanged_table_in_local_folder_has_no_difference(tmp_path: Any) -> None:
    storage = TableBuilder(9, "mor").commit(rows=3).build(LocalStorage(str(tmp_path)))
    table = open_table(storage)
    assert table.diff(table.inspect.timeline()["instant"][0].as_py()).schema.names == [
        "op", "record_key", "partition_path", "before", "after",
    ]  # fmt: skip
