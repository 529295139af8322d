"""Compaction of whole tables: planned, run, or both; beside writers, beside other runners, and when things go wrong."""

from __future__ import annotations

import logging
import tarfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.compactions import (
    AFTER,
    EngineOfAnotherApplication,
    let_the_runner_die,
    opened,
    plan_with_a_dead_run,
    prepared,
)
from tests.support.hooks import once_at
from tests.support.parquet_damage import with_damaged_page
from tests.support.table_builder import TWO_GROUPS, every_version
from tests.support.tables import (
    EVENT_TIME,
    MOR,
    SplitEngine,
    StepClock,
    aged,
    contents,
    environment,
    log_files,
    new_table,
    newest_stats,
    open_table,
    rehandled,
    rows,
)

import pyhudi
from pyhudi.errors import CorruptDataError, InvalidRequestError, LockLostError, WriteConflictError
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.compaction import encode_compaction_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.services.compaction.plan import plan_compaction
from pyhudi.services.compaction.strategies import CompactionSettings
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER, heartbeat_path

GOLDEN = Path(__file__).parents[3] / "golden" / "mor"


def pending(storage: Storage) -> list[tuple[str, InstantState]]:
    return [(i.requested_time, i.state) for i in load_table(storage).timeline.pending_compactions]


def snapshot(storage: MemoryStorage) -> dict[str, bytes]:
    return {info.path: storage.read(info.path) for info in storage.list_recursive("")}


def read_optimized(storage: Storage) -> set[tuple[Any, ...]]:
    found = opened(storage).scan(["id", "city", "ts", "note"], query_type="read_optimized").to_arrow()
    return {tuple(row.values()) for row in found.to_pylist()}


# -- plan, run, both --------------------------------------------------------------------------------------------------


@every_version
def test_compaction_makes_base_files_that_say_what_their_slices_said(version: int) -> None:
    storage = prepared(version)
    assert read_optimized(storage) == set(TWO_GROUPS)

    (done,) = opened(storage).services.compact().to_pylist()

    assert contents(storage) == read_optimized(storage) == AFTER
    assert log_files(storage) == []
    assert (done["slices"], done["rows"], done["updated"], done["inserted"], done["deleted"]) == (2, 3, 2, 0, 0)
    audit(storage)


@every_version
def test_a_plan_changes_nothing_that_readers_see_until_it_is_run(version: int) -> None:
    storage = prepared(version)

    planned = opened(storage).services.schedule()

    assert planned is not None
    assert pending(storage) == [(planned, InstantState.REQUESTED)]
    assert contents(storage) == AFTER
    assert read_optimized(storage) == set(TWO_GROUPS)
    (done,) = opened(storage).services.run(planned).to_pylist()
    assert done["instant"] == planned
    assert pending(storage) == []
    assert contents(storage) == read_optimized(storage) == AFTER
    audit(storage)


@every_version
def test_writes_while_a_plan_is_pending_belong_to_the_slices_after_it(version: int) -> None:
    storage = prepared(version)
    planned = opened(storage).services.schedule()
    opened(storage).upsert(rows((1, "oslo", 7, "c"), (9, "oslo", 1, "new")))
    opened(storage).delete(rows((3, "rome", 0, "")))
    expected = {(1, "oslo", 7, "c"), (2, "oslo", 5, "a"), (9, "oslo", 1, "new")}
    assert contents(storage) == expected

    opened(storage).services.run(planned)

    assert contents(storage) == expected
    assert read_optimized(storage) == AFTER | {(9, "oslo", 1, "new")}
    assert len(log_files(storage)) == 2
    audit(storage)
    opened(storage).services.compact()
    assert contents(storage) == read_optimized(storage) == expected
    audit(storage)


def test_compact_first_finishes_what_is_planned_and_then_takes_what_has_come_since() -> None:
    storage = prepared()
    planned = opened(storage).services.schedule()
    opened(storage).upsert(rows((1, "oslo", 7, "c")))

    done = opened(storage).services.compact().to_pylist()

    assert [one["instant"] == planned for one in done] == [True, False]
    assert [one["slices"] for one in done] == [2, 1]
    assert read_optimized(storage) == {(1, "oslo", 7, "c"), *(AFTER - {(1, "oslo", 6, "b")})}


