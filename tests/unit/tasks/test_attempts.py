"""Every task runs more than once: after the commit exactly the files of the attempts that counted are there (row 8)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.crashes import BEFORE, COW, MOR, assert_nothing_left_over, copied, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents, rehandled

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import TaskContext
from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

T = TypeVar("T")
R = TypeVar("R")
MARKERS = ["DIRECT", "TIMELINE_SERVER_BASED"]
KINDS = [COW[0], COW[2], MOR[0], MOR[2]]
ACTIONS: dict[str, tuple[Callable[[pyhudi.HudiTable], object], set[tuple[int, str, int, str]]]] = {
    "upsert": (
        lambda t: t.upsert(rows((1, "oslo", 3, "c"), (9, "rome", 2, "b"), (7, "bern", 2, "b"))),
        {(1, "oslo", 3, "c"), (2, "oslo", 1, "a"), (3, "rome", 1, "a"), (9, "rome", 2, "b"), (7, "bern", 2, "b")},
    ),
    "bulk_insert": (
        lambda t: t.bulk_insert(rows((9, "rome", 2, "b"), (7, "bern", 2, "b"))),
        BEFORE | {(9, "rome", 2, "b"), (7, "bern", 2, "b")},
    ),
    "insert_overwrite": (
        lambda t: t.insert_overwrite(rows((7, "oslo", 2, "b"))),
        {(7, "oslo", 2, "b"), (3, "rome", 1, "a")},
    ),
}


@dataclass(frozen=True)
class TwiceEngine(LocalEngine):
    """Runs every task twice and takes the result of one attempt; `around` is told which attempt it goes into."""

    parallelism: int = 1
    winner: int = 0
    around: Callable[[int, Callable[[], Any]], Any] = field(default=lambda _, run: run())

    @property
    def repeats_tasks(self) -> bool:
        return True

    def map(self, function: Callable[[TaskContext, T], R], tasks: Sequence[T], **how: Any) -> list[R]:
        def both(context: TaskContext, task: T) -> R:
            return self._attempts(lambda again: function(again, task), context)

        return super().map(both, tasks, **how)

    def map_splits(
        self,
        rows: Any,
        function: Callable[[TaskContext, Iterator[pa.RecordBatch]], R],
        **how: Any,
    ) -> list[R]:
        def both(context: TaskContext, batches: Iterator[pa.RecordBatch]) -> R:
            kept = list(batches)
            return self._attempts(lambda again: function(again, iter(kept)), context)

        return super().map_splits(rows, both, **how)

    def _attempts(self, run: Callable[[TaskContext], R], context: TaskContext) -> R:
        results = [
            self.around(attempt, lambda attempt=attempt: run(replace(context, attempt=attempt))) for attempt in range(2)
        ]
        return results[self.winner]


def run(storage: Storage, action: Callable[[pyhudi.HudiTable], object], engine: LocalEngine, markers: str) -> None:
    table = opened(storage, **{"hoodie.write.markers.type": markers})
    action(rehandled(table, engine=engine))


def files_of_newest_write(storage: Storage) -> tuple[set[str], set[str]]:
    """Data files that were not there before the newest write, and those that its metadata list."""
    table = load_table(storage)
    newest = table.timeline.completed_writes[-1]
    older: set[str] = set()
    for instant in table.timeline.completed_writes[:-1]:
        older |= load_commit_metadata(storage, instant, table.version).paths()
    there = {info.path for info in list_data_files(storage) if parse_data_file(info.name) is not None}
    return there - older, set(load_commit_metadata(storage, newest, table.version).paths())


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("markers", MARKERS)
@pytest.mark.parametrize(("name", "winner"), list(itertools.product(ACTIONS, (0, 1))))
def test_of_tasks_that_ran_twice_only_the_files_that_count_remain(
    kind: TableBuilder, markers: str, name: str, winner: int
) -> None:
    storage = prepared(kind)
    action, after = ACTIONS[name]

    run(storage, action, TwiceEngine(winner=winner), markers)

    there, listed = files_of_newest_write(storage)
    assert there == listed
    assert {parse_data_file(path.rpartition("/")[2]).write_token.rpartition("-")[2] for path in there} == {str(winner)}
    assert contents(storage) == after
    assert_nothing_left_over(storage)
    audit(storage)


@pytest.mark.parametrize("kind", [MOR[0], MOR[2]], ids=str)
@pytest.mark.parametrize("markers", MARKERS)
@pytest.mark.parametrize("winner", [0, 1])
def test_compaction_whose_tasks_ran_twice_keeps_the_files_that_count(
    kind: TableBuilder, markers: str, winner: int
) -> None:
    storage = prepared(kind)

    run(storage, lambda table: table.services.compact(), TwiceEngine(winner=winner), markers)

    there, listed = files_of_newest_write(storage)
    assert there == listed
    assert contents(storage) == BEFORE
    assert_nothing_left_over(storage)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("markers", MARKERS)
def test_lost_attempts_of_a_compaction_that_died_behind_its_commit_go_with_the_next_recovery(
    version: int, markers: str
) -> None:
    storage = prepared(TableBuilder(version, "mor", has_delete_flag=True))
    crash = at_effect(1, SimulatedCrash(), only=lambda name, path: name == "put_if_absent" and path.endswith(".commit"))

    with pytest.raises(SimulatedCrash):
        run(FaultStorage(storage, after=crash), lambda table: table.services.compact(), TwiceEngine(winner=1), markers)
    there, listed = files_of_newest_write(storage)
    assert listed < there

    opened(storage, later=True).recovery.roll_back_failed_writes()

    there, listed = files_of_newest_write(storage)
    assert there == listed
    assert contents(storage) == BEFORE
    assert_nothing_left_over(storage)


class Killer:
    """Kills attempts in the middle: from one of their effects on, nothing of the attempt reaches the store."""

    def __init__(self, attempt: int, effect: int) -> None:
        self.storage: FaultStorage | None = None
        self.kills = 0
        self._attempt, self._effect = attempt, effect
        self._left: int | None = None

    def hook(self, operation: str, path: str) -> None:
        del operation, path
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.kills += 1
                raise SimulatedCrash

    def around(self, attempt: int, task: Callable[[], Any]) -> Any:
        assert self.storage is not None
        self._left = self._effect if attempt == self._attempt else None
        try:
            return task()
        except SimulatedCrash:
            # The worker is dead; the store and the driver are not.
            self.storage.is_dead = False
            return None
        finally:
            self._left = None


@pytest.mark.parametrize("kind", KINDS[1:], ids=str)
@pytest.mark.parametrize("markers", MARKERS)
@pytest.mark.parametrize("killed", [0, 1])
def test_of_attempts_that_were_killed_half_way_nothing_remains(
    kind: TableBuilder, markers: str, killed: int, tmp_path: Path
) -> None:
    action, after = ACTIONS["upsert"]
    image = prepared(kind)
    kills = []
    for effect in itertools.count(1, step=2):
        # On local disk, where a killed worker leaves half a file.
        storage = LocalStorage(tmp_path / str(effect))
        for info in image.list_recursive(""):
            storage.put(info.path, image.read(info.path), durable=False)
        killer = Killer(killed, effect)
        killer.storage = FaultStorage(storage, before=killer.hook)

        run(killer.storage, action, TwiceEngine(winner=1 - killed, around=killer.around), markers)

        there, listed = files_of_newest_write(storage)
        assert there == listed, effect
        assert contents(storage) == after, effect
        assert_nothing_left_over(storage, [".hoodie/.temp", ".hoodie/.heartbeat"])
        kills.append(killer.kills)
        if killer.kills == 0:
            break
    assert sum(kills) > 2


@pytest.mark.parametrize("markers", MARKERS)
@pytest.mark.parametrize("kind", [COW[2], MOR[2]], ids=str)
def test_file_that_a_lost_attempt_began_and_left_is_removed_by_its_marker(kind: TableBuilder, markers: str) -> None:
    storage = prepared(kind)
    deleted: list[str] = []
    recording = FaultStorage(
        storage, before=lambda operation, path: deleted.append(path) if operation == "delete" else None
    )

    run(recording, ACTIONS["upsert"][0], TwiceEngine(winner=1), markers)

    lost = {
        path
        for path in deleted
        if (name := parse_data_file(path.rpartition("/")[2])) and name.write_token.endswith("-0")
    }
    there, _ = files_of_newest_write(storage)
    assert len(lost) == len(there) == 3
    assert not lost & there


@pytest.mark.parametrize("kind", [COW[2], MOR[2]], ids=str)
def test_task_that_outlives_a_write_with_a_service_begins_no_more_files(kind: TableBuilder) -> None:
    storage = prepared(kind)
    late: list[Callable[[], Any]] = []

    def keep(attempt: int, task: Callable[[], Any]) -> Any:
        if attempt == 0:
            late.append(task)
            return None
        return task()

    run(storage, ACTIONS["upsert"][0], TwiceEngine(winner=1, around=keep), "TIMELINE_SERVER_BASED")
    before = copied(storage)
    for task in late:
        with suppress(pyhudi.errors.HudiError):
            task()

    data = [{info.path for info in list_data_files(one)} for one in (before, storage)]
    assert data[0] == data[1]
    assert storage.list_recursive(".hoodie/.temp") == ()
