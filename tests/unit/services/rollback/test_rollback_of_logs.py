"""Dead writes to merge-on-read tables: their logs are deleted, or in version 6 their blocks are taken back."""

from __future__ import annotations

import json
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.crashes import BEFORE, MOR, TEMPORARY_FOLDERS, assert_nothing_left_over, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents

import pyhudi
from pyhudi.errors import LockLostError, UnsafePathError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.log.blocks import BlockType
from pyhudi.format.metadata.rollback import (
    RollbackMetadata,
    RollbackPlan,
    RollbackRequest,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_rollback_plan,
)
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.io.log.block_filter import LogSlice, exclude_blocks
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

GOLDEN = Path(__file__).parents[3] / "golden" / "mor"
V6, V8, V9 = MOR
every_table = pytest.mark.parametrize("kind", [V6, V8, V9], ids=str)


def die_before_commit(storage: Storage) -> InstantTime:
    """An upsert that updates both groups and adds one, and dies with all its files written. Its instant."""

    def dies(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".deltacommit"):
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=dies)).upsert(
            rows((1, "oslo", 3, "c"), (3, "rome", 3, "c"), (7, "bern", 3, "c"), gone=((2, "oslo", 3, ""),))
        )
    (instant,) = load_table(storage).timeline.pending_writes
    return instant.requested_time


def recover(storage: Storage) -> pyhudi.HudiTable:
    """Roll back whatever is dead at a time when every heartbeat has expired."""
    table = opened(storage, later=True)
    table.recovery.roll_back_failed_writes(eager=True)
    return table.refresh()


def check_rolled_back(storage: Storage) -> None:
    """Exchange files are the next write's to remove."""
    assert_nothing_left_over(storage, folders=TEMPORARY_FOLDERS[:2])


def logs_in(storage: Storage) -> list[LogFileName]:
    names = (parse_data_file(info.name) for info in list_data_files(storage))
    return [name for name in names if isinstance(name, LogFileName)]


def commands_in(storage: Storage) -> list[tuple[str, str, str]]:
    """All command blocks: the log they are in, their instants and those that they take back."""
    return [
        (info.name, block.instant_time, block.target_instant_time or "")
        for info in list_data_files(storage)
        if isinstance(parse_data_file(info.name), LogFileName)
        for block in scan_blocks(storage, info.path)
        if block.kind is BlockType.COMMAND
    ]


def rollback_of(storage: Storage) -> tuple[Instant, RollbackPlan, RollbackMetadata]:
    """The one completed rollback of a table."""
    table = load_table(storage)
    (rollback,) = [i for i in table.timeline.instants if i.action is Action.ROLLBACK]
    assert rollback.state is InstantState.COMPLETED
    requested = instant_path(replace(rollback, state=InstantState.REQUESTED, completion_time=None), table.version)
    completed = instant_path(rollback, table.version)
    return (
        rollback,
        decode_rollback_plan(storage.read(requested), path=requested),
        decode_rollback_metadata(storage.read(completed), path=completed),
    )


@pytest.mark.parametrize("kind", [V8, V9], ids=str)
def test_logs_that_carry_a_dead_writes_instant_are_deleted(kind: TableBuilder) -> None:
    storage = prepared(kind)
    dead = die_before_commit(storage)
    assert [name for name in logs_in(storage) if name.instant_time == dead]

    recover(storage)

    assert [name for name in logs_in(storage) if name.instant_time == dead] == []
    assert commands_in(storage) == []
    _, plan, metadata = rollback_of(storage)
    assert all(request.log_blocks_to_be_deleted == {} for request in plan.requests)
    assert metadata.total_files_deleted == 3
    assert all(one.rollback_log_files == {} for one in metadata.partitions.values())
    assert contents(storage) == BEFORE
    check_rolled_back(storage)


