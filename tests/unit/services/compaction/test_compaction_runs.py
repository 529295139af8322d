"""Runs of plans that die, stand still, or are taken over: what each of them may touch, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.support import rollbacks
from tests.support.audit import audit
from tests.support.compactions import (
    AFTER,
    EngineOfAnotherApplication,
    let_the_runner_die,
    opened,
    plan_with_a_dead_run,
    prepared,
)
from tests.support.crashes import assert_nothing_left_over
from tests.support.crashes import opened as opened_with_flags
from tests.support.hooks import crash, once_at
from tests.support.tables import MOR, StepClock, contents, end_the_process_of, environment, open_table, rehandled, rows

from pyhudi.errors import LockLostError
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER
from pyhudi.transaction.plan_fencing import begin_run, is_newest_run


def test_recovery_of_a_dead_write_keeps_the_heartbeat_of_a_dead_runner() -> None:
    storage = prepared()
    planned = plan_with_a_dead_run(storage)
    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=once_at("put_if_absent", ".deltacommit.inflight", crash))).upsert(
            rows((1, "oslo", 7, "c"))
        )
    (dead,) = load_table(storage).timeline.pending_writes
    end_the_process_of(storage, dead.requested_time)

    (done,) = opened(storage).recovery.roll_back_failed_writes()

    assert done.instant == dead.requested_time
    assert [info.name for info in storage.list_recursive(HEARTBEAT_FOLDER)] == [planned]
    assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["done"]
    assert contents(storage) == AFTER


def test_runner_taken_for_dead_leaves_the_heartbeat_of_the_run_that_took_over() -> None:
    storage = prepared()
    planned = opened(storage).services.schedule()

    def take_over() -> None:
        """The other one is still at it when ours goes on."""
        let_the_runner_die(storage, planned)
        other = FaultStorage(storage, before=once_at("put_if_absent", ".commit", crash))
        with pytest.raises(SimulatedCrash):
            rehandled(opened(other), engine=EngineOfAnotherApplication()).services.run(planned)

    ours = FaultStorage(storage, before=once_at("open_output", "city=rome", take_over))
    with pytest.raises(LockLostError):
        opened(ours).services.run(planned)

    assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["left to another process"], (
        "the other one is alive"
    )
    assert [info.name for info in storage.list_recursive(".hoodie/.aux/.runs")] == [planned]


def test_paused_cleanup_of_dead_runs_leaves_the_files_of_a_newer_run() -> None:
    storage = prepared()
    planned = plan_with_a_dead_run(storage)

    class StoreWithATakeoverWhileListing(FaultStorage):
        taken_over = False

        def list_folder(self, path: str) -> FolderListing:
            if path == "city=rome" and not self.taken_over:
                self.taken_over = True
                let_the_runner_die(storage, planned)
                other = FaultStorage(storage, before=once_at("put_if_absent", ".commit", crash))
                with pytest.raises(SimulatedCrash):
                    rehandled(opened(other), engine=EngineOfAnotherApplication()).services.run(planned)
                made.extend(info.path for info in storage.list_recursive("") if _is_made(info.path))
            return super().list_folder(path)

    def _is_made(path: str) -> bool:
        return path.startswith("city=") and path.endswith(".parquet") and planned in path

    made: list[str] = []
    with pytest.raises(LockLostError):
        opened(StoreWithATakeoverWhileListing(storage)).services.run(planned)

    assert len(made) == 2
    assert [info.path for info in storage.list_recursive("") if _is_made(info.path)] == made
    assert contents(storage) == AFTER


def runs(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_recursive(".hoodie/.aux/.runs")]


def test_a_plan_that_is_taken_back_leaves_nothing_of_its_dead_run() -> None:
    storage = prepared()
    planned = plan_with_a_dead_run(storage)

    opened(storage).recovery.rollback(planned)

    assert runs(storage) == []


def test_leftovers_of_a_compaction_killed_after_its_commit_go_with_the_next_recovery() -> None:
    for effect in range(1, 5):
        storage = prepared()
        planned = opened(storage).services.schedule()
        assert planned is not None
        store = FaultStorage(storage, before=_at_effect_behind_the_commit(effect))
        with suppress(SimulatedCrash):
            opened(store).services.run(planned)
        if storage.list_recursive(HEARTBEAT_FOLDER):
            let_the_runner_die(storage, planned)

        opened(storage).recovery.roll_back_failed_writes()

        assert runs(storage) == []
        audit(storage)


def _at_effect_behind_the_commit(number: int) -> Callable[[str, str], None]:
    effects: list[str] = []

    def hook(operation: str, path: str) -> None:
        if effects or (operation == "put_if_absent" and path.endswith(".commit")):
            effects.append(operation)
        if len(effects) == number + 1:
            raise SimulatedCrash

    return hook


def test_run_with_a_heartbeat_as_old_as_its_run_file_is_over() -> None:
    """Object stores tell whole seconds, so that the two are of one moment as a rule."""
    storage = prepared()
    planned = plan_with_a_dead_run(storage)

    class StoreWithOneTimeForAllFiles(FaultStorage):
        def info(self, path: str) -> FileInfo | None:
            found = super().info(path)
            return None if found is None else replace(found, modified_ms=1_790_000_000_000)

    env = environment(StepClock(1_790_000_001_000))
    assert open_table(StoreWithOneTimeForAllFiles(storage), env=env, **MOR).services.run(planned)[
        "outcome"
    ].to_pylist() == ["done"]


def test_the_number_of_a_run_is_not_the_beginning_of_another_one() -> None:
    storage = prepared()
    begin_run(storage, "20260101000000000", 123)

    assert is_newest_run(storage, "20260101000000000", 123)
    assert not is_newest_run(storage, "20260101000000000", 12)
    assert not is_newest_run(storage, "20260101000000000", 1234)


@rollbacks.every_merge_on_read
def test_a_planned_log_compaction_goes_with_what_its_dead_run_appended(kind: Any) -> None:
    """In version 6 its blocks are in logs of others' names."""
    storage = rollbacks.prepared(kind)

    def dies(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".deltacommit"):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        opened_with_flags(FaultStorage(storage, before=dies)).services.compact_logs(
            hudi_options={"hoodie.log.compaction.blocks.threshold": "1"}
        )
    (plan,) = load_table(storage).timeline.pending_compactions

    done = opened_with_flags(storage, later=True).recovery.rollback(plan.requested_time)

    assert (done.files_deleted, done.slices_undone) == ((0, 1) if kind.version == 6 else (1, 0))
    assert contents(storage) == rollbacks.SECOND
    assert_nothing_left_over(storage)
