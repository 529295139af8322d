"""A table of nine partitions, and which folders of it are listed, in which tasks of an engine."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.crashes import copied
from tests.support.tables import MOR, StepClock, environment, new_table, rows

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table import lister
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

CITIES = tuple(f"c{number}" for number in range(9))
PARTITIONS = tuple(f"city={city}" for city in CITIES)
OPTIONS = {"hoodie.table.services.enabled": "false", "hoodie.metadata.enable": "false"}
FOLDERS_PER_TASK = 4
IN_TASKS = [4, 4, 1]
"""How many folders each task has where all partitions are listed."""
OF_TABLE = 1 + len(CITIES)
"""Listings of all of a table: of its root, and of each folder in it."""
_CLOCK = StepClock()


@dataclass(frozen=True)
class NotingEngine(LocalEngine):
    """Notes how many folders each task of a listing has."""

    parallelism: int = 1
    folders: list[list[int]] = field(default_factory=list)

    def map(self, function: Any, tasks: Sequence[Any], **how: Any) -> list[Any]:
        if tasks and isinstance(tasks[0], lister.ListTask):
            self.folders.append([len(task.paths) for task in tasks])
        return super().map(function, tasks, **how)


@dataclass(frozen=True)
class Watched:
    """A table, the engine that works on it, its calls, and the folders of the tasks that list."""

    table: pyhudi.HudiTable
    store: FaultStorage
    engine: NotingEngine

    @property
    def folders(self) -> list[list[int]]:
        """Of each job that lists: how many folders each of its tasks has."""
        return self.engine.folders

    @property
    def listings(self) -> int:
        """How often folders of data were listed."""
        calls = (call for call in self.store.operations if call.name.startswith("list"))
        return sum(not call.path.startswith(".hoodie") for call in calls)


@functools.cache
def nine_partitions() -> MemoryStorage:
    """A merge-on-read table of nine partitions, with a base file and two logs in each. None changes it."""
    storage = MemoryStorage()
    options: dict[str, Any] = {**MOR, **OPTIONS}
    new_table(storage, **options)
    for turn in range(3):
        _opened(storage, LocalEngine(parallelism=1)).upsert(
            rows(*((number, city, turn, "") for number, city in enumerate(CITIES)))
        )
    return storage


def watched(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The table as another process finds it, which remembers no listing; tasks that list have four folders each."""
    monkeypatch.setattr(lister, "FOLDERS_PER_TASK", FOLDERS_PER_TASK)
    engine, store = NotingEngine(), FaultStorage(copied(storage))
    return Watched(_opened(store, engine), store, engine)


def _opened(storage: Storage, engine: LocalEngine) -> pyhudi.HudiTable:
    return pyhudi.HudiTable(TableHandle(load_table(storage), OPTIONS, engine, environment(_CLOCK)))
