"""The marker service by itself: what is stored when, in how many requests, and what it refuses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pyhudi.errors import OutOfSpaceError, TransactionError
from pyhudi.format.markers import Marker, MarkerKind, parse_markers_file
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.transaction.markers import service as service_module
from pyhudi.transaction.markers.reading import load_markers
from pyhudi.transaction.markers.service import MarkerService

T = "20240102030405678"
FOLDER = f".hoodie/.temp/{T}"


def marker(number: int, *, time: str = T) -> Marker:
    return Marker(f"p=1/{number:08}-0000-0000-0000-000000000000-0_0-1-2_{time}.parquet", MarkerKind.CREATE)


def path_of(number: int) -> str:
    return marker(number).data_path


def new_service(storage: FaultStorage | MemoryStorage) -> MarkerService:
    return MarkerService(storage, T, None)


def puts(storage: FaultStorage) -> list[str]:
    return [effect.path.rpartition("/")[2] for effect in storage.effects]


def test_folder_looks_as_jvm_hudi_lays_it_out() -> None:
    storage = FaultStorage(MemoryStorage())

    new_service(storage).create([marker(1), marker(2)], groups_exist=False)

    assert puts(storage) == ["MARKERS.type", "MARKERS0"]
    assert storage.read(f"{FOLDER}/MARKERS.type") == b"TIMELINE_SERVER_BASED"
    assert storage.read(f"{FOLDER}/MARKERS0") == f"{path_of(1)}.marker.CREATE\n{path_of(2)}.marker.CREATE\n".encode()


def test_thousands_of_markers_of_many_tasks_cost_few_requests() -> None:
    tasks, each = 100, 50
    ready = threading.Barrier(tasks)

    def hold_the_first(_: str, path: str) -> None:
        if path.endswith("MARKERS0"):
            held.wait(timeout=0.5)

    held = threading.Event()
    storage = FaultStorage(MemoryStorage(), before=hold_the_first)
    service = new_service(storage)

    def task(number: int) -> None:
        ready.wait(timeout=60)
        service.create([marker(number * each + n) for n in range(each)], groups_exist=False)

    with ThreadPoolExecutor(tasks) as pool:
        list(pool.map(task, range(tasks)))

    assert load_markers(storage, T) == {path_of(n) for n in range(tasks * each)}
    # One for the first task, one for those who came while it was stored; more only where threads were slow to start.
    assert len(puts(storage)) < tasks // 2


def test_task_goes_on_only_when_its_marker_can_be_read() -> None:
    storage = MemoryStorage()
    service = new_service(storage)

    def task(number: int) -> bool:
        service.create([marker(number)], groups_exist=False)
        return path_of(number) in load_markers(storage, T)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(task, range(200)))


def test_markers_lie_in_a_bounded_number_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "FILES_MIN", 3)
    monkeypatch.setattr(service_module, "LINES_MAX", 10)
    storage = MemoryStorage()
    service = new_service(storage)

    for number in range(50):
        service.create([marker(number)], groups_exist=False)

    sizes = [
        len(parse_markers_file(storage.read(info.path), path=info.path))
        for info in storage.list_recursive(FOLDER)
        if info.name != "MARKERS.type"
    ]
    assert sorted(sizes) == [10] * 5
    assert load_markers(storage, T) == {path_of(number) for number in range(50)}


def test_marker_that_is_stored_already_costs_nothing() -> None:
    storage = FaultStorage(MemoryStorage())
    service = new_service(storage)
    service.create([marker(1)], groups_exist=False)
    before = len(storage.operations)

    service.create([marker(1), marker(1)], groups_exist=False)

    assert len(storage.operations) == before


def test_failed_store_fails_the_tasks_of_its_batch_and_no_others() -> None:
    full = at_effect(2, OutOfSpaceError("the disk is full", path="x"))
    storage = FaultStorage(MemoryStorage(), before=full)
    service = new_service(storage)

    with pytest.raises(OutOfSpaceError):
        service.create([marker(1)], groups_exist=False)
    service.create([marker(2)], groups_exist=False)

    assert load_markers(storage, T) == {path_of(2)}


def test_marker_whose_store_failed_is_stored_when_announced_again() -> None:
    storage = FaultStorage(MemoryStorage(), before=at_effect(2, OutOfSpaceError("the disk is full", path="x")))
    service = new_service(storage)
    with pytest.raises(OutOfSpaceError):
        service.create([marker(1)], groups_exist=False)

    service.create([marker(1)], groups_exist=False)

    assert load_markers(storage, T) == {path_of(1)}


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("when", ["before", "after"])
def test_crash_at_any_effect_loses_no_marker_that_was_answered(number: int, when: str) -> None:
    inner = MemoryStorage()
    crash = at_effect(number, SimulatedCrash())
    storage = FaultStorage(inner, **{when: crash})
    service = new_service(storage)
    answered: set[str] = set()

    with suppress(SimulatedCrash):
        for n in range(5):
            service.create([marker(n)], groups_exist=False)
            answered.add(path_of(n))

    assert storage.is_dead
    found = load_markers(inner, T)
    assert answered <= found <= {path_of(n) for n in range(len(answered) + 1)}
    if inner.info(f"{FOLDER}/MARKERS.type") is not None:
        assert inner.read(f"{FOLDER}/MARKERS.type") == b"TIMELINE_SERVER_BASED"


def test_stopped_service_refuses_and_stores_nothing() -> None:
    storage = MemoryStorage()
    service = new_service(storage)
    service.create([marker(1)], groups_exist=False)
    service.stop()

    with pytest.raises(TransactionError, match="has ended"):
        service.create([marker(2)], groups_exist=False)

    assert load_markers(storage, T) == {path_of(1)}


def test_stop_waits_for_the_batch_that_is_being_stored() -> None:
    order: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def slow(_: str, path: str) -> None:
        if path.endswith("MARKERS0"):
            begun.set()
            go_on.wait(timeout=30)
            order.append("stored")

    service = new_service(FaultStorage(MemoryStorage(), before=slow))

    def stop() -> None:
        begun.wait(timeout=30)
        threading.Timer(0.05, go_on.set).start()
        service.stop()
        order.append("stopped")

    with ThreadPoolExecutor(2) as pool:
        stopping = pool.submit(stop)
        pool.submit(service.create, [marker(1)], groups_exist=False).result()
        stopping.result()

    assert order == ["stored", "stopped"]


@pytest.mark.parametrize("wrong", ["p=1/a.txt", f"p=1/a-0_0-1-2_{T}1.parquet"])
def test_file_that_is_not_of_the_write_is_refused(wrong: str) -> None:
    storage = FaultStorage(MemoryStorage())

    with pytest.raises(TransactionError):
        new_service(storage).create([marker(1), Marker(wrong, MarkerKind.CREATE)], groups_exist=False)

    assert storage.effects == ()


def test_log_of_version_6_carries_the_instant_of_its_slice_and_is_taken() -> None:
    storage = MemoryStorage()
    log = f"p=1/.{'0' * 8}-0_20230101000000000.log.1_0-1-2"

    new_service(storage).create([Marker(log, MarkerKind.APPEND)], groups_exist=False)

    assert load_markers(storage, T) == {log}


def test_markers_of_a_run_that_died_before_stay() -> None:
    storage = MemoryStorage()
    for number in range(3):
        new_service(storage).create([marker(number)], groups_exist=False)

    assert load_markers(storage, T) == {path_of(number) for number in range(3)}


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t[: len(t) // 2]])
def test_torn_last_line_belongs_to_a_file_that_was_never_begun(change: Callable[[bytes], bytes]) -> None:
    storage = MemoryStorage()
    new_service(storage).create([marker(1)], groups_exist=False)
    path = f"{FOLDER}/MARKERS0"
    storage.put(path, storage.read(path) + change(f"{marker(2)}\n".encode()))

    assert load_markers(storage, T) == {path_of(1)}
