from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from pyhudi.errors import UnavailableError
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage, Operation, SimulatedCrash, at_effect


def _work(storage: Storage) -> None:
    """Seven effects."""
    storage.put_if_absent("requested", b"")
    with storage.open_output("data") as output:
        output.write(b"rows")
    storage.list_folder("")
    storage.put("inflight", b"")
    storage.put_if_match("inflight", b"x", etag=storage.read_with_etag("inflight")[1])
    storage.delete("requested")
    storage.delete_folder("")


EFFECTS = [
    ("put_if_absent", "requested"),
    ("open_output", "data"),
    ("close_output", "data"),
    ("put", "inflight"),
    ("put_if_match", "inflight"),
    ("delete", "requested"),
    ("delete_folder", ""),
]
# What a later process finds after a crash before the first effect, before the second, and so on.
FOUND_AFTER = [
    [],
    ["requested"],
    ["data", "requested"],
    ["data", "requested"],
    ["data", "inflight", "requested"],
    ["data", "inflight", "requested"],
    ["data", "inflight"],
    [],
]


def _names(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_recursive("")]


def test_operations_are_recorded_in_order() -> None:
    storage = FaultStorage(MemoryStorage())

    _work(storage)

    assert storage.effects == tuple(Operation(*effect) for effect in EFFECTS)
    reads = [operation.name for operation in storage.operations if not operation.is_effect]
    assert reads == ["list_folder", "read_with_etag"]


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("when", ["before", "after"])
def test_crash_at_an_effect_leaves_what_was_done_until_then(tmp_path: Path, number: int, when: str) -> None:
    hook = at_effect(number, SimulatedCrash())
    storage = FaultStorage(LocalStorage(tmp_path), **{when: hook})

    with pytest.raises(SimulatedCrash):
        _work(storage)

    done = number - (when == "before")
    assert _names(storage.inner) == FOUND_AFTER[done]
    if done >= 2 and done < 7:
        assert storage.inner.read("data") == (b"rows" if number > 2 else b"")


def test_dead_process_changes_and_reads_nothing_more(tmp_path: Path) -> None:
    storage = FaultStorage(LocalStorage(tmp_path), before=at_effect(2, SimulatedCrash()))
    storage.put("a", b"")
    with pytest.raises(SimulatedCrash):
        storage.put("b", b"")

    with pytest.raises(SimulatedCrash):
        storage.delete("a")
    with pytest.raises(SimulatedCrash):
        storage.info("a")
    assert _names(storage.inner) == ["a"]


def test_crash_while_a_file_is_written_leaves_it_half_written(tmp_path: Path) -> None:
    storage = FaultStorage(LocalStorage(tmp_path), before=at_effect(2, SimulatedCrash()))

    with pytest.raises(SimulatedCrash), storage.open_output("data") as output:  # noqa: PT012
        output.write(b"half")
        storage.put("other", b"")
    with suppress(SimulatedCrash):
        output.close()
    del output

    assert storage.inner.read("data") == b"half"


def test_failure_goes_to_the_caller_and_life_goes_on() -> None:
    storage = FaultStorage(
        MemoryStorage(),
        before=at_effect(1, UnavailableError("busy", path="x"), only=lambda operation, _: operation == "put"),
        after=at_effect(2, UnavailableError("no answer", path="x")),
    )

    storage.put_if_absent("a", b"")
    with pytest.raises(UnavailableError, match="busy"):
        storage.put("b", b"")
    with pytest.raises(UnavailableError, match="no answer"):
        storage.put("b", b"")
    storage.put("c", b"")
    assert _names(storage) == ["a", "b", "c"]


def test_failure_to_complete_a_file_removes_it(tmp_path: Path) -> None:
    storage = FaultStorage(LocalStorage(tmp_path), before=at_effect(2, UnavailableError("no answer", path="data")))

    with pytest.raises(UnavailableError), storage.open_output("data") as output:
        output.write(b"rows")
    assert _names(storage) == []


def test_tasks_of_this_process_find_the_wrapper_by_its_spec() -> None:
    storage = FaultStorage(MemoryStorage())

    assert open_spec(storage.spec) is storage
    assert storage.uri == storage.inner.uri
