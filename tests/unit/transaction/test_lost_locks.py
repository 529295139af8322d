"""Commits under a lock that is lost at the worst moment: between the last look and the last put."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.hooks import is_last_put, once
from tests.support.lost_locks import MINE, TableWithALockToLose, Write, upsert
from tests.support.table_builder import every_version
from tests.support.tables import MOR, contents, environment, new_table, open_table, rows

from pyhudi.errors import (
    CommitOutcomeUnknownError,
    CorruptDataError,
    LockLostError,
    UnavailableError,
    WriteConflictError,
)
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action
from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction import transaction
from pyhudi.transaction.conflicts.footprint import UniqueKeys
from pyhudi.transaction.intents import INTENT_FOLDER, Intent, intent_path, put_intent, standing_intents

BOTH_VERSIONS = pytest.mark.parametrize("version", [6, 9])


def widened(*values: tuple[int, str, int, str]) -> pa.Table:
    return rows(*values).append_column("extra", pa.array([1] * len(values)))


OVERLAPPING: dict[str, tuple[Write, Write]] = {
    "same group": (MINE, upsert((2, "oslo", 9, "theirs"))),
    "same new key": (upsert((7, "bern", 1, "mine")), upsert((7, "bern", 1, "theirs"))),
    "new rows under a lookup": (
        upsert((7, "bern", 1, "mine")),
        lambda t: t.bulk_insert(rows((7, "bern", 1, "theirs"))),
    ),
    "replaced partition": (
        lambda t: t.insert_overwrite(rows((7, "oslo", 1, "mine"))),
        upsert((2, "oslo", 9, "theirs")),
    ),
    "new columns": (MINE, lambda t: t.upsert(widened((3, "rome", 9, "theirs")))),
    "same batch": (
        lambda t: t.bulk_insert(rows((7, "bern", 1, "mine")), hudi_options={"hoodie.write.batch.id": "7"}),
        lambda t: t.bulk_insert(rows((7, "rome", 1, "theirs")), hudi_options={"hoodie.write.batch.id": "7"}),
    ),
}


@BOTH_VERSIONS
@pytest.mark.parametrize(("mine", "theirs"), OVERLAPPING.values(), ids=OVERLAPPING)
def test_writer_that_comes_during_a_last_put_on_its_group_gives_way(mine: Write, theirs: Write, version: int) -> None:
    place, alone = TableWithALockToLose(version), TableWithALockToLose(version)
    mine(alone.opened())

    def meanwhile() -> None:
        with pytest.raises(WriteConflictError) as caught:
            theirs(place.opened())
        pending = [instant.requested_time for instant in load_table(place.storage).timeline.pending_writes]
        assert [caught.value.context["winner"]] == pending

    mine(place.paused_at_its_put(meanwhile))

    assert contents(place.storage) == contents(alone.storage)
    assert place.intents() == []
    audit(place.storage)


@BOTH_VERSIONS
def test_writer_that_comes_during_a_last_put_elsewhere_commits(version: int) -> None:
    place = TableWithALockToLose(version, MOR)

    MINE(place.paused_at_its_put(lambda: upsert((3, "rome", 9, "theirs"))(place.opened())))

    assert contents(place.storage) == {(1, "oslo", 9, "mine"), (2, "oslo", 1, "a"), (3, "rome", 9, "theirs")}
    assert place.intents() == []
    audit(place.storage)


def test_without_intents_the_acknowledged_write_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that intents are there for: if this test fails, the others above prove nothing."""
    monkeypatch.setattr(transaction, "put_intent", lambda *_: None)
    place = TableWithALockToLose()

    MINE(place.paused_at_its_put(lambda: upsert((2, "oslo", 9, "theirs"))(place.opened())))

    found = contents(place.storage)
    assert ((1, "oslo", 9, "mine") in found) is not ((2, "oslo", 9, "theirs") in found)


def test_a_commit_looks_at_intents_before_the_timeline_and_after_its_own_was_put() -> None:
    place = TableWithALockToLose()
    store = FaultStorage(place.storage)

    MINE(place.opened(store))

    steps = [(one.name, one.path) for one in store.operations]
    put = next(n for n, (name, path) in enumerate(steps) if name == "put" and path.startswith(INTENT_FOLDER))
    looked = steps.index(("list_folder", INTENT_FOLDER))
    loaded = [n for n, step in enumerate(steps) if step == ("list_names", ".hoodie/timeline") and n > put]
    completed = next(n for n, step in enumerate(steps) if is_last_put(*step))
    withdrawn = next(n for n, (name, path) in enumerate(steps) if name == "delete" and path.startswith(INTENT_FOLDER))
    assert put < looked < loaded[0] < loaded[1] < completed < withdrawn


def test_under_a_lock_that_cannot_be_lost_there_are_no_intents() -> None:
    storage = MemoryStorage()
    new_table(storage)
    store = FaultStorage(storage)

    open_table(store).upsert(rows((1, "oslo", 1, "a")))

    assert not [one for one in store.operations if one.path.startswith(INTENT_FOLDER) and one.name != "delete"]