def test_in_version_6_each_slice_with_dead_blocks_gets_a_log_with_a_command_block() -> None:
    storage = prepared(V6)
    before = set(map(str, logs_in(storage)))
    dead = die_before_commit(storage)
    appended = [name for name in logs_in(storage) if str(name) not in before]
    assert sorted(name.version for name in appended) == [1, 2]

    recover(storage)

    undo = {str(replace(name, version=name.version + 1, write_token="1-0-1")) for name in appended}
    assert set(map(str, logs_in(storage))) == {*before, *map(str, appended), *undo}
    rollback, plan, metadata = rollback_of(storage)
    assert {(log, instant, target) for log, instant, target in commands_in(storage)} == {
        (log, rollback.requested_time, dead) for log in undo
    }
    for request in plan.requests:
        if request.log_blocks_to_be_deleted:
            (name,) = [name for name in appended if name.file_id == request.file_id]
            path = f"{request.partition_path}/{name}"
            assert request.latest_base_instant == name.instant_time
            assert request.files_to_be_deleted == ()
            assert request.log_blocks_to_be_deleted == {f"{storage.uri}/{path}": len(storage.read(path))}
            done = metadata.partitions[request.partition_path]
            assert done.log_files_from_failed_commit == request.log_blocks_to_be_deleted
            ((undo_log, size),) = done.rollback_log_files.items()
            assert undo_log.rpartition("/")[2] in undo
            assert size == 105
    assert sum(bool(request.log_blocks_to_be_deleted) for request in plan.requests) == 2
    assert metadata.total_files_deleted == 1
    assert contents(storage) == BEFORE
    check_rolled_back(storage)


@every_table
def test_writes_after_a_rollback_go_on_in_the_same_slices(kind: TableBuilder) -> None:
    storage = prepared(kind)
    die_before_commit(storage)
    table = recover(storage)

    table.upsert(rows((1, "oslo", 3, "d"), (3, "rome", 3, "d")))
    after = BEFORE - {(1, "oslo", 2, "b"), (3, "rome", 1, "a")} | {(1, "oslo", 3, "d"), (3, "rome", 3, "d")}
    assert contents(storage) == after

    table.services.compact()
    assert contents(storage) == after
    check_rolled_back(storage)


def use_marker_files(storage: Storage, dead: str) -> None:
    """Markers as the timeline server of JVM Hudi keeps them, in numbered files with gaps."""
    folder = f".hoodie/.temp/{dead}"
    lines = [info.path.removeprefix(f"{folder}/") for info in storage.list_recursive(folder)]
    storage.delete_folder(folder)
    storage.put(f"{folder}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.put(f"{folder}/MARKERS0", f"{lines[0]}\n".encode())
    storage.put(f"{folder}/MARKERS3", "".join(f"{line}\n" for line in lines[1:]).encode())


def damage_marker_files(storage: Storage, dead: str) -> None:
    use_marker_files(storage, dead)
    storage.put(f".hoodie/.temp/{dead}/MARKERS3", b"\x00\xff\nno marker\n")


def lose_marker_type(storage: Storage, dead: str) -> None:
    use_marker_files(storage, dead)
    storage.delete(f".hoodie/.temp/{dead}/MARKERS.type")


def lose_markers(storage: Storage, dead: str) -> None:
    storage.delete_folder(f".hoodie/.temp/{dead}")


def lose_markers_and_profile(storage: Storage, dead: str) -> None:
    lose_markers(storage, dead)
    storage.put(f".hoodie/{dead}.deltacommit.inflight", b"")


def damage_profile(storage: Storage, dead: str) -> None:
    lose_markers(storage, dead)
    storage.put(f".hoodie/{dead}.deltacommit.inflight", b'{"partitionToWriteStats": 7}')


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "change",
    [use_marker_files, damage_marker_files, lose_marker_type, lose_markers, lose_markers_and_profile, damage_profile],
    ids=lambda change: change.__name__,
)
def test_dead_blocks_of_version_6_are_found_whatever_is_left_to_tell_of_them(change: Any) -> None:
    storage = prepared(V6)
    dead = die_before_commit(storage)
    change(storage, dead)

    recover(storage)

    assert len(commands_in(storage)) == 2
    assert contents(storage) == BEFORE
    check_rolled_back(storage)


def test_with_markers_only_the_logs_of_their_groups_are_looked_into() -> None:
    storage = prepared(V6)
    opened(storage).upsert(rows((3, "rome", 2, "b")))
    rome = {info.path for info in storage.list_folder("city=rome").files}

    def dies(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".deltacommit"):
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=dies)).upsert(rows((1, "oslo", 3, "c")))
    watched = FaultStorage(storage)
    recover(watched)

    read = {one.path for one in watched.operations if one.name in ("open_input", "read")}
    assert not read & rome
    assert len(commands_in(storage)) == 1


