"""Placing the rows of a write by the hash of their keys, in buckets of a fixed number or of a ring: no lookup."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pyhudi.config.enums import BucketEngine
from pyhudi.config.options_buckets import NUMBER_KEY
from pyhudi.engine.exchange_files import ExchangeFolder, TaskFiles
from pyhudi.errors import AlreadyExistsError, ConfigError, CorruptDataError
from pyhudi.format.buckets import (
    INITIAL_INSTANT,
    HashRing,
    bucket_of_file_id,
    initial_ring,
    new_bucket_file_id,
    shared_bucket_file_id,
)
from pyhudi.format.metadata.hashing import COMMIT_SUFFIX, encode_ring
from pyhudi.index.buckets.index import BucketIndex, number_of_buckets
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.hash_rings import PendingResize, load_ring, pending_resizes, ring_path
from pyhudi.table.state import TableState
from pyhudi.tasks.place import (
    Buckets,
    Place,
    PlaceTask,
    ResizedBuckets,
    RingBuckets,
    SimpleBuckets,
    count_places,
    send_placed,
)
from pyhudi.tasks.route import UNKNOWN_POSITION
from pyhudi.write.operations import ApplyChanges, Delete, Overwrite, Upsert
from pyhudi.write.placement import Batch, Placement, look_up
from pyhudi.write.plan import FileAssignment, FilePlan, LogSeries

_NEW = -1
"""The position of a row that is not looked for in the base file of its bucket (`route.POSITION`)."""


@dataclass(frozen=True, slots=True)
class Rings:
    """The ring of each partition of a write, and the resizes of them that are pending."""

    now: Mapping[str, HashRing]
    resizes: Mapping[str, PendingResize] = field(default_factory=dict)


def hashed(batch: Batch, index: BucketIndex) -> Placement:
    """Find the buckets that have rows, and the file group of each of them.

    Cost: a round of tasks over the rows; what `number_of_buckets` or `rings_of_write` costs; and a lookup for an insert
    that drops or refuses rows whose keys are stored.
    """
    if index.engine is BucketEngine.CONSISTENT_HASHING:
        return _in_rings(batch, index)
    job = batch.job
    paths = {part.partition_path for split in batch.splits for part in split.partitions}
    latest, counts = batch.view.latest, dict[str, int]()
    for part, partitions in index.in_partitions({*paths, *latest}).values():
        held = {path: latest[path] for path in partitions if path in latest}
        number = number_of_buckets(job.engine, job.table.storage.spec, part, held)
        counts |= dict.fromkeys(partitions, number)
    tasks = _tasks(batch, index, (SimpleBuckets(counts, index.fields),))
    rows = _count_rows(batch, tasks)
    stored = {} if isinstance(batch.write, Overwrite) else slices_of_buckets(batch.view)
    places = [place for place in sorted(rows) if place[1:] in stored or not isinstance(batch.write, Delete)]
    assignments = [
        _assignment(batch, number, place, stored.get(place[1:]), rows[place]) for number, place in enumerate(places)
    ]
    return _placement(batch.folder, tasks, assignments, places)


def _in_rings(batch: Batch, index: BucketIndex) -> Placement:
    """Of a consistent bucket index: all rows go to logs, and those of a bucket that is being resized to two of them.

    An overwrite fills the buckets of new rings.
    """
    base = batch.transaction.base
    paths = {part.partition_path for split in batch.splits for part in split.partitions}
    if isinstance(batch.write, Overwrite):
        rings = Rings({path: batch.renewed[path].after for path in paths})
    else:
        rings = rings_of_write(base, batch.view, index, paths)
    after = {path: resize.ring for path, resize in rings.resizes.items()}
    made = {
        path: frozenset(n for n, node in enumerate(resize.ring.nodes) if node.file_id in resize.made)
        for path, resize in rings.resizes.items()
    }
    both: tuple[Buckets, ...] = (RingBuckets(rings.now, index.fields), ResizedBuckets(after, made, index.fields))
    tasks = _tasks(batch, index, both)
    rows = _count_rows(batch, tasks)
    latest = {file_slice.group: file_slice for slices in batch.view.latest.values() for file_slice in slices}
    assignments, places = [], sorted(rows)
    for number, place in enumerate(places):
        ring_number, path, bucket = place
        ring = (rings.now, after)[ring_number][path]
        group = FileGroupId(path, ring.nodes[bucket].file_id)
        assignments.append(
            FileAssignment(
                number=number,
                partition_path=path,
                file_id=group.file_id,
                previous=latest.get(group),
                updates=rows[place],
                inserts=0,
                appends=True,
                log_series=LogSeries(ring.instant, 1 + rings.resizes[path].versions.get(group.file_id, 0))
                if ring_number
                else None,
            )
        )
    resizes = frozenset(resize.instant_time for resize in rings.resizes.values())
    return _placement(batch.folder, tasks, assignments, places, resizes)


def _placement(
    folder: ExchangeFolder,
    tasks: Sequence[PlaceTask],
    assignments: Sequence[FileAssignment],
    places: Sequence[Place],
    resizes: frozenset[str] = frozenset(),
) -> Placement:
    assignment_of = {place: number for number, place in enumerate(places)}
    send = functools.partial(send_placed, assignment_of)
    files = TaskFiles(folder, PlaceTask.reads, writes=False)
    return Placement(FilePlan(tuple(assignments), {}), send, tasks, files, resizes)


def _tasks(batch: Batch, index: BucketIndex, buckets: tuple[Buckets, ...]) -> list[PlaceTask]:
    job, write = batch.job, batch.write
    known = look_up(batch, in_buckets=True).segments if not isinstance(write, (Upsert, Delete)) else {}
    return [
        PlaceTask(
            folder=batch.folder,
            split=split,
            buckets=buckets,
            position=UNKNOWN_POSITION if isinstance(write, (Upsert, Delete, ApplyChanges)) else _NEW,
            deletes=isinstance(write, Delete),
            left_out=known.get(number, ()),
            changes=write.keys if isinstance(write, ApplyChanges) else None,
            # Releases that write tables of version 8 agree with one another.
            key_fields=None if job.table.version.has_completion_times else index.key_fields,
        )
        for number, split in enumerate(batch.splits)
    ]


def _count_rows(batch: Batch, tasks: Sequence[PlaceTask]) -> Mapping[Place, int]:
    """How many rows of the batch go to each place that has any. One round of tasks over their keys."""
    size = sum(split.bytes for split in batch.splits)
    rows: Counter[Place] = Counter()
    files = TaskFiles(batch.folder, PlaceTask.reads_to_count, writes=False)
    for counts in batch.job.engine.map(count_places, tasks, size_bytes=size, description="find buckets", files=files):
        rows.update(dict(counts))
    return rows


def slices_of_buckets(view: FileSystemView) -> Mapping[tuple[str, int], FileSlice]:
    """The newest slice of each bucket.

    Raises:
        CorruptDataError: a bucket has two file groups.
    """
    found: dict[tuple[str, int], FileSlice] = {}
    for partition_path, slices in view.latest.items():
        for file_slice in slices:
            bucket = bucket_of_file_id(file_slice.file_id)
            if bucket is None:
                continue  # refused by `number_of_buckets`
            if found.setdefault((partition_path, bucket), file_slice) is not file_slice:
                raise CorruptDataError(
                    "a bucket has two file groups, as a second bulk insert of JVM Hudi makes them, so its keys may be "
                    "in both; nothing was written: read the rows and write them into a new table",
                    partition_path=partition_path,
                    file_groups=[found[partition_path, bucket].file_id, file_slice.file_id],
                )
    return found


def _assignment(batch: Batch, number: int, place: Place, previous: FileSlice | None, rows: int) -> FileAssignment:
    _, partition_path, bucket = place
    is_upsert, job = isinstance(batch.write, (Upsert, Delete, ApplyChanges)), batch.job
    if previous is not None:
        file_id = previous.file_id
    elif job.is_lock_less:
        # Another writer may be making the same file group, so both give it the same id, and begin it with logs.
        file_id = shared_bucket_file_id(bucket)
    else:
        file_id = new_bucket_file_id(bucket, job.environment.ids.uuid())
    return FileAssignment(
        number=number,
        partition_path=partition_path,
        file_id=file_id,
        previous=previous,
        updates=rows if previous and is_upsert else 0,
        inserts=0 if previous and is_upsert else rows,
        appends=job.is_lock_less or (job.is_merge_on_read and previous is not None),
    )


def rings_of_write(
    table: TableState, view: FileSystemView, index: BucketIndex, partition_paths: Iterable[str]
) -> Rings:
    """The rings of the partitions of a write.

    A partition without one gets the first one, which is the same whoever makes it, so that it does no harm if the write
    fails; but its buckets then have the number of this write. Cost: what `load_ring` costs for each partition; one put
    for each new one, and for each one that was resized since the last write.

    Raises:
        ConfigError: a new partition, and neither the table nor the options say its number of buckets.
        CorruptDataError: a bucket's file group was replaced by a write that left the ring as it was.
    """
    rings = {path: _ring_of(table.storage, table, index, path) for path in sorted(partition_paths)}
    for path, ring in rings.items():
        gone = {group.file_id for group in view.replaced if group.partition_path == path}
        if lost := sorted(node.file_id for node in ring.nodes if node.file_id in gone):
            raise CorruptDataError(
                "a write replaced the file groups of a consistent bucket index and left its buckets as they were, as "
                "an overwrite of JVM Hudi does: rows that are written to them would not be seen; nothing was written: "
                "read the rows and write them into a new table",
                partition_path=path,
                file_groups=lost[:10],
            )
    return Rings(rings, pending_resizes(table, rings))


def make_rings(table: TableState, index: BucketIndex, partition_paths: Iterable[str]) -> None:
    """Make the first rings of partitions without one. Cost and errors: as of `rings_of_write`."""
    for path in sorted(partition_paths):
        _ring_of(table.storage, table, index, path)


def _ring_of(storage: Storage, table: TableState, index: BucketIndex, partition_path: str) -> HashRing:
    ring, lacks_mark = load_ring(storage, table.timeline, partition_path)
    if ring is None:
        return _made(storage, table, index, partition_path)
    if lacks_mark:
        with suppress(AlreadyExistsError):
            storage.put_if_absent(ring_path(partition_path, ring.instant, COMMIT_SUFFIX), b"")
    return ring


def _made(storage: Storage, table: TableState, index: BucketIndex, partition_path: str) -> HashRing:
    if index.number is None:
        raise ConfigError(
            f"the rows are in a new partition, and the table does not say how many buckets it gets: set {NUMBER_KEY}",
            partition_path=partition_path,
        )
    ring = initial_ring(partition_path, index.number)
    try:
        storage.put_if_absent(ring_path(partition_path, INITIAL_INSTANT), encode_ring(ring))
    except AlreadyExistsError:
        # Another writer made it meanwhile, perhaps with another number.
        found, _ = load_ring(storage, table.timeline, partition_path)
        return found or ring
    return ring
