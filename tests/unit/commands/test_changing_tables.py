"""Looks at a table that another process changes meanwhile: a right answer or an error of pyhudi, at any moment."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest
from tests.support.table_builder import COW_TABLES, MOR_TABLES, TableBuilder
from tests.support.tables import LATER_MS, StepClock, contents, environment, open_table

import pyhudi
from pyhudi.errors import HudiError
from pyhudi.inspector.facts import collect
from pyhudi.inspector.page import Asked, page
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

Look = Callable[[pyhudi.HudiTable], object]
MOMENTS_MAX = 12
OFTEN = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}

LOOKS: dict[str, Look] = {
    "describe": lambda table: table.inspect.detail(),
    "history": lambda table: table.inspect.history(),
    "timeline": lambda table: table.inspect.timeline(),
    "files": lambda table: table.inspect.files(),
    "partitions": lambda table: table.inspect.partitions(),
    "stats": lambda table: table.inspect.sizes(),
    "doctor": lambda table: table.inspect.findings(),
    "services": lambda table: table.services.due(),
    "explain": lambda table: table.scan(where=[("ts", ">", 1)]).explain(),
    "inspect": lambda table: page(collect(table, "ts", lambda _: [("ts", ">", 1)]), Asked("ts > 1")),
}


def clean_and_archive(storage: Storage) -> None:
    services = open_table(storage).services
    services.clean(hudi_options=OFTEN)
    services.archive(hudi_options=OFTEN)


def roll_back(storage: Storage) -> None:
    table = open_table(storage)
    table.recovery.rollback(table.handle.state.timeline.completed_writes[-1].requested_time)


CHANGES = {change.__name__: change for change in (clean_and_archive, roll_back)}


@functools.cache
def files_of(builder: TableBuilder) -> dict[str, bytes]:
    made = TableBuilder(builder.version, builder.kind, options={"hoodie.table.services.enabled": "false"})
    made = made.commit(rows=3)
    for _ in range(4):
        made = made.delta_commit(updates=2)
    storage = made.build()
    return {info.path: storage.read(info.path) for info in storage.list_recursive("")}


class ChangingStorage(FaultStorage):
    """A store in which a table changes before an operation; hooks of the base class do not run before reads."""

    def __init__(self, inner: Storage, at: int, change: Callable[[Storage], None]) -> None:
        super().__init__(inner)
        self._at, self._change = at, change
        self._counter = itertools.count()
        self.is_changed = False

    def _record(self, name: str, path: str) -> None:
        super()._record(name, path)
        if next(self._counter) == self._at:
            self._change(self.inner)
            self.is_changed = True


def changing(builder: TableBuilder, at: int, change: Callable[[Storage], None]) -> ChangingStorage:
    """The table in a store that changes it before its operation with this number."""
    inner = MemoryStorage()
    for path, data in files_of(builder).items():
        inner.put(path, data)
    return ChangingStorage(inner, at, change)


def look_at(storage: Storage, look: Look) -> object:
    return look(open_table(storage, env=environment(StepClock(LATER_MS))))


@pytest.mark.parametrize("builder", [COW_TABLES[-1], MOR_TABLES[-1], MOR_TABLES[0]], ids=str)
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_a_table_that_changes_are_those_before_or_after_the_change(change: str, builder: TableBuilder) -> None:
    undisturbed = changing(builder, -1, CHANGES[change])
    before = contents(undisturbed)
    operations = len(undisturbed.operations)
    CHANGES[change](undisturbed.inner)
    after = contents(undisturbed)
    answers = 0
    for at in range(operations):
        storage = changing(builder, at, CHANGES[change])
        try:
            rows = contents(storage)
        except HudiError:
            continue
        finally:
            assert storage.is_changed
        answers += 1
        assert rows in (before, after)
    assert answers


@pytest.mark.parametrize("builder", [COW_TABLES[-1], MOR_TABLES[0]], ids=str)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", LOOKS)
def test_look_at_a_table_that_changes_answers_or_raises_an_error_of_pyhudi(
    name: str, change: str, builder: TableBuilder
) -> None:
    undisturbed = changing(builder, -1, CHANGES[change])
    look_at(undisturbed, LOOKS[name])
    operations = len(undisturbed.operations)
    answers = 0
    for at in range(0, operations, max(1, operations // MOMENTS_MAX)):
        storage = changing(builder, at, CHANGES[change])
        try:
            answer = look_at(storage, LOOKS[name])
        except HudiError:
            continue
        finally:
            assert storage.is_changed
        answers += 1
        if name == "doctor":
            severe = [one for one in answer.to_pylist() if one["severity"] != "note"]  # type: ignore[attr-defined]
            assert severe == []
    assert answers
