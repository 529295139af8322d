"""`services.run` and `services.due`: what is due runs, in the right order, and one failure stops nothing else."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.support.crashes import TEMPORARY_FOLDERS, crash_images, opened
from tests.support.hooks import once_at
from tests.support.table_builder import TableBuilder
from tests.support.tables import (
    MOR,
    StepClock,
    contents,
    environment,
    new_table,
    open_table,
    rehandled,
    rows,
)

import pyhudi
from pyhudi.errors import ConfigError, InvalidRequestError, UnavailableError
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.services.frame.table_of_services import SERVICES
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

NOTHING_INLINE = {"hoodie.table.services.enabled": "false"}
DUE = {
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}


def neglected(version: int = 9, *, upserts: int = 6) -> Storage:
    """A merge-on-read table that was only written to, but for one compaction long ago."""
    storage = MemoryStorage()
    clock = StepClock()
    new_table(storage, version=version, **MOR).insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    for turn in range(upserts):
        table = open_table(storage, env=environment(clock), **NOTHING_INLINE)
        table.upsert(rows((1, "oslo", 2 + turn, f"u{turn}")))
        if turn == 0:
            table.services.compact()
    return storage


def outcomes(runs: Any) -> dict[str, str]:
    return {row["service"]: row["outcome"] for row in runs.to_pylist()}


def pending(storage: Storage) -> set[Action]:
    instants = load_table(storage).timeline.instants
    return {one.action for one in instants if one.state is not InstantState.COMPLETED}


def test_run_does_everything_that_is_due_once() -> None:
    storage = neglected()
    before = contents(storage)
    services = open_table(storage).services

    first = services.run(hudi_options=DUE)

    assert first["service"].to_pylist() == [service.name for service in SERVICES]
    done = {row["service"]: row for row in first.to_pylist() if row["outcome"] == "done"}
    assert (done["compaction"]["files_written"], done["compaction"]["rows"]) == (1, 1)
    assert done["compaction"]["bytes"] > 0
    assert done["clean"]["files_deleted"] > 0
    assert done["archive"]["message"].startswith("5 instants")
    assert all(row["seconds"] >= 0 for row in first.to_pylist())
    again = outcomes(open_table(storage).services.run(hudi_options=DUE))
    assert "done" not in again.values()
    assert "failed" not in again.values()
    assert contents(storage) == before


def test_due_says_of_each_service_whether_it_would_run_and_writes_nothing() -> None:
    store = FaultStorage(neglected())
    services = open_table(store).services
    before = len(store.operations)

    found = {row["service"]: row for row in services.due(hudi_options=DUE).to_pylist()}

    looks = {"read", "list_names", "list_folder", "list_recursive", "info"}
    assert {one.name for one in store.operations[before:]} <= looks
    assert list(found) == [service.name for service in SERVICES]
    assert (found["compaction"]["due"], found["compaction"]["reason"]) == (
        True,
        "5 of 3 delta commits since the last compaction",
    )
    assert (found["clean"]["due"], found["clean"]["reason"]) == (True, "8 of 1 commits since the last clean")
    assert (found["log_compaction"]["due"], found["log_compaction"]["reason"]) == (
        False,
        "hoodie.log.compaction.enable is not set",
    )
    assert found["archive"]["due"]


def test_plan_of_a_dead_process_is_executed_though_nothing_new_is_due() -> None:
    storage = neglected(upserts=2)
    planned = open_table(storage).services.schedule()
    reasons = {row["service"]: row for row in open_table(storage).services.due().to_pylist()}
    assert reasons["compaction"]["due"]
    assert reasons["compaction"]["reason"] == f"1 pending plan(s), the oldest {planned}"

    runs = open_table(storage).services.run()

    done = [row for row in runs.to_pylist() if row["outcome"] == "done"]
    assert [(row["service"], row["instant"]) for row in done] == [("compaction", planned)]
    assert pending(storage) == set()


def test_plan_that_another_process_executes_is_left_to_it() -> None:
    storage = neglected()
    planned = open_table(storage).services.schedule()
    seen: list[dict[str, str]] = []
    hook = once_at(
        "open_output",
        ".parquet",
        lambda: seen.append(
            outcomes(open_table(storage).services.run(only="compaction", hudi_options=DUE).slice(0, 1))
        ),
    )

    assert open_table(FaultStorage(storage, before=hook)).services.run(planned)["outcome"].to_pylist() == ["done"]

    assert seen == [{"compaction": "left to another process"}]


@pytest.mark.parametrize("broken", [".clean.requested", ".compaction.requested"])
def test_service_that_fails_is_named_and_the_next_ones_run(broken: str, caplog: pytest.LogCaptureFixture) -> None:
    storage = neglected()

    def fail(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(broken):
            raise UnavailableError("the store is away", path=path)

    with caplog.at_level(logging.WARNING, "pyhudi"):
        runs = open_table(FaultStorage(storage, before=fail)).services.run(hudi_options=DUE)

    service = broken.split(".")[1]
    failed = [row for row in runs.to_pylist() if row["outcome"] == "failed"]
    assert [row["service"] for row in failed] == [service]
    assert "the store is away" in failed[0]["message"]
    assert f"the table service {service} failed" in caplog.text
    assert runs["service"].to_pylist() == [one.name for one in SERVICES]
    assert outcomes(open_table(storage).services.run(hudi_options=DUE))[service] == "done"


def test_service_of_a_write_that_raises_anything_does_not_fail_the_write(caplog: pytest.LogCaptureFixture) -> None:
    storage = neglected()

    def fail(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith((".clean.requested", ".compaction.requested")):
            raise RuntimeError("a bug")

    with caplog.at_level(logging.WARNING, "pyhudi"):
        done = open_table(FaultStorage(storage, before=fail)).upsert(
            rows((1, "oslo", 99, "last")), hudi_options={**DUE, "hoodie.compact.inline": "true"}
        )

    assert load_table(storage).timeline.is_committed(done.instant)
    assert "the compaction after it failed: a bug" in caplog.text
    assert "the clean after it failed: a bug" in caplog.text
    assert all(record.exc_info for record in caplog.records)


def test_only_selects_services_and_refuses_a_name_that_is_none() -> None:
    storage = neglected()
    services = open_table(storage).services

    assert services.run(only=["clean", "compaction"], hudi_options=DUE)["service"].to_pylist() == [
        "compaction",
        "clean",
    ]
    with pytest.raises(InvalidRequestError, match="no table service with this name") as refused:
        services.run(only="compactions")
    assert "compaction" in str(refused.value)
    with pytest.raises(ConfigError, match="no meaning with an instant"):
        services.run("20260101000000000", only="clean")


def test_run_of_a_planned_clean_tells_what_it_deleted() -> None:
    storage = neglected()
    services = open_table(storage).services
    services.run(only="compaction", hudi_options=DUE)
    planned = services.schedule("clean", hudi_options=DUE)

    (run,) = services.run(planned).to_pylist()

    assert (run["service"], run["instant"], run["outcome"]) == ("clean", planned, "done")
    assert run["files_deleted"] > 0
    (again,) = services.run(planned).to_pylist()
    assert (again["service"], again["outcome"], again["message"]) == (
        "clean",
        "left to another process",
        "it is completed",
    )


@pytest.mark.parametrize("version", [8, 9])
def test_run_that_dies_anywhere_is_finished_by_the_next(version: int) -> None:
    storage = neglected(version, upserts=4)
    before = contents(storage)

    found = 0
    for where, image in crash_images(storage, lambda table: table.services.run(hudi_options=DUE)):
        assert contents(image) == before, where
        outcomes = opened(image, later=True).services.run(hudi_options=DUE)["outcome"].to_pylist()
        assert "failed" not in outcomes, where
        assert pending(image) == set(), where
        assert contents(image) == before, where
        assert not [info.path for folder in TEMPORARY_FOLDERS for info in image.list_recursive(folder)], where
        found += 1
    assert found > 20


def test_dead_writer_is_rolled_back_first() -> None:
    storage = TableBuilder().insert((1, "oslo", 1, "a")).dead_writer((1, "oslo", 2, "b")).build()
    (dead,) = load_table(storage).timeline.pending_writes

    first = opened(storage, later=True).services.run().to_pylist()[0]

    assert (first["service"], first["instant"], first["outcome"]) == ("rollback", dead.requested_time, "done")
    assert pending(storage) == set()


def test_rollback_is_due_only_where_something_is_left() -> None:
    def due(storage: Storage) -> dict[str, Any]:
        return next(row for row in open_table(storage).services.due().to_pylist() if row["service"] == "rollback")

    storage = TableBuilder(9, "cow").commit(rows=3).build()
    assert due(storage)["due"] is False
    storage.put(".hoodie/.heartbeat/20200101000000000", b'{"given_up": true}')
    assert due(storage)["due"] is True
    open_table(storage).services.run(only="rollback")
    assert due(storage)["due"] is False
    assert due(TableBuilder(9, "cow").commit(rows=3).dead_writer(stage="inflight").build())["due"] is True


def test_progress_of_services_is_told_after_each_task_and_not_beside_another_engine() -> None:
    told: list[pyhudi.Progress] = []
    apart = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
    written = TableBuilder(9, "mor", options=apart).commit(rows=9).commit(rows=9)
    storage = written.delta_commit(updates=9).delta_commit(updates=9).build()

    def steps() -> set[str]:
        found = {one.step for one in told}
        assert all(any(one.step == step and one.done == one.tasks for one in told) for step in found)
        told.clear()
        return found

    open_table(storage).services.compact_logs(
        hudi_options={"hoodie.log.compaction.blocks.threshold": "1"}, on_progress=told.append
    )
    assert "join logs" in steps()
    open_table(storage).services.compact(on_progress=told.append)
    assert "compact" in steps()
    newest = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    open_table(storage, **newest).services.run(only="clean", on_progress=told.append)
    assert "delete old file slices" in steps()
    open_table(storage).services.cluster(on_progress=told.append)
    assert "cluster" in steps()
    other = rehandled(open_table(storage), engine=object())
    with pytest.raises(ConfigError, match="Spark shows the progress"):
        other.services.cluster(on_progress=print)