def test_file_of_a_foreign_marker_is_left_alone() -> None:
    storage = prepared(V9)
    dead = die_before_commit(storage)
    (victim,) = [info for info in storage.list_folder("city=rome").files if info.name.endswith(".parquet")]
    storage.put(f".hoodie/.temp/{dead}/{victim.path}.marker.CREATE", b"")

    recover(storage)

    assert storage.info(victim.path) is not None
    assert contents(storage) == BEFORE
    check_rolled_back(storage)


def test_a_write_that_never_got_inflight_costs_no_look_into_logs() -> None:
    storage = prepared(V6)
    requested = Instant(InstantTime("29990101000000000"), Action.DELTA_COMMIT, InstantState.REQUESTED)
    storage.put(instant_path(requested, load_table(storage).version), b"")
    watched = FaultStorage(storage)

    recover(watched)

    assert not load_table(storage).timeline.pending_writes
    assert not [one for one in watched.operations if one.name == "open_input" and ".log." in one.path]


@pytest.mark.parametrize("version", ["v6", "v8", "v9"])
def test_dead_writes_of_jvm_hudi_without_markers_are_taken_away(version: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"{version}-killed.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (entry,) = [one for one in json.loads((GOLDEN / "manifest.json").read_text()) if one["name"] == f"{version}-killed"]
    (snapshot,) = [one["file"] for one in entry["expected"] if one["query"] == "snapshot"]
    expected = pq.read_table(tmp_path / snapshot)
    table = pyhudi.HudiTable.for_path(str(tmp_path / "table"))
    (dead,) = [instant.requested_time for instant in table.handle.state.timeline.pending_writes]

    (done,) = table.recovery.roll_back_failed_writes(eager=True)

    table = table.refresh()
    assert table.recovery.outcome_of(dead) == "rolled back"
    assert (done.files_deleted, done.slices_undone) == ((1, 2) if version == "v6" else (3, 0))
    assert_same_rows(expected, table.scan().to_arrow(), ignore=[], hint=version)
    assert_nothing_left_over(table.handle.state.storage)
    table.services.compact()
    assert_same_rows(
        expected.drop_columns(["_hoodie_file_name"]),
        table.refresh().scan().to_arrow(),
        ignore=["_hoodie_file_name"],
        hint=version,
    )


@pytest.mark.parametrize("named", ["as it is", "as a rollback by markers of 0.15.0 names it"])
def test_a_rollback_that_jvm_hudi_began_is_finished(named: str) -> None:
    """By markers, 0.15.0 writes the table's folder where the log's name should be."""
    storage = prepared(V6)
    dead = die_before_commit(storage)
    table = load_table(storage)
    plan_of = {name.file_id: name for name in logs_in(storage)}
    requests = [
        RollbackRequest(
            partition_path=info.path.rpartition("/")[0],
            file_id=name.file_id,
            latest_base_instant=name.instant_time,
            log_blocks_to_be_deleted={f"{storage.uri}/{info.path}" if named == "as it is" else storage.uri: 1},
        )
        for info in list_data_files(storage)
        if isinstance(name := parse_data_file(info.name), LogFileName) and plan_of[name.file_id] == name
    ]
    rollback = Instant(InstantTime("20991231000000000"), Action.ROLLBACK, InstantState.INFLIGHT)
    plan = RollbackPlan(instant_time=dead, action="deltacommit", requests=tuple(requests))
    requested = instant_path(replace(rollback, state=InstantState.REQUESTED), table.version)
    storage.put(requested, encode_rollback_plan(plan))
    storage.put(instant_path(rollback, table.version), b"")

    opened(storage).recovery.roll_back_failed_writes()

    assert {(instant, target) for _, instant, target in commands_in(storage)} == {(rollback.requested_time, dead)}
    assert len(commands_in(storage)) == 2
    assert contents(storage) == BEFORE


@pytest.mark.parametrize(
    "request_",
    [
        RollbackRequest(
            partition_path=".hoodie/metadata/files",
            file_id="files-0000-0",
            latest_base_instant="20240101000000000",
            log_blocks_to_be_deleted={"x": 1},
        ),
        RollbackRequest(
            partition_path="city=oslo",
            file_id="../x",
            latest_base_instant="20240101000000000",
            log_blocks_to_be_deleted={"x": 1},
        ),
        RollbackRequest(
            partition_path=".hoodie/metadata/files",
            files_to_be_deleted=("memory:/{table}/.hoodie/metadata/files/files-0000-0_0-1-0_20240101000000000.hfile",),
        ),
    ],
    ids=["logs of the metadata table", "no file id", "a file of the metadata table"],
)
def test_a_plan_that_reaches_out_of_the_data_changes_nothing(request_: RollbackRequest) -> None:
    storage = prepared(V6)
    table = load_table(storage)
    files = tuple(path.replace("memory:/{table}", storage.uri) for path in request_.files_to_be_deleted)
    pending = Instant(InstantTime("20240102000000000"), Action.ROLLBACK, InstantState.REQUESTED)
    plan = RollbackPlan(
        instant_time="20240101000000000",
        action="deltacommit",
        requests=(replace(request_, files_to_be_deleted=files),),
    )
    storage.put(instant_path(pending, table.version), encode_rollback_plan(plan))
    before = {info.path for info in storage.list_recursive("")}

    with pytest.raises(UnsafePathError):
        opened(storage).recovery.roll_back_failed_writes()

    assert {info.path for info in storage.list_recursive("")} == before


@every_table
def test_a_writer_that_was_taken_for_dead_takes_back_what_it_appends_afterwards(kind: TableBuilder) -> None:
    storage = prepared(kind)

    def take_for_dead(operation: str, path: str) -> None:
        if operation == "close_output" and "/.0000" in path and load_table(storage).timeline.pending_writes:
            recover(storage)

    with pytest.raises(LockLostError):
        opened(FaultStorage(storage, before=take_for_dead)).upsert(rows((1, "oslo", 3, "c"), (3, "rome", 3, "c")))

    assert contents(storage) == BEFORE
    check_rolled_back(storage)
    opened(storage).upsert(rows((1, "oslo", 4, "d")))
    assert contents(storage) == BEFORE - {(1, "oslo", 2, "b")} | {(1, "oslo", 4, "d")}


def test_blocks_behind_a_command_block_are_taken_back_by_another_one() -> None:
    """A task that outlived its write's rollback appends after it."""
    storage = prepared(V6)
    dead = die_before_commit(storage)
    (oslo,) = {name for name in logs_in(storage) if name.version == 2}
    late = storage.read(f"city=oslo/{oslo}")
    recover(storage)
    storage.put(f"city=oslo/{replace(oslo, version=4)}", late)
    one = LogSlice("city=oslo", oslo.file_id, oslo.instant_time)

    undo = exclude_blocks(storage, "20991231000000000", dead, one)
    again = exclude_blocks(storage, "20991231000000000", dead, one)

    assert undo is not None
    assert undo == again
    assert undo[0].endswith(".log.5_1-0-1")
    assert [log for log, _, _ in commands_in(storage) if oslo.file_id in log] == [
        str(replace(oslo, version=3, write_token="1-0-1")),
        str(replace(oslo, version=5, write_token="1-0-1")),
    ]


def test_blocks_of_others_are_not_taken_back() -> None:
    storage = prepared(V6)
    (oslo,) = logs_in(storage)
    files = {info.path for info in storage.list_recursive("")}

    assert exclude_blocks(storage, "2", "1", LogSlice("city=oslo", oslo.file_id, oslo.instant_time)) is None

    assert {info.path for info in storage.list_recursive("")} == files


def test_a_delete_by_key_in_a_dead_write_does_not_count() -> None:
    storage = prepared(V6)

    def dies(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".deltacommit"):
            raise SimulatedCrash

    with suppress(SimulatedCrash):
        opened(FaultStorage(storage, before=dies)).delete(pa.table({"id": [1, 3], "city": ["oslo", "rome"]}))

    recover(storage)

    assert len(commands_in(storage)) == 2
    assert contents(storage) == BEFORE


@every_table
def test_a_compaction_begins_with_taking_dead_writes_away(kind: TableBuilder) -> None:
    """In version 6 it could not be planned else."""
    storage = prepared(kind)
    die_before_commit(storage)

    done = opened(storage, later=True).services.compact()

    assert done.num_rows == 1
    assert not load_table(storage).timeline.pending_writes
    assert opened(storage).scan(query_type="read_optimized").to_arrow().num_rows == len(BEFORE)
    assert contents(storage) == BEFORE
    check_rolled_back(storage)