def test_intent_of_a_writer_killed_at_its_last_put_blocks_its_groups_until_rollback() -> None:
    place = TableWithALockToLose()

    def die() -> None:
        raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        MINE(place.paused_at_its_put(die))

    assert len(place.intents()) == 1
    upsert((3, "rome", 5, "beside"))(place.opened())
    with pytest.raises(WriteConflictError, match="is committing"):
        upsert((2, "oslo", 5, "same group"))(place.opened())
    upsert((2, "oslo", 5, "later"))(place.opened(later=True))
    assert contents(place.storage) == {(1, "oslo", 1, "a"), (2, "oslo", 5, "later"), (3, "rome", 5, "beside")}
    assert place.intents() == []
    audit(place.storage)


def test_the_intent_of_an_instant_that_is_not_pending_any_more_is_removed() -> None:
    place = TableWithALockToLose()
    metadata = CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={})
    put_intent(place.storage, Intent("20200101000000000", metadata, UniqueKeys.NOWHERE), table_version(9))

    MINE(place.opened())

    assert place.intents() == []


def test_a_commit_whose_outcome_is_unknown_leaves_its_intent() -> None:
    place = TableWithALockToLose()

    def no_answer() -> None:
        raise UnavailableError("no answer")

    with pytest.raises(CommitOutcomeUnknownError):
        MINE(place.paused_at_its_put(no_answer))

    assert len(place.intents()) == 1


@BOTH_VERSIONS
def test_live_writer_rolled_back_at_its_last_put_removes_its_commit(version: int) -> None:
    place = TableWithALockToLose(version)
    before = contents(place.storage)

    def recover() -> None:
        (done,) = place.opened(later=True).recovery.roll_back_failed_writes()
        assert done.files_deleted

    with pytest.raises(LockLostError, match="rolled back"):
        MINE(place.paused_at_its_put(recover))

    assert contents(place.storage) == before
    audit(place.storage)


