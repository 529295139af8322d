"""Placing: with a bucket index, the rows of each split are sent to the file groups of the buckets of their keys.

It takes the place of tagging and routing. Which buckets have rows does not depend on what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.exchange_files import ExchangeFolder, FilePart, Segment, open_exchange, read_segment
from pyhudi.engine.protocol import AddressedRows, TaskContext
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.buckets import HashRing, Numbers, ring_hashes, simple_hashes
from pyhudi.format.hash_fields import differ_between_releases
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.tasks.route import Routes, StagedChanges, changes_of, parts_of_split, routed_rows
from pyhudi.tasks.row_changes import DELETING, INSERTING, UPDATING, Change, ChangeKeys, check_absent
from pyhudi.tasks.stage import ROW, StagedSplit
from pyhudi.tasks.tagged_rows import TAGS_SCHEMA


class Buckets(Protocol):
    """From the record keys of a partition to the numbers of their buckets in it."""

    def numbers(self, partition_path: str, keys: pa.Array) -> Numbers:
        """The bucket of each key; -1: the row is not written here."""
        ...


@dataclass(frozen=True, slots=True)
class SimpleBuckets:
    """A fixed number of buckets in each partition: `counts`, by partition path."""

    counts: Mapping[str, int]
    fields: tuple[str, ...]

    def numbers(self, partition_path: str, keys: pa.Array) -> Numbers:
        """See `Buckets`."""
        return simple_hashes(keys, self.fields) % self.counts[partition_path]


@dataclass(frozen=True, slots=True)
class RingBuckets:
    """A ring of buckets for each partition; the number of a bucket is that of its node."""

    rings: Mapping[str, HashRing]
    fields: tuple[str, ...]

    def numbers(self, partition_path: str, keys: pa.Array) -> Numbers:
        """See `Buckets`."""
        return self.rings[partition_path].nodes_of(ring_hashes(keys, self.fields))


@dataclass(frozen=True, slots=True)
class ResizedBuckets:
    """The buckets that pending resizes are making: rows go to them as well as to the old ones.

    `made`: by partition path the numbers of the nodes that are new. Rows of other buckets are not written again.
    """

    rings: Mapping[str, HashRing]
    made: Mapping[str, frozenset[int]]
    fields: tuple[str, ...]

    def numbers(self, partition_path: str, keys: pa.Array) -> Numbers:
        """See `Buckets`."""
        if partition_path not in self.rings:
            return np.full(len(keys), -1, np.int64)
        found = self.rings[partition_path].nodes_of(ring_hashes(keys, self.fields))
        return np.where(np.isin(found, list(self.made[partition_path])), found, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceTask:
    """Find the buckets of the rows of one split.

    `buckets`: each of them places every row, for a write to the buckets of before and after a resize. `position`: of
    the stored version of a row (`route.POSITION`), the same for all rows. `deletes`: the rows are keys to be deleted.
    `left_out`: tags of rows that are not written. `key_fields`: if given, keys that releases of JVM Hudi read in
    different ways are refused, see `differ_between_releases`. `changes`: each row says itself what becomes of it, and
    `left_out` has the tags of those whose record is stored.
    """

    folder: ExchangeFolder
    split: StagedSplit
    buckets: tuple[Buckets, ...]
    position: int
    deletes: bool
    left_out: tuple[Segment, ...] = ()
    key_fields: int | None = None
    changes: ChangeKeys | None = None

    def reads(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads to send the rows."""
        yield from parts_of_split(self.split)
        for segment in self.left_out:
            yield segment.part

    def reads_to_count(self) -> Iterator[FilePart]:
        """The parts of exchange files that it reads to count the rows."""
        return (part for part in self.reads() if part.path != self.split.rows_path)


Place = tuple[int, str, int]
"""The number of the `PlaceTask.buckets`, a partition path, and the number of a bucket in it."""


