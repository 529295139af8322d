"""Attempts of tasks that end after their write has ended leave nothing that counts, and as a rule nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support import crashes
from tests.support.table_builder import TableBuilder, every_version
from tests.support.tables import contents, new_table, open_table, rehandled, rows

from pyhudi.engine.local import LocalEngine, as_table
from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import HudiError, LockLostError
from pyhudi.format.markers import MARKERS_ROOT
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.lister import list_data_files
from pyhudi.testing.faults import FaultStorage

ROWS = ((1, "oslo", 1, "a"), (2, "oslo", 1, "b"), (3, "rome", 1, "c"), (4, "rome", 1, "d"))


def late_attempts(attempts: list[Callable[[], Any]]) -> LocalEngine:
    """An engine whose first attempts count; the second ones, with the rows in another order, wait to be run."""

    class Speculating(LocalEngine):
        @property
        def repeats_tasks(self) -> bool:
            return True

        def map_splits(self, rows: Any, function: Any, **_: Any) -> list[Any]:
            table = as_table(rows)
            turned = table.take(pa.array(reversed(range(table.num_rows))))
            attempts.append(lambda: function(TaskContext(0, 1, 1), iter(turned.to_batches())))
            return [function(TaskContext(0, 1, 0), iter(table.to_batches()))]

    return Speculating()


@every_version
def test_a_bulk_insert_attempt_that_ends_after_the_commit_leaves_no_file(version: int) -> None:
    storage, attempts = MemoryStorage(), []
    table = rehandled(new_table(storage, version=version), engine=late_attempts(attempts))
    table.bulk_insert(rows(*ROWS))
    before = {info.path for info in list_data_files(storage)}

    with pytest.raises(LockLostError, match="ended"):
        attempts[0]()

    assert {info.path for info in list_data_files(storage)} == before
    assert storage.list_recursive(MARKERS_ROOT) == ()
    assert contents(storage) == set(ROWS)


@pytest.mark.parametrize("kind", [*crashes.COW, *crashes.MOR], ids=str)
def test_attempt_of_an_upsert_that_ends_after_the_commit_leaves_no_file_and_no_marker(kind: TableBuilder) -> None:
    storage, attempts = crashes.prepared(kind), []

    class EngineThatReceivesAgain(type(late_attempts([]))):  # type: ignore[misc]
        def exchange(self, exchange: Any) -> list[Any]:
            def receive(context: TaskContext, receiver: Any, rows: Any) -> Any:
                given, again = list(rows), replace(context, attempt=context.attempt + 1)
                attempts.append(lambda: exchange.receive(again, receiver, iter(given)))
                return exchange.receive(context, receiver, iter(given))

            return super().exchange(replace(exchange, receive=receive))

    rehandled(crashes.opened(storage), engine=EngineThatReceivesAgain()).upsert(crashes.rows((2, "oslo", 2, "late")))
    before, after = {info.path for info in list_data_files(storage)}, contents(storage)
    with pytest.raises(LockLostError, match="ended"):
        attempts[-1]()

    # A plan may name a log of version 6 by now, and its marker tells whose it is.
    is_kept = kind.is_merge_on_read and kind.version == 6
    assert ({info.path for info in list_data_files(storage)} == before) is not is_kept
    assert (storage.list_recursive(MARKERS_ROOT) == ()) is not is_kept
    assert contents(storage) == after


@every_version
def test_an_attempt_that_ends_after_the_rollback_leaves_no_file(version: int) -> None:
    storage, attempts = MemoryStorage(), []

    class EngineThatLosesItsTasks(type(late_attempts([]))):  # type: ignore[misc]
        def map_splits(self, rows: Any, function: Any, **_: Any) -> list[Any]:
            attempts.append(lambda: function(TaskContext(0, 1, 1), iter(as_table(rows).to_batches())))
            raise HudiError("lost")

    table = new_table(storage, version=version)
    with pytest.raises(HudiError, match="lost"):
        rehandled(table, engine=EngineThatLosesItsTasks()).bulk_insert(rows(*ROWS))
    with pytest.raises(LockLostError, match="ended"):
        attempts[0]()

    assert [info.path for info in list_data_files(storage) if info.path.endswith(".parquet")] == []
    assert storage.list_recursive(MARKERS_ROOT) == ()
    assert contents(storage) == set()


@pytest.mark.parametrize("kind", crashes.MOR, ids=str)
def test_a_log_that_a_plan_names_by_now_is_not_taken_away_by_the_task_that_wrote_it(kind: TableBuilder) -> None:
    inner = crashes.prepared(kind)

    def roll_back_and_plan(operation: str, path: str) -> None:
        if operation == "close_output" and ".log." in path:
            others = crashes.opened(inner, later=True)
            assert others.recovery.roll_back_failed_writes()
            assert others.services.schedule()

    with pytest.raises(LockLostError):
        crashes.opened(FaultStorage(inner, after=roll_back_and_plan)).upsert(crashes.rows((2, "oslo", 2, "late")))

    crashes.opened(inner, later=True).services.compact()
    assert contents(inner) == crashes.BEFORE


@every_version
@pytest.mark.parametrize("is_announced", [False, True], ids=["begun in the commit", "begun before"])
def test_an_attempt_that_ends_while_its_write_commits_leaves_no_file(version: int, is_announced: bool) -> None:
    inner, attempts = MemoryStorage(), []
    new_table(inner, version=version)

    def end_late(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith("commit") and attempts:
            attempts.pop()()

    storage = FaultStorage(inner, before=end_late)

    class EngineWithAnEarlyAttempt(type(late_attempts([]))):  # type: ignore[misc]
        def map_splits(self, rows: Any, function: Any, **more: Any) -> list[Any]:
            counting = engine.map_splits(rows, function, **more)
            if is_announced:
                attempts[0]()  # the commit finds its marker, and takes its file away before it is put again
            return counting

    engine = late_attempts(attempts)
    table = rehandled(open_table(storage), engine=EngineWithAnEarlyAttempt())
    table.bulk_insert(rows(*ROWS))

    assert not attempts
    named = set(open_table(inner).inspect.files().column("path").to_pylist())
    assert {info.path for info in list_data_files(inner) if info.path.endswith(".parquet")} == named
    assert inner.list_recursive(MARKERS_ROOT) == ()
    assert contents(inner) == set(ROWS)
