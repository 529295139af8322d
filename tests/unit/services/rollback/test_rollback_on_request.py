"""What a user may take back and what not, what it leaves, and what is said of it afterwards."""

from __future__ import annotations

import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.crashes import (
    COW,
    assert_nothing_left_over,
    crash_images,
    opened,
    rows,
)
from tests.support.rollbacks import (
    FIRST,
    SECOND,
    V6,
    V8,
    V9,
    assert_refused,
    every_kind,
    every_merge_on_read,
    prepared,
    put_instant,
    writes_of,
)
from tests.support.table_builder import Action, TableBuilder
from tests.support.tables import contents

import pyhudi
from pyhudi.errors import CorruptDataError, InvalidRequestError, LockLostError
from pyhudi.format.avro.container import encode_container
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.format.metadata.avro_schemas import REQUESTED_REPLACE_METADATA
from pyhudi.format.metadata.rollback import RollbackPlan, RollbackRequest, encode_rollback_plan
from pyhudi.format.timeline import instant as timeline_format
from pyhudi.format.timeline.instant import Instant, InstantState, InstantTime
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

GOLDEN = Path(__file__).parents[3] / "golden"


@every_kind
def test_the_newest_write_is_taken_back_and_then_the_one_before(kind: TableBuilder) -> None:
    storage = prepared(kind)
    first, second = writes_of(storage)

    done = opened(storage).recovery.rollback(second)

    assert done.instant == second
    assert contents(storage) == FIRST
    table = opened(storage)
    assert table.recovery.outcome_of(second) == "rolled back"
    assert table.recovery.outcome_of(first) == "committed"
    assert_nothing_left_over(storage)

    table.recovery.rollback(first)
    assert contents(storage) == set()
    table.upsert(rows((5, "rome", 1, "x")))
    assert contents(storage) == {(5, "rome", 1, "x")}
    assert_nothing_left_over(storage)


@pytest.mark.parametrize("is_kept", [False, True], ids=["later write", "savepoint"])
@every_kind
def test_rollback_that_jvm_hudi_began_and_refused_is_removed_and_nothing_is_lost(
    kind: TableBuilder, is_kept: bool
) -> None:
    storage = prepared(kind)
    first, second = writes_of(storage)
    undone = second if is_kept else first
    if is_kept:
        opened(storage).savepoints.create(undone)
    table = load_table(storage)
    instant = next(one for one in table.timeline.completed_writes if one.requested_time == undone)
    requested = Instant(InstantTime("20260930000000000"), timeline_format.Action.ROLLBACK, InstantState.REQUESTED)
    (path, *_) = sorted(info.path for info in storage.list_recursive("") if undone in info.name and "city" in info.path)
    request = RollbackRequest(partition_path=path.rpartition("/")[0], files_to_be_deleted=(f"{storage.uri}/{path}",))
    plan = RollbackPlan(instant_time=undone, action=instant.action.value, requests=(request,), is_ours=False)
    storage.put(instant_path(requested, table.version), encode_rollback_plan(plan))
    storage.put(instant_path(replace(requested, state=InstantState.INFLIGHT), table.version), b"")

    opened(storage, later=True).upsert(rows((9, "lima", 9, "x")))

    assert contents(storage) == SECOND | {(9, "lima", 9, "x")}
    assert storage.info(path) is not None
    assert not load_table(storage).timeline.pending_rollbacks
    assert opened(storage).recovery.outcome_of(undone) == "committed"


OTHERS: dict[str, Action] = {
    "delete": lambda t: t.delete(pa.table({"id": [1, 7], "city": ["oslo", "bern"]})),
    "insert_overwrite": lambda t: t.insert_overwrite(rows((8, "oslo", 9, "z"))),
    "insert_overwrite_table": lambda t: t.insert_overwrite_table(rows((8, "oslo", 9, "z"))),
    "delete_partition": lambda t: t.delete_partition("city=oslo"),
    "bulk_insert": lambda t: t.bulk_insert(rows((8, "oslo", 9, "z"))),
}


