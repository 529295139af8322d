"""Tables to be compacted, and runs of plans that die."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.hooks import crash, once_at
from tests.support.table_builder import TWO_GROUPS, TableBuilder
from tests.support.tables import (
    EVENT_TIME,
    MOR,
    NO_PROCESS,
    Row,
    heartbeat_of,
    open_table,
)

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

AFTER: set[Row] = {(1, "oslo", 6, "b"), (2, "oslo", 5, "a"), (3, "rome", 6, "b")}


def prepared(version: int = 9) -> Storage:
    """Two groups with logs: two delta commits."""
    table = TableBuilder(version, "mor", options=EVENT_TIME).insert(*TWO_GROUPS)
    return table.upsert((1, "oslo", 6, "b"), (2, "oslo", 4, "late"), (3, "rome", 6, "b")).build()


def opened(storage: Storage, **options: str) -> pyhudi.HudiTable:
    return open_table(storage, env=None, **{**MOR, **options})


def let_the_runner_die(storage: Storage, planned: str | None) -> None:
    """As if its process was no more: the one that its heartbeat names."""
    heartbeat_of(storage, str(planned), pid=NO_PROCESS)


def plan_with_a_dead_run(storage: Storage) -> str:
    """A plan whose runner has died when it had begun the file of rome."""
    planned = opened(storage).services.schedule()
    assert planned is not None
    with pytest.raises(SimulatedCrash):
        opened(FaultStorage(storage, before=once_at("open_output", "city=rome", crash))).services.run(planned)
    let_the_runner_die(storage, planned)
    return planned


@dataclass(frozen=True)
class EngineOfAnotherApplication(LocalEngine):
    """An engine whose tasks carry other write tokens, as those of another application do."""

    parallelism: int = 1

    def map(self, function: Any, tasks: Any, **how: Any) -> list[Any]:
        del how
        contexts = [TaskContext(partition=n, stage=7, attempt=0) for n in range(len(tasks))]
        return self._run(function, contexts, list(tasks))
