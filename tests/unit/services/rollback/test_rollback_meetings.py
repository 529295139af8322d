"""Rollbacks that meet others: writers that go on, restores, rollbacks of JVM Hudi, the metadata table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

import pytest
from tests.support import rollbacks
from tests.support.audit import audit
from tests.support.dead_writers import (
    ADDED,
    NOW_MS,
    SILENT_MS,
    crashed_upsert,
    prepared,
)
from tests.support.hooks import at
from tests.support.table_builder import every_version
from tests.support.table_files import begun, with_metadata_table
from tests.support.tables import StepClock, contents, end_the_process_of, environment, open_table, rows

import pyhudi
from pyhudi.environment import Environment
from pyhudi.errors import CorruptDataError, WriteConflictError
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.rollback import encode_rollback_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.rollback.plan import find_leftovers, plan_rollback
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, PARTITIONS_KEY
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.locks.in_process import HeldMutex, InProcessLocks


class LateLocks(InProcessLocks):
    """The table's mutex; something happens while the first one waits for it."""

    meanwhile: ClassVar[list[Callable[[Storage], object]]] = []

    def acquire(self, storage: Storage, environment: Environment, *, wait_ms: int) -> HeldMutex:
        while self.meanwhile:
            self.meanwhile.pop()(storage)
        return super().acquire(storage, environment, wait_ms=wait_ms)


def test_a_write_does_not_begin_beside_a_restore_that_came_while_it_waited_for_the_lock() -> None:
    storage = prepared()
    locks = _late(lambda store: begun(store, Action.RESTORE))

    with pytest.raises(WriteConflictError, match="restore"):
        open_table(storage, env=replace(environment(StepClock(NOW_MS)), locks=locks)).upsert(rows(ADDED))

    assert not load_table(storage).timeline.pending_writes


@pytest.mark.parametrize("version", [6, 9])
def test_a_writer_that_goes_on_while_recovery_waits_for_the_lock_is_not_rolled_back(version: int) -> None:
    storage = prepared(version)
    dying = FaultStorage(storage, before=at("inflight", "put_if_absent"))
    with suppress(SimulatedCrash):
        open_table(dying, env=environment(StepClock(NOW_MS))).upsert(rows((1, "oslo", 2, "b")))
    (instant,) = load_table(storage).timeline.pending_writes
    end_the_process_of(storage, instant.requested_time)

    def goes_on(store: Storage) -> None:
        inflight = replace(instant, state=InstantState.INFLIGHT)
        store.put_if_absent(instant_path(inflight, load_table(store).version), b"")

    env = replace(environment(StepClock(NOW_MS)), locks=_late(goes_on))
    assert open_table(storage, env=env).recovery.roll_back_failed_writes() == ()

    (left,) = load_table(storage).timeline.pending_writes
    assert left.state is InstantState.INFLIGHT


def _late(act: Callable[[Storage], object]) -> LateLocks:
    LateLocks.meanwhile.append(act)
    return LateLocks()


def test_a_write_gives_way_to_a_rollback_of_what_it_began_from_though_that_had_begun_before() -> None:
    """JVM Hudi's, which is left to it: the write's base is about to go."""
    storage = prepared()
    state = load_table(storage)
    (origin,) = state.timeline.completed_writes
    plan = replace(plan_rollback(storage.uri, origin, find_leftovers(state, origin)), is_ours=False)
    pending = Instant(InstantTime("20991231000000000"), Action.ROLLBACK, InstantState.REQUESTED, None)
    storage.put(instant_path(pending, state.version), encode_rollback_plan(plan))

    with pytest.raises(WriteConflictError, match="rolled back"):
        open_table(storage, env=environment(StepClock(NOW_MS))).upsert(rows(ADDED))


def put_rollback(storage: Storage, state: InstantState, data: bytes) -> str:
    rollback = Instant(InstantTime("20991231000000000"), Action.ROLLBACK, state, None)
    path = instant_path(rollback, load_table(storage).version)
    storage.put(path, data)
    return path