@pytest.mark.parametrize("kind", [COW[2], V6, V9], ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_every_operation_can_be_taken_back(name: str, kind: TableBuilder) -> None:
    storage = prepared(kind)
    OTHERS[name](opened(storage))
    assert contents(storage) != SECOND

    opened(storage).recovery.rollback(writes_of(storage)[-1])

    assert contents(storage) == SECOND
    assert_nothing_left_over(storage)


@pytest.mark.parametrize("kind", [COW[0], COW[2], V6, V9], ids=str)
def test_rollback_of_a_completed_write_killed_anywhere_is_atomic_and_gets_finished(
    kind: TableBuilder,
) -> None:
    second = writes_of(prepared(kind))[-1]
    storage = prepared(kind)
    second = writes_of(storage)[-1]
    for where, image in crash_images(storage, lambda t: t.recovery.rollback(second)):
        found = contents(image)
        assert found in (SECOND, FIRST), where
        begun = bool(load_table(image).timeline.pending_rollbacks) or found == FIRST
        assert opened(image).recovery.outcome_of(second) == ("committed" if found == SECOND else "rolled back"), where

        opened(image, later=True).upsert(rows((50, "wien", 9, "z")))

        assert contents(image) == (FIRST if begun else SECOND) | {(50, "wien", 9, "z")}, where
        assert_nothing_left_over(image)


def test_a_write_with_a_later_one_is_refused() -> None:
    storage = prepared(V9)
    assert_refused(storage, writes_of(storage)[0], "later write is completed")


def test_newest_write_is_the_one_that_completed_last() -> None:
    storage = prepared(V9)
    first, second = writes_of(storage)
    table = load_table(storage)
    (instant,) = [one for one in table.timeline.completed_writes if one.requested_time == first]
    later = replace(instant, completion_time=InstantTime("29990101000000000"))
    storage.put(instant_path(later, table.version), storage.read(instant_path(instant, table.version)))
    storage.delete(instant_path(instant, table.version))

    assert_refused(storage, second, "later write is completed")


@pytest.mark.parametrize(
    ("instant", "reason"),
    [
        ("20240101000000000", "no write and no plan"),
        ("nonsense", "no write and no plan"),
        ("", "must be a time as text"),
    ],
)
def test_an_instant_that_is_not_there_is_refused(instant: str, reason: str) -> None:
    assert_refused(prepared(V9), instant, reason)


def test_a_write_that_is_rolled_back_already_is_refused() -> None:
    storage = prepared(V9)
    second = writes_of(storage)[-1]
    opened(storage).recovery.rollback(second)
    assert_refused(storage, second, "no write and no plan")


@pytest.mark.parametrize("kind", [V6, V9], ids=str)
@pytest.mark.parametrize("state", [InstantState.INFLIGHT, InstantState.COMPLETED])
def test_a_write_that_a_savepoint_keeps_is_refused(kind: TableBuilder, state: InstantState) -> None:
    storage = prepared(kind)
    put_instant(storage, timeline_format.Action.SAVEPOINT, state, writes_of(storage)[-1])
    assert_refused(storage, writes_of(storage)[-1], "savepoint")


@pytest.mark.parametrize(
    "action",
    [
        timeline_format.Action.DELTA_COMMIT,
        timeline_format.Action.COMPACTION,
        timeline_format.Action.CLEAN,
        timeline_format.Action.CLUSTERING,
    ],
)
def test_a_write_before_something_that_is_pending_is_refused(action: timeline_format.Action) -> None:
    storage = prepared(V9)
    put_instant(storage, action, InstantState.REQUESTED)
    assert_refused(storage, writes_of(storage)[-1], "pending")


@pytest.mark.parametrize("kind", [COW[0], COW[2]], ids=str)
def test_a_write_whose_previous_files_were_cleaned_up_is_refused(kind: TableBuilder) -> None:
    storage = prepared(kind)
    first = writes_of(storage)[0]
    (previous,) = [
        info.path
        for info in storage.list_folder("city=oslo").files
        if isinstance(name := parse_data_file(info.name), BaseFileName) and name.instant_time == first
    ]
    storage.delete(previous)
    assert_refused(storage, writes_of(storage)[-1], "a cleaner has removed")


@pytest.mark.parametrize("kind", [COW[2], V6, V9], ids=str)
def test_a_replacement_whose_previous_groups_were_cleaned_up_is_refused(kind: TableBuilder) -> None:
    storage = prepared(kind)
    previous = [info.path for info in storage.list_folder("city=oslo").files]
    opened(storage).insert_overwrite(rows((8, "oslo", 9, "z")))
    for path in previous:
        storage.delete(path)
    assert_refused(storage, writes_of(storage)[-1], "a cleaner has removed")


def test_the_last_write_that_is_not_archived_is_refused() -> None:
    storage = prepared(V9)
    opened(storage).recovery.rollback(writes_of(storage)[-1])
    storage.put(".hoodie/timeline/history/_version_", b"1")
    assert_refused(storage, writes_of(storage)[-1], "archived")


def dying_upsert(storage: Storage) -> InstantTime:
    def dies(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith("commit"):
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=dies)).upsert(rows((2, "oslo", 3, "c"), (9, "rome", 3, "c")))
    (instant,) = load_table(storage).timeline.pending_writes
    return instant.requested_time