def test_compact_with_an_instant_runs_that_plan_alone() -> None:
    storage = prepared()
    first = opened(storage).services.schedule()
    opened(storage).insert(rows((7, "wien", 1, "a")))
    opened(storage).upsert(rows((7, "wien", 2, "b")))
    second = opened(storage).services.schedule()

    opened(storage).services.run(second)

    assert [instant for instant, _ in pending(storage)] == [first]


def test_groups_of_a_pending_plan_are_not_planned_again() -> None:
    storage = prepared()
    opened(storage).services.schedule()
    opened(storage).upsert(rows((1, "oslo", 7, "c")))

    assert opened(storage).services.schedule() is None
    reasons = opened(storage).services.plan_compaction().to_pylist()
    assert {(row["compacts"], "pending" in row["reason"]) for row in reasons} == {(False, True)}


def test_a_table_without_logs_has_nothing_to_compact() -> None:
    storage = MemoryStorage()
    new_table(storage, **MOR).insert(rows(*TWO_GROUPS))

    assert opened(storage).services.schedule() is None
    assert opened(storage).services.compact().num_rows == 0
    assert opened(storage).services.plan_compaction().num_rows == 0


def test_a_dry_run_tells_what_would_be_done_and_why_and_does_nothing() -> None:
    storage = prepared()
    before = snapshot(storage)

    found = opened(storage).services.plan_compaction().to_pylist()

    assert snapshot(storage) == before
    assert [(row["partition_path"], row["compacts"], row["logs"]) for row in found] == [
        ("city=oslo", True, 1),
        ("city=rome", True, 1),
    ]
    sizes = {info.path: info.size for info in storage.list_recursive("") if ".log." in info.path}
    assert sum(row["log_size"] for row in found) == sum(sizes.values())
    assert all("log file" in row["reason"] for row in found)


def test_slices_left_out_by_the_strategy_stay_and_the_dry_run_says_why() -> None:
    storage = prepared()
    large = {"hoodie.compaction.logfile.size.threshold": "1000000"}

    assert opened(storage).services.compact(hudi_options=large).num_rows == 0

    found = opened(storage).services.plan_compaction(hudi_options=large).to_pylist()
    assert [row["compacts"] for row in found] == [False, False]
    assert all("1000000" in row["reason"] for row in found)
    assert contents(storage) == AFTER


def test_only_the_partitions_that_the_strategy_takes_are_compacted() -> None:
    storage = prepared()
    chosen = {
        "hoodie.compaction.strategy": "PartitionRegexBasedCompactionStrategy",
        "hoodie.compaction.partition.path.regex": "rome",
    }

    (done,) = opened(storage).services.compact(hudi_options=chosen).to_pylist()

    assert done["slices"] == 1
    assert [path.partition("/")[0] for path in log_files(storage)] == ["city=oslo"]
    assert contents(storage) == AFTER


def test_records_that_logs_delete_are_gone_from_the_base_file_and_counted() -> None:
    storage = prepared()
    opened(storage).delete(rows((2, "oslo", 0, ""), (3, "rome", 0, "")))

    (done,) = opened(storage).services.compact().to_pylist()

    assert done["deleted"] == 2
    assert contents(storage) == read_optimized(storage) == {(1, "oslo", 6, "b")}
    audit(storage)


def test_compacted_rows_keep_the_write_that_they_are_from() -> None:
    storage = prepared()
    columns = ["id", "_hoodie_commit_time", "_hoodie_commit_seqno"]
    before = {tuple(row.values()) for row in opened(storage).scan(columns).to_arrow().to_pylist()}

    opened(storage).services.compact()

    assert {tuple(row.values()) for row in opened(storage).scan(columns).to_arrow().to_pylist()} == before
    assert len({commit for _, commit, _ in before}) == 2


def test_the_stats_of_a_compaction_count_what_was_in_the_logs() -> None:
    storage = prepared()
    opened(storage).delete(rows((2, "oslo", 0, "")))
    sizes = {path: len(storage.read(path)) for path in log_files(storage)}

    opened(storage).services.compact()

    stat = next(stat for stat in newest_stats(storage) if stat.partition_path == "city=oslo")
    assert (stat.total_log_files, stat.total_log_files_compacted, stat.total_log_blocks) == (2, 2, 2)
    assert (stat.total_log_records, stat.total_updated_records_compacted) == (3, 1)
    assert stat.total_log_size_compacted == sum(size for path, size in sizes.items() if "oslo" in path)
    assert (stat.num_writes, stat.num_update_writes, stat.num_inserts, stat.num_deletes) == (1, 1, 0, 1)