@every_version
@pytest.mark.parametrize("content", [b"", b"Obj\x01\x02 and no more"], ids=["empty", "half"])
def test_rollback_killed_before_its_plan_blocks_writes_until_its_heartbeat_expires(
    version: int, content: bytes
) -> None:
    storage = prepared(version)
    path = put_rollback(storage, InstantState.REQUESTED, content)
    before = contents(storage)

    with pytest.raises(CorruptDataError, match="rollback"):
        at_time(storage, SILENT_MS - 1000).upsert(rows(ADDED))
    assert storage.info(path) is not None
    assert contents(storage) == before
    at_time(storage, SILENT_MS + 1000).upsert(rows(ADDED))

    assert storage.info(path) is None
    assert contents(storage) == before | {ADDED}
    audit(storage)


def test_a_rollback_that_a_user_asks_for_goes_round_one_without_a_plan() -> None:
    storage = prepared()
    (instant,) = load_table(storage).timeline.completed_writes
    path = put_rollback(storage, InstantState.REQUESTED, b"")

    at_time(storage, SILENT_MS + 1000).recovery.rollback(instant.requested_time)

    assert storage.info(path) is None
    assert contents(storage) == set()


@pytest.mark.parametrize("read", [1, 2])
def test_rollback_plan_withdrawn_while_it_is_read_is_ignored(read: int) -> None:
    """As one does who finds that the write was completed after all."""
    storage = prepared()
    state = load_table(storage)
    (origin,) = state.timeline.completed_writes
    plan = replace(plan_rollback(storage.uri, origin, find_leftovers(state, origin)), is_ours=False)
    path = put_rollback(storage, InstantState.REQUESTED, encode_rollback_plan(plan))

    class TakenBack(FaultStorage):
        reads = 0

        def read(self, path_read: str, *, offset: int = 0, length: int | None = None) -> bytes:
            self.reads += path_read == path
            if self.reads == read:
                self.inner.delete(path)
            return super().read(path_read, offset=offset, length=length)

    store = TakenBack(storage)
    at_time(store, 1000).upsert(rows(ADDED))

    assert contents(storage) >= {ADDED}


def test_a_rollback_that_has_begun_and_whose_plan_is_damaged_stays_an_error() -> None:
    """It may have deleted something already: nobody knows what it was about to delete."""
    storage = prepared()
    requested = put_rollback(storage, InstantState.REQUESTED, b"")
    inflight = put_rollback(storage, InstantState.INFLIGHT, b"")

    with pytest.raises(CorruptDataError, match="rollback"):
        at_time(storage, SILENT_MS + 1000).upsert(rows(ADDED))

    assert storage.info(requested) is not None
    assert storage.info(inflight) is not None


def at_time(storage: Storage, later_ms: int) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(StepClock(NOW_MS + later_ms)))


def test_a_commit_that_is_taken_back_takes_a_live_metadata_table_away_first() -> None:
    """It would go on to name the files."""
    storage = with_metadata_table()
    (instant,) = load_table(storage).timeline.completed_writes
    watched = FaultStorage(storage)

    open_table(watched).recovery.rollback(instant.requested_time)

    assert not load_table(storage).config.values.get(PARTITIONS_KEY)
    effects = [(one.name, one.path) for one in watched.effects]
    dropped = effects.index(("delete_folder", METADATA_TABLE_FOLDER))
    (undone,) = [n for n, (name, path) in enumerate(effects) if name == "delete" and path.endswith(".commit")]
    assert dropped < undone


def test_file_of_a_marker_is_planned_for_deletion_though_no_listing_shows_it() -> None:
    """A task may be about to begin the file."""
    storage, instant_time = crashed_upsert()
    file = f"city=oslo/11111111-1111-1111-1111-111111111111-0_0-0-0_{instant_time}.parquet"
    storage.put(f"{marker_folder(instant_time)}/{file}.marker.CREATE", b"")
    table = load_table(storage)

    assert file in find_leftovers(table, table.timeline.pending_writes[0]).files


@pytest.mark.parametrize("state", [InstantState.REQUESTED, InstantState.INFLIGHT])
def test_a_write_before_something_that_is_pending_is_refused(state: InstantState) -> None:
    storage = rollbacks.prepared(rollbacks.V9)
    rollbacks.put_instant(storage, Action.DELTA_COMMIT, state)
    rollbacks.assert_refused(storage, rollbacks.writes_of(storage)[-1], "pending")
