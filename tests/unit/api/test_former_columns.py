"""Columns that a write drops, and that come again with another type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi import HudiTable
from pyhudi.errors import SchemaMismatchError

DROPPED = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}
TEXT, NUMBER = pa.array(["x"]), pa.array([7])
ADDITIONS: dict[str, Callable[[HudiTable, pa.Array], object]] = {
    "a write": lambda table, values: table.upsert(pa.table({"id": [9], "city": ["bern"], "v": values})),
    "a change of columns": lambda table, values: table.alter.add_column("v", values.type),
}


def table_that_dropped_a_column(path: Path, kind: str, version: int, values: pa.Array) -> HudiTable:
    rows = pa.table({"id": [1], "city": ["oslo"], "v": values})
    table = HudiTable.create(
        path, schema=rows.schema, record_key="id", partition_by="city", table_type=kind, table_version=version
    )
    table.insert(rows)
    table.upsert(pa.table({"id": [2], "city": ["rome"]}), hudi_options=DROPPED)
    return table


@pytest.mark.parametrize("addition", ADDITIONS)
@pytest.mark.parametrize(("kind", "version"), [("cow", 9), ("mor", 9), ("mor", 6)])
@pytest.mark.parametrize("place", ["column", "field"])
def test_column_of_another_type_than_files_have_is_refused(
    tmp_path: Path, kind: str, version: int, addition: str, place: str
):
    before, after = (
        pa.StructArray.from_arrays([pa.array([1]), values], ["n", "v"]) if place == "field" else values
        for values in (TEXT, NUMBER)
    )
    table = table_that_dropped_a_column(tmp_path, kind, version, before)
    with pytest.raises(SchemaMismatchError, match="of another type before") as raised:
        ADDITIONS[addition](table, after)
    assert (raised.value.context["former_type"], raised.value.context["type"]) == (str(before.type), str(after.type))
    assert raised.value.context["path"].startswith("oslo/")
    assert sorted(table.refresh().scan(["id"]).to_arrow()["id"].to_pylist()) == [1, 2]


def test_field_of_another_type_than_files_have_is_refused(tmp_path: Path):
    def rows(number: int, **fields: object) -> pa.Table:
        return pa.Table.from_pylist([{"id": number, "city": str(number), "at": {"n": 1, **fields}}])

    table = HudiTable.create(tmp_path, schema=rows(1, v="x").schema, record_key="id", partition_by="city")
    table.insert(rows(1, v="x"))
    table.upsert(rows(2), hudi_options=DROPPED)
    with pytest.raises(SchemaMismatchError, match=r"'at\.v' of another type"):
        table.upsert(rows(3, v=7))


def test_column_of_another_type_is_added_once_no_file_has_the_former_one(tmp_path: Path):
    table = table_that_dropped_a_column(tmp_path, "cow", 9, TEXT)
    table.upsert(pa.table({"id": [1], "city": ["oslo"]}))
    table.upsert(pa.table({"id": [2], "city": ["rome"], "v": NUMBER}))
    assert table.scan(["id", "v"]).to_arrow().sort_by("id")["v"].to_pylist() == [None, 7]


def test_column_of_another_type_is_refused_after_the_write_that_had_it_was_archived(tmp_path: Path):
    table = table_that_dropped_a_column(tmp_path, "cow", 9, TEXT)
    few = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    for _ in range(6):
        table.upsert(pa.table({"id": [2], "city": ["rome"]}), hudi_options=few)
    assert table.inspect.timeline()["action"].to_pylist().count("commit") < 7
    with pytest.raises(SchemaMismatchError, match="of another type before"):
        table.upsert(pa.table({"id": [2], "city": ["rome"], "v": NUMBER}))


def test_column_that_comes_again_with_a_wider_type_has_the_values_of_files(tmp_path: Path):
    table = table_that_dropped_a_column(tmp_path, "cow", 9, pa.array([1], pa.int32()))
    table.upsert(pa.table({"id": [2], "city": ["rome"], "v": NUMBER}))
    assert table.scan(["id", "v"]).to_arrow().sort_by("id")["v"].to_pylist() == [1, 7]
