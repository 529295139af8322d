"""Copies of tables: what is in them, when they become tables, and which tables are refused."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.crashes import COW, MOR, assert_nothing_left_over, opened, prepared, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents, open_table

import pyhudi
from pyhudi.errors import (
    HistoryNotRetainedError,
    InvalidRequestError,
    TableExistsError,
    UnavailableError,
    WriteConflictError,
)
from pyhudi.format.timeline.instant import Action
from pyhudi.services.copying.execute import Copied, copy_table
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table, table_exists
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

EVERY_KIND = pytest.mark.parametrize("kind", [*COW, *MOR], ids=str)
NO_CLEAN = {"hoodie.clean.automatic": "false"}
INDEXED = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}


def copied(source: Storage, target: Storage, *, newest: bool = False) -> Copied:
    call = opened(source).handle.service_call(None, call="copy")
    return copy_table(call, target, newest=newest)


def states(storage: Storage) -> list[set[tuple[object, ...]]]:
    """The rows after each write of the active timeline."""
    table = open_table(storage)
    scans = [table.scan(as_of=one.requested_time) for one in load_table(storage).timeline.completed_writes]
    return [
        {tuple(row.values()) for row in scan.to_arrow().select(["id", "city", "ts", "note"]).to_pylist()}
        for scan in scans
    ]


@EVERY_KIND
def test_copy_has_the_rows_history_and_savepoints_of_the_table(kind: TableBuilder) -> None:
    source, target = prepared(kind), MemoryStorage()
    opened(source).savepoints.create(name="start")
    opened(source, **NO_CLEAN).upsert(rows((2, "oslo", 9, "z"), gone=((3, "rome", 9, ""),)))
    done = copied(source, target)
    assert states(target) == states(source)
    ours, its = open_table(target), open_table(source)
    assert ours.inspect.timeline().equals(its.inspect.timeline())
    assert ours.inspect.history().equals(its.inspect.history())
    assert ours.savepoints.list().equals(its.savepoints.list())
    assert done.last_write == its.inspect.last_write().instant  # type: ignore[union-attr]
    assert ours.inspect.findings().num_rows == 0
    assert_nothing_left_over(target)
    opened(target).upsert(rows((1, "oslo", 20, "on")))
    assert contents(target) != contents(source)


@EVERY_KIND
def test_copy_of_the_newest_state_leaves_older_files_out(kind: TableBuilder) -> None:
    source, target = prepared(kind), MemoryStorage()
    opened(source).savepoints.create(name="start")
    for turn in range(3):
        opened(source, **NO_CLEAN).insert_overwrite_table(rows((1, "oslo", turn, "w"), (3, "rome", turn, "w")))
    copied(source, target, newest=True)
    assert contents(target) == contents(source)
    table = open_table(target)
    assert table.savepoints.list().num_rows == 0
    stored = [info for info in list_data_files(target) if not info.name.startswith(".hoodie_partition_metadata")]
    assert len(stored) == table.inspect.files().num_rows == 2
    first = load_table(target).timeline.completed_writes[0].requested_time
    with pytest.raises(HistoryNotRetainedError):
        table.scan(as_of=first).to_arrow()
    assert "error" not in table.inspect.findings()["severity"].to_pylist()


@pytest.mark.parametrize("kind", [*COW, *MOR[1:]], ids=str)
def test_pending_write_stays_behind_with_its_files(kind: TableBuilder) -> None:
    source, target = (
        kind.insert((1, "oslo", 1, "a")).dead_writer((2, "oslo", 1, "b"), stage="written").build(),
        MemoryStorage(),
    )
    copied(source, target)
    assert load_table(source).timeline.pending_writes
    assert not load_table(target).timeline.pending_writes
    assert contents(target) == {(1, "oslo", 1, "a")}
    assert_nothing_left_over(target)


def test_pending_write_to_logs_of_version_6_is_refused() -> None:
    source = MOR[0].insert((1, "oslo", 1, "a")).dead_writer((1, "oslo", 2, "b"), stage="written").build()
    with pytest.raises(WriteConflictError, match="a write is pending"):
        copied(source, MemoryStorage())


@pytest.mark.parametrize("kind", MOR, ids=str)
@pytest.mark.parametrize("newest", [False, True])
def test_planned_compaction_comes_along_and_is_executed_in_the_copy(kind: TableBuilder, newest: bool) -> None:
    source, target = (
        kind.insert((1, "oslo", 1, "a")).upsert((1, "oslo", 2, "b")).pending_compaction().build(),
        MemoryStorage(),
    )
    opened(source).upsert(rows((1, "oslo", 3, "c")))
    copied(source, target, newest=newest)
    assert contents(target) == contents(source) == {(1, "oslo", 3, "c")}
    assert len(load_table(target).timeline.pending_compactions) == 1
    assert opened(target).services.compact() is not None
    assert contents(target) == {(1, "oslo", 3, "c")}


def test_copy_builds_the_metadata_table_and_its_indexes() -> None:
    source, target = TableBuilder(9, "cow").build(), MemoryStorage()
    open_table(source, **INDEXED).insert(rows((1, "oslo", 1, "a")).drop_columns("_hoodie_is_deleted"))
    done = copied(source, target)
    assert done.metadata_partitions == ("files", *sorted({*load_table(source).config.metadata_partitions} - {"files"}))
    assert load_table(target).config.metadata_partitions
    assert open_table(target).inspect.metadata_check().num_rows == 0
    assert open_table(target).lookup([1]).num_rows == 1


@pytest.mark.parametrize("kind", [COW[2], MOR[0]], ids=str)
@pytest.mark.parametrize("newest", [False, True])
def test_copy_that_dies_is_no_table_before_it_is_whole_and_goes_on(kind: TableBuilder, newest: bool) -> None:
    source = prepared(kind)
    number, dead = 0, True
    while dead:
        number += 1
        inner = MemoryStorage()
        target = FaultStorage(inner, before=at_effect(number, SimulatedCrash()))
        with suppress(SimulatedCrash):
            copied(source, target, newest=newest)
        dead = target.is_dead
        if table_exists(inner):
            assert contents(inner) == contents(source)
            continue
        copied(source, inner, newest=newest)
        assert contents(inner) == contents(source)
        assert_nothing_left_over(inner)
    assert number > 10


def test_copy_that_goes_on_copies_no_data_file_again() -> None:
    source, inner = prepared(COW[2]), MemoryStorage()
    dying = FaultStorage(
        inner,
        before=at_effect(
            1, SimulatedCrash(), only=lambda name, path: path == ".hoodie/hoodie.properties" and name == "put_if_absent"
        ),
    )
    with pytest.raises(SimulatedCrash):
        copied(source, dying)
    again = FaultStorage(inner)
    copied(source, again)
    assert not [effect for effect in again.effects if effect.path.endswith(".parquet")]


def test_copy_plans_again_where_a_clean_deletes_its_files() -> None:
    inner = COW[2].insert((1, "oslo", 1, "a")).build()
    for turn in range(3):
        opened(inner, **NO_CLEAN).upsert(rows((1, "oslo", 5 + turn, "u")))
    cleaned: list[object] = []

    def clean(operation: str, path: str) -> None:
        if operation == "open_output" and path.endswith(".parquet") and not cleaned:
            cleaned.append(opened(inner).services.clean(hudi_options={"hoodie.clean.commits.retained": "1"}))

    target = MemoryStorage()
    copied(inner, FaultStorage(target, before=clean))
    assert cleaned != [None]
    assert contents(target) == contents(inner)
    assert open_table(target).inspect.findings().num_rows == 0
    assert [one.action for one in load_table(target).timeline.instants].count(Action.CLEAN) == 1


def test_table_that_another_process_copies_into_the_folder_is_left_to_it() -> None:
    source, inner = prepared(COW[2]), MemoryStorage()

    def begin(operation: str, path: str) -> None:
        if operation == "open_output" and path.endswith(".commit.requested") and not begun:
            begun.append(True)
            copied(source, inner)

    begun: list[bool] = []
    with pytest.raises(WriteConflictError, match="another process"):
        copied(source, FaultStorage(inner, before=begin))
    assert contents(inner) == contents(source)
    assert_nothing_left_over(inner)


def test_folder_with_a_table_other_files_or_another_copy_is_refused() -> None:
    source, other = prepared(COW[2]), prepared(COW[2])
    with pytest.raises(TableExistsError):
        copied(source, prepared(COW[2]))
    target = MemoryStorage()
    target.put("x", b"x")
    with pytest.raises(InvalidRequestError, match="must be empty"):
        copied(source, target)
    target = MemoryStorage()
    with pytest.raises(SimulatedCrash):
        copied(source, FaultStorage(target, before=at_effect(9, SimulatedCrash())))
    for given in (other, source):
        with pytest.raises(InvalidRequestError, match="another copy"):
            copied(given, target, newest=given is source)


def test_table_whose_rollback_is_pending_is_refused() -> None:
    source = prepared(COW[2])
    newest = load_table(source).timeline.completed_writes[-1].requested_time
    dying = FaultStorage(
        source,
        before=at_effect(1, SimulatedCrash(), only=lambda name, path: name == "delete" and path.endswith(".parquet")),
    )
    with pytest.raises(SimulatedCrash):
        opened(dying).recovery.rollback(newest)
    with pytest.raises(WriteConflictError, match="rollback or restore"):
        copied(source, MemoryStorage())


def test_folder_in_the_table_and_around_it_is_refused(tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(tmp_path / "a/t", schema=pa.schema([("id", pa.int64())]), record_key="id")
    for folder in ("a/t/copy", "a", "a/t"):
        with pytest.raises(InvalidRequestError, match="lie in each other"):
            table.recovery.copy(tmp_path / folder)


@pytest.mark.parametrize("number", [6, 9])
def test_copy_under_a_lock_that_lies_in_the_folder_begins_and_goes_on(number: int, tmp_path: Path) -> None:
    options = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"}
    schema = pa.schema([("id", pa.int64())])
    pyhudi.HudiTable.create(tmp_path / "t", schema=schema, record_key="id", table_version=number)
    table = pyhudi.HudiTable.for_path(tmp_path / "t", hudi_options=options)
    table.insert(pa.table({"id": [1]}))
    call = table.handle.service_call(None, call="copy")
    target = LocalStorage(tmp_path / "copy")

    def is_last(name: str, path: str) -> bool:
        return name == "put_if_absent" and path == ".hoodie/hoodie.properties"

    with pytest.raises(UnavailableError):
        copy_table(
            call, FaultStorage(target, before=at_effect(1, UnavailableError("away"), only=is_last)), newest=False
        )
    target.put(".hoodie/timeline/20200101000000000.inflight", b"")
    target.put(".hoodie/20200101000000000.inflight", b"")
    copy_table(call, target, newest=False)
    copy = pyhudi.HudiTable.for_path(tmp_path / "copy")
    assert copy.scan(["id"]).to_arrow().to_pylist() == [{"id": 1}]
    assert copy.inspect.detail().pending == ()
