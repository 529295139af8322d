"""Who looks at what, and when, around a last put: of a commit, of a rollback, of a plan, where locks can be lost.

Each of these tests is red when one look, or the order of two, is taken away from the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.audit import audit
from tests.support.compactions import let_the_runner_die
from tests.support.hooks import crash, is_last_put, once
from tests.support.lost_locks import MINE, TableWithALockToLose, upsert
from tests.support.tables import (
    LATER_MS,
    MOR,
    NO_PROCESS,
    StepClock,
    contents,
    environment,
    heartbeat_of,
    open_table,
    rows,
)

from pyhudi.environment import Environment
from pyhudi.errors import CommitOutcomeUnknownError, LockLostError, StorageError, UnavailableError, WriteConflictError
from pyhudi.format.timeline.instant import InstantState
from pyhudi.storage.protocol import FileInfo, FolderListing, Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path, position_of
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.intents import INTENT_FOLDER, withdraw


def is_inflight(operation: str, path: str) -> bool:
    return operation == "put_if_absent" and path.endswith(".inflight")


def test_intent_of_a_later_writer_stays_when_ours_is_committed() -> None:
    """Its instant is not on the timeline that ours began from, and pending all the same."""
    place = TableWithALockToLose()

    def younger_stands_at_its_put() -> None:
        with pytest.raises(SimulatedCrash):
            MINE(place.paused_at_its_put(crash))

    ours = FaultStorage(place.storage, before=once(is_inflight, younger_stands_at_its_put))
    upsert((3, "rome", 5, "beside"))(place.opened(ours))

    assert len(place.intents()) == 1
    with pytest.raises(WriteConflictError, match="is committing"):
        upsert((2, "oslo", 5, "same group"))(place.opened())


def test_a_rollback_of_a_completed_write_that_died_after_it_had_begun_is_finished() -> None:
    """It is past the point at which it could find out that its write was completed after all: that is known to it."""
    place = TableWithALockToLose()
    before = contents(place.storage)
    undone = MINE(place.opened()).instant

    def dies(operation: str, path: str) -> None:
        if operation == "delete" and path.endswith(".commit"):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        place.opened(FaultStorage(place.storage, before=dies)).recovery.rollback(undone)

    (done,) = place.opened(later=True).recovery.roll_back_failed_writes()

    assert done.instant == undone
    assert contents(place.storage) == before
    upsert((2, "oslo", 5, "later"))(place.opened(later=True))


class StoreWithAHookAtTheSecondCheck(FaultStorage):
    """Something happens between the two looks that a commit under a lock which can be lost takes at the timeline."""

    def __init__(self, inner: Storage, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self._act, self._looks = act, 0

    def list_names(self, path: str) -> tuple[str, ...]:
        announced = any(one.name == "put" and one.path.startswith(INTENT_FOLDER) for one in self.operations)
        self._looks += announced and path.endswith("timeline")
        if self._looks == 2:
            self._looks += 1
            self._act()
        return super().list_names(path)


@pytest.mark.parametrize("version", [6, 9])
def test_a_rollback_by_a_process_whose_clock_is_behind_is_seen_after_the_last_put(version: int) -> None:
    """Its time is then below the completion time that the writer has chosen before."""
    place = TableWithALockToLose(version)
    before = contents(place.storage)

    def recover() -> None:
        (instant,) = load_table(place.storage).timeline.pending_writes
        heartbeat_of(place.storage, instant.requested_time, pid=NO_PROCESS)
        env = replace(environment(StepClock(place.clock.ms - 3_600_000)), locks=place.locks)
        (done,) = open_table(place.storage, env=env).recovery.roll_back_failed_writes()
        assert done.files_deleted

    with pytest.raises(LockLostError, match="rolled back"):
        MINE(place.paused_at_its_put(recover))

    assert contents(place.storage) == before
    audit(place.storage)


def test_rollback_between_both_checks_of_a_commit_is_seen_though_the_lock_seems_held() -> None:
    """As where two clocks differ by more than leases allow for."""

    class LockThatSeemsHeld:
        def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> LockThatSeemsHeld:
            del storage, environment, wait_ms
            return self

        def check_held(self) -> None:
            """So it seems."""

        def release(self) -> None:
            """Nobody waits."""

    place = TableWithALockToLose()
    place.locks = LockThatSeemsHeld()  # type: ignore[assignment]
    before = contents(place.storage)

    def recover() -> None:
        (done,) = place.opened(later=True).recovery.roll_back_failed_writes()
        assert done.files_deleted

    with pytest.raises(LockLostError):
        MINE(place.opened(StoreWithAHookAtTheSecondCheck(place.storage, recover)))

    assert contents(place.storage) == before


def test_a_commit_is_later_than_one_that_lands_between_its_two_looks() -> None:
    """Whatever the other one's clock says: who becomes visible later has the later completion time."""
    place = TableWithALockToLose()

    class StoreWithALateLastPut(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if not is_last_put("put_if_absent", path):
                super().put_if_absent(path, data)
                return
            ours = StoreWithAHookAtTheSecondCheck(place.storage, lambda: place.storage.put_if_absent(path, data))
            upsert((3, "rome", 5, "ours"))(place.opened(ours))

    MINE(place.opened(StoreWithALateLastPut(place.storage), later=True))

    *_, theirs, ours = load_table(place.storage).timeline.completed_writes
    assert position_of(ours) > position_of(theirs)


@pytest.mark.parametrize("version", [6, 9])
def test_a_lookup_that_comes_while_new_rows_are_at_their_last_put_gives_way(version: int) -> None:
    """Who put the rows promises nothing of their keys; who looks for his own does."""
    place = TableWithALockToLose(version)

    def meanwhile() -> None:
        with pytest.raises(WriteConflictError, match="is committing"):
            upsert((7, "bern", 1, "theirs"))(place.opened())

    place.paused_at_its_put(meanwhile).bulk_insert(rows((7, "bern", 1, "mine")))

    audit(place.storage)


def test_a_commit_that_cannot_find_out_whether_it_was_rolled_back_is_not_called_a_success() -> None:
    place = TableWithALockToLose()

    class StoreWithARollbackBeforeTheLastPut(FaultStorage):
        rolled_back = False

        def put_if_absent(self, path: str, data: bytes) -> None:
            if is_last_put("put_if_absent", path):
                (done,) = place.opened(later=True).recovery.roll_back_failed_writes()
                self.rolled_back = bool(done.files_deleted)
            super().put_if_absent(path, data)

        def list_names(self, path: str) -> tuple[str, ...]:
            if self.rolled_back:
                raise UnavailableError("no answer", path=path)
            return super().list_names(path)

    with pytest.raises(CommitOutcomeUnknownError):
        MINE(place.opened(StoreWithARollbackBeforeTheLastPut(place.storage)))


def test_a_rollback_that_lost_its_lock_before_its_plan_puts_none() -> None:
    place = TableWithALockToLose()

    with pytest.raises(SimulatedCrash):
        MINE(place.paused_at_its_put(crash))

    class StoreThatLosesTheLockWhileListing(FaultStorage):
        def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
            found = super().list_recursive(path)
            place.locks.acquire(place.storage, environment(), wait_ms=0)
            return found

    with pytest.raises(LockLostError):
        place.opened(StoreThatLosesTheLockWhileListing(place.storage), later=True).recovery.roll_back_failed_writes()

    assert not load_table(place.storage).timeline.pending_rollbacks


def test_rollback_waits_for_a_writer_at_its_last_put() -> None:
    place = TableWithALockToLose()
    late: list[tuple[str, bytes]] = []

    class ClockThatPutsWhileSleeping(StepClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            place.storage.put_if_absent(*late.pop())

    class StoreWithALateLastPut(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if not is_last_put("put_if_absent", path):
                super().put_if_absent(path, data)
                return
            late.append((path, data))
            env = replace(environment(ClockThatPutsWhileSleeping(LATER_MS)), locks=place.locks)
            assert open_table(place.storage, env=env).recovery.roll_back_failed_writes() == ()

    MINE(place.opened(StoreWithALateLastPut(place.storage)))

    assert (1, "oslo", 9, "mine") in contents(place.storage)


def a_place_with_a_log(city: str) -> TableWithALockToLose:
    place = TableWithALockToLose(options=MOR)
    (row,) = {"oslo": [(1, "oslo", 5, "logged")], "rome": [(3, "rome", 5, "logged")]}[city]
    upsert(row)(place.opened())
    return place


def test_a_plan_knows_of_a_commit_that_ended_while_the_planner_looked() -> None:
    """Who looks reads the intents first, and the timeline second."""
    place = a_place_with_a_log("oslo")
    planned: list[str | None] = []

    class StoreWithALateLastPut(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if not is_last_put("put_if_absent", path):
                super().put_if_absent(path, data)
                return

            class StoreWithACommitBeforeIntentsAreRead(FaultStorage):
                def list_folder(self, folder: str) -> FolderListing:
                    for intent in place.intents() if folder == INTENT_FOLDER else ():
                        place.storage.put_if_absent(path, data)
                        withdraw(place.storage, intent)
                    return super().list_folder(folder)

            planned.append(place.opened(StoreWithACommitBeforeIntentsAreRead(place.storage)).services.schedule())

    MINE(place.opened(StoreWithALateLastPut(place.storage)))

    assert planned != [None]
    place.opened().services.run(planned[0])
    assert (1, "oslo", 9, "mine") in contents(place.storage)


def test_a_plan_that_was_put_when_the_lock_was_lost_already_is_taken_away() -> None:
    place = a_place_with_a_log("rome")

    def is_plan_of_compaction(operation: str, path: str) -> bool:
        return operation == "put_if_absent" and path.endswith("compaction.requested")

    taken = once(is_plan_of_compaction, lambda: place.locks.acquire(place.storage, environment(), wait_ms=0))
    with pytest.raises(LockLostError):
        place.opened(FaultStorage(place.storage, after=taken)).services.schedule()

    assert not load_table(place.storage).timeline.pending_compactions


def test_a_run_whose_last_put_came_after_a_newer_run_had_begun_takes_it_away() -> None:
    """The newer one has removed its files, and is still at it."""
    place = a_place_with_a_log("oslo")
    planned = place.opened().services.schedule()
    before = contents(place.storage)

    def newer_run_is_at_it() -> None:
        let_the_runner_die(place.storage, planned)
        other = FaultStorage(place.storage, before=once(is_last_put, crash))
        with pytest.raises(SimulatedCrash):
            place.opened(other).services.run(planned)

    with pytest.raises(LockLostError):
        place.paused_at_its_put(newer_run_is_at_it).services.run(planned)

    assert not load_table(place.storage).timeline.is_committed(str(planned))
    assert contents(place.storage) == before


def test_a_put_that_took_effect_and_failed_is_an_unknown_outcome() -> None:
    """As where the folder cannot be synced: the commit can be seen, and may be gone after a power failure."""
    place = TableWithALockToLose()

    def fail() -> None:
        raise StorageError("cannot sync")

    with pytest.raises(CommitOutcomeUnknownError, match="can be seen"):
        MINE(place.paused_at_its_put(fail, after=True))


def test_a_completed_write_that_vanished_is_missed_though_an_older_one_was_archived_meanwhile() -> None:
    place = TableWithALockToLose()
    upsert((3, "rome", 5, "stays"))(place.opened())
    upsert((3, "rome", 6, "to be gone"))(place.opened())
    timeline = load_table(place.storage).timeline
    archived, _, gone = timeline.completed_writes

    def archive_and_take_away() -> None:
        for instant in (archived, gone):
            place.storage.delete(instant_path(instant, timeline.version))
            for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
                pending = replace(instant, state=state, completion_time=None)
                place.storage.delete(instant_path(pending, timeline.version))

    with pytest.raises(WriteConflictError, match="no longer on the timeline"):
        MINE(place.opened(FaultStorage(place.storage, before=once(is_inflight, archive_and_take_away))))


@pytest.mark.parametrize("how", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("operation", ["open_output", "put_if_absent"])
def test_a_write_that_is_interrupted_takes_itself_back(operation: str, how: type[BaseException]) -> None:
    """By hand as in a notebook, whose process lives on, or by what handles a signal to end."""
    place = TableWithALockToLose()
    before = contents(place.storage)

    def interrupt() -> None:
        raise how

    def is_late(name: str, path: str) -> bool:
        return name == operation and (is_last_put(name, path) or path.endswith(".parquet"))

    with pytest.raises(how):
        MINE(place.opened(FaultStorage(place.storage, before=once(is_late, interrupt))))

    assert contents(place.storage) == before
    audit(place.storage)
