"""Changes of rows in a table in which INSERT has left a record key twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi import HudiTable
from pyhudi.errors import AmbiguousChangeError

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
INDEXES = {
    "simple": {},
    "bloom": {"hoodie.index.type": "BLOOM"},
    "global": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"},
}
Change = Callable[[HudiTable], Any]


def source(*given: tuple[int, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


@pytest.fixture(params=["cow", "mor"])
def doubled(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., HudiTable]:
    """Makes a table whose key 1 has two rows, by two inserts."""

    def make(index: str, *, ordering_fields: str | None = None) -> HudiTable:
        table = pyhudi.HudiTable.create(
            tmp_path / "t",
            schema=SCHEMA,
            record_key="id",
            table_type=request.param,
            ordering_fields=ordering_fields,
            hudi_options=INDEXES[index],
        )
        table.insert(source((1, 1, 1), (2, 2, 1)))
        table.insert(source((1, 5, 2)))
        return table.refresh()

    return make


def stored(table: HudiTable) -> list[tuple[int, ...]]:
    return sorted(tuple(row.values()) for row in table.refresh().scan(["id", "v"]).to_arrow().to_pylist())


ONE_OF_THEM: dict[str, Change] = {
    "update of one": lambda table: table.update({"v": 77}, where=[("v", "=", 1)]),
    "update of both": lambda table: table.update({"v": pc.add(pc.field("v"), 10)}),
    "deletion of one": lambda table: table.delete_where([("v", "=", 1)]),
    "merge of one": lambda table: (
        table.merge(source((1, 50, 9)), on="id")
        .when_matched_update(set={"v": 7}, condition=pc.field("target.v") == 1)
        .execute()
    ),
    "merge that deletes one": lambda table: (
        table.merge(source((1, 50, 9)), on="id").when_matched_delete(condition=pc.field("target.v") == 1).execute()
    ),
}


@pytest.mark.parametrize("index", ["simple", "bloom", "global"])
@pytest.mark.parametrize("change", ONE_OF_THEM.values(), ids=ONE_OF_THEM)
def test_change_of_one_of_two_rows_of_a_key_is_refused(
    doubled: Callable[..., HudiTable], index: str, change: Change
) -> None:
    table = doubled(index)
    before = stored(table)
    assert before == [(1, 1), (1, 5), (2, 2)]

    with pytest.raises(AmbiguousChangeError, match="several rows"):
        change(table)

    assert stored(table) == before


def test_merge_whose_ordering_values_choose_between_rows_of_a_key_is_refused(
    doubled: Callable[..., HudiTable],
) -> None:
    table = doubled("simple", ordering_fields="ts")
    merge = table.merge(source((1, 50, 9)), on="id").when_matched_update(
        set={"v": pc.add(pc.field("target.v"), pc.field("source.v"))}
    )

    with pytest.raises(AmbiguousChangeError, match="several rows"):
        merge.execute()

    assert stored(table) == [(1, 1), (1, 5), (2, 2)]


@pytest.mark.parametrize("index", ["simple", "bloom", "global", "bucket"])
def test_all_rows_of_a_key_are_deleted_by_a_condition_that_each_meets(
    doubled: Callable[..., HudiTable], index: str
) -> None:
    table = doubled(index)
    table.delete_where([("id", "=", 1)])
    assert stored(table) == [(2, 2)]


def test_merge_by_key_gives_all_rows_of_the_key_the_values_of_the_source(doubled: Callable[..., HudiTable]) -> None:
    table = doubled("simple")
    table.merge(
        source((1, 50, 9), (3, 3, 3)), on="id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert set(stored(table)) == {(1, 50), (2, 2), (3, 3)}


def test_change_of_a_row_whose_key_is_not_repeated_is_as_before(doubled: Callable[..., HudiTable]) -> None:
    table = doubled("simple")
    table.update({"v": 9}, where=[("id", "=", 2)])
    assert stored(table) == [(1, 1), (1, 5), (2, 9)]
    table.delete_where([("id", "=", 2)])
    assert stored(table) == [(1, 1), (1, 5)]
