"""Locations of records: the entries of the indexes that remember keys, and the stores that keep them.

An entry says that a write put a key into a file group. Entries are only ever added while a record lives: one that says
more than the truth costs a look into a file, one that is missing would store a record twice. So writers need no order
among themselves, and a rollback needs no change of the store.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from pyhudi.errors import CorruptDataError, HudiError, StorageError
from pyhudi.table.file_slice import FileGroupId

KEYS_PER_CALL = 10_000
"""How many keys a store is asked for, or given, at once."""
_COVERAGE = b"\x00covered"


class KeyStore(Protocol):
    """A store of entries by key: what an index of your own implements.

    All methods take any number of keys; `entries[n]` belongs to `keys[n]`. A key has any number of different entries.
    They may be called from several threads, one at a time, and after a failure with the same arguments again.
    """

    def get(self, keys: Sequence[bytes]) -> Sequence[Collection[bytes]]:
        """The entries of each key, in the order of the keys; an empty collection for a key without any."""
        ...

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """Keep entries. One that is there already stays as it is."""
        ...

    def remove(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """Give entries up. One that is not there is none to give up."""
        ...


@dataclass(frozen=True, slots=True)
class Location:
    """A file group that got a key by the write of this instant time."""

    instant_time: str
    group: FileGroupId

    def to_bytes(self) -> bytes:
        """The entry of a store: instant time, file id and partition path."""
        return f"{self.instant_time}/{self.group.file_id}/{self.group.partition_path}".encode()

    @classmethod
    def parse(cls, entry: bytes) -> Location:
        """Read an entry back. Raises `CorruptDataError` for one that pyhudi did not write."""
        try:
            instant_time, file_id, partition_path = bytes(entry).decode().split("/", 2)
        except (ValueError, TypeError) as error:
            raise CorruptDataError("the store of the index has an entry of another form", entry=repr(entry)) from error
        return cls(instant_time, FileGroupId(partition_path, file_id))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which writes an index has seen: the completed `writes` of a timeline, and all that were completed `until`.

    Writes are named by what does not come again (`remembering.identities`). `at`: the instant of the write that looked.
    """

    writes: frozenset[str] = frozenset()
    until: str = ""
    at: str = ""

    def to_bytes(self) -> bytes:
        """The entry of a store."""
        return json.dumps({"at": self.at, "until": self.until, "writes": sorted(self.writes)}).encode()

    @classmethod
    def parse(cls, entry: bytes) -> Coverage:
        """Read an entry back. Raises `CorruptDataError` for one that pyhudi did not write."""
        try:
            values = json.loads(entry)
            return cls(frozenset(map(str, values["writes"])), str(values["until"]), str(values["at"]))
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptDataError("the store of the index has an entry of another form", entry=repr(entry)) from error


def emptied_store() -> StorageError:
    """The error of a write whose store lost its entries while it was asked: keys that were there would be new ones."""
    return StorageError(
        "the store of the index was emptied while this write asked it; nothing of this write is visible: run it again"
    )


class Locations(Protocol):
    """The entries of one table."""

    @property
    def is_shared(self) -> bool:
        """Whether tasks in other processes, which get a pickled copy, reach the same entries."""
        ...

    def coverage(self) -> Coverage:
        """Which writes are in; none if nothing is known."""
        ...

    def begin(self, instant_time: str) -> None:
        """Note, where nothing is known, that the write at this instant adds keys: `cover` finds whether they stayed."""
        ...

    def cover(self, coverage: Coverage) -> None:
        """Remember which writes are in, after their keys were added. Raises `StorageError` if the keys are gone."""
        ...

    def add(self, keys: pa.Array, location: Location) -> None:
        """Add an entry for each key."""
        ...

    def find(self, keys: pa.Array) -> Mapping[Location, int]:
        """The entries of the keys, and about how many keys have each: a measure of the work to look for them."""
        ...

    def forget(self, keys: pa.Array, locations: Collection[Location]) -> None:
        """Remove these entries of the keys."""
        ...