@BOTH_VERSIONS
def test_a_rollback_gives_up_when_the_write_was_completed_before_its_plan_was_there(version: int) -> None:
    place = TableWithALockToLose(version)
    done: list[object] = []

    def recover() -> None:
        store = FaultStorage(place.storage, before=once(is_plan, finish))
        done.extend(place.opened(store, later=True).recovery.roll_back_failed_writes())

    finished: list[tuple[str, bytes]] = []

    def finish() -> None:
        for path, data in finished:
            place.storage.put_if_absent(path, data)

    class Recording(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if is_last_put("put_if_absent", path):
                finished.append((path, data))
                recover()
                return  # the put has taken effect in the midst of the recovery
            super().put_if_absent(path, data)

    MINE(place.opened(Recording(place.storage)))

    assert done == []
    assert (1, "oslo", 9, "mine") in contents(place.storage)
    assert not load_table(place.storage).timeline.pending_rollbacks


def is_plan(operation: str, path: str) -> bool:
    return operation == "put_if_absent" and path.endswith("rollback.requested")


def test_a_rollback_that_lost_its_lock_deletes_nothing_and_is_finished_by_the_next() -> None:
    place = TableWithALockToLose()

    def die() -> None:
        raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        MINE(place.paused_at_its_put(die))
    store = FaultStorage(
        place.storage, after=once(is_plan, lambda: place.locks.acquire(store, environment(), wait_ms=0))
    )

    with pytest.raises(LockLostError):
        place.opened(store, later=True).recovery.roll_back_failed_writes()

    deleted = [one for one in store.effects if one.name == "delete" and ".hoodie" not in one.path]
    assert deleted == []
    (done,) = place.opened(later=True).recovery.roll_back_failed_writes()
    assert done.files_deleted
    assert not load_table(place.storage).timeline.pending_rollbacks
    MINE(place.opened(later=True))
    audit(place.storage)


@BOTH_VERSIONS
@pytest.mark.parametrize("action", ["commit", "replacecommit"])
def test_one_of_two_writers_with_the_same_instant_time_gives_it_up(version: int, action: str) -> None:
    place = TableWithALockToLose(version)
    before = contents(place.storage)
    taken: list[str] = []

    def take(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".requested") and not taken:
            folder, _, name = path.rpartition("/")
            taken.append(f"{folder}/{name.partition('.')[0]}.{action}.requested")
            place.storage.put_if_absent(taken[0], b"")

    with pytest.raises(LockLostError, match="same instant time"):
        MINE(place.opened(FaultStorage(place.storage, before=take)))

    (left,) = load_table(place.storage).timeline.pending_writes
    assert left.action is (Action.COMMIT if action == "commit" else Action.REPLACE_COMMIT)
    assert contents(place.storage) == before


SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "id"}
SERVICES: dict[str, Write] = {
    "clean": lambda table: table.services.clean(hudi_options={"hoodie.clean.commits.retained": "1"}),
    "clustering": lambda table: table.services.schedule("clustering", hudi_options=SORTED),
    "compaction": lambda table: table.services.schedule("compaction"),
    "restore": lambda table: table.recovery.restore(table.savepoints.list().column("instant")[0].as_py()),
    "rollback": lambda table: table.recovery.rollback(table.inspect.history(1).column("instant")[0].as_py()),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("other", ["same", "savepoint"])
def test_service_whose_instant_time_another_process_took_gives_it_up(service: str, other: str) -> None:
    """Whatever the service: the same error, nothing of it on the timeline, and no file touched."""
    place = TableWithALockToLose(options=MOR if service == "compaction" else {})
    if service == "restore":
        place.opened().savepoints.create()
    MINE(place.opened())
    MINE(place.opened())
    before, paths = contents(place.storage), {info.path for info in place.storage.list_recursive("")}
    taken: list[str] = []

    def take(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".requested") and not taken:
            folder, _, name = path.rpartition("/")
            taken.append(path if other == "same" else f"{folder}/{name.partition('.')[0]}.{other}.inflight")
            place.storage.put_if_absent(taken[0], b"")

    with pytest.raises(LockLostError, match="another process took the same instant time"):
        SERVICES[service](place.opened(FaultStorage(place.storage, before=take)))

    (path,) = taken
    assert {info.path for info in place.storage.list_recursive("")} == paths | {path}
    place.storage.delete(path)
    assert contents(place.storage) == before


def test_a_twin_of_our_instant_that_comes_later_ends_the_write() -> None:
    """Its rollback, some day, would take our files away, as they carry its time."""
    place = TableWithALockToLose()
    before = contents(place.storage)

    def plant(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".inflight") and "rollback" not in path:
            place.storage.put_if_absent(path.replace(".inflight", ".replacecommit.requested"), b"")

    with pytest.raises(LockLostError):
        MINE(place.opened(FaultStorage(place.storage, before=plant)))

    assert contents(place.storage) == before


def test_a_completed_write_that_vanished_since_ours_began_ends_ours() -> None:
    place = TableWithALockToLose()
    upsert((3, "rome", 5, "to be gone"))(place.opened())
    timeline = load_table(place.storage).timeline

    def take_away() -> None:
        place.storage.delete(instant_path(timeline.completed_writes[-1], timeline.version))

    def is_inflight(operation: str, path: str) -> bool:
        return operation == "put_if_absent" and path.endswith(".inflight")

    with pytest.raises(WriteConflictError, match="no longer on the timeline"):
        MINE(place.opened(FaultStorage(place.storage, before=once(is_inflight, take_away))))


def test_compaction_keeps_columns_of_a_write_that_completed_while_it_ran() -> None:
    place = TableWithALockToLose(options=MOR)
    MINE(place.opened())  # a log
    planned: list[str | None] = []

    class StoreWithASlowLastPut(FaultStorage):
        """The writer's last put takes so long that the compaction is run meanwhile."""

        def put_if_absent(self, path: str, data: bytes) -> None:
            if not planned:
                super().put_if_absent(path, data)
                if path.endswith("requested"):
                    planned.append(place.opened().services.schedule())
            elif is_last_put("put_if_absent", path):
                arrive = once(
                    lambda _, other: other.endswith("compaction.inflight"),
                    lambda: place.storage.put_if_absent(path, data),
                )
                place.opened(FaultStorage(place.storage, before=arrive)).services.run(planned[0])
            else:
                super().put_if_absent(path, data)

    place.opened(StoreWithASlowLastPut(place.storage)).insert(widened((8, "bern", 1, "x")))

    timeline = load_table(place.storage).timeline
    assert timeline.completed_writes[-1].requested_time == planned[0]
    assert "extra" in place.opened().scan().to_arrow().column_names


def test_a_late_put_of_a_write_that_was_rolled_back_is_rolled_back_too() -> None:
    place = TableWithALockToLose()
    late: list[tuple[str, bytes]] = []

    class StoreWithALateInflight(FaultStorage):
        def put_if_absent(self, path: str, data: bytes) -> None:
            if path.endswith(".inflight") and not late:
                late.append((path, data))
                raise UnavailableError("no answer")
            super().put_if_absent(path, data)

    with pytest.raises(UnavailableError):
        MINE(place.opened(StoreWithALateInflight(place.storage)))
    place.storage.put_if_absent(*late[0])

    MINE(place.opened())

    audit(place.storage)


@every_version
def test_an_intent_is_read_as_it_was_put(version: int) -> None:
    storage = MemoryStorage()
    metadata = CommitMetadata(
        operation=WriteOperation.INSERT_OVERWRITE, stats_by_partition={}, replaced_file_ids={"p": ("1",)}
    )
    put_intent(storage, Intent("20260101000000000", metadata, UniqueKeys.IN_TABLE), table_version(version))

    (found,) = standing_intents(storage, besides="20270101000000000")

    assert found.unique_keys is UniqueKeys.IN_TABLE
    assert found.metadata.replaced_file_ids == {"p": ("1",)}
    assert standing_intents(storage, besides="20260101000000000") == ()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"partitionToWriteStats":{}}', b"Obj\x01"])
def test_a_damaged_intent_is_reported(data: bytes) -> None:
    storage = MemoryStorage()
    storage.put(intent_path("20260101000000000"), data)

    with pytest.raises(CorruptDataError):
        standing_intents(storage, besides="")
