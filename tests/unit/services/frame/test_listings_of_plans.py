"""Planning and executing a table service: each folder is listed once for each of the two, in tasks of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.tables import MOR, StepClock, environment, new_table, rows

import pyhudi
from pyhudi.api.handle import TableHandle
from pyhudi.engine.local import LocalEngine
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table import lister
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

CLOCK = StepClock()
CITIES = tuple(f"c{number}" for number in range(9))
PARTITIONS = tuple(f"city={city}" for city in CITIES)
OPTIONS = {"hoodie.table.services.enabled": "false", "hoodie.metadata.enable": "false"}
RETAIN_ONE = {"hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


@dataclass(frozen=True)
class NotingEngine(LocalEngine):
    """Notes how many folders each task of a listing has."""

    parallelism: int = 1
    folders: list[list[int]] = field(default_factory=list)

    def map(self, function: Any, tasks: Sequence[Any], *, size_bytes: int, description: str) -> list[Any]:
        if tasks and isinstance(tasks[0], lister.ListTask):
            self.folders.append([len(task.paths) for task in tasks])
        return super().map(function, tasks, size_bytes=size_bytes, description=description)


@pytest.fixture(scope="module")
def written() -> MemoryStorage:
    """A merge-on-read table of nine partitions, with a base file and two logs in each."""
    storage = MemoryStorage()
    new_table(storage, **MOR, **OPTIONS)
    for turn in range(3):
        opened(storage, LocalEngine(parallelism=1)).upsert(
            rows(*((number, city, turn, "") for number, city in enumerate(CITIES)))
        )
    return storage


@pytest.fixture
def watched(written: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The table as another process finds it, which remembers no listing; tasks that list have four folders each."""
    monkeypatch.setattr(lister, "FOLDERS_PER_TASK", 4)
    copy = MemoryStorage()
    for info in written.list_recursive(""):
        copy.put(info.path, written.read(info.path))
    engine, store = NotingEngine(), FaultStorage(copy)
    return Watched(opened(store, engine), store, engine.folders)


@dataclass(frozen=True)
class Watched:
    """A table, its calls, and the folders of the tasks that list."""

    table: pyhudi.HudiTable
    store: FaultStorage
    folders: list[list[int]]

    @property
    def listings(self) -> int:
        """How often folders of data were listed."""
        calls = (call for call in self.store.operations if call.name.startswith("list"))
        return sum(not call.path.startswith(".hoodie") for call in calls)


def opened(storage: Storage, engine: LocalEngine) -> pyhudi.HudiTable:
    return pyhudi.HudiTable(TableHandle(load_table(storage), OPTIONS, engine, environment(CLOCK)))


IN_TASKS = [4, 4, 1]
OF_TABLE = 1 + len(CITIES)
"""Listings of all of a table: of its root, and of each folder in it."""


@pytest.mark.parametrize("kind", ["compaction", "clustering"])
def test_plan_lists_the_table_once_and_its_execution_each_folder_once(watched: Watched, kind: Any) -> None:
    instant = watched.table.services.schedule(kind)

    assert instant is not None
    assert watched.folders == [IN_TASKS]
    assert watched.listings == OF_TABLE

    watched.table.services.run(instant)

    assert watched.folders == [IN_TASKS, IN_TASKS]
    assert watched.listings == OF_TABLE + len(CITIES)


def test_clean_lists_the_table_or_its_partitions_once_in_tasks(watched: Watched) -> None:
    services = watched.table.services

    services.plan_clean(hudi_options=RETAIN_ONE)

    assert (watched.folders, watched.listings) == ([IN_TASKS], OF_TABLE)

    services.plan_clean(hudi_options={**RETAIN_ONE, "hoodie.cleaner.partition.filter.selected": ",".join(PARTITIONS)})

    assert (watched.folders, watched.listings) == ([IN_TASKS, IN_TASKS], OF_TABLE + len(CITIES))
