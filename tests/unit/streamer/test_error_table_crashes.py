"""A streamer with an error table dies anywhere: each record is once in one of the two tables, and no commit parts
from its checkpoint."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import killed_streamer
from tests.support.ingestions import FIRST_MS, Landing, ingestion, run_until_idle, settings
from tests.support.killed_streamer import read
from tests.support.tables import LATER_MS, StepClock, environment, open_table

import pyhudi
from pyhudi.environment import Environment
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.ingest import Ingestion, checkpoint_of, ingest
from pyhudi.streamer.settings import Settings
from pyhudi.table.state import table_exists
from pyhudi.testing.faults import FaultStorage

ERRORS = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": "memory://t/errors"}
COMPACTED = {"hoodie.compact.inline.max.delta.commits": "1"}


@dataclass(frozen=True)
class Stores:
    """The stores of a table and of its error table."""

    table: Storage
    errors: Storage

    def streamer(self, given: Settings, env: Environment | None = None) -> Ingestion:
        made = ingestion(given, self.table, env)
        assert made.errors is not None
        return replace(made, errors=replace(made.errors, storage=self.errors))

    def rows(self) -> list[Any]:
        return values_of(open_table(self.table), "id") if table_exists(self.table) else []

    def failed(self) -> list[Any]:
        return values_of(open_table(self.errors), "_corrupt_record") if table_exists(self.errors) else []

    def state(self, given: Settings) -> tuple[str | None, list[Any]]:
        """The checkpoint of the table, and its rows."""
        return checkpoint_of(self.streamer(given)), self.rows()


def images(given: Settings, table: MemoryStorage, errors: MemoryStorage) -> Iterator[tuple[str, Stores]]:
    """Both stores as a process leaves them that dies before an effect of a round on one of them, and at its end.

    Where an effect left no trace, there is no image of its own.
    """
    taken: list[tuple[str, Stores]] = []
    guard = threading.Lock()

    def take(name: str, path: str) -> None:
        with guard:
            taken.append((f"before effect {len(taken) + 1}: {name} {path}", Stores(table.copy(), errors.copy())))

    ingest(Stores(FaultStorage(table, before=take), FaultStorage(errors, before=take)).streamer(given))
    last: object = None
    for name, left in taken:
        files = left.table.list_recursive(""), left.errors.list_recursive("")
        if files != last:
            last = files
            yield name, left
    yield "at the end", Stores(table, errors)


def values_of(table: pyhudi.HudiTable, column: str) -> list[Any]:
    """The values of a column; none where the table has no column yet."""
    found = table.scan().to_arrow()
    return sorted(found[column].to_pylist()) if found.num_rows else []


@pytest.mark.parametrize(("version", "table_type"), [(9, "cow"), (9, "mor"), (6, "mor")])
def test_killed_before_any_effect_a_record_is_once_in_one_table_and_the_checkpoint_agrees(
    tmp_path: Path, version: int, table_type: str
):
    landing = Landing(tmp_path)
    given = settings(
        landing,
        {**ERRORS, **COMPACTED, "hoodie.write.table.version": str(version)},
        op="UPSERT",
        table_type=table_type,
    )
    table, errors = MemoryStorage(), MemoryStorage()
    states: list[tuple[str | None, list[Any]]] = [(None, [])]
    seen: list[int] = []
    for batch, (text, rows, failed) in enumerate(
        [
            ('{"id": 1}\n{bad 1\n{"id": 2}', [1, 2], [b"{bad 1"]),
            ('{"id": 2}\n{bad 2\n{"id": 3}', [1, 2, 3], [b"{bad 1", b"{bad 2"]),
        ]
    ):
        landing.put_text(f"{batch}.json", text, ms=FIRST_MS + batch)
        before = states[-1], [b"{bad 1"] * batch
        after = (str(FIRST_MS + batch), rows), failed
        for name, left in images(given, table, errors):
            state = left.state(given)
            assert (state, left.failed()) in (before, (before[0], failed), after), name
            seen.append((before[0], after[0]).index(state))
            run_until_idle(left.streamer(given, environment(StepClock(LATER_MS))))
            assert (left.state(given), left.failed()) == after, name
        states.append(after[0])
    assert 10 < seen.index(1) < len(seen) - 1


@pytest.mark.parametrize("step", ["write_errors", "write"])
def test_process_killed_after_one_of_the_two_commits_leaves_each_record_once(tmp_path: Path, step: str):
    landing = Landing(tmp_path / "landing")
    landing.put_text("1.json", '{"id": 1}\n{bad 1\n{"id": 9}')
    read(str(tmp_path))
    landing.put_text("2.json", '{"id": 2}\n{bad 2\n{"id": 9}', ms=FIRST_MS + 1)
    killed = subprocess.run([sys.executable, killed_streamer.__file__, str(tmp_path), step], timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    table, errors = (pyhudi.HudiTable.for_path(tmp_path / name) for name in ("table", "errors"))
    assert values_of(table, "id") == ([1, 9] if step == "write_errors" else [1, 2, 9])
    assert values_of(errors, "_corrupt_record") == [b"{bad 1", b"{bad 2"]
    assert (read(str(tmp_path)) == 1) == (step == "write_errors")
    assert values_of(table.refresh(), "id") == [1, 2, 9]
    assert values_of(errors.refresh(), "_corrupt_record") == [b"{bad 1", b"{bad 2"]
