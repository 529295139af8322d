"""Locks, instant times, the file-system view and the properties of a table."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.support.archives import completed_in_version_6
from tests.support.table_files import with_metadata_table
from tests.support.tables import StepClock, contents, environment, new_table, open_table, rows

from pyhudi.errors import CorruptDataError, LockLostError, LockNotAcquiredError, TableExistsError, UnavailableError
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.rollback import RollbackPlan, encode_rollback_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_system_view import view_of
from pyhudi.table.instant_times import completed_now, next_time
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, PARTITIONS_KEY, drop_metadata_table
from pyhudi.table.state import create_table, load_table
from pyhudi.table.timeline import Timeline, instant_path
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.storage_based import CLOCK_DRIFT_MS, LOCK_PATH
from pyhudi.transaction.locks.table_lock import LEASE_MS, table_lock

# -- the lease of object stores ---------------------------------------------------------------------------------------


class ObjectStoreLike(FaultStorage):
    """A store in memory that does not look like one, so that its lock is a lease."""

    @property
    def uri(self) -> str:
        return "s3://bucket/t"


def leased(store: MemoryStorage | None = None, *, before: Callable[[str, str], None] | None = None) -> ObjectStoreLike:
    return ObjectStoreLike(store or MemoryStorage(), before=before)


def test_a_lease_keeps_others_out_until_it_is_given_back() -> None:
    store, clock = leased(), StepClock()

    with (
        table_lock(store, environment(clock), wait_ms=0),
        pytest.raises(LockNotAcquiredError),
        table_lock(store, environment(clock), wait_ms=300),
    ):
        pass

    with table_lock(store, environment(clock), wait_ms=0) as lock:
        lock.check_held()


def test_an_expired_lease_is_taken_over_and_its_holder_may_not_commit_any_more() -> None:
    store, clock = leased(), StepClock()

    with table_lock(store, environment(clock), wait_ms=0) as mine:
        clock.ms += LEASE_MS + CLOCK_DRIFT_MS
        with table_lock(store, environment(clock), wait_ms=0) as theirs:
            theirs.check_held()
            with pytest.raises(LockLostError):
                mine.check_held()
    with table_lock(store, environment(clock), wait_ms=0):
        pass


def test_a_lease_that_is_about_to_end_is_lost_before_it_ends() -> None:
    store, clock = leased(), StepClock()

    with table_lock(store, environment(clock), wait_ms=0) as lock:
        clock.ms += LEASE_MS - 9_000
        with pytest.raises(LockLostError):
            lock.check_held()


def test_a_lease_that_cannot_be_given_back_does_not_undo_what_was_done() -> None:
    def deny(operation: str, path: str) -> None:
        if operation == "put_if_match":
            raise UnavailableError("busy", path=path)

    with table_lock(leased(before=deny), environment(), wait_ms=0):
        pass


def test_a_damaged_lease_is_named() -> None:
    store = leased()
    store.put(LOCK_PATH, b"{}")

    with pytest.raises(CorruptDataError, match="lock"), table_lock(store, environment(), wait_ms=0):
        pass


def test_a_mutex_lets_one_thread_at_a_time_through() -> None:
    store = MemoryStorage()
    inside, most = 0, 0

    def enter() -> None:
        nonlocal inside, most
        with table_lock(store, environment(), wait_ms=10_000):
            inside += 1
            most = max(most, inside)
            inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


# -- instant times ----------------------------------------------------------------------------------------------------


class StandingClock(StepClock):
    def now_ms(self) -> int:
        return self.ms


@pytest.mark.parametrize("behind_ms", [0, 1, 10**9], ids=["standing", "a millisecond back", "days back"])
def test_instant_times_rise_whatever_the_clock_does(behind_ms: int) -> None:
    table = load_table(new_table(MemoryStorage()).handle.state.storage)
    clock = StandingClock()
    now = next_time(table.timeline, table.config, clock)
    clock.ms -= behind_ms
    begun = Instant(now, Action.COMMIT, InstantState.INFLIGHT, None)

    done = completed_now(begun, Timeline(table.version, (begun,)), table.config, clock)
    later = next_time(Timeline(table.version, (done,)), table.config, clock)

    assert done.completion_time is not None
    assert now < done.completion_time < later


def test_writes_of_one_millisecond_have_different_instants() -> None:
    storage, clock = MemoryStorage(), StandingClock()
    new_table(storage)
    table = open_table(storage, env=environment(clock))

    results = [table.upsert(rows((n, "oslo", 1, ""))) for n in range(3)]

    times = [time for result in results for time in (result.instant, result.completion_time)]
    assert times == sorted(set(times))


# -- the view ---------------------------------------------------------------------------------------------------------


def committed(*times: str) -> Timeline:
    instants = [Instant(InstantTime(t), Action.COMMIT, InstantState.COMPLETED, None) for t in times]
    return Timeline(table_version(6), tuple(instants))


def data_file(group: str, instant: str, token: str = "0-0-0") -> FileInfo:
    return FileInfo(f"p/{group}-0_{token}_{instant}.parquet", 100, 0)


T1, T2, T3 = "20260101000000001", "20260101000000002", "20260101000000003"


def latest(timeline: Timeline, *files: FileInfo, storage: MemoryStorage | None = None) -> set[str]:
    storage = storage or MemoryStorage()
    for instant in timeline.completed_writes:
        paths = [info.path for info in files if instant.requested_time in info.name]
        stats = tuple(WriteStat(file_id=path.split("_")[0][2:], path=path, partition_path="p") for path in paths)
        metadata = CommitMetadata(operation=WriteOperation.INSERT, stats_by_partition={"p": stats})
        storage.put(instant_path(instant, timeline.version), encode_commit_metadata(metadata, timeline.version))
    view = view_of(storage, timeline, files)
    return {one.base.path for group in view.latest.values() for one in group if one.base is not None}


def test_a_file_of_a_write_that_is_not_completed_is_invisible() -> None:
    assert latest(committed(T1, T3), data_file("f", T1), data_file("f", T2)) == {data_file("f", T1).path}


def test_a_file_older_than_the_active_timeline_is_visible_where_instants_were_archived() -> None:
    storage = MemoryStorage()
    storage.put(f"{table_version(6).history_folder}/.commits_.archive.1_1-0-1", completed_in_version_6(T1))

    assert latest(committed(T2), data_file("f", T1), storage=storage) == {data_file("f", T1).path}


def test_a_file_older_than_the_active_timeline_is_visible_where_the_archive_was_removed() -> None:
    assert latest(committed(T2), data_file("f", T1)) == {data_file("f", T1).path}


def test_a_file_of_a_first_write_that_was_rolled_back_is_a_leftover() -> None:
    storage, rollback = MemoryStorage(), Instant(InstantTime(T2), Action.ROLLBACK, InstantState.COMPLETED, None)
    plan = encode_rollback_plan(RollbackPlan(instant_time=T1, action="commit"))
    requested = replace(rollback, state=InstantState.REQUESTED)
    storage.put(instant_path(requested, table_version(6)), plan)
    timeline = Timeline(table_version(6), (rollback, *committed(T3).instants))

    assert latest(timeline, data_file("f", T1), storage=storage) == set()


def test_a_file_older_than_a_pending_first_write_alone_is_not_its_own() -> None:
    pending = Timeline(table_version(6), (Instant(InstantTime(T1), Action.COMMIT, InstantState.INFLIGHT, None),))
    assert latest(pending, data_file("f", T1)) == set()


def test_files_that_are_no_base_files_are_passed_over() -> None:
    names = (".hoodie_partition_metadata", "notes.txt", "_SUCCESS")
    assert latest(committed(T1), *(FileInfo(f"p/{name}", 1, 0) for name in names)) == set()


def test_of_two_attempts_at_a_file_the_one_that_the_commit_lists_counts() -> None:
    storage = MemoryStorage()
    table = new_table(storage)
    table.insert(rows((1, "oslo", 1, "a")))
    (path,) = table.refresh().inspect.files().column("path").to_pylist()
    for token in ("9-9-9", "0-0-1"):
        storage.put(path.replace("_0-0-0_", f"_{token}_"), storage.read(path))

    assert open_table(storage).inspect.files().column("path").to_pylist() == [path]
    assert len(open_table(storage).scan().to_arrow()) == 1


# -- properties and metadata table ------------------------------------------------------------------------------------


def test_of_many_creators_one_makes_the_table() -> None:
    storage = MemoryStorage()
    properties = new_table(MemoryStorage()).handle.state.config.values
    outcomes: list[object] = []

    def create() -> None:
        try:
            outcomes.append(create_table(storage, properties))
        except TableExistsError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(outcome, TableExistsError) for outcome in outcomes) == 5


def test_a_commit_drops_a_live_metadata_table_property_first() -> None:
    storage = with_metadata_table()
    watched = FaultStorage(storage)

    open_table(watched).upsert(rows((1, "oslo", 2, "b")))

    assert not load_table(storage).config.values.get(PARTITIONS_KEY)
    assert storage.list_recursive(METADATA_TABLE_FOLDER) == ()
    effects = [(o.name, o.path) for o in watched.effects]
    cleared = effects.index(("put", ".hoodie/hoodie.properties"))
    dropped = effects.index(("delete_folder", METADATA_TABLE_FOLDER))
    (completed,) = [n for n, (name, path) in enumerate(effects) if path.endswith(".commit")]
    assert cleared < dropped < completed
    assert contents(storage) == {(1, "oslo", 2, "b")}


def test_write_that_fails_before_its_commit_leaves_the_metadata_table_consistent() -> None:
    storage = with_metadata_table()
    drop_metadata_table(load_table(storage))

    assert not load_table(storage).config.values.get(PARTITIONS_KEY)
    drop_metadata_table(load_table(storage))


def test_a_file_of_a_pending_first_write_is_not_taken_for_an_archived_ones() -> None:
    storage = MemoryStorage()
    storage.put(f"{table_version(6).history_folder}/.commits_.archive.1_1-0-1", completed_in_version_6(T1))
    pending = Timeline(table_version(6), (Instant(InstantTime(T1), Action.COMMIT, InstantState.INFLIGHT, None),))

    assert latest(pending, data_file("f", T1), storage=storage) == set()
