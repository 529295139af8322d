"""`inspect`, `services` and `recovery`: what they return, beyond what the tests of the services themselves say."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from tests.support.cleaning import completed_at
from tests.support.tables import MOR, contents, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage


def merge_on_read(version: int = 9) -> MemoryStorage:
    storage = MemoryStorage()
    table = new_table(storage, version=version, **MOR)
    table.insert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "a")))
    table.upsert(rows((1, "oslo", 2, "b")))
    return storage


@pytest.mark.parametrize("version", [6, 9])
def test_timeline_has_each_instant_with_its_state_without_a_request(version: int) -> None:
    storage = FaultStorage(merge_on_read(version))
    open_table(storage).services.schedule()
    table = open_table(storage)
    before = len(storage.operations)

    found = table.inspect.timeline().to_pylist()

    assert len(storage.operations) == before
    assert [(row["action"], row["state"]) for row in found] == [
        ("deltacommit", "completed"),
        ("deltacommit", "completed"),
        ("compaction", "requested"),
    ]
    assert [row["completion_time"] is not None for row in found] == [version == 9, version == 9, False]


def test_partitions_add_up_to_the_detail_of_the_table() -> None:
    table = open_table(merge_on_read())

    found = table.inspect.partitions().to_pylist()

    detail = table.inspect.detail()
    assert [row["partition_path"] for row in found] == ["city=oslo", "city=rome"]
    assert [(row["file_groups"], row["base_files"], row["logs"]) for row in found] == [(1, 1, 1), (1, 1, 0)]
    assert sum(row["bytes"] for row in found) == detail.bytes
    assert (detail.partitions, detail.base_files, detail.logs) == (2, 2, 1)


def test_detail_is_a_frozen_value() -> None:
    detail: Any = open_table(merge_on_read()).inspect.detail()

    assert isinstance(detail, pyhudi.TableDetail)
    assert (detail.type, detail.version, detail.record_key_fields) == ("MERGE_ON_READ", 9, ("id",))
    with pytest.raises(FrozenInstanceError):
        detail.version = 6


def test_plan_is_pending_until_it_was_executed() -> None:
    storage = merge_on_read()
    services = open_table(storage).services

    instant = services.schedule()

    assert services.pending().to_pylist() == [{"instant": instant, "kind": "compaction", "state": "requested"}]
    assert instant is not None
    assert services.run(instant)["instant"].to_pylist() == [instant]
    assert services.pending().num_rows == 0
    assert services.run(instant)["outcome"].to_pylist() == ["left to another process"]
    assert contents(storage) == {(1, "oslo", 2, "b"), (2, "rome", 1, "a")}


def test_log_compaction_is_scheduled_by_its_kind() -> None:
    storage = merge_on_read()
    services = open_table(storage).services

    instant = services.schedule("log_compaction", hudi_options={"hoodie.log.compaction.blocks.threshold": "1"})

    assert [(row["instant"], row["kind"]) for row in services.pending().to_pylist()] == [(instant, "log_compaction")]


def test_service_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigError, match='must be "compaction", "log_compaction", "clustering" or "clean"'):
        open_table(merge_on_read()).services.schedule("vacuum")  # type: ignore[arg-type]


def test_planning_a_compaction_writes_nothing() -> None:
    storage = FaultStorage(merge_on_read())
    services = open_table(storage).services
    before = len(storage.operations)

    (slice_,) = services.plan_compaction().to_pylist()

    assert slice_["compacts"]
    assert slice_["partition_path"] == "city=oslo"
    assert {operation.name for operation in storage.operations[before:]} <= {
        "read",
        "list_names",
        "list_folder",
        "list_recursive",
    }
    assert services.pending().num_rows == 0


def test_last_write_is_the_one_that_completed_last() -> None:
    storage = MemoryStorage()
    new_table(storage)
    first, second = (open_table(storage).insert(rows((n, "oslo", 1, "a"))) for n in (1, 2))
    completed_at(storage, first.instant, str(int(second.completion_time) + 1))

    newest = open_table(storage).inspect.last_write()

    assert newest is not None
    assert newest.instant == first.instant
    assert newest.completion_time == open_table(storage).inspect.position()


def test_results_of_a_recovery_are_public_types() -> None:
    storage = merge_on_read()
    recovery = open_table(storage).recovery
    newest = open_table(storage).inspect.last_write()
    assert newest is not None

    undone = recovery.rollback(newest.instant)

    assert isinstance(undone, pyhudi.RolledBack)
    assert undone.instant == newest.instant
    assert recovery.outcome_of(newest.instant) is pyhudi.Outcome.ROLLED_BACK
    assert recovery.roll_back_failed_writes() == ()
    with pytest.raises(InvalidRequestError):
        recovery.rollback(newest.instant)
