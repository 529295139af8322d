"""Indexes that remember keys: what they read, how they catch up with other writers, and stores that fail."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.crashes import copied
from tests.support.indexes import DictIndex
from tests.support.tables import MOR, StepClock, contents, environment, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, StorageError
from pyhudi.index.key_value.in_memory import MemoryLocations
from pyhudi.index.key_value.locations import Coverage, Location
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.testing.faults import FaultStorage

SMALL = {"hoodie.parquet.small.file.limit": "0"}
IN_MEMORY = {"hoodie.index.type": "INMEMORY", **SMALL}
GLOBAL = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.index.class": "tests.unit.index.key_value.test_index:STORE",
    **SMALL,
}
FEW_INSTANTS = {
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
}


class WatchedIndex(DictIndex):
    """The ten lines, with a hook before each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.fails_at: int | None = None
        self.is_emptied_at: int | None = None

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) == self.fails_at:
            raise ConnectionError("the store is gone")
        if len(self.calls) == self.is_emptied_at:
            self.entries.clear()

    def get(self, keys: Sequence[bytes]) -> list[set[bytes]]:
        self._called("get")
        return super().get(keys)

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        self._called("add")
        super().add(keys, entries)

    def remove(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        self._called("remove")
        super().remove(keys, entries)

    def groups_of(self, key: str) -> set[str]:
        return {
            entry.decode().split("/", 1)[1]
            for name, found in self.entries.items()
            for entry in found
            if name.endswith(f":{key}".encode())
        }


STORE = WatchedIndex()


@pytest.fixture(autouse=True)
def _empty_store() -> None:
    STORE.entries.clear()
    STORE.calls.clear()
    STORE.fails_at = None
    STORE.is_emptied_at = None


def opened(storage: Storage, options: dict[str, str], clock: StepClock | None = None) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(clock), **options)


def reads_of(storage: Storage, options: dict[str, str], *values: Any) -> list[str]:
    """The base files that an upsert opens before it writes."""
    watched = FaultStorage(storage)
    opened(watched, options).upsert(rows(*values))
    first_put = next(
        n for n, one in enumerate(watched.operations) if one.path.endswith(".marker") or ".inflight" in one.path
    )
    return [one.path for one in watched.operations[:first_put] if one.path.endswith(".parquet")]


@pytest.mark.parametrize("options", [IN_MEMORY, GLOBAL], ids=["memory", "own"])
def test_only_files_that_hold_keys_of_the_batch_are_searched(options: dict[str, str]) -> None:
    storage = MemoryStorage()
    new_table(storage, **options)
    for turn in range(6):
        opened(storage, options).upsert(rows((turn, "oslo", 1, "a"), (10 + turn, "oslo", 1, "a")))
    opened(storage, options).upsert(rows((99, "oslo", 1, "a")))

    found = set(reads_of(storage, options, (2, "oslo", 2, "b"), (14, "oslo", 2, "b")))

    # Two files hold the keys; one more was written since the index last looked.
    assert len(found) == 3
    assert len(set(reads_of(storage, SMALL, (2, "oslo", 3, "c")))) == 7


@pytest.mark.parametrize("options", [IN_MEMORY, GLOBAL], ids=["memory", "own"])
def test_index_that_slept_while_writes_were_archived_reads_the_table_again(options: dict[str, str]) -> None:
    storage, clock = MemoryStorage(), StepClock()
    new_table(storage, **options)
    opened(storage, options, clock).upsert(rows((0, "oslo", 1, "a")))
    opened(storage, options, clock).upsert(rows((0, "oslo", 2, "b")))
    for turn in range(1, 9):
        opened(storage, {**SMALL, **FEW_INSTANTS}, clock).upsert(rows((turn, "oslo", 1, "a")))
    opened(storage, {}, clock).services.archive(hudi_options=FEW_INSTANTS)
    assert opened(storage, {}).inspect.timeline().num_rows < 10

    result = opened(storage, options, clock).upsert(rows(*((key, "oslo", 5, "c") for key in range(9))))

    assert (result.updated, result.inserted) == (9, 0)
    assert contents(storage) == {(key, "oslo", 5, "c") for key in range(9)}


