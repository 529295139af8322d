"""Whose pending writes are taken away, whose are not, and that an interrupted rollback gets finished."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.audit import audit
from tests.support.dead_writers import ADDED, NOW_MS, SILENT_MS, START, crashed_upsert, prepared
from tests.support.hooks import at
from tests.support.table_builder import every_version
from tests.support.tables import (
    NO_PROCESS,
    CountingLocks,
    StepClock,
    contents,
    end_the_process_of,
    environment,
    heartbeat_of,
    open_table,
    rows,
)

from pyhudi.environment import Environment
from pyhudi.errors import LockLostError, UnavailableError, UnsafePathError, WriteConflictError
from pyhudi.format.metadata.rollback import RollbackPlan, RollbackRequest, encode_rollback_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.rollback.plan import Leftovers, find_leftovers, plan_rollback
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, HeartbeatSettings, Liveness, liveness_of
from pyhudi.transaction.locks.in_process import HeldMutex, InProcessLocks


def fail_at_the_commit(operation: str, path: str) -> None:
    if operation == "put_if_absent" and path.endswith(".commit"):
        raise OSError("anything may happen here")


def next_upsert(storage: Storage, now_ms: int = NOW_MS) -> None:
    open_table(storage, env=environment(StepClock(now_ms))).upsert(rows((50, "wien", 9, "z")))


@pytest.mark.parametrize("version", [6, 9])
def test_a_writer_whose_process_has_ended_is_rolled_back_at_once(version: int) -> None:
    storage, instant_time = crashed_upsert(version)
    end_the_process_of(storage, instant_time)

    next_upsert(storage)

    assert contents(storage) == START | {ADDED}
    audit(storage)
    (rollback,) = [i for i in load_table(storage).timeline.instants if i.action is Action.ROLLBACK]
    assert rollback.requested_time > instant_time
    if version > 6:
        assert rollback.completion_time is not None
        assert rollback.completion_time > rollback.requested_time


@pytest.mark.parametrize(("policy", "leaves"), [("EAGER", 0), ("LAZY", 0), ("NEVER", 1)])
def test_a_dead_writer_is_rolled_back_before_or_after_the_write_or_never_as_the_policy_says(
    policy: str, leaves: int
) -> None:
    storage, instant_time = crashed_upsert()
    end_the_process_of(storage, instant_time)

    table = open_table(storage, env=environment(StepClock(NOW_MS)), **{"hoodie.clean.failed.writes.policy": policy})
    own = table.upsert(rows((50, "wien", 9, "z"))).instant

    timeline = load_table(storage).timeline
    assert contents(storage) == START | {ADDED}
    assert [i.requested_time for i in timeline.pending_writes] == [instant_time] * leaves
    rollbacks = [i.requested_time for i in timeline.instants if i.action is Action.ROLLBACK]
    assert len(rollbacks) == 1 - leaves
    assert all((time > own) is (policy == "LAZY") for time in rollbacks)


def test_a_write_stands_though_the_lazy_rollback_after_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    storage, instant_time = crashed_upsert()
    end_the_process_of(storage, instant_time)

    def refuse(operation: str, path: str) -> None:
        if operation == "put_if_absent" and "rollback" in path:
            raise UnavailableError("the store is busy", path=path)

    table = open_table(FaultStorage(storage, before=refuse), **{"hoodie.clean.failed.writes.policy": "LAZY"})
    table.upsert(rows((50, "wien", 9, "z")))

    assert contents(storage) == START | {ADDED}
    assert "rolling dead writers back after it failed" in caplog.text


@pytest.mark.parametrize("ticks", [1, None], ids=["by its ticks", "by the time of day"])
def test_a_pid_that_another_process_got_meanwhile_does_not_keep_a_dead_writer_alive(ticks: int | None) -> None:
    storage, instant_time = crashed_upsert()
    heartbeat_of(storage, instant_time, started=1.5, started_ticks=ticks)

    next_upsert(storage)

    assert not load_table(storage).timeline.pending_writes


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="this very process"),
        pytest.param({"pid": NO_PROCESS, "machine": "elsewhere"}, id="another machine"),
    ],
)
def test_a_live_writer_is_never_rolled_back(changes: dict[str, Any]) -> None:
    storage, instant_time = crashed_upsert()
    heartbeat_of(storage, instant_time, **changes)

    next_upsert(storage)

    assert [i.requested_time for i in load_table(storage).timeline.pending_writes] == [instant_time]
    assert contents(storage) == START | {ADDED}
    assert open_table(storage).recovery.roll_back_failed_writes(eager=True) == ()


def test_a_writer_elsewhere_counts_as_dead_when_its_heartbeat_has_expired() -> None:
    storage, instant_time = crashed_upsert()
    heartbeat_of(storage, instant_time, machine="elsewhere")
    expiry = HeartbeatSettings().expiry_ms

    next_upsert(storage, NOW_MS + expiry - 10_000)
    assert load_table(storage).timeline.pending_writes
    next_upsert(storage, NOW_MS + expiry + 10_000)

    assert not load_table(storage).timeline.pending_writes
    audit(storage)


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"[1]", b'{"pid": "x"}'])
def test_a_heartbeat_that_says_nothing_is_judged_by_its_age(data: bytes) -> None:
    storage = MemoryStorage(clock=lambda: NOW_MS)
    storage.put("beat", data)

    def liveness(now_ms: int) -> Liveness:
        return liveness_of(storage, "beat", HeartbeatSettings(), environment(StepClock(now_ms)))

    assert liveness(NOW_MS) is Liveness.ALIVE
    assert liveness(NOW_MS + HeartbeatSettings().expiry_ms + 1000) is Liveness.DEAD


@every_version
def test_pending_writes_without_heartbeat_are_left_alone_unless_eager(version: int) -> None:
    storage = prepared(version)
    table = load_table(storage)
    foreign = Instant(InstantTime("20240101000000000"), Action.COMMIT, InstantState.REQUESTED, None)
    storage.put(instant_path(foreign, table.version), b"")

    next_upsert(storage)
    assert [i.requested_time for i in load_table(storage).timeline.pending_writes] == ["20240101000000000"]

    (done,) = open_table(storage).recovery.roll_back_failed_writes(eager=True)
    assert done.instant == "20240101000000000"
    audit(storage)


def test_a_rollback_that_was_interrupted_anywhere_is_finished_by_the_next_write() -> None:
    effect = 0
    while True:
        effect += 1
        storage, instant_time = crashed_upsert()
        end_the_process_of(storage, instant_time)
        dying = FaultStorage(storage, before=_at_number(effect))
        with suppress(SimulatedCrash):
            open_table(dying).recovery.roll_back_failed_writes()
        assert contents(storage) == START
        next_upsert(storage)
        assert contents(storage) == START | {ADDED}
        audit(storage)
        if not dying.is_dead:
            break
    assert effect > 6


def _at_number(number: int) -> Callable[[str, str], None]:
    count = 0

    def hook(operation: str, path: str) -> None:
        nonlocal count
        count += 1
        if count == number:
            raise SimulatedCrash

    return hook


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("version", [6, 9])
def test_a_writer_that_was_taken_for_dead_cannot_commit_and_leaves_nothing(version: int, interrupted: bool) -> None:
    """Also where the rollback died half-way: files are gone then, though the instant is still on the timeline."""
    storage = prepared(version)

    def take_for_dead(operation: str, path: str) -> None:
        if operation != "close_output" or not path.endswith(".parquet") or ".hoodie" in path:
            return
        timeline = load_table(storage).timeline
        if not timeline.pending_writes or timeline.pending_rollbacks:
            return
        heartbeat_of(storage, timeline.pending_writes[0].requested_time, pid=NO_PROCESS)
        rolling = FaultStorage(storage, before=at("inflight", "delete") if interrupted else None)
        with suppress(SimulatedCrash):
            open_table(rolling).recovery.roll_back_failed_writes()

    with pytest.raises(LockLostError):
        open_table(FaultStorage(storage, before=take_for_dead)).upsert(rows((1, "oslo", 2, "b"), (9, "bern", 2, "b")))

    assert contents(storage) == START
    audit(storage)


def test_a_plan_that_names_foreign_files_deletes_none_of_them(tmp_path: Path) -> None:
    for path in ("file:/etc/passwd", "memory://other/city=oslo/x.parquet"):
        storage = prepared()
        table = load_table(storage)
        victims = {info.path for info in storage.list_recursive("city=oslo")}
        own = [p for p in victims if p.endswith(".parquet")]
        for named in (path, f"{storage.uri}/{own[0]}"):
            plan = RollbackPlan(
                instant_time="20240101000000000",
                action="commit",
                requests=(RollbackRequest(partition_path="city=oslo", files_to_be_deleted=(named,)),),
            )
            pending = Instant(InstantTime("20240102000000000"), Action.ROLLBACK, InstantState.REQUESTED, None)
            storage.put(instant_path(pending, table.version), encode_rollback_plan(plan))
            with pytest.raises(UnsafePathError):
                next_upsert(storage)
            assert {info.path for info in storage.list_recursive("city=oslo")} == victims


def test_the_plan_names_each_file_with_its_group_and_partition() -> None:
    instant = Instant(InstantTime("20260101000000000"), Action.COMMIT, InstantState.INFLIGHT, None)

    plan = plan_rollback("file:/t", instant, Leftovers(("city=oslo/f1-0_0-1-0_20260101000000000.parquet",)))

    (request,) = plan.requests
    assert (request.partition_path, request.file_id) == ("city=oslo", "f1-0")
    assert request.files_to_be_deleted == ("file:/t/city=oslo/f1-0_0-1-0_20260101000000000.parquet",)


def test_a_failed_write_takes_its_files_away_at_once() -> None:
    storage = prepared()

    with pytest.raises(OSError, match="anything"):
        open_table(FaultStorage(storage, before=fail_at_the_commit)).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == START
    audit(storage)


def begun_by_jvm_hudi(storage: Storage, instant_time: str) -> Instant:
    """A rollback of a pending write that JVM Hudi has planned, and may be at: its plans do not say whose they are."""
    state = load_table(storage)
    (target,) = state.timeline.pending_writes
    plan = plan_rollback(storage.uri, target, find_leftovers(state, target))
    pending = Instant(InstantTime("20991231000000000"), Action.ROLLBACK, InstantState.REQUESTED, None)
    storage.put(instant_path(pending, state.version), encode_rollback_plan(replace(plan, is_ours=False)))
    assert plan.instant_time == instant_time
    return pending


@pytest.mark.parametrize("version", [6, 9])
def test_a_rollback_that_jvm_hudi_may_be_at_is_left_to_it(version: int) -> None:
    storage, instant_time = crashed_upsert(version)
    end_the_process_of(storage, instant_time)
    rollback = begun_by_jvm_hudi(storage, instant_time)
    before = {info.path for info in storage.list_recursive("")}
    locks = CountingLocks()

    env = replace(environment(StepClock(NOW_MS + SILENT_MS - 1000)), locks=locks)
    open_table(storage, env=env).upsert(rows(ADDED))

    timeline = load_table(storage).timeline
    assert timeline.pending_rollbacks == (rollback,)
    assert [i.requested_time for i in timeline.pending_writes] == [instant_time]
    assert contents(storage) == START | {ADDED}
    assert locks.taken == 2, "to begin, and to commit"
    assert before <= {info.path for info in storage.list_recursive("")}, "nothing was taken from under it"


def test_half_done_rollback_of_jvm_hudi_does_not_stop_other_rollbacks() -> None:
    storage, theirs = crashed_upsert()
    begun_by_jvm_hudi(storage, theirs)
    dying = FaultStorage(storage, before=at("commit", "put_if_absent"))
    with suppress(SimulatedCrash):
        open_table(dying, env=environment(StepClock(NOW_MS + 1000))).upsert(rows((1, "oslo", 3, "c")))
    ours = max(i.requested_time for i in load_table(storage).timeline.pending_writes)
    for one in (theirs, ours):
        heartbeat_of(storage, one, pid=NO_PROCESS)

    next_upsert(storage, NOW_MS + 2000)

    assert [i.requested_time for i in load_table(storage).timeline.pending_writes] == [theirs]
    assert contents(storage) == START | {ADDED}
    assert {info.name for info in storage.list_recursive(HEARTBEAT_FOLDER)} == {theirs}


def test_a_rollback_that_jvm_hudi_begins_while_we_wait_for_the_lock_is_left_to_it() -> None:
    storage, instant_time = crashed_upsert()
    end_the_process_of(storage, instant_time)
    begun: list[Instant] = []

    class LocksAfterAnotherRollback(InProcessLocks):
        def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldMutex:
            begun[:] = begun or [begun_by_jvm_hudi(storage, instant_time)]
            return super().acquire(storage, environment, wait_ms=wait_ms)

    env = replace(environment(StepClock(NOW_MS)), locks=LocksAfterAnotherRollback())
    open_table(storage, env=env).upsert(rows(ADDED))

    assert load_table(storage).timeline.pending_rollbacks == tuple(begun)
    assert [i.requested_time for i in load_table(storage).timeline.pending_writes] == [instant_time]


def test_a_write_that_fails_takes_itself_back_and_leaves_the_rollbacks_of_jvm_hudi() -> None:
    storage, instant_time = crashed_upsert()
    rollback = begun_by_jvm_hudi(storage, instant_time)

    with pytest.raises(OSError, match="anything"):
        next_upsert(FaultStorage(storage, before=fail_at_the_commit), NOW_MS + 1000)

    timeline = load_table(storage).timeline
    assert timeline.pending_rollbacks == (rollback,)
    assert [i.requested_time for i in timeline.pending_writes] == [instant_time]
    assert contents(storage) == START


@pytest.mark.parametrize(("version", "by_hand"), [(6, False), (9, False), (9, True)])
def test_a_rollback_of_jvm_hudi_that_is_silent_for_too_long_is_finished(version: int, by_hand: bool) -> None:
    storage, instant_time = crashed_upsert(version)
    end_the_process_of(storage, instant_time)
    begun_by_jvm_hudi(storage, instant_time)

    if by_hand:
        (done,) = open_table(storage).recovery.roll_back_failed_writes(eager=True)
        assert done.instant == instant_time
    next_upsert(storage, NOW_MS + (0 if by_hand else SILENT_MS + 1000))

    timeline = load_table(storage).timeline
    assert not timeline.pending_rollbacks
    assert not timeline.pending_writes
    assert contents(storage) == START | {ADDED}
    audit(storage)


def test_a_write_that_jvm_hudi_is_rolling_back_cannot_be_rolled_back_by_hand() -> None:
    storage, instant_time = crashed_upsert()
    rollback = begun_by_jvm_hudi(storage, instant_time)

    with pytest.raises(WriteConflictError, match="JVM Hudi is rolling this write back") as caught:
        open_table(storage).recovery.rollback(instant_time)

    assert caught.value.context["winner"] == rollback.requested_time
    assert load_table(storage).timeline.pending_rollbacks == (rollback,)
