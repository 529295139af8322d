"""Every operation is killed at each of its effects on the store (K1, K2, K3, K11, K14 of docs/reliability.md)."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest
from tests.support import crashes
from tests.support.crashes import (
    BEFORE,
    COW,
    MOR,
    assert_nothing_left_over,
    copied,
    crash_images,
    crashed,
    effects_of,
    opened,
    rows,
)
from tests.support.table_builder import Action, TableBuilder
from tests.support.tables import Row, contents

import pyhudi
from pyhudi.errors import HudiError, OutOfSpaceError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, at_effect

WRITES: dict[str, tuple[Action, set[Row]]] = {
    # In a merge-on-read table: two appends, of which one deletes, a rewritten base file, and a new one.
    "upsert": (
        lambda t: t.upsert(
            rows((1, "oslo", 3, "c"), (9, "rome", 2, "b"), (7, "bern", 2, "b"), gone=((2, "oslo", 2, ""),))
        ),
        {(1, "oslo", 3, "c"), (3, "rome", 1, "a"), (9, "rome", 2, "b"), (7, "bern", 2, "b")},
    ),
    "insert": (lambda t: t.insert(rows((9, "bern", 2, "b"))), BEFORE | {(9, "bern", 2, "b")}),
    "bulk_insert": (lambda t: t.bulk_insert(rows((9, "bern", 2, "b"))), BEFORE | {(9, "bern", 2, "b")}),
    "delete": (lambda t: t.delete(pa.table({"id": [1], "city": ["oslo"]})), BEFORE - {(1, "oslo", 2, "b")}),
    "insert_overwrite": (
        lambda t: t.insert_overwrite(rows((7, "oslo", 2, "b"))),
        {(7, "oslo", 2, "b"), (3, "rome", 1, "a")},
    ),
    "insert_overwrite_table": (lambda t: t.insert_overwrite_table(rows((7, "oslo", 2, "b"))), {(7, "oslo", 2, "b")}),
    "delete_partition": (lambda t: t.delete_partition("city=oslo"), {(3, "rome", 1, "a")}),
}
SERVICES: dict[str, tuple[Action, set[Row]]] = {
    "schedule_compaction": (lambda t: t.services.schedule(), BEFORE),
    "compact": (lambda t: t.services.compact(), BEFORE),
    "upsert with inline compaction": (
        lambda t: t.upsert(
            rows((1, "oslo", 3, "c")),
            hudi_options={"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
        ),
        BEFORE - {(1, "oslo", 2, "b")} | {(1, "oslo", 3, "c")},
    ),
    "upsert with inline log compaction": (
        lambda t: t.upsert(
            rows((1, "oslo", 3, "c")),
            hudi_options={
                "hoodie.log.compaction.enable": "true",
                "hoodie.log.compaction.inline": "true",
                "hoodie.log.compaction.blocks.threshold": "2",
            },
        ),
        BEFORE - {(1, "oslo", 2, "b")} | {(1, "oslo", 3, "c")},
    ),
}
EVERYWHERE = {("upsert", MOR[0]), ("upsert", MOR[2]), ("upsert", COW[2]), ("compact", MOR[0]), ("compact", MOR[2])}
MATRIX = [(name, kind) for name in WRITES for kind in (*COW, *MOR)] + [
    (name, kind) for name in SERVICES for kind in MOR
]
ADDED: Row = (50, "wien", 9, "z")


prepared = cache(crashes.prepared)
"""To be copied before it is changed."""


def planned(kind: TableBuilder) -> MemoryStorage:
    """The same with a compaction planned, and a write since."""
    storage = copied(prepared(kind))
    assert opened(storage).services.schedule()
    opened(storage).upsert(rows((2, "oslo", 1, "a"), (3, "rome", 1, "a")))
    return storage


def assert_recovers(image: MemoryStorage, found: set[Row], where: str) -> None:
    """The next write goes through and leaves nothing of the dead; so does the next compaction."""
    opened(image, later=True).upsert(rows(ADDED))
    assert contents(image) == found | {ADDED}, where
    assert_nothing_left_over(image)
    if load_table(image).timeline.pending_compactions:
        opened(image, later=True).services.compact()
        assert contents(image) == found | {ADDED}, where
        assert not load_table(image).timeline.pending_compactions, where
        assert_nothing_left_over(image)


@pytest.mark.parametrize(("name", "kind"), MATRIX, ids=str)
def test_a_process_killed_at_any_effect_leaves_all_or_nothing_and_the_next_write_cleans_up(
    name: str, kind: TableBuilder
) -> None:
    action, after = {**WRITES, **SERVICES}[name]
    for where, image in crash_images(prepared(kind), action, every=1 if (name, kind) in EVERYWHERE else 3):
        found = contents(image)
        assert found in ((after,) if where == "at the end" else (BEFORE, after)), where
        assert_recovers(image, found, where)


def with_orphans(kind: TableBuilder) -> tuple[MemoryStorage, set[str]]:
    """The same with files of a write that was rolled back: of tasks that put them later and died before they looked.

    Of version 6 no logs: their names do not tell.
    """
    action, _ = WRITES["upsert"]
    effects = effects_of(prepared(kind), action)
    (commit,) = [number for number, effect in enumerate(effects, start=1) if effect.path.endswith("commit")]
    storage = crashed(prepared(kind), action, commit)
    assert storage is not None
    files = {info.path: storage.read(info.path) for info in list_data_files(storage)}
    opened(storage, later=True).recovery.roll_back_failed_writes()
    orphans = files.keys() - {info.path for info in list_data_files(storage)}
    for path in orphans:
        storage.put(path, files[path])
    return storage, set(orphans)


@pytest.mark.parametrize("kind", [*COW, *MOR], ids=str)
def test_removal_of_orphans_that_is_killed_is_finished_by_the_next_write(
    kind: TableBuilder,
) -> None:
    given, orphans = with_orphans(kind)
    action, after = WRITES["upsert"]
    effects = effects_of(given, action)
    removed = [n for n, effect in enumerate(effects, start=1) if effect.name == "delete" and effect.path in orphans]
    assert {effects[number - 1].path for number in removed} == orphans
    for number in (*removed, removed[-1] + 1):
        image = crashed(given, action, number)
        assert image is not None
        assert contents(image) == BEFORE, number

        action(opened(image, later=True))

        assert contents(image) == after, number
        assert not orphans & {info.path for info in list_data_files(image)}, number
        assert_nothing_left_over(image)


@pytest.mark.parametrize("kind", [COW[2], MOR[0], MOR[2]], ids=str)
def test_store_failure_while_orphans_are_removed_is_typed_and_the_next_write_finishes(
    kind: TableBuilder,
) -> None:
    given, orphans = with_orphans(kind)
    action, after = WRITES["upsert"]
    for path in sorted(orphans):
        inner = copied(given)
        failing = at_effect(
            1, OutOfSpaceError("the disk is full", path=path), only=lambda _, name, path=path: name == path
        )
        with pytest.raises(OutOfSpaceError):
            action(opened(FaultStorage(inner, before=failing)))
        assert contents(inner) == BEFORE, path

        action(opened(inner, later=True))

        assert contents(inner) == after, path
        assert not orphans & {info.path for info in list_data_files(inner)}, path
        assert_nothing_left_over(inner)


@pytest.mark.parametrize("kind", MOR, ids=str)
def test_a_compaction_killed_half_way_is_finished_by_the_next_run(kind: TableBuilder) -> None:
    for where, image in crash_images(planned(kind), lambda t: t.services.compact(), every=2):
        assert contents(image) == BEFORE, where

        opened(image, later=True).services.compact()

        assert contents(image) == BEFORE, where
        assert not load_table(image).timeline.pending_compactions
        table = opened(image)
        assert table.scan(query_type="read_optimized").to_arrow().num_rows == len(BEFORE), where
        assert_recovers(image, BEFORE, where)


@pytest.mark.parametrize("kind", [COW[2], MOR[0], MOR[2]], ids=str)
def test_recovery_killed_at_any_effect_is_finished_by_the_next_one(kind: TableBuilder) -> None:
    action, _ = WRITES["upsert"]
    effects = effects_of(prepared(kind), action)
    (commit,) = [number for number, effect in enumerate(effects, start=1) if effect.path.endswith("commit")]

    def recover(table: pyhudi.HudiTable) -> None:
        opened(table.handle.state.storage, later=True).recovery.roll_back_failed_writes()

    # All files are written; and the commit is there, but not removed is what the writer had beside it.
    for number, every in ((commit, 1), (commit + 1, 3)):
        image = crashed(prepared(kind), action, number)
        assert image is not None
        found = contents(image)
        for where, again in crash_images(image, recover, every=every):
            assert contents(again) == found, where
            assert_recovers(again, found, where)


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n, k in MATRIX if k.version == 9], ids=str)
def test_a_store_that_fails_at_any_effect_gives_a_typed_error_and_leaves_all_or_nothing(
    name: str, kind: TableBuilder
) -> None:
    action, after = {**WRITES, **SERVICES}[name]
    for effect in range(1, len(effects_of(prepared(kind), action)) + 1, 3):
        inner = copied(prepared(kind))
        failing = FaultStorage(inner, before=at_effect(effect, OutOfSpaceError("the disk is full", path="x")))
        try:
            action(opened(failing))
        except HudiError:
            assert contents(inner) in (BEFORE, after), effect
        else:
            assert contents(inner) == after, effect
        assert_recovers(inner, contents(inner), f"effect {effect}")