def test_keys_of_a_restored_state_are_found_where_they_were() -> None:
    storage, clock = MemoryStorage(), StepClock()
    new_table(storage, **GLOBAL)
    opened(storage, GLOBAL, clock).upsert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    kept = opened(storage, GLOBAL, clock).upsert(rows((3, "oslo", 1, "a")))
    opened(storage, GLOBAL, clock).upsert(rows((1, "rome", 2, "b"), (4, "rome", 1, "a")))
    opened(storage, GLOBAL, clock).upsert(rows((1, "bern", 3, "c")))
    opened(storage, GLOBAL, clock).recovery.restore(kept.instant)

    result = opened(storage, GLOBAL, clock).upsert(rows((1, "rome", 4, "d"), (3, "oslo", 4, "d"), (4, "rome", 4, "d")))

    assert contents(storage) == {(1, "rome", 4, "d"), (2, "oslo", 1, "a"), (3, "oslo", 4, "d"), (4, "rome", 4, "d")}
    assert result.inserted == 2  # one of them is where the record moved


def test_entries_of_file_groups_that_are_gone_for_good_are_removed() -> None:
    storage, clock = MemoryStorage(), StepClock()
    options = {**GLOBAL, **FEW_INSTANTS}
    new_table(storage, **options)
    for turn in range(4):
        opened(storage, options, clock).upsert(rows((1, "oslo", turn, "a"), (turn + 5, "oslo", 1, "a")))
        opened(storage, options, clock).services.cluster()
        opened(storage, options, clock).services.clean()
        opened(storage, options, clock).services.archive()

    for turn in range(4):
        opened(storage, options, clock).upsert(rows((1, "oslo", 9 + turn, "z")))
        opened(storage, options, clock).services.clean()
        opened(storage, options, clock).services.archive()

    # Of the groups that held the key, one for each clustering and one before, those that may come back are left.
    assert len(STORE.groups_of("1")) <= 2
    assert len(contents(storage)) == 5


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
def test_store_that_fails_at_any_call_leaves_a_table_and_an_index_that_are_right(kind: dict[str, str]) -> None:
    options = {**GLOBAL, **kind}
    storage, clock = MemoryStorage(), StepClock()
    new_table(storage, **options)
    opened(storage, options, clock).upsert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    opened(storage, options, clock).upsert(rows((1, "oslo", 1, "a"), (2, "oslo", 1, "a")))
    opened(storage, SMALL, clock).upsert(rows((3, "rome", 1, "a")))
    entries = {key: set(found) for key, found in STORE.entries.items()}
    batch = rows((1, "rome", 2, "b"), (3, "rome", 2, "b"), (4, "bern", 2, "b"))
    STORE.calls.clear()
    opened(copied(storage), options, clock).upsert(batch)
    calls = len(STORE.calls)
    assert calls >= 4

    for number in range(1, calls + 1):
        given = copied(storage)
        STORE.entries = {key: set(found) for key, found in entries.items()}
        STORE.calls.clear()
        STORE.fails_at = number
        with pytest.raises(StorageError, match="store of the index failed"):
            opened(given, options, clock).upsert(batch)
        assert contents(given) == contents(storage)
        STORE.fails_at = None
        opened(given, options, clock).upsert(batch)
        assert contents(given) == {
            (1, "rome", 2, "b"),
            (2, "oslo", 1, "a"),
            (3, "rome", 2, "b"),
            (4, "bern", 2, "b"),
        }