@every_kind
def test_a_pending_write_is_taken_back_though_others_are_newer(kind: TableBuilder) -> None:
    storage = prepared(kind)
    dead = dying_upsert(storage)
    opened(storage).upsert(rows((3, "rome", 4, "d")), hudi_options={"hoodie.clean.failed.writes.policy": "NEVER"})
    assert opened(storage).recovery.outcome_of(dead) == "pending"

    opened(storage).recovery.rollback(dead)

    assert opened(storage).recovery.outcome_of(dead) == "rolled back"
    assert contents(storage) == SECOND - {(3, "rome", 1, "a")} | {(3, "rome", 4, "d")}
    assert not load_table(storage).timeline.pending_writes


def test_a_write_that_is_taken_back_while_it_runs_fails_and_leaves_nothing() -> None:
    storage = prepared(V6)

    def take_back(operation: str, path: str) -> None:
        pending = load_table(storage).timeline.pending_writes
        if operation == "close_output" and path.startswith("city=") and pending:
            opened(storage).recovery.rollback(pending[0].requested_time)

    with pytest.raises(LockLostError):
        opened(FaultStorage(storage, before=take_back)).upsert(rows((2, "oslo", 3, "c"), (9, "rome", 3, "c")))

    assert contents(storage) == SECOND
    assert_nothing_left_over(storage)


# -- compactions ------------------------------------------------------------------------------------------------------


def planned_and_run_half(kind: TableBuilder) -> tuple[MemoryStorage, str]:
    """A planned compaction that died with its base files written."""
    storage = prepared(kind)
    instant = opened(storage).services.schedule()
    assert instant is not None

    def dies(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".commit"):
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=dies)).services.run(instant)
    assert [info for info in storage.list_folder("city=oslo").files if instant in info.name]
    return storage, instant


@every_merge_on_read
def test_a_planned_compaction_goes_with_its_base_files(kind: TableBuilder) -> None:
    storage, instant = planned_and_run_half(kind)

    done = opened(storage, later=True).recovery.rollback(instant)

    assert done.files_deleted == 1
    table = opened(storage)
    assert not table.handle.state.timeline.pending_compactions
    assert table.recovery.outcome_of(instant) == "rolled back"
    assert contents(storage) == SECOND
    assert_nothing_left_over(storage)
    table.upsert(rows((1, "oslo", 5, "e")))
    table.services.compact()
    assert contents(storage) == SECOND - {(1, "oslo", 2, "b")} | {(1, "oslo", 5, "e")}