def count_places(_: TaskContext, task: PlaceTask) -> tuple[tuple[Place, int], ...]:
    """The places of the rows of one split, and how many rows go to each. Memory: the keys of the split."""
    places, routes = _placed(task)
    counts = np.bincount(routes.assignment, minlength=len(places)).tolist()
    return tuple(zip(places, counts, strict=True))


def send_placed(assignment_of: Mapping[Place, int], _: TaskContext, task: PlaceTask) -> Iterator[AddressedRows]:
    """The rows of one split, to the files of their places. Memory: as `send_routed`.

    `assignment_of`: the file of each place; rows of other places are left out.
    """
    places, routes = _placed(task)
    if places:
        numbers = np.array([assignment_of.get(place, -1) for place in places], dtype=np.int64)
        routes = replace(routes, assignment=numbers[routes.assignment])
        written = routes.take(np.flatnonzero(routes.assignment >= 0))
        yield from routed_rows(open_spec(task.folder.storage), task.split, written)


def _placed(task: PlaceTask) -> tuple[list[Place], Routes]:
    """The places of the rows of a split, and the routes of the rows; an assignment is the number of a place."""
    storage = open_spec(task.folder.storage)
    if task.split.rows == 0:
        return [], Routes.joined([])
    tagged = _tagged(storage, task)
    changes = None if task.changes is None else changes_of(storage, task.split, task.changes)
    if changes is not None:
        changes.check_apart(tagged)
    places: list[Place] = []
    parts: list[Routes] = []
    with open_exchange(storage, task.split.keys_path) as reader:
        for partition in task.split.partitions:
            batch = reader.get_batch(partition.batch)
            rows = np.asarray(batch.column(ROW)).astype(np.int64, copy=False)
            keys = batch.column(RECORD_KEY)
            _check_keys(keys, task.key_fields)
            for ring, buckets in enumerate(task.buckets):
                found = buckets.numbers(partition.partition_path, keys)
                stored = np.isin(rows, tagged)
                kept = (~stored if changes is None else _written(changes, rows, stored)) & (found >= 0)
                numbers, at = np.unique(found[kept], return_inverse=True)
                routes = _routes(rows[kept], len(places) + at, task)
                parts.append(routes if changes is None else _changed(changes, routes, stored[kept]))
                places += [(ring, partition.partition_path, int(number)) for number in numbers]
    return places, Routes.joined(parts)


def _routes(rows: Numbers, places: Numbers, task: PlaceTask) -> Routes:
    return Routes(
        row=rows,
        assignment=places.astype(np.int64),
        position=np.full(len(rows), task.position, np.int64),
        delete=np.full(len(rows), task.deletes, np.bool_),
    )


def _written(changes: StagedChanges, rows: Numbers, stored: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the rows change anything, by whether their records are stored."""
    check_absent(changes.keys(rows[stored & changes.of(rows, Change.INSERT)]))
    return np.where(stored, changes.of(rows, *UPDATING, *DELETING), changes.of(rows, *INSERTING))


def _changed(changes: StagedChanges, routes: Routes, stored: npt.NDArray[np.bool_]) -> Routes:
    """The routes with the deletes of these changes, and no position where the record is new."""
    return replace(
        routes,
        position=np.where(stored, routes.position, -1),
        delete=stored & changes.of(routes.row, *DELETING),
    )


def _tagged(storage: Storage, task: PlaceTask) -> Numbers:
    tags = pa.Table.from_batches((b for segment in task.left_out for b in read_segment(storage, segment)), TAGS_SCHEMA)
    return np.asarray(tags.column(ROW)).astype(np.int64, copy=False)


def _check_keys(keys: pa.Array, key_fields: int | None) -> None:
    if key_fields is None:
        return
    differing = differ_between_releases(keys, key_fields)
    if pc.any(differing).as_py():
        raise UnsupportedFeatureError(
            "releases of JVM Hudi put record keys with colons and commas in their values into different buckets, so in "
            "a table of version 6 they would get records twice: use other keys, or a table of version 8 or 9",
            first_key=keys.filter(differing)[0].as_py(),
        )
