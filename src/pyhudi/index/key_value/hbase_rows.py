"""The rows of JVM Hudi's index in HBase: one for each record key, which names the file group of the record.

A row has the family `_s` with the columns `commit_ts`, `file_name` (the file id) and `partition_path`. JVM Hudi
uses a row if its commit is on the timeline, or older than it, and takes a key without such a row for a new record.
So the writes of pyhudi keep the rows; pyhudi itself finds records by entries of its own, which say more (`locations`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.errors import RecordKeyError
from pyhudi.index.key_value.locations import KEYS_PER_CALL, Coverage, Location, StoredLocations
from pyhudi.index.key_value.stores.hbase import ROW_BYTES_MAX, HBaseTable
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.timeline import Timeline

FAMILY = b"_s"
COMMIT, FILE, PARTITION = b"commit_ts", b"file_name", b"partition_path"


@dataclass(frozen=True, slots=True)
class KnownWrites:
    """Which writes JVM Hudi takes for completed: those on the timeline, and all that are older than it."""

    completed: frozenset[str]
    first: str | None

    @classmethod
    def of(cls, timeline: Timeline) -> KnownWrites:
        """By a timeline as it is now."""
        return cls(frozenset(map(str, timeline.completed_times)), timeline.first_time)

    def has(self, instant_time: str) -> bool:
        """Whether a row of this write counts."""
        return instant_time in self.completed or (self.first is not None and instant_time < self.first)


@dataclass(frozen=True, slots=True)
class HudiRows:
    """The index of one Hudi table in HBase. `known`: which of its rows count."""

    table: HBaseTable
    known: KnownWrites

    def point(self, keys: pa.Array, location: Location, *, overwrite: bool) -> int:
        """Let the rows of keys name a location, and return how many others were left as they are.

        Rows that name the file group already stay. `overwrite=False`: rows that name another one and count stay, too.
        Cost: a get, and a put of the rows that change.
        """
        cells = {
            COMMIT: location.instant_time.encode(),
            FILE: location.group.file_id.encode(),
            PARTITION: location.group.partition_path.encode(),
        }
        left = 0
        for names, found in self._pieces(keys):
            changed = []
            for name, row in zip(names, found, strict=True):
                counts = self.known.has(row.get(COMMIT, b"~").decode(errors="replace"))
                if counts and _group_of(row) == location.group:
                    continue
                if counts and not overwrite:
                    left += 1
                    continue
                changed.append((name, cells))
            self.table.put(changed)
        return left

    def drop(self, keys: pa.Array, group: FileGroupId) -> None:
        """Delete the rows of keys that name this file group. Cost: a get, and a delete of these."""
        for names, found in self._pieces(keys):
            pairs = zip(names, found, strict=True)
            self.table.delete([name for name, row in pairs if row and _group_of(row) == group])

    def _pieces(self, keys: pa.Array) -> Iterator[tuple[list[bytes], list[Mapping[bytes, bytes]]]]:
        for start in range(0, len(keys), KEYS_PER_CALL):
            names = [key.encode() for key in keys.slice(start, KEYS_PER_CALL).to_pylist()]
            if longest := max(names, key=len, default=b""):
                _check_fits(longest)
            yield names, self.table.rows(names)


@dataclass(frozen=True, slots=True)
class LocationsWithRows:
    """Entries of a table in a store, beside which JVM Hudi's rows are kept. See `Locations`."""

    own: StoredLocations
    rows: HudiRows

    @property
    def is_shared(self) -> bool:
        """See `Locations.is_shared`."""
        return True

    def coverage(self) -> Coverage:
        """See `Locations.coverage`."""
        return self.own.coverage()

    def begin(self, instant_time: str) -> None:
        """See `Locations.begin`."""
        self.own.begin(instant_time)

    def cover(self, coverage: Coverage) -> None:
        """See `Locations.cover`."""
        self.own.cover(coverage)

    def add(self, keys: pa.Array, location: Location) -> None:
        """See `Locations.add`. What the table holds now overwrites what a row says."""
        self.own.add(keys, location)
        known = self.rows.known
        # A slice may begin with a compaction that is not executed yet; a row with its time would not count.
        time = location.instant_time if known.has(location.instant_time) else max(known.completed, default="")
        self.rows.point(keys, Location(time, location.group), overwrite=True)

    def find(self, keys: pa.Array) -> Mapping[Location, int]:
        """See `Locations.find`."""
        return self.own.find(keys)

    def forget(self, keys: pa.Array, locations: Collection[Location]) -> None:
        """See `Locations.forget`."""
        self.own.forget(keys, locations)


def _group_of(row: Mapping[bytes, bytes]) -> FileGroupId:
    partition, file_id = (row.get(name, b"").decode(errors="replace") for name in (PARTITION, FILE))
    return FileGroupId(partition, file_id)


def _check_fits(key: bytes) -> None:
    if len(key) > ROW_BYTES_MAX:
        raise RecordKeyError(
            f"a record key has more than {ROW_BYTES_MAX} bytes, which no row of HBase can have: write this table "
            "without hoodie.index.hbase.table",
            record_key=key[:100].decode(errors="replace"),
            bytes=len(key),
        )
