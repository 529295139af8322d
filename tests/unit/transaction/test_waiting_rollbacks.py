"""Pending writes of JVM Hudi without a heartbeat: a commit beside them leaves what lets JVM Hudi roll them back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.support.dead_writers import ADDED, NOW_MS, SILENT_MS, prepared
from tests.support.table_builder import TableBuilder, every_version
from tests.support.tables import StepClock, environment, open_table, rows

from pyhudi.errors import WriteConflictError
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.rollback import RollbackPlan, encode_rollback_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, STAND_IN
from pyhudi.transaction.waiting_rollbacks import let_jvm_hudi_roll_back

EARLIER, LATER = "20240101000000000", "20991231000000000"
INFLIGHT = InstantState.INFLIGHT
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "id"}


def begun(storage: Storage, instant_time: str = EARLIER, action: Action = Action.COMMIT) -> str:
    """A write that JVM Hudi has begun as a single writer; the path of its instant."""
    path = instant_path(Instant(InstantTime(instant_time), action, INFLIGHT), load_table(storage).version)
    storage.put(path, b"")
    return path


def rolled_back_by_jvm(storage: Storage, instant_time: str) -> None:
    """JVM Hudi has begun a rollback; its plans do not say whose they are."""
    plan = RollbackPlan(instant_time=instant_time, action="commit", requests=(), is_ours=False)
    for state in (InstantState.REQUESTED, INFLIGHT):
        rollback = Instant(InstantTime("20240201000000000"), Action.ROLLBACK, state)
        body = encode_rollback_plan(plan) if state is InstantState.REQUESTED else b""
        storage.put(instant_path(rollback, load_table(storage).version), body)


def upsert(storage: Storage, now_ms: int = NOW_MS) -> None:
    open_table(storage, env=environment(StepClock(now_ms))).upsert(rows(ADDED))


def beats(storage: Storage) -> Mapping[str, bytes]:
    return {info.name: storage.read(info.path) for info in storage.list_folder(HEARTBEAT_FOLDER).files}


@every_version
def test_commit_beside_a_write_without_heartbeat_leaves_a_stand_in(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    storage = prepared(version)
    begun(storage)

    with caplog.at_level(logging.WARNING, "pyhudi"):
        upsert(storage)
        upsert(storage, NOW_MS + 100 * SILENT_MS)

    assert beats(storage) == {EARLIER: STAND_IN}
    assert [str(i.requested_time) for i in load_table(storage).timeline.pending_writes] == [EARLIER], "it may be alive"
    (said,) = [record.getMessage() for record in caplog.records if EARLIER in record.getMessage()]
    assert "roll_back_failed_writes(eager=True)" in said


def test_write_that_began_after_a_commit_gets_no_stand_in() -> None:
    storage = prepared()
    late = Instant(InstantTime(LATER), Action.COMMIT, INFLIGHT)

    def begin(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".inflight"):
            storage.put(instant_path(late, load_table(storage).version), b"")

    upsert(FaultStorage(storage, before=begin))

    assert beats(storage) == {}


def test_heartbeat_of_another_writer_is_not_replaced() -> None:
    storage = prepared()
    begun(storage)
    storage.put(f"{HEARTBEAT_FOLDER}/{EARLIER}", b"")

    upsert(storage)

    assert beats(storage) == {EARLIER: b""}


def test_compaction_beside_a_write_without_heartbeat_leaves_a_stand_in() -> None:
    storage = TableBuilder(9, "mor").insert(ADDED).upsert(ADDED).build(MemoryStorage(clock=lambda: NOW_MS))
    begun(storage, action=Action.DELTA_COMMIT)

    open_table(storage, env=environment(StepClock(NOW_MS))).services.compact()

    assert beats(storage) == {EARLIER: STAND_IN}


def test_stand_in_goes_with_the_next_write_once_jvm_hudi_has_ended_its_write() -> None:
    storage = prepared()
    path = begun(storage)
    marker = f"{marker_folder(EARLIER)}/MARKERS0"
    storage.put(marker, b"")
    upsert(storage)
    storage.delete(path)

    upsert(storage)

    assert beats(storage) == {}
    assert storage.info(marker) is not None, "JVM Hudi may be removing them"


@pytest.mark.parametrize("is_there", [True, False], ids=["pending", "gone"])
@every_version
def test_write_that_jvm_hudi_rolls_back_gets_a_stand_in(version: int, is_there: bool) -> None:
    storage = prepared(version)
    path = begun(storage)
    rolled_back_by_jvm(storage, EARLIER)
    if not is_there:
        storage.delete(path)

    upsert(storage)
    open_table(storage, env=environment(StepClock(NOW_MS))).recovery.roll_back_failed_writes()

    assert beats(storage) == {EARLIER: STAND_IN}
    upsert(storage, NOW_MS + 2 * SILENT_MS)
    assert beats(storage) == {}


@pytest.mark.parametrize("silent_ms", [0, 2 * SILENT_MS], ids=["at work", "silent"])
@every_version
def test_doctor_does_not_call_a_stand_in_left_over_while_its_rollback_is_pending(version: int, silent_ms: int) -> None:
    storage = prepared(version)
    path = begun(storage)
    rolled_back_by_jvm(storage, EARLIER)
    storage.delete(path)
    upsert(storage)

    table = open_table(storage, env=environment(StepClock(NOW_MS + silent_ms)))
    (found,) = table.inspect.findings().to_pylist()

    assert found["problem"] == "rollback is pending"
    assert ("JVM Hudi may be at work on it" in found["detail"]) is (silent_ms == 0)


def test_completed_write_that_jvm_hudi_began_to_roll_back_gets_no_stand_in() -> None:
    storage = prepared()
    (write,) = load_table(storage).timeline.completed_writes
    rolled_back_by_jvm(storage, write.requested_time)

    with pytest.raises(WriteConflictError):
        upsert(storage)
    # A commit of a write that began before the other one was completed.
    let_jvm_hudi_roll_back(storage, load_table(storage).timeline, replace(write, requested_time=InstantTime(LATER)))

    assert beats(storage) == {}


def test_eager_recovery_rolls_back_a_write_with_a_stand_in() -> None:
    storage = prepared()
    begun(storage)
    upsert(storage)

    (done,) = open_table(storage).recovery.roll_back_failed_writes(eager=True)

    assert done.instant == EARLIER
    assert beats(storage) == {}


@every_version
def test_plan_of_a_clustering_gets_no_stand_in(version: int) -> None:
    storage = TableBuilder(version).insert((1, "oslo", 1, "a")).build(MemoryStorage(clock=lambda: NOW_MS))
    table = open_table(storage, env=environment(StepClock(NOW_MS)))
    planned = table.services.schedule("clustering", hudi_options=SORTED)

    upsert(storage)

    assert planned is not None
    assert beats(storage) == {}
