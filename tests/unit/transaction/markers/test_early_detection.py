"""Early conflict detection: the second writer on a file group gives up before it writes anything."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.crashes import COW, MOR, assert_nothing_left_over, copied, opened, rows
from tests.support.hooks import is_data, once
from tests.support.table_builder import TableBuilder
from tests.support.tables import acting_at_staging, aged, contents

from pyhudi.errors import ConfigError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.markers import MARKERS_ROOT, Marker, MarkerKind
from pyhudi.format.timeline.table_version import table_version
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.transaction.heartbeat import HeartbeatSettings
from pyhudi.transaction.markers import service as service_module
from pyhudi.transaction.markers.early_conflicts import EarlyDetection
from pyhudi.transaction.markers.service import MarkerService

DIRECT = {"hoodie.write.markers.type": "DIRECT"}
SERVED = {"hoodie.write.markers.type": "TIMELINE_SERVER_BASED"}
EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}
CHECKS_COMMITS = {"hoodie.write.concurrency.early.conflict.check.commit.conflict": "true"}
MARKERS = [DIRECT, SERVED]
NAMES = ["direct", "served"]
OSLO, ROME = (1, "oslo", 1, "a"), (3, "rome", 1, "a")


def prepared(kind: TableBuilder) -> Storage:
    """Two partitions with a file group each; merge-on-read tables have a log in one of them."""
    table = kind.insert(OSLO, (2, "oslo", 1, "a"), ROME)
    return (table.upsert((2, "oslo", 2, "b")) if kind.is_merge_on_read else table).build()


def while_writing(storage: Storage, options: dict[str, str], then: Callable[[], None]) -> None:
    """Upsert row 1 in oslo; something else happens when its file group is announced and its data file is not begun."""
    slow = FaultStorage(
        storage, before=once(lambda operation, path: operation == "open_output" and is_data(path), then)
    )
    opened(slow).upsert(rows((1, "oslo", 5, "first")), hudi_options=options)


def data_files_begun(storage: FaultStorage) -> list[str]:
    return [effect.path for effect in storage.effects if effect.name == "open_output" and is_data(effect.path)]


@pytest.mark.parametrize("kind", [COW[0], COW[2], MOR[0], MOR[2]], ids=str)
@pytest.mark.parametrize(
    ("theirs", "ours"), list(itertools.product(MARKERS, MARKERS)), ids=lambda o: NAMES[MARKERS.index(o)]
)
def test_second_writer_on_a_file_group_gives_up_before_its_data_file(
    kind: TableBuilder, theirs: dict[str, str], ours: dict[str, str]
) -> None:
    storage = prepared(kind)
    mine = FaultStorage(storage)
    conflicts: list[WriteConflictError] = []

    def second() -> None:
        with pytest.raises(WriteConflictError) as conflict:
            opened(mine).upsert(rows((2, "oslo", 6, "second")), hudi_options={**ours, **EARLY})
        conflicts.append(conflict.value)

    while_writing(storage, theirs, second)

    (conflict,) = conflicts
    assert "is writing" in conflict.message
    assert conflict.context["table"] == mine.uri
    assert conflict.context["winner"] == load_table(storage).timeline.completed_writes[-1].requested_time
    assert conflict.context["file_groups"][0].startswith("city=oslo/")
    assert data_files_begun(mine) == []
    assert (1, "oslo", 5, "first") in contents(storage)
    assert not any("second" in row for row in contents(storage))
    assert_nothing_left_over(storage)


@pytest.mark.parametrize("kind", [COW[2], MOR[2]], ids=str)
@pytest.mark.parametrize("markers", MARKERS, ids=NAMES)
def test_writers_of_different_file_groups_do_not_disturb_each_other(
    kind: TableBuilder, markers: dict[str, str]
) -> None:
    storage = prepared(kind)

    while_writing(
        storage, markers, lambda: opened(storage).upsert(rows((3, "rome", 6, "x")), hudi_options={**markers, **EARLY})
    )

    assert {(1, "oslo", 5, "first"), (3, "rome", 6, "x")} <= contents(storage)


@pytest.mark.parametrize("markers", MARKERS, ids=NAMES)
def test_without_detection_the_conflict_is_found_at_the_commit(markers: dict[str, str]) -> None:
    storage = prepared(COW[2])
    mine = FaultStorage(storage)

    with pytest.raises(WriteConflictError, match="changed the same file groups"):
        while_writing(
            storage, markers, lambda: opened(mine).upsert(rows((2, "oslo", 6, "second")), hudi_options=markers)
        )

    assert len(data_files_begun(mine)) == 1
    assert (2, "oslo", 6, "second") in contents(storage)


@pytest.mark.parametrize("markers", MARKERS, ids=NAMES)
def test_new_file_groups_are_announced_without_a_look(markers: dict[str, str]) -> None:
    storage = prepared(COW[2])
    mine = FaultStorage(storage)
    while_writing(
        storage, markers, lambda: opened(mine).bulk_insert(rows((9, "oslo", 6, "x")), hudi_options={**markers, **EARLY})
    )

    assert ".hoodie/.temp" not in [operation.path for operation in mine.operations if operation.name == "list_folder"]
    assert (9, "oslo", 6, "x") in contents(storage)


def left_by_a_dead_writer(storage: Storage) -> None:
    """A write that stopped behind its marker; its heartbeat is fresh, and of this very process."""
    crash = at_effect(1, SimulatedCrash(), only=lambda operation, path: operation == "open_output" and is_data(path))
    with pytest.raises(SimulatedCrash):
        opened(FaultStorage(storage, before=crash)).upsert(rows((1, "oslo", 5, "dead")))


def test_writer_whose_heartbeat_has_expired_is_no_conflict() -> None:
    storage = prepared(COW[2])
    left_by_a_dead_writer(storage)
    with pytest.raises(WriteConflictError):
        opened(storage).upsert(rows((2, "oslo", 6, "x")), hudi_options=EARLY)

    # The store's clock goes by the newest heartbeat: that of the next writer is written so much later.
    (beat,) = storage.list_recursive(".hoodie/.heartbeat")
    storage = aged(storage, beat.path, by_ms=10_000_000)
    opened(storage).upsert(
        rows((2, "oslo", 6, "x")), hudi_options={**EARLY, "hoodie.clean.failed.writes.policy": "LAZY"}
    )

    assert (2, "oslo", 6, "x") in contents(storage)


def test_writer_without_a_heartbeat_is_no_conflict() -> None:
    storage = prepared(COW[2])
    left_by_a_dead_writer(storage)
    storage.delete_folder(".hoodie/.heartbeat")

    opened(storage).upsert(rows((2, "oslo", 6, "x")), hudi_options=EARLY)

    assert (2, "oslo", 6, "x") in contents(storage)


def test_markers_that_a_completed_write_left_are_no_conflict() -> None:
    storage = prepared(COW[2])
    kept: list[tuple[str, bytes]] = []

    def keep(operation: str, path: str) -> None:
        if operation == "delete_folder" and path.startswith(".hoodie/.temp/"):
            kept.extend((info.path, storage.read(info.path)) for info in storage.list_recursive(path))
        if operation == "delete" and path.startswith(".hoodie/.heartbeat/"):
            kept.append((path, storage.read(path)))

    opened(FaultStorage(storage, before=keep)).upsert(rows((1, "oslo", 5, "done")))
    for path, data in kept:
        storage.put(path, data)

    opened(storage).upsert(rows((2, "oslo", 6, "x")), hudi_options={**EARLY, **CHECKS_COMMITS})

    assert len(kept) == 2
    assert (2, "oslo", 6, "x") in contents(storage)


def test_damaged_markers_of_another_writer_leave_the_decision_to_the_commit() -> None:
    storage = prepared(COW[2])

    def second() -> None:
        (path,) = [info.path for info in storage.list_recursive(".hoodie/.temp") if info.name == "MARKERS0"]
        storage.put(path, b"\xff\n")
        opened(storage).upsert(rows((2, "oslo", 6, "x")), hudi_options=EARLY)

    with pytest.raises(WriteConflictError, match="changed the same file groups"):
        while_writing(storage, SERVED, second)

    assert (2, "oslo", 6, "x") in contents(storage)


@pytest.mark.parametrize("markers", MARKERS, ids=NAMES)
@pytest.mark.parametrize(("more", "begun"), [({}, 1), (CHECKS_COMMITS, 0)], ids=["not asked", "asked"])
def test_write_that_was_completed_meanwhile_is_found_early_if_asked_for(
    markers: dict[str, str], more: dict[str, str], begun: int
) -> None:
    storage = prepared(COW[2])
    first = once(
        lambda _, path: path.endswith(".inflight"),
        lambda: opened(storage).upsert(rows((1, "oslo", 5, "first")), hudi_options=markers),
    )
    mine = FaultStorage(storage, before=first)

    with pytest.raises(WriteConflictError, match="changed the same file groups"):
        opened(mine).upsert(rows((2, "oslo", 6, "second")), hudi_options={**markers, **EARLY, **more})

    assert len(data_files_begun(mine)) == begun
    assert (1, "oslo", 5, "first") in contents(storage)
    assert_nothing_left_over(storage)


@pytest.mark.parametrize("markers", MARKERS, ids=NAMES)
def test_write_that_gave_up_is_run_again_like_after_any_conflict(markers: dict[str, str]) -> None:
    storage = prepared(COW[2])
    left_by_a_dead_writer(storage)
    (pending,) = load_table(storage).timeline.pending_writes

    events: list[str] = []

    def see_first_attempt_end(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".rollback"):
            events.append("gave up")

    def go_between_attempts() -> None:
        """The other writer is rolled back when the second attempt stages its rows."""
        if events == ["gave up"]:
            events.append("goes on")
            opened(storage).recovery.rollback(pending.requested_time)

    mine = FaultStorage(storage, before=see_first_attempt_end)
    retry = {"hoodie.write.num.retries.on.conflict.failures": "1"}

    writer = acting_at_staging(opened(mine), go_between_attempts)
    writer.upsert(rows((2, "oslo", 6, "x")), hudi_options={**markers, **EARLY, **retry})

    assert (2, "oslo", 6, "x") in contents(storage)
    assert events == ["gave up", "goes on"]
    assert len(data_files_begun(mine)) == 1
    assert_nothing_left_over(storage, [".hoodie/.temp", ".hoodie/.heartbeat"])


def look_costs(storage: MemoryStorage, **options: str) -> list[str]:
    """The reading operations on metadata between inflight and the first data file, of an upsert with a look."""
    mine = FaultStorage(copied(storage))
    try:
        opened(mine).upsert(rows((3, "rome", 6, "x")), hudi_options={**EARLY, **options})
    finally:
        names = [(operation.name, operation.path) for operation in mine.operations]
        inflight = next(n for n, (_, path) in enumerate(names) if path.endswith(".inflight"))
        first = next(n for n, (name, path) in enumerate(names) if name == "open_output" and is_data(path))
    looks = (".hoodie/.temp", ".hoodie/timeline", ".hoodie/.heartbeat")
    return [
        f"{name} {path}"
        for name, path in names[inflight:first]
        if name in {"list_folder", "list_names", "read", "info", "list_recursive"} and path.startswith(looks)
    ]


def test_early_check_without_other_writers_costs_one_listing() -> None:
    assert look_costs(prepared(COW[2]), **DIRECT) == ["list_folder .hoodie/.temp"]


def test_look_at_another_writer_costs_three_listings_and_three_requests_per_writer() -> None:
    storage = prepared(COW[2])
    left_by_a_dead_writer(storage)
    (pending,) = load_table(storage).timeline.pending_writes
    time = pending.requested_time

    assert look_costs(storage, **DIRECT) == [
        "list_folder .hoodie/.temp",
        "list_names .hoodie/timeline",
        "list_folder .hoodie/.heartbeat",
        f"read .hoodie/.heartbeat/{time}",
        f"list_folder .hoodie/.temp/{time}",
        f"list_folder .hoodie/.temp/{time}/city=rome",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hoodie.write.markers.type": "MEMORY"}, ConfigError),
        ({**SERVED, "...strategy": "SimpleDirectMarkerBasedDetectionStrategy"}, ConfigError),
        ({**DIRECT, "...strategy": "AsyncTimelineServerBasedDetectionStrategy"}, ConfigError),
        ({**DIRECT, "...strategy": "SimpleTransactionDirectMarkerBasedDetectionStrategy"}, UnsupportedFeatureError),
        ({**DIRECT, "...strategy": "com.example.OfMyOwn"}, ConfigError),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], expected: type[Exception]) -> None:
    storage = prepared(COW[2])

    with pytest.raises(expected):
        opened(storage).upsert(rows(OSLO), hudi_options=full_names(options))


@pytest.mark.parametrize(
    "options",
    [
        {**DIRECT, "...strategy": "org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy"},
        {
            **SERVED,
            "...strategy": "org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy",
        },
    ],
)
def test_strategies_of_the_jvm_are_known_by_their_class_names(options: dict[str, str]) -> None:
    storage = prepared(COW[2])

    opened(storage).upsert(rows((1, "oslo", 6, "x")), hudi_options={**full_names(options), **EARLY})

    assert (1, "oslo", 6, "x") in contents(storage)


def full_names(options: dict[str, str]) -> dict[str, str]:
    strategy = "hoodie.write.concurrency.early.conflict.detection.strategy"
    return {key.replace("...strategy", strategy): value for key, value in options.items()}


@pytest.mark.parametrize("ours", MARKERS, ids=NAMES)
def test_early_conflict_leaves_no_marker(ours: dict[str, str]) -> None:
    """It looks first: what it announced would make others give up for it, and of two writers none would go on."""
    storage = prepared(COW[2])
    mine = FaultStorage(storage)

    def second() -> None:
        with pytest.raises(WriteConflictError, match="is writing"):
            opened(mine).upsert(rows((2, "oslo", 6, "second")), hudi_options={**ours, **EARLY})

    while_writing(storage, ours, second)

    assert [one.path for one in mine.effects if one.name == "put" and one.path.startswith(MARKERS_ROOT)] == []


def test_after_a_conflict_nothing_is_announced_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: object) -> None:
        monkeypatch.setattr(service_module, "check_groups_are_free", lambda *_: None)
        raise WriteConflictError("another writer is writing the same file groups")

    monkeypatch.setattr(service_module, "check_groups_are_free", conflict)
    detection = EarlyDetection(heartbeat=HeartbeatSettings(), version=table_version(9), known_commits=None)
    storage = MemoryStorage()
    time = "20260101000000001"
    service = MarkerService(storage, time, detection)
    one, other = (Marker(f"city={city}/f{city}-0_0-0-0_{time}.parquet", MarkerKind.MERGE) for city in ("oslo", "rome"))

    for marker in (one, other):
        with pytest.raises(WriteConflictError):
            service.create([marker], groups_exist=True)

    assert storage.list_recursive(MARKERS_ROOT) == ()
