"""Writes to file groups of a planned clustering: which of the two gives way, by the options."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.support.audit import audit
from tests.support.compactions import let_the_runner_die
from tests.support.hooks import at, crash, once_at
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents, rows

import pyhudi
from pyhudi.errors import LockLostError, WriteConflictError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash

APART = {"hoodie.parquet.small.file.limit": "0"}
ALLOW = {
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy",
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}
PREFER_WRITER = {
    "hoodie.write.lock.conflict.resolution.strategy": (
        "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
    )
}
BEFORE = {(1, "oslo", 1, "a"), (2, "oslo", 1, "b"), (3, "rome", 1, "c")}
CHANGED = {(1, "oslo", 2, "new"), (2, "oslo", 1, "b"), (3, "rome", 1, "c")}
EVERY_TABLE = [TableBuilder(version, kind, options=APART) for version in (9, 8, 6) for kind in ("cow", "mor")]
every_table = pytest.mark.parametrize("table", EVERY_TABLE, ids=str)
Write = Callable[..., Any]


def prepared(table: TableBuilder) -> tuple[Storage, str]:
    """Two file groups in oslo, with a plan to join them; and one in rome."""
    full = table.insert((1, "oslo", 1, "a"), (3, "rome", 1, "c")).insert((2, "oslo", 1, "b"))
    storage = full.build()
    planned = table.open(storage).services.schedule("clustering")
    assert planned is not None
    return storage, planned


def update(table: pyhudi.HudiTable, options: dict[str, str]) -> None:
    table.upsert(rows((1, "oslo", 2, "new")), hudi_options=options)


def pending(table: TableBuilder, storage: Storage) -> list[str]:
    return table.open(storage).services.pending()["instant"].to_pylist()  # type: ignore[no-any-return]


def clusterings(storage: Storage) -> int:
    state = load_table(storage)
    found = [load_commit_metadata(storage, write, state.version) for write in state.timeline.completed_writes]
    return sum(one.operation is WriteOperation.CLUSTER for one in found)


WRITES = {
    "update": update,
    "delete": lambda table, options: table.delete(rows((1, "oslo", 2, "")), hudi_options=options),
    "overwrite": lambda table, options: table.insert_overwrite(rows((1, "oslo", 2, "new")), hudi_options=options),
    "overwrite of all": lambda table, options: table.insert_overwrite_table(
        rows((1, "oslo", 2, "new")), hudi_options=options
    ),
    "delete_partition": lambda table, options: table.delete_partition("city=oslo", hudi_options=options),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_write_to_a_planned_group_fails_and_names_the_plan(write: Write) -> None:
    storage, planned = prepared(TableBuilder(options=APART))
    with pytest.raises(WriteConflictError) as caught:
        write(TableBuilder(options=APART).open(storage), {})
    assert caught.value.context["winner"] == planned
    assert contents(storage) == BEFORE


@every_table
def test_write_elsewhere_goes_on_beside_the_plan(table: TableBuilder) -> None:
    storage, planned = prepared(table)
    table.open(storage).upsert(rows((3, "rome", 2, "new"), (4, "oslo", 2, "new")))
    table.open(storage).services.run(planned)
    assert contents(storage) == {*BEFORE, (3, "rome", 2, "new"), (4, "oslo", 2, "new")} - {(3, "rome", 1, "c")}
    audit(storage)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_allowed_write_rolls_the_plan_back_and_goes_on(write: Write) -> None:
    table = TableBuilder(options=APART)
    storage, planned = prepared(table)
    write(table.open(storage), ALLOW)
    assert pending(table, storage) == []
    assert (1, "oslo", 1, "a") not in contents(storage)
    assert not [info for info in storage.list_recursive(".hoodie/timeline") if info.name.startswith(planned)]


@every_table
def test_allowed_write_also_rolls_back_what_a_dead_run_left(table: TableBuilder) -> None:
    storage, planned = prepared(table)
    with pytest.raises(SimulatedCrash):
        table.open(FaultStorage(storage, before=at(".replacecommit", "put_if_absent"))).services.run(planned)
    let_the_runner_die(storage, planned)
    update(table.open(storage), ALLOW)
    assert contents(storage) == CHANGED
    assert pending(table, storage) == []
    assert not [info.path for info in storage.list_recursive("") if planned in info.name and "city" in info.path]


@every_table
def test_allowed_write_fails_beside_a_clustering_that_is_running(table: TableBuilder) -> None:
    storage, planned = prepared(table)
    failed: list[str] = []

    def meanwhile() -> None:
        with pytest.raises(WriteConflictError) as caught:
            update(table.open(storage), ALLOW)
        failed.append(caught.value.context["winner"])

    table.open(FaultStorage(storage, before=once_at("open_output", "city=oslo", meanwhile))).services.run(planned)
    assert failed == [planned]
    assert contents(storage) == BEFORE
    assert clusterings(storage) == 1


@every_table
def test_preferred_write_ends_a_clustering_that_is_running(table: TableBuilder) -> None:
    storage, planned = prepared(table)

    def meanwhile() -> None:
        update(table.open(storage), PREFER_WRITER)

    running = FaultStorage(storage, before=once_at("open_output", "city=oslo", meanwhile))
    with pytest.raises(WriteConflictError, match="this clustering reads"):
        table.open(running).services.run(planned)

    assert contents(storage) == CHANGED
    assert pending(table, storage) == []
    assert clusterings(storage) == 0
    audit(storage)
    table.open(storage).services.cluster()
    assert contents(storage) == CHANGED


@pytest.mark.parametrize("table", EVERY_TABLE[4:], ids=str)
def test_restore_away_of_a_clustering_that_has_just_begun_ends_it_as_lost(table: TableBuilder) -> None:
    """In version 6 a restore takes it for a write, which it may end; in others it refuses to begin."""
    storage, planned = prepared(table)
    newest = str(load_table(storage).timeline.completed_writes[-1].requested_time)

    class RestoredWhileItBegins(FaultStorage):
        def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
            has_begun = storage.info(f".hoodie/.aux/.runs/{planned}") is not None
            if has_begun and planned in path and path.endswith(".requested"):
                table.open(storage).recovery.restore(newest)
            return super().read(path, offset=offset, length=length)

    running = RestoredWhileItBegins(storage)
    with pytest.raises(LockLostError, match="rolled this clustering back"):
        table.open(running).services.run(planned)

    assert contents(storage) == BEFORE
    assert pending(table, storage) == []
    audit(storage)


@every_table
def test_plan_whose_groups_were_changed_before_its_run_is_rolled_back(table: TableBuilder) -> None:
    """JVM Hudi may have let such a write pass."""
    storage, planned = prepared(table)
    update(table.open(storage), PREFER_WRITER)
    with pytest.raises(WriteConflictError, match="have changed since"):
        table.open(storage).services.run(planned)
    assert contents(storage) == CHANGED
    assert pending(table, storage) == []


@every_table
def test_cluster_goes_on_after_a_plan_that_gave_way(table: TableBuilder, caplog: pytest.LogCaptureFixture) -> None:
    storage, _ = prepared(table)
    update(table.open(storage), PREFER_WRITER)
    (done,) = table.open(storage).services.cluster().to_pylist()
    assert (done["replaced"], done["files"]) == (2, 1)
    assert "gave way to a write" in caplog.text
    assert contents(storage) == CHANGED


@every_table
def test_group_that_a_running_write_changes_is_not_planned(table: TableBuilder) -> None:
    full = (
        table.insert((1, "oslo", 1, "a"), (3, "rome", 1, "c")).insert((2, "oslo", 1, "b")).insert((5, "oslo", 1, "e"))
    )
    storage = full.build()
    reasons: list[dict[str, Any]] = []

    def meanwhile() -> None:
        reasons.extend(table.open(storage).services.plan_clustering().to_pylist())
        table.open(storage).services.cluster()

    suffix = ".parquet" if table.kind == "cow" else ".log."
    update(table.open(FaultStorage(storage, before=once_at("open_output", suffix, meanwhile))), {})

    left = [row for row in reasons if "running write" in row["reason"]]
    assert [row["clusters"] for row in left] == [False]
    assert clusterings(storage) == 1
    assert contents(storage) == {*CHANGED, (5, "oslo", 1, "e")}


def test_dead_clustering_does_not_keep_others_from_their_groups() -> None:
    table = TableBuilder(options=APART)
    storage, planned = prepared(table)
    with suppress(SimulatedCrash):
        table.open(FaultStorage(storage, before=once_at("open_output", "city=oslo", crash))).services.run(planned)
    let_the_runner_die(storage, planned)
    assert table.open(storage).services.run(planned)["outcome"].to_pylist() == ["done"]
    assert contents(storage) == BEFORE
    audit(storage)


def test_rejected_write_of_version_6_leaves_the_plan_as_good_as_it_was() -> None:
    """Its log stays, and another one that takes its rows back, though neither has a row."""
    table = TableBuilder(6, "mor", options=APART)
    full = table.insert((1, "oslo", 1, "a"), (3, "rome", 1, "c")).insert((2, "oslo", 1, "b"))
    storage = full.build()
    plans: list[str | None] = []

    def plan() -> None:
        plans.append(table.open(storage).services.schedule("clustering"))

    with pytest.raises(WriteConflictError):
        update(table.open(FaultStorage(storage, before=once_at("put_if_absent", ".inflight", plan))), {})

    assert table.open(storage).services.run(plans[0])["outcome"].to_pylist() == ["done"]
    assert contents(storage) == BEFORE