@pytest.mark.parametrize("is_known", [False, True], ids=["first lookup", "later lookup"])
def test_store_that_is_emptied_at_any_call_costs_no_key(is_known: bool) -> None:
    storage, clock = MemoryStorage(), StepClock()
    new_table(storage, **GLOBAL)
    for key, city in ((1, "oslo"), (2, "rome"), (3, "bern")):
        opened(storage, GLOBAL if is_known else SMALL, clock).upsert(rows((key, city, 1, "a")))
    entries = {key: set(found) for key, found in STORE.entries.items()}
    first, later = rows((1, "oslo", 2, "b"), (4, "rome", 2, "b")), rows((2, "rome", 3, "c"), (3, "bern", 3, "c"))
    STORE.calls.clear()
    opened(copied(storage), GLOBAL, clock).upsert(first)

    for number in range(1, len(STORE.calls) + 1):
        given = copied(storage)
        STORE.entries = {key: set(found) for key, found in entries.items()}
        STORE.calls.clear()
        STORE.is_emptied_at = number
        with suppress(StorageError):
            opened(given, GLOBAL, clock).upsert(first)
        STORE.is_emptied_at = None
        for batch in (first, later):
            opened(given, GLOBAL, clock).upsert(batch)
        assert contents(given) == {
            (1, "oslo", 2, "b"),
            (2, "rome", 3, "c"),
            (3, "bern", 3, "c"),
            (4, "rome", 2, "b"),
        }, number
        assert opened(given, GLOBAL).scan().count() == 4, number


class HalfAnIndex:
    """Without `remove`."""

    def get(self, keys: Sequence[bytes]) -> list[set[bytes]]:
        return [set() for _ in keys]

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """Forgets."""


class SilentIndex(DictIndex):
    """Answers for some of the keys only."""

    def get(self, keys: Sequence[bytes]) -> list[set[bytes]]:
        return super().get(keys)[1:]


class NeedyIndex(DictIndex):
    """Cannot be made without an argument."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


@pytest.mark.parametrize(
    ("name", "error", "reason"),
    [
        ("org.apache.hudi.index.MyIndex", ConfigError, "importable Python name"),
        ("no.such.module:Index", ConfigError, "cannot be loaded"),
        ("tests.support.indexes:NoIndex", ConfigError, "cannot be loaded"),
        ("tests.unit.index.key_value.test_index:NeedyIndex", ConfigError, "cannot be loaded"),
        ("tests.unit.index.key_value.test_index:HalfAnIndex", ConfigError, "needs the methods"),
        ("tests.unit.index.key_value.test_index:SilentIndex", StorageError, "did not answer for each key"),
    ],
)
def test_index_that_is_none_is_refused_and_nothing_is_written(name: str, error: type[Exception], reason: str) -> None:
    storage = MemoryStorage()
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))

    with pytest.raises(error, match=reason):
        open_table(storage, **{"hoodie.index.class": name}).upsert(rows((1, "oslo", 2, "b")))

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_hbase_without_a_store_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"set hoodie\.index\.hbase\.store"):
        new_table(**{"hoodie.index.type": "HBASE"})


pairs = st.lists(st.tuples(st.integers(0, 5), st.sets(st.text(max_size=3), max_size=20)), max_size=12)


@settings(max_examples=40, deadline=None)
@given(pairs, st.sets(st.text(max_size=3), max_size=20), st.sets(st.integers(0, 5)))
def test_memory_finds_what_a_dictionary_finds(
    added: list[tuple[int, set[str]]], wanted: set[str], gone: set[int]
) -> None:
    entries, held = MemoryLocations(), set()
    places = [Location("1", FileGroupId("p", f"{n}-0")) for n in range(6)]
    for number, keys in added:
        entries.add(pa.array(sorted(keys), pa.string()), places[number])
        held.update((number, key) for key in keys)
    entries.forget(pa.array([], pa.string()), [places[number] for number in gone])

    found = entries.find(pa.array(sorted(wanted), pa.string()))

    left = [number for number, key in held if key in wanted and number not in gone]
    assert found.keys() == {places[number] for number in left}


def test_memory_of_many_additions_stays_in_few_runs() -> None:
    entries = MemoryLocations()
    dice = np.random.default_rng(1)
    for number in range(300):
        keys = pa.array([str(key) for key in dice.integers(0, 10_000, 20)])
        entries.add(keys, Location("1", FileGroupId("", f"{number}-0")))

    assert len(entries._runs) <= 14  # the logarithm of six thousand


def test_of_two_threads_the_newer_timeline_counts() -> None:
    entries = MemoryLocations()
    entries.cover(Coverage(frozenset({"1", "2"}), "2", "4"))
    entries.cover(Coverage(frozenset({"1"}), "1", "3"))

    assert entries.coverage() == Coverage(frozenset({"1", "2"}), "2", "4")
