"""Every change of columns is killed at each of its effects, on tables that capture their changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support.crashes import (
    COW,
    MOR,
    TEMPORARY_FOLDERS,
    assert_nothing_left_over,
    crash_images,
    opened,
    prepared,
)
from tests.support.table_builder import Action, TableBuilder

import pyhudi
from pyhudi.storage.protocol import Storage

CAPTURE = {"hoodie.table.cdc.enabled": "true"}
BY_IDS = {"hoodie.schema.on.read.enable": "true"}
BY_ID = {1: ("oslo", 2, "b"), 2: ("oslo", 1, "a"), 3: ("rome", 1, "a")}
VERBS: dict[str, Action] = {
    "add": lambda t: t.alter.add_column("tip", pa.float64(), after="id"),
    "add by ids": lambda t: t.alter.add_column("tip", pa.float64(), first=True, hudi_options=BY_IDS),
    "drop": lambda t: t.alter.drop_column("note", hudi_options=BY_IDS),
    "rename": lambda t: t.alter.rename_column("note", "remark", hudi_options=BY_IDS),
    "widen": lambda t: t.alter.change_type("note", pa.binary(), hudi_options=BY_IDS),
    "move": lambda t: t.alter.move_column("note", first=True, hudi_options=BY_IDS),
    "comment": lambda t: t.alter.comment_column("note", "what was said"),
    "allow null": lambda t: t.alter.allow_null("note"),
}
MATRIX = [
    *((verb, COW[2], 3) for verb in VERBS if verb != "rename"),
    *(("rename", kind, 2) for kind in (COW[2], MOR[0])),
]


def columns(storage: Storage) -> list[Any]:
    """Names, types and comments: those that only JVM Hudi's tools show are of the schema of a commit."""
    return [(one.name, str(one.type), one.nullable) for one in opened(storage).schema]


def snapshot(storage: Storage) -> list[tuple[Any, ...]]:
    table = opened(storage)
    rows = table.scan().to_arrow().to_pylist()
    return sorted((tuple(row[name] for name in table.schema.names) for row in rows), key=repr)


def replayed(storage: Storage) -> list[tuple[Any, ...]]:
    table = opened(storage)
    state: dict[int, tuple[Any, ...]] = {}
    for change in table.changes(format="cdc_typed").to_arrow().to_pylist():
        for side, keeps in (("before", False), ("after", True)):
            if (row := change[side]) is None:
                continue
            values = tuple(row[name] for name in table.schema.names)
            if keeps:
                state[row["id"]] = values
            else:
                assert state.pop(row["id"]) == values, change
    return sorted(state.values(), key=repr)


def one_more(table: pyhudi.HudiTable) -> pa.Table:
    """A row of the table's own columns, whatever they are by now."""
    values = {"id": 1, "city": "oslo", "ts": 30, "_hoodie_is_deleted": False}
    return pa.Table.from_pylist([{name: values.get(name) for name in table.schema.names}], table.schema)


@pytest.mark.parametrize(("verb", "kind", "every"), MATRIX, ids=str)
def test_a_change_of_columns_that_dies_anywhere_leaves_the_columns_of_before_or_after(
    verb: str, kind: TableBuilder, every: int
) -> None:
    given = prepared(replace(kind, options=CAPTURE))
    change = VERBS[verb]
    before, seen = columns(given), []
    for where, image in crash_images(given, change, every=every):
        seen.append(columns(image))
        rows = opened(image).scan(["id", "city", "ts"]).to_arrow().to_pylist()
        assert {row["id"]: (row["city"], row["ts"]) for row in rows} == {i: v[:2] for i, v in BY_ID.items()}, where
        assert replayed(image) == snapshot(image), where
        opened(image, later=True).upsert(one_more(opened(image)))
        assert replayed(image) == snapshot(image), where
        assert columns(image) == seen[-1], where
        if seen[-1] == before:
            change(opened(image, later=True))
            assert replayed(image) == snapshot(image), where
        assert_nothing_left_over(image, TEMPORARY_FOLDERS)
    assert seen[0] == before
    assert len({str(one) for one in seen}) <= 2