def test_log_records_that_outgrow_memory_are_compacted_all_the_same(tmp_path: Path) -> None:
    storage = prepared()

    opened(storage).services.compact(
        hudi_options={"hoodie.memory.merge.max.size": "1", "hoodie.memory.spillable.map.path": str(tmp_path)}
    )

    assert read_optimized(storage) == AFTER
    assert list(tmp_path.iterdir()) == []


def test_a_copy_on_write_table_is_not_compacted() -> None:
    storage = MemoryStorage()
    new_table(storage).insert(rows(*TWO_GROUPS))

    for call in (open_table(storage).services.compact, open_table(storage).services.schedule):
        with pytest.raises(InvalidRequestError, match="copy-on-write"):
            call()


def test_an_instant_that_is_no_plan_is_refused() -> None:
    storage = prepared()

    with pytest.raises(InvalidRequestError, match="no planned service"):
        opened(storage).services.run("20200101000000000")


def test_a_compaction_that_has_ended_is_not_run_again() -> None:
    storage = prepared()
    planned = opened(storage).services.schedule()
    opened(storage).services.run(planned)
    before = snapshot(storage)

    assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["left to another process"]
    assert snapshot(storage) == before


# -- inline -----------------------------------------------------------------------------------------------------------


def delta_commits(storage: MemoryStorage, count: int, **options: str) -> None:
    for n in range(count):
        opened(storage, **options).upsert(rows((1, "oslo", 10 + n, f"{n}")))


def compactions(storage: Storage) -> int:
    return sum(i.action is Action.COMMIT for i in load_table(storage).timeline.completed_writes)


def test_a_write_compacts_once_so_many_delta_commits_have_come() -> None:
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows(*TWO_GROUPS))
    inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "3"}

    delta_commits(storage, 1, **inline)
    assert compactions(storage) == 0
    delta_commits(storage, 1, **inline)
    assert (compactions(storage), log_files(storage)) == (1, [])
    delta_commits(storage, 2, **inline)
    assert compactions(storage) == 1
    delta_commits(storage, 1, **inline)
    assert compactions(storage) == 2
    audit(storage)


def test_without_options_a_write_compacts_at_the_fifth_delta_commit() -> None:
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows(*TWO_GROUPS))

    for n in range(3):
        open_table(storage).upsert(rows((1, "oslo", 10 + n, "")))
    assert compactions(storage) == 0
    open_table(storage).upsert(rows((1, "oslo", 20, "")))
    assert compactions(storage) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.compact.inline": "false"},
        {"hoodie.table.services.enabled": "false"},
        {"hoodie.table.services.enabled": "false", "hoodie.compact.inline": "true"},
        {"hoodie.table.services.enabled": "false", "hoodie.compact.schedule.inline": "true"},
    ],
)
def test_a_write_that_leaves_services_to_others_neither_plans_nor_runs_one(options: dict[str, str]) -> None:
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows(*TWO_GROUPS))

    for n in range(3):
        due = {"hoodie.compact.inline.max.delta.commits": "2", **options}
        open_table(storage, **due).upsert(rows((1, "oslo", 10 + n, "")))

    assert compactions(storage) == 0
    assert pending(storage) == []


def test_write_only_plans_a_compaction_that_another_process_runs() -> None:
    storage = MemoryStorage()
    new_table(storage, **EVENT_TIME, **MOR).insert(rows(*TWO_GROUPS))
    planning = {
        "hoodie.compact.schedule.inline": "true",
        "hoodie.compact.inline": "false",
        "hoodie.compact.inline.max.delta.commits": "2",
    }

    delta_commits(storage, 3, **planning)

    assert [state for _, state in pending(storage)] == [InstantState.REQUESTED]
    assert compactions(storage) == 0
    assert opened(storage).services.compact().num_rows == 2
    assert contents(storage) == {(1, "oslo", 12, "2"), *TWO_GROUPS[1:]}
    audit(storage)


