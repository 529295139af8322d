"""Services in a thread of the writing process: the write returns before, and the process ends after them."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.tables import MOR, contents, new_table, open_table, rows

from pyhudi.engine.local import LocalEngine
from pyhudi.errors import UnavailableError
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

IN_BACKGROUND = {
    "hoodie.clean.async.enabled": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.async": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
COMPACTION = {
    **{name: value for name, value in MOR.items() if name != "hoodie.compact.inline"},
    "hoodie.datasource.compaction.async.enable": "true",
    "hoodie.compact.inline.max.delta.commits": "2",
}


def completed(storage: Storage, action: Action) -> int:
    done = [one for one in load_table(storage).timeline.instants if one.state is InstantState.COMPLETED]
    return sum(one.action is action for one in done)


class Gate:
    """Holds whoever creates a file of this ending in another thread, until it is opened; not one under a lock."""

    def __init__(self, ending: str) -> None:
        self.ending, self.owner = ending, threading.current_thread()
        self.opened, self.reached = threading.Event(), threading.Event()

    def __call__(self, operation: str, path: str) -> None:
        is_creation = operation in ("put_if_absent", "open_output")
        if is_creation and path.endswith(self.ending) and threading.current_thread() is not self.owner:
            self.reached.set()
            assert self.opened.wait(100)


def test_write_returns_before_its_clean_and_archiving_have_ended() -> None:
    gate = Gate(".clean.inflight")
    storage = MemoryStorage()
    store = FaultStorage(storage, before=gate)
    table = new_table(store, **IN_BACKGROUND)
    for turn in range(3):
        table.upsert(rows((1, "oslo", turn, "")))

    assert gate.reached.wait(100)
    assert completed(storage, Action.CLEAN) == 0
    table.upsert(rows((1, "oslo", 9, "last")))
    gate.opened.set()
    table.services.wait()

    assert completed(storage, Action.CLEAN) >= 1
    assert len(load_table(storage).timeline.completed_writes) <= 3
    assert contents(storage) == {(1, "oslo", 9, "last")}


def test_one_background_run_at_a_time_and_one_more_for_all_that_came_meanwhile() -> None:
    gate = Gate(".parquet")
    storage = MemoryStorage()
    store = FaultStorage(storage, before=gate)
    table = new_table(store, **COMPACTION)
    before = threading.enumerate()
    for turn in range(8):
        table.upsert(rows((1, "oslo", turn, "")))
        if turn == 3:
            assert gate.reached.wait(100)
    assert [thread.name for thread in threading.enumerate() if thread not in before].count("pyhudi services") == 1

    gate.opened.set()
    table.services.wait()

    assert 1 <= completed(storage, Action.COMMIT) <= 3
    assert "pyhudi services" not in [thread.name for thread in threading.enumerate() if thread not in before]
    assert contents(storage) == {(1, "oslo", 7, "")}


@pytest.mark.parametrize(
    ("inline", "runs"),
    [({}, True), ({"hoodie.compact.inline": "false"}, True), ({"hoodie.compact.inline": "true"}, False)],
)
def test_compaction_runs_in_the_background_unless_it_runs_inline(inline: dict[str, str], runs: bool) -> None:
    """As in JVM Hudi, whose users give both options to have it there."""
    gate = Gate(".parquet")
    storage = MemoryStorage()
    table = new_table(FaultStorage(storage, before=gate), **COMPACTION, **inline)
    for turn in range(4):
        table.upsert(rows((1, "oslo", turn, "")))
    assert gate.reached.wait(100) if runs else not gate.reached.is_set()
    assert (completed(storage, Action.COMMIT) > 0) is not runs

    gate.opened.set()
    table.services.wait()

    assert completed(storage, Action.COMMIT) > 0


def test_failure_in_the_background_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def fail(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".clean.requested"):
            raise UnavailableError("the store is away", path=path)

    table = new_table(FaultStorage(MemoryStorage(), before=fail), **IN_BACKGROUND)
    with caplog.at_level(logging.WARNING, "pyhudi"):
        for turn in range(4):
            table.upsert(rows((1, "oslo", turn, "")))
        table.services.wait()

    assert "the clean after it failed: the store is away" in caplog.text


def test_services_that_get_no_thread_run_before_the_write_returns(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    storage = MemoryStorage()
    table = new_table(storage, **IN_BACKGROUND)
    monkeypatch.setattr(LocalEngine, "thread", lambda _, run: NoThread(target=run))
    with caplog.at_level(logging.WARNING, "pyhudi"):
        for turn in range(4):
            table.upsert(rows((1, "oslo", turn, "")))
    table.services.wait()

    assert "can't start new thread" in caplog.text
    assert completed(storage, Action.CLEAN) >= 1


def test_waiting_where_nothing_runs_returns_at_once() -> None:
    open_table(new_table().inspect._handle.state.storage).services.wait()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    gate = Gate(".clean.inflight")
    table = new_table(FaultStorage(MemoryStorage(), before=gate), **IN_BACKGROUND)
    for turn in range(3):
        table.upsert(rows((1, "oslo", turn, "")))
    assert gate.reached.wait(100)

    child = os.fork()
    if child == 0:
        table.services.wait()
        os._exit(0)

    assert os.waitpid(child, 0)[1] == 0
    gate.opened.set()
    table.services.wait()


PROGRAM = """
import sys
import pyarrow as pa, pyhudi
options = {"hoodie.clean.async.enabled": "true", "hoodie.clean.commits.retained": "1"}
schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
table = pyhudi.HudiTable.create(sys.argv[1], schema=schema, record_key="id", ordering_fields="ts", hudi_options=options)
for turn in range(4):
    table.upsert(pa.table({"id": [1, 2], "ts": [turn, turn]}))
"""


def test_interpreter_ends_after_the_services_in_the_background(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "t")], capture_output=True, text=True, check=False, timeout=150
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert completed_cleans(tmp_path / "t") >= 1
    assert [path.name for path in (tmp_path / "t").rglob("*.clean.inflight*") if is_pending(path)] == []


def completed_cleans(path: Path) -> int:
    return sum(file.suffix == ".clean" for file in (path / ".hoodie" / "timeline").iterdir())


def is_pending(path: Path) -> bool:
    return not any(file.name.startswith(path.name.split(".")[0]) for file in path.parent.glob("*_*.clean"))
