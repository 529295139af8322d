"""Merges, updates, deletions by condition and overwrites of named partitions are killed at each of their effects.

The tables capture their changes: whatever died, these replayed into an empty table give the snapshot.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pyarrow.compute as pc
import pytest
from tests.support import crashes
from tests.support.crashes import (
    BEFORE,
    COW,
    MOR,
    TEMPORARY_FOLDERS,
    assert_nothing_left_over,
    copied,
    crash_images,
    opened,
    replayed,
    rows,
)
from tests.support.table_builder import Action, TableBuilder
from tests.support.tables import Row, contents

import pyhudi
from pyhudi.api.writes import write_rows
from pyhudi.format.keys.partition_pattern import PartitionPattern
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table

CAPTURE = {"hoodie.table.cdc.enabled": "true"}
FIRST, SECOND, THIRD = sorted(BEFORE)
ADDED: Row = (50, "wien", 9, "z")
AGAIN: Row = (1, "oslo", 20, "again")


def merge(table: pyhudi.HudiTable) -> None:
    """Update a record, delete one, and insert two, one of them into a new partition."""
    source = rows((1, "oslo", 9, "m"), (2, "oslo", 9, "gone"), (6, "rome", 9, "m"), (7, "bern", 9, "m"))
    made = table.merge(source, on=["id", "city"]).when_matched_delete(condition=pc.field("source.note") == "gone")
    made.when_matched_update_all().when_not_matched_insert_all().execute()


def joined_merge(table: pyhudi.HudiTable) -> None:
    """Update a record, insert one whose absence was read from all partitions, delete what the source does not have."""
    made = table.merge(rows((3, "rome", 9, "m"), (7, "bern", 9, "m")), on="id").when_matched_update_all()
    made.when_not_matched_insert_all().when_not_matched_by_source_delete().execute()


def insert_stored(table: pyhudi.HudiTable) -> None:
    """Insert rows that are all stored: the index finds that, once the write has begun, which is then taken back."""
    made = table.merge(rows((1, "oslo", 9, "m"), (3, "rome", 9, "m")), on=["id", "city"])
    assert not made.when_not_matched_insert_all().execute().has_committed


def overwrite_named(table: pyhudi.HudiTable) -> None:
    """Overwrite a partition to which no row goes, and one to which one does."""
    write_rows(
        table.handle,
        rows((8, "rome", 2, "o")),
        WriteOperation.INSERT_OVERWRITE,
        None,
        overwritten=PartitionPattern(("city=oslo",)),
    )


CHANGES: dict[str, tuple[Action, set[Row]]] = {
    "merge": (merge, {(1, "oslo", 9, "m"), THIRD, (6, "rome", 9, "m"), (7, "bern", 9, "m")}),
    "joined merge": (joined_merge, {(3, "rome", 9, "m"), (7, "bern", 9, "m")}),
    "insertion of stored rows": (insert_stored, BEFORE),
    "update": (
        lambda t: t.update({"note": pc.scalar("u")}, [("ts", "==", 1)]),
        {FIRST, (2, "oslo", 1, "u"), (3, "rome", 1, "u")},
    ),
    "update that moves": (
        lambda t: t.update({"city": pc.scalar("rome")}, [("id", "==", 1)]),
        {(1, "rome", 2, "b"), SECOND, THIRD},
    ),
    "delete_where": (lambda t: t.delete_where([("ts", "==", 1)]), {FIRST}),
    "overwrite of named partitions": (overwrite_named, {(8, "rome", 2, "o")}),
    "insert_overwrite_table": (lambda t: t.insert_overwrite_table(rows((8, "rome", 2, "o"))), {(8, "rome", 2, "o")}),
    "delete_partition": (lambda t: t.delete_partition("city=oslo"), {THIRD}),
    "truncate": (lambda t: t.truncate(), set()),
}
SERVICES: dict[str, tuple[Action, set[Row]]] = {
    "compact": (lambda t: t.services.compact(), BEFORE),
    "merge with compaction": (
        lambda t: t.update(
            {"note": pc.scalar("u")},
            [("id", "==", 1)],
            hudi_options={"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
        ),
        {(1, "oslo", 2, "u"), SECOND, THIRD},
    ),
    "cluster": (lambda t: t.services.cluster(), BEFORE),
}
NEWEST = (COW[2], MOR[2])
MATRIX = [
    *((name, kind, 5) for name in CHANGES for kind in NEWEST),
    *(("insertion of stored rows", kind, 1) for kind in (COW[0], MOR[1])),
    *((name, kind, 8) for name in ("merge", "joined merge") for kind in (COW[0], COW[1], MOR[0], MOR[1])),
    *(("compact", MOR[number], 8) for number in (0, 2)),
    *(("merge with compaction", MOR[number], 4) for number in (0, 2)),
    *(("cluster", kind, 8) for kind in (COW[2], MOR[0])),
]


@cache
def captured(kind: TableBuilder) -> MemoryStorage:
    """To be copied before it is changed."""
    return copied(crashes.prepared(replace(kind, options=CAPTURE)))


@pytest.mark.parametrize(("name", "kind", "every"), MATRIX, ids=str)
def test_a_change_of_rows_that_dies_anywhere_is_there_or_not_and_so_are_its_captured_changes(
    name: str, kind: TableBuilder, every: int
) -> None:
    action, after = {**CHANGES, **SERVICES}[name]
    seen = []
    for where, image in crash_images(captured(kind), action, every=every):
        found = contents(image)
        seen.append(found)
        assert found in ((after,) if where == "at the end" else (BEFORE, after)), where
        assert replayed(image) == found, where
        if name == "cluster":
            for instant in opened(image).services.pending()["instant"].to_pylist():
                opened(image, later=True).services.run(instant)
            assert replayed(image) == found, where
        opened(image, later=True).upsert(rows(ADDED, AGAIN))
        now = {row for row in found if row[:2] != AGAIN[:2]} | {ADDED, AGAIN}
        assert contents(image) == now, where
        assert replayed(image) == now, where
        if load_table(image).timeline.pending_compactions:
            opened(image, later=True).services.compact()
            assert replayed(image) == contents(image) == now, where
        assert_nothing_left_over(image, TEMPORARY_FOLDERS)
    assert BEFORE in seen
