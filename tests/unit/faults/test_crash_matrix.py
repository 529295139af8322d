"""Every operation is killed before and after each of its effects on the store (reliability.md 5.2; K1, K2, K3, K14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from tests.support.tables import Row, StepClock, contents, environment, new_table, open_table, rows

import pyhudi
from pyhudi.errors import HudiError
from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.file_system_view import list_data_files
from pyhudi.testing.storage import FaultStorage, SimulatedCrash, at_effect

BEFORE: set[Row] = {(1, "oslo", 1, "a"), (2, "oslo", 1, "a"), (3, "rome", 1, "a")}
Operation = Callable[[pyhudi.HudiTable], object]
OPERATIONS: dict[str, tuple[Operation, set[Row]]] = {
    "upsert": (
        lambda t: t.upsert(rows((1, "oslo", 2, "b"), (9, "rome", 2, "b"))),
        {(1, "oslo", 2, "b"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"), (9, "rome", 2, "b")},
    ),
    "insert": (lambda t: t.insert(rows((9, "bern", 2, "b"))), BEFORE | {(9, "bern", 2, "b")}),
    "bulk_insert": (lambda t: t.bulk_insert(rows((9, "bern", 2, "b"))), BEFORE | {(9, "bern", 2, "b")}),
    "delete": (
        lambda t: t.delete(pa.table({"id": [1], "city": ["oslo"]})),
        {(2, "oslo", 1, "a"), (3, "rome", 1, "a")},
    ),
    "insert_overwrite": (
        lambda t: t.insert_overwrite(rows((7, "oslo", 2, "b"))),
        {(7, "oslo", 2, "b"), (3, "rome", 1, "a")},
    ),
    "insert_overwrite_table": (lambda t: t.insert_overwrite_table(rows((7, "oslo", 2, "b"))), {(7, "oslo", 2, "b")}),
    "delete_partition": (lambda t: t.delete_partition("city=oslo"), {(3, "rome", 1, "a")}),
}


def prepared(version: int) -> MemoryStorage:
    storage = MemoryStorage()
    new_table(storage, version=version).insert(rows(*BEFORE))
    return storage


def effects_of(operation: Operation, version: int) -> int:
    storage = FaultStorage(prepared(version))
    operation(open_table(storage))
    return len(storage.effects)


def matrix() -> Iterator[tuple[str, int]]:
    for name in OPERATIONS:
        for version in (6, 9):
            yield name, version


@pytest.mark.parametrize(("name", "version"), list(matrix()))
def test_a_writer_killed_at_any_effect_leaves_all_or_nothing_and_the_next_write_cleans_up(
    name: str, version: int
) -> None:
    operation, after = OPERATIONS[name]
    for effect in range(1, effects_of(operation, version) + 1):
        for moment in ("before", "after"):
            inner = prepared(version)
            crashing = FaultStorage(inner, **{moment: at_effect(effect, SimulatedCrash())})
            where = f"{moment} effect {effect}"

            with suppress(SimulatedCrash):
                operation(open_table(crashing))

            found = contents(inner)
            # A put that finds the object there already has no "after"; then the last effect is never reached.
            assert found in ((BEFORE, after) if crashing.is_dead else (after,)), where
            assert contents(inner) == found, where

            an_hour_later = environment(StepClock(1_900_000_000_000))
            open_table(inner, env=an_hour_later).upsert(rows((50, "wien", 9, "z")))
            assert contents(inner) == found | {(50, "wien", 9, "z")}, where
            assert nothing_is_left_over(inner), where


def nothing_is_left_over(storage: MemoryStorage) -> bool:
    """No pending instant, marker, exchange file or heartbeat, and no data file of a write that is not committed."""
    timeline = open_table(storage).state.timeline
    for folder in (".hoodie/.temp", ".hoodie/.aux/.exchange", ".hoodie/.heartbeat"):
        assert storage.list_recursive(folder) == (), folder
    assert not timeline.pending_writes
    for info in list_data_files(storage):
        name = parse_data_file(info.name)
        assert name is None or timeline.is_committed(name.instant_time), info.path
    return True


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_a_store_that_fails_at_any_effect_gives_a_typed_error_and_leaves_all_or_nothing(name: str) -> None:
    from pyhudi.errors import OutOfSpaceError

    operation, after = OPERATIONS[name]
    for effect in range(1, effects_of(operation, 9) + 1):
        inner = prepared(9)
        failing = FaultStorage(inner, before=at_effect(effect, OutOfSpaceError("the disk is full", path="x")))
        try:
            operation(open_table(failing))
        except HudiError:
            assert contents(inner) in (BEFORE, after), effect
        else:
            assert contents(inner) == after, effect