@every_merge_on_read
def test_taking_a_planned_compaction_back_killed_anywhere_can_be_repeated(kind: TableBuilder) -> None:
    storage, instant = planned_and_run_half(kind)
    for where, image in crash_images(
        storage, lambda t: opened(t.handle.state.storage, later=True).recovery.rollback(instant)
    ):
        assert contents(image) == SECOND, where
        again = opened(image, later=True)
        again.recovery.roll_back_failed_writes()
        if load_table(image).timeline.pending_compactions:
            assert again.recovery.outcome_of(instant) == "pending", where
            again.recovery.rollback(instant)
        assert again.recovery.outcome_of(instant) == "rolled back", where
        assert contents(image) == SECOND, where
        assert_nothing_left_over(image)


@every_merge_on_read
def test_a_completed_compaction_is_taken_back_with_its_plan(kind: TableBuilder) -> None:
    storage = prepared(kind)
    opened(storage).services.compact()
    compaction = writes_of(storage)[-1]

    opened(storage).recovery.rollback(compaction)

    table = opened(storage)
    assert not table.handle.state.timeline.pending_compactions
    assert contents(storage) == SECOND
    assert_nothing_left_over(storage)
    table.services.compact()
    assert contents(storage) == SECOND


@every_merge_on_read
def test_a_compaction_whose_logs_were_cleaned_up_is_refused(kind: TableBuilder) -> None:
    storage = prepared(kind)
    (log,) = [info.path for info in storage.list_folder("city=oslo").files if ".log." in info.path]
    opened(storage).services.compact()
    storage.delete(log)
    assert_refused(storage, writes_of(storage)[-1], "a cleaner has removed")


def test_a_write_whose_log_is_compacted_is_refused() -> None:
    storage = prepared(V9)
    second = writes_of(storage)[-1]
    opened(storage).services.compact()
    assert_refused(storage, second, "later write is completed")


@pytest.mark.parametrize("kind", [V8, V9], ids=str)
def test_a_plan_with_writes_since_is_taken_back_where_logs_do_not_carry_its_name(kind: TableBuilder) -> None:
    storage, instant = planned_and_run_half(kind)
    opened(storage, later=True).upsert(rows((1, "oslo", 5, "e")))

    opened(storage, later=True).recovery.rollback(instant)

    assert contents(storage) == SECOND - {(1, "oslo", 2, "b")} | {(1, "oslo", 5, "e")}
    assert_nothing_left_over(storage)


def test_a_plan_with_writes_since_is_refused_in_version_6() -> None:
    storage, instant = planned_and_run_half(V6)
    opened(storage, later=True).upsert(rows((1, "oslo", 5, "e")))
    assert_refused(storage, instant, "appended to the file slices")
    opened(storage, later=True).services.run(instant)
    assert_refused(storage, instant, "later write is completed|appended to the file slices")


def test_a_plan_is_refused_in_version_6_while_a_write_is_pending() -> None:
    storage, instant = planned_and_run_half(V6)
    put_instant(storage, timeline_format.Action.DELTA_COMMIT, InstantState.REQUESTED)
    assert_refused(storage, instant, "pending write may append")


def test_a_plan_that_is_being_run_is_refused() -> None:
    storage = prepared(V9)
    instant = opened(storage).services.schedule()
    assert instant is not None
    refused = []

    def take_back(operation: str, path: str) -> None:
        if operation == "close_output" and path.startswith("city="):
            with pytest.raises(InvalidRequestError, match="executing this plan"):
                opened(storage).recovery.rollback(instant)
            refused.append(path)

    opened(FaultStorage(storage, before=take_back)).services.run(instant)

    assert refused
    assert contents(storage) == SECOND


@every_merge_on_read
def test_a_rollback_of_a_compaction_run_by_jvm_hudi_is_finished_and_leaves_the_plan(kind: TableBuilder) -> None:
    storage, instant = planned_and_run_half(kind)
    table = load_table(storage)
    pending = Instant(InstantTime("20991231000000000"), timeline_format.Action.ROLLBACK, InstantState.REQUESTED)
    plan = RollbackPlan(instant_time=instant, action="compaction")
    storage.put(instant_path(pending, table.version), encode_rollback_plan(plan))

    opened(storage, later=True).recovery.roll_back_failed_writes()

    timeline = load_table(storage).timeline
    assert [(one.requested_time, one.state) for one in timeline.pending_compactions] == [
        (instant, InstantState.REQUESTED)
    ]
    assert opened(storage).recovery.outcome_of(instant) == "pending"
    opened(storage, later=True).services.compact()
    assert contents(storage) == SECOND
    assert opened(storage).recovery.outcome_of(instant) == "committed"


