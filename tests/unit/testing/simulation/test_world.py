"""The simulated store against the memory store, and what only a simulated one does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import StorageError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FolderListing
from pyhudi.testing.simulation.start_tables import observer
from pyhudi.testing.simulation.world import LatePut, World, world_of

PATHS = ("a", "b/a", "b/c/d", "b/c-d", "bc")
PATH = st.sampled_from(PATHS)
FOLDER = st.sampled_from(["", "b", "b/c", "x"])
CALLS = st.one_of(
    st.tuples(st.just("put"), PATH, st.binary(max_size=2)),
    st.tuples(st.just("put_if_absent"), PATH, st.binary(max_size=2)),
    st.tuples(st.just("delete"), PATH),
    st.tuples(st.just("delete_folder"), FOLDER.filter(bool)),
    st.tuples(st.just("read"), PATH),
    st.tuples(st.just("info"), PATH),
    st.tuples(st.just("list_folder"), FOLDER),
    st.tuples(st.just("list_names"), FOLDER),
    st.tuples(st.just("list_recursive"), FOLDER),
)


def answer(storage: Any, call: tuple[Any, ...]) -> object:
    """What a store says, without what stores may differ in."""
    name, *arguments = call
    try:
        found = getattr(storage, name)(*arguments)
    except StorageError as error:
        return type(error)
    if isinstance(found, FolderListing):
        return [(info.path, info.size) for info in found.files], found.folders
    if name == "list_recursive":
        return [(info.path, info.size) for info in found]
    return (found.path, found.size) if name == "info" and found is not None else found


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=15))
def test_a_simulated_store_answers_as_the_memory_store_does(calls: list[tuple[Any, ...]]) -> None:
    simulated, memory = observer(World()), MemoryStorage()
    for call in calls:
        assert answer(simulated, call) == answer(memory, call), call


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(PATH, st.none() | st.binary(max_size=2)), max_size=10))
def test_the_digest_of_a_world_is_that_of_its_objects_however_they_came_to_be(
    changes: list[tuple[str, bytes | None]],
) -> None:
    world = World()
    for path, data in changes:
        if data is None:
            world.remove(path)
        else:
            world.set(path, data)
    again = World()
    for path, stored in world.objects.items():
        again.versions[path] = stored.version - 1
        again.set(path, stored.data)
    assert world.digest == again.digest
    assert world.copy().digest == world.digest


def test_versions_are_compared_also_after_a_deletion() -> None:
    storage = observer(World())
    storage.put("a", b"1")
    _, etag = storage.read_with_etag("a")
    storage.delete("a")
    storage.put("a", b"1")
    with pytest.raises(StorageError):
        storage.put_if_match("a", b"2", etag=etag)


def test_a_late_put_lands_only_where_its_condition_holds() -> None:
    world = World(late=[LatePut("a", b"late", 0), LatePut("b", b"late", 0)])
    world.set("a", b"early")
    while world.land_late_put() is not None:
        pass
    assert {path: stored.data for path, stored in world.objects.items()} == {"a": b"early", "b": b"late"}
    assert world.landed == ["b"]


def test_a_store_without_exclusive_creation_replaces_silently() -> None:
    storage = observer(World(exclusive=False))
    storage.put_if_absent("a", b"1")
    storage.put_if_absent("a", b"2")
    assert storage.read("a") == b"2"


def test_a_world_is_made_from_another_store() -> None:
    memory = MemoryStorage()
    memory.put("b/c", b"1")
    assert observer(world_of(memory)).read("b/c") == b"1"