def test_a_write_stands_though_the_compaction_after_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    storage = prepared()
    opened(storage).services.schedule()
    lost = log_files(storage)[0]
    data = storage.read(lost)
    storage.delete(lost)

    with caplog.at_level(logging.WARNING, logger="pyhudi"):
        opened(storage, **{"hoodie.compact.inline": "true"}).upsert(rows((9, "wien", 1, "n")))

    assert "the write is committed" in caplog.text
    storage.put(lost, data)
    assert contents(storage) == AFTER | {(9, "wien", 1, "n")}
    assert len(pending(storage)) == 1


# -- many at once -----------------------------------------------------------------------------------------------------


@every_version
def test_of_two_runners_of_one_plan_one_does_it(version: int) -> None:
    storage = prepared(version)
    planned = opened(storage).services.schedule()
    others: list[str] = []

    def run(store: Storage) -> str:
        (outcome,) = opened(store).services.run(planned)["outcome"].to_pylist()
        return str(outcome)

    hook = once_at("open_output", ".parquet", lambda: others.append(run(storage)))

    mine = run(FaultStorage(storage, before=hook))

    assert (mine, others) == ("done", ["left to another process"])
    assert contents(storage) == read_optimized(storage) == AFTER
    assert len(newest_stats(storage)) == 2
    audit(storage)


def test_a_runner_that_was_taken_for_dead_completes_nothing_and_breaks_nothing() -> None:
    storage = prepared()
    planned = opened(storage).services.schedule()

    def take_over() -> None:
        let_the_runner_die(storage, planned)
        assert rehandled(opened(storage), engine=EngineOfAnotherApplication()).services.run(planned)[
            "outcome"
        ].to_pylist() == ["done"]

    with pytest.raises(LockLostError):
        opened(FaultStorage(storage, before=once_at("open_output", "city=rome", take_over))).services.run(planned)

    assert contents(storage) == read_optimized(storage) == AFTER
    assert compactions(storage) == 1


@every_version
@pytest.mark.parametrize("at", ["inflight", "run", "open_output", "close_output", "commit"])
def test_a_compaction_that_was_killed_is_finished_by_the_next_run(version: int, at: str) -> None:
    storage = prepared(version)
    planned = opened(storage).services.schedule()
    assert planned is not None

    def dies(operation: str, path: str) -> None:
        is_commit = operation == "put_if_absent" and path.endswith(".commit")
        is_inflight = operation == "put_if_absent" and path.endswith(".inflight")
        is_run = operation == "put" and ".runs/" in path
        if (at, True) in {("commit", is_commit), ("inflight", is_inflight), ("run", is_run)} or (
            operation == at and path.endswith(".parquet") and "rome" in path
        ):
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=dies)).services.run(planned)
    if at != "inflight":
        let_the_runner_die(storage, planned)
    assert contents(storage) == AFTER
    opened(storage).upsert(rows((1, "oslo", 7, "c")))

    assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["done"]

    assert contents(storage) == {(1, "oslo", 7, "c"), *(AFTER - {(1, "oslo", 6, "b")})}
    assert read_optimized(storage) == AFTER
    made = [info.path for info in storage.list_recursive("city=rome") if planned in info.path]
    assert len(made) == 1
    audit(storage)


def later_on(storage: Storage, seconds: int) -> pyhudi.HudiTable:
    """The table as a process finds it some seconds later."""
    clock = StepClock(int(time.time() * 1000) + seconds * 1000)
    return open_table(storage, env=environment(clock), **MOR)


def begun_by_jvm_hudi(storage: Storage, planned: str) -> None:
    """As JVM Hudi begins to run a plan: it marks it inflight, and keeps no heartbeat."""
    table = load_table(storage)
    instant = Instant(InstantTime(planned), Action.COMPACTION, InstantState.INFLIGHT)
    storage.put(instant_path(instant, table.version), b"")


@every_version
@pytest.mark.parametrize("had_been_ours", [False, True])
def test_a_plan_that_jvm_hudi_runs_is_left_to_it_for_as_long_as_a_writer_may_be_silent(
    version: int, had_been_ours: bool
) -> None:
    storage = prepared(version)
    planned = plan_with_a_dead_run(storage) if had_been_ours else opened(storage).services.schedule()
    assert planned is not None
    begun_by_jvm_hudi(storage, planned)
    before = snapshot(storage)

    assert later_on(storage, 170).services.run(planned)["outcome"].to_pylist() == ["left to another process"]
    with pytest.raises(InvalidRequestError, match="another process is executing this plan"):
        later_on(storage, 170).recovery.rollback(planned)
    assert snapshot(storage) == before
    assert later_on(storage, 190).services.run(planned)["outcome"].to_pylist() == ["done"]

    assert contents(storage) == read_optimized(storage) == AFTER
    assert storage.list_recursive(HEARTBEAT_FOLDER) == ()
    audit(storage)