@pytest.mark.parametrize("kind", [COW[0], V6], ids=str)
def test_a_clustering_of_version_6_is_no_dead_write(kind: TableBuilder) -> None:
    storage = prepared(kind)
    table = load_table(storage)
    plan = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": []}, "extraMetadata": {}, "version": 1}
    for time, body in (
        ("20991231000000000", encode_container(REQUESTED_REPLACE_METADATA, plan)),
        ("20991231000000001", b""),
    ):
        replace_commit = Instant(InstantTime(time), timeline_format.Action.REPLACE_COMMIT, InstantState.REQUESTED)
        storage.put(instant_path(replace_commit, table.version), body)

    (done,) = opened(storage).recovery.roll_back_failed_writes(eager=True)

    assert done.instant == "20991231000000001"
    assert [one.requested_time for one in load_table(storage).timeline.pending_writes] == ["20991231000000000"]


# -- outcomes ---------------------------------------------------------------------------------------------------------


def test_outcome_of_an_instant_without_a_trace_is_unknown() -> None:
    table = opened(prepared(V9))
    assert table.recovery.outcome_of("20240101000000000") == "unknown"
    assert table.recovery.outcome_of("29990101000000000") == "unknown"


def test_a_rollback_that_has_begun_is_the_end_of_a_write() -> None:
    storage = prepared(V9)
    dead = dying_upsert(storage)
    for where, image in crash_images(storage, lambda t: t.recovery.rollback(dead)):
        begun = load_table(image).timeline.pending_rollbacks or not load_table(image).timeline.pending_writes
        assert opened(image).recovery.outcome_of(dead) == ("rolled back" if begun else "pending"), where


@pytest.mark.parametrize(("version", "archived"), [(6, "20261121135503885"), (8, None), (9, "20261121140829312")])
def test_an_archived_write_is_still_known(version: int, archived: str | None, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"v{version}-archived.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    table = pyhudi.HudiTable.for_path(str(tmp_path / "table"))
    if archived is None:
        history = tmp_path / "table" / ".hoodie" / "timeline" / "history"
        archived = min(path.name.partition("_")[0] for path in history.glob("*_0.parquet"))
    assert all(archived != one.requested_time for one in table.handle.state.timeline.instants)

    assert table.recovery.outcome_of(archived) == "committed"
    assert table.recovery.outcome_of(str(int(archived) + 1)) == "unknown"


def test_a_damaged_archive_is_an_error_and_not_an_answer(tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / "v6-archived.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    file = tmp_path / "table" / ".hoodie" / "archived" / ".commits_.archive.1_1-0-1"
    (file.parent / f".{file.name}.crc").unlink()
    data = file.read_bytes()
    for damaged in (data[:-1], data[:200] + b"\x00" * 50 + data[250:], b"#HUDI#", data + b"x"):
        file.write_bytes(damaged)
        with pytest.raises(CorruptDataError):
            pyhudi.HudiTable.for_path(str(tmp_path / "table")).recovery.outcome_of("20240101000000000")


@every_merge_on_read
def test_a_plan_whose_run_jvm_hudi_takes_back_is_pending(kind: TableBuilder) -> None:
    storage, instant = planned_and_run_half(kind)
    pending = Instant(InstantTime("20991231000000000"), timeline_format.Action.ROLLBACK, InstantState.REQUESTED)
    plan = RollbackPlan(instant_time=instant, action="compaction")
    storage.put(instant_path(pending, load_table(storage).version), encode_rollback_plan(plan))

    assert opened(storage).recovery.outcome_of(instant) == "pending"