@dataclass(frozen=True)
class StoredLocations:
    """The entries of one table in a `KeyStore`, which several tables may share.

    `is_shared`: the store is reached by a network, so that tasks on other machines may ask it.
    """

    store: KeyStore
    table: str
    is_shared: bool = False
    _guard: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, store: KeyStore, table_uri: str, *, is_shared: bool) -> StoredLocations:
        """The entries of the table at this URI."""
        prefix = hashlib.sha256(table_uri.encode()).hexdigest()[:16]
        return cls(store, prefix, is_shared, None if is_shared else threading.Lock())

    def coverage(self) -> Coverage:
        """See `Locations.coverage`. Of several states that processes left, all that any of them saw is in."""
        found = [Coverage.parse(entry) for entry in self._states()]
        writes = frozenset(write for state in found for write in state.writes)
        ends = [max((getattr(state, name) for state in found), default="") for name in ("until", "at")]
        return Coverage(writes, *ends)

    def begin(self, instant_time: str) -> None:
        """See `Locations.begin`."""
        self.ask("add", [self._name(_COVERAGE)], [Coverage(at=instant_time).to_bytes()])

    def cover(self, coverage: Coverage) -> None:
        """See `Locations.cover`."""
        previous, now = self._states(), coverage.to_bytes()
        if not previous:
            raise emptied_store()
        self.ask("add", [self._name(_COVERAGE)], [now])
        if others := [entry for entry in previous if entry != now]:
            # Other writers put their own states in place of these, so that one of them is there with this one.
            if self._states() == [now]:
                self.ask("remove", [self._name(_COVERAGE)], [now])
                raise emptied_store()
            self.ask("remove", [self._name(_COVERAGE)] * len(others), others)

    def add(self, keys: pa.Array, location: Location) -> None:
        """See `Locations.add`."""
        entry = location.to_bytes()
        for names in self._pieces(keys):
            self.ask("add", names, [entry] * len(names))

    def find(self, keys: pa.Array) -> Mapping[Location, int]:
        """See `Locations.find`."""
        counts: Counter[bytes] = Counter()
        for names in self._pieces(keys):
            for entries in self._get(names):
                counts.update(entries)
        return {Location.parse(entry): count for entry, count in counts.items()}

    def forget(self, keys: pa.Array, locations: Collection[Location]) -> None:
        """See `Locations.forget`."""
        gone = {location.to_bytes() for location in locations}
        for names in self._pieces(keys):
            found = zip(names, self._get(names), strict=True)
            pairs = [(name, entry) for name, entries in found for entry in gone.intersection(entries)]
            if pairs:
                self.ask("remove", [name for name, _ in pairs], [entry for _, entry in pairs])

    def _states(self) -> list[bytes]:
        return list(self._get([self._name(_COVERAGE)])[0])

    def _name(self, key: bytes) -> bytes:
        return self.table.encode() + b":" + key

    def _pieces(self, keys: pa.Array) -> Iterable[list[bytes]]:
        prefix = self._name(b"")
        for start in range(0, len(keys), KEYS_PER_CALL):
            yield [prefix + key.encode() for key in keys.slice(start, KEYS_PER_CALL).to_pylist()]

    def _get(self, names: list[bytes]) -> Sequence[Collection[bytes]]:
        answers = self.ask("get", names)
        count = len(answers) if isinstance(answers, Sequence) else None
        if count != len(names):
            raise StorageError(
                "the store of the index did not answer for each key: its method `get` must return one collection of "
                "entries for each key that it is asked for",
                store=type(self.store).__name__,
                keys=len(names),
                answers=count,
            )
        return answers  # type: ignore[no-any-return]

    def ask(self, name: str, *arguments: Any) -> Any:
        """What a method of the store returns. Raises `StorageError` for whatever the store raises of its own."""
        try:
            with self._guard or nullcontext():
                return getattr(self.store, name)(*arguments)
        except HudiError:
            raise
        except Exception as error:  # whatever the store's client raises
            raise StorageError(
                "the store of the index failed; nothing of this write is visible",
                store=type(self.store).__name__,
                method=name,
                reason=f"{type(error).__name__}: {error}",
            ) from error