def test_a_marker_tells_that_jvm_hudi_still_runs_a_plan() -> None:
    storage = prepared()
    planned = opened(storage).services.schedule()
    assert planned is not None
    begun_by_jvm_hudi(storage, planned)
    storage = aged(storage, f"{planned}.compaction.inflight", by_ms=3_600_000)
    storage.put(f"{marker_folder(planned)}/city=rome/a_0-1-2_{planned}.parquet.marker.CREATE", b"")

    assert later_on(storage, 170).services.run(planned)["outcome"].to_pylist() == ["left to another process"]
    assert later_on(storage, 190).services.run(planned)["outcome"].to_pylist() == ["done"]


def test_write_keeps_the_heartbeat_of_a_dead_runner() -> None:
    storage = prepared()
    planned = plan_with_a_dead_run(storage)

    opened(storage).upsert(rows((1, "oslo", 7, "c")))

    assert [info.name for info in storage.list_recursive(HEARTBEAT_FOLDER)] == [planned]
    assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["done"]
    assert storage.list_recursive(HEARTBEAT_FOLDER) == ()


def plan_by_hand(storage: Storage) -> str:
    """Plan as an engine would that does not wait for running writes."""
    table = load_table(storage)
    instant = Instant(InstantTime("20990101000000000"), Action.COMPACTION, InstantState.REQUESTED)
    view = load_view(storage, table.timeline)
    slices = [one for group in view.latest.values() for one in group]
    today = environment().clock.now_ms()
    plan = plan_compaction(slices, (), CompactionSettings(), today=_day(today)).plan
    storage.put_if_absent(instant_path(instant, table.version), encode_compaction_plan(plan))
    return str(instant.requested_time)


def _day(ms: int) -> Any:
    import datetime

    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).date()


def test_in_version_6_a_plan_waits_for_running_writes() -> None:
    storage = prepared(6)
    planned: list[str | None] = []
    hook = once_at("open_output", ".log.", lambda: planned.append(opened(storage).services.schedule()))

    opened(FaultStorage(storage, before=hook)).upsert(rows((1, "oslo", 7, "c")))

    assert planned == [None]
    assert opened(storage).services.schedule() is not None


def test_in_version_6_an_append_loses_against_a_plan_that_closed_its_slice_meanwhile() -> None:
    storage = prepared(6)
    hook = once_at("open_output", ".log.", lambda: plan_by_hand(storage) and None)

    with pytest.raises(WriteConflictError, match="compaction was planned"):
        opened(FaultStorage(storage, before=hook)).upsert(rows((1, "oslo", 7, "c")))

    assert contents(storage) == AFTER
    opened(storage).upsert(rows((1, "oslo", 7, "c")))
    assert (1, "oslo", 7, "c") in contents(storage)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("runs", [False, True], ids=["planned", "planned and run"])
def test_an_append_that_was_under_way_when_a_compaction_was_planned_lands_behind_it(version: int, runs: bool) -> None:
    storage, env = prepared(version), environment()

    def compact() -> None:
        planned = rehandled(opened(storage), environment=env).services.schedule()
        assert planned is not None
        if runs:
            assert opened(storage).services.run(planned)["outcome"].to_pylist() == ["done"]

    watched = FaultStorage(storage, before=once_at("close_output", ".log.", compact))
    rehandled(opened(watched), environment=env).upsert(rows((1, "oslo", 7, "c")))

    expected = {(1, "oslo", 7, "c"), *(AFTER - {(1, "oslo", 6, "b")})}
    assert contents(storage) == expected
    for _ in range(2):
        rehandled(opened(storage), environment=env).services.compact()
        assert contents(storage) == expected
    assert read_optimized(storage) == expected
    audit(storage)


@pytest.mark.parametrize("version", [6, 9])
def test_new_records_in_a_group_with_a_planned_compaction_are_a_conflict(version: int) -> None:
    """A new base file that a planned compaction does not read would be hidden by the compaction's own."""
    storage = MemoryStorage()
    new_table(storage, version=version, **EVENT_TIME, **MOR).insert(rows(*TWO_GROUPS))

    def another() -> None:
        opened(storage).upsert(rows((1, "oslo", 6, "b")))
        plan_by_hand(storage)

    with pytest.raises(WriteConflictError):
        opened(FaultStorage(storage, before=once_at("open_output", ".parquet", another))).upsert(
            rows((7, "oslo", 1, "joins the small file"))
        )

    assert contents(storage) == {(1, "oslo", 6, "b"), *TWO_GROUPS[1:]}


@every_version
def test_groups_that_were_replaced_while_their_compaction_was_pending_stay_replaced(version: int) -> None:
    storage = prepared(version)
    planned = opened(storage).services.schedule()
    opened(storage).insert_overwrite(rows((8, "oslo", 1, "over")))

    opened(storage).services.run(planned)

    assert contents(storage) == read_optimized(storage) == {(8, "oslo", 1, "over"), (3, "rome", 6, "b")}


# -- damage -----------------------------------------------------------------------------------------------------------


@every_version
@pytest.mark.parametrize("lost", [".log.", ".parquet"])
def test_a_plan_that_names_missing_files_is_an_error_that_changes_nothing(version: int, lost: str) -> None:
    storage = prepared(version)
    planned = opened(storage).services.schedule()
    (path,) = (info.path for info in storage.list_recursive("city=rome") if lost in info.path)
    storage.delete(path)
    before = snapshot(storage)

    with pytest.raises(CorruptDataError) as caught:
        opened(storage).services.run(planned)

    assert caught.value.context["missing"] == [path.rpartition("/")[2]]
    assert str(planned) in caught.value.context["plan"]
    assert [instant for instant, _ in pending(storage)] == [planned]
    after = snapshot(storage)
    assert {p: data for p, data in after.items() if p in before} == before
    inflight, beat = sorted(after.keys() - before.keys(), key=lambda path: "heartbeat" in path)
    assert inflight.endswith(".compaction.inflight")
    assert (beat, after[beat]) == (heartbeat_path(str(planned)), b'{"given_up": true}')


def test_a_damaged_log_stops_its_compaction_and_readers_see_what_they_saw() -> None:
    storage = prepared()
    (path,) = (p for p in log_files(storage) if "rome" in p)
    storage.put(path, with_damaged_page(storage.read(path), "_hoodie_record_key"))

    with pytest.raises(CorruptDataError, match="rome"):
        opened(storage).services.compact()

    assert len(pending(storage)) == 1
    assert read_optimized(storage) == set(TWO_GROUPS)
    assert [info.path for info in storage.list_recursive("city=rome") if pending(storage)[0][0] in info.path] == []


# -- what JVM Hudi left to be compacted ------------------------------------------------------------------------------


TABLES_OF_HUDI = [
    f"{version}-{case}"
    for case in ("basic", "bucket", "composite", "evolved", "log-compacted", "pending", "rolled-back")
    for version in ("v6", "v8", "v9")
]
AFTERWARDS = {"v6-pending": {"k01": (25, "last 1")}}
"""Against a base file the latest version wins there, among logs the highest: so it is in JVM Hudi, too."""


@pytest.mark.parametrize("name", TABLES_OF_HUDI)
def test_compaction_of_a_table_of_jvm_hudi_changes_no_row(name: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = str(tmp_path / "table")
    before = _rows(pyhudi.HudiTable.for_path(path).scan().to_arrow())
    strategy = {"hoodie.compaction.strategy": "UnBoundedCompactionStrategy"}

    assert (
        rehandled(pyhudi.HudiTable.for_path(path), engine=SplitEngine())
        .services.compact(hudi_options=strategy)
        .num_rows
    )

    table = pyhudi.HudiTable.for_path(path)
    after = _rows(table.scan().to_arrow())
    assert after == _rows(table.scan(query_type="read_optimized").to_arrow())
    assert not any(table.inspect.files().column("logs").to_pylist())
    changed = AFTERWARDS.get(name, {})
    assert {row["id"]: (row["ts"], row["note"]) for row in after if row["id"] in changed} == changed
    assert [row for row in after if row["id"] not in changed] == [row for row in before if row["id"] not in changed]


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    """All values but the name of the file that a row is in, which a compaction changes."""
    return sorted(table.drop_columns(["_hoodie_file_name"]).to_pylist(), key=str)
