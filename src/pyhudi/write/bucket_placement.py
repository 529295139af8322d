"""Placing the rows of a write by the hash of their keys: no lookup, and no packing of small files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from pyhudi.errors import CorruptDataError
from pyhudi.format.buckets import bucket_of_file_id, new_bucket_file_id, shared_bucket_file_id
from pyhudi.index.bucket_numbers import number_of_buckets
from pyhudi.index.buckets import BucketIndex
from pyhudi.io.exchange import Segment
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.tasks.place import Buckets, PlaceTask, SimpleBuckets, place_split
from pyhudi.tasks.route import UNKNOWN_POSITION
from pyhudi.write.operations import Delete, Overwrite, Upsert
from pyhudi.write.placement import Batch, Placement, look_up
from pyhudi.write.plan import FileAssignment, FilePlan

_NEW = -1
"""The position of a row that is not looked for in the base file of its bucket (`route.POSITION`)."""
_Place = tuple[str, int]
"""A partition path, and the number of a bucket in it."""


def hashed(batch: Batch, index: BucketIndex) -> Placement:
    """Sort the rows by bucket, and find the file group of each bucket that has rows.

    Cost: a round of tasks over the rows; what `number_of_buckets` costs; and a lookup for an insert that drops or
    refuses rows whose keys are stored.
    """
    job = batch.job
    number = number_of_buckets(job.engine, job.table.storage.spec, index, batch.view.latest)
    segments, rows = _sorted_by_bucket(batch, index, SimpleBuckets(number, index.fields))
    stored = {} if isinstance(batch.write, Overwrite) else slices_of_buckets(batch.view)
    assignments: list[FileAssignment] = []
    found: dict[int, list[Segment]] = {}
    for place in sorted(segments):
        former = stored.get(place)
        if former is None and isinstance(batch.write, Delete):
            continue
        found[len(assignments)] = segments[place]
        assignments.append(_assignment(batch, len(assignments), place, former, rows[place]))
    return Placement(FilePlan(tuple(assignments), {}), lambda: found)


def _sorted_by_bucket(
    batch: Batch, index: BucketIndex, buckets: Buckets
) -> tuple[Mapping[_Place, list[Segment]], Mapping[_Place, int]]:
    job, write = batch.job, batch.write
    known = look_up(batch, logs_may_insert=True).segments if not isinstance(write, (Upsert, Delete)) else {}
    tasks = [
        PlaceTask(
            storage=job.table.storage.spec,
            folder=batch.folder,
            split=split,
            buckets=(buckets,),
            position=UNKNOWN_POSITION if isinstance(write, (Upsert, Delete)) else _NEW,
            deletes=isinstance(write, Delete),
            left_out=known.get(number, ()),
            # Releases that write tables of version 8 agree with one another.
            key_fields=None if job.table.version.has_completion_times else index.key_fields,
        )
        for number, split in enumerate(batch.splits)
    ]
    results = job.engine.map(
        place_split, tasks, size_bytes=2 * sum(split.bytes for split in batch.splits), description="sort rows by bucket"
    )
    segments: dict[_Place, list[Segment]] = defaultdict(list)
    rows: Counter[_Place] = Counter()
    for result in results:
        for placed in result:
            place = (placed.partition_path, placed.bucket)
            segments[place].append(placed.segment)
            rows[place] += placed.segment.rows
    return segments, rows


def slices_of_buckets(view: FileSystemView) -> Mapping[_Place, FileSlice]:
    """The newest slice of each bucket.

    Raises:
        CorruptDataError: a bucket has two file groups.
    """
    found: dict[_Place, FileSlice] = {}
    for partition_path, slices in view.latest.items():
        for each in slices:
            bucket = bucket_of_file_id(each.file_id)
            if bucket is None:
                continue  # refused by `number_of_buckets`
            if found.setdefault((partition_path, bucket), each) is not each:
                raise CorruptDataError(
                    "a bucket has two file groups, as a second bulk insert of JVM Hudi makes them, so its keys may be "
                    "in both; nothing was written: read the rows and write them into a new table",
                    partition_path=partition_path,
                    file_groups=[found[partition_path, bucket].file_id, each.file_id],
                )
    return found


def _assignment(batch: Batch, number: int, place: _Place, former: FileSlice | None, rows: int) -> FileAssignment:
    partition_path, bucket = place
    is_upsert, job = isinstance(batch.write, (Upsert, Delete)), batch.job
    if former is not None:
        file_id = former.file_id
    elif job.is_lock_less:
        # Another writer may be making the same file group, so both give it the same id, and begin it with logs.
        file_id = shared_bucket_file_id(bucket)
    else:
        file_id = new_bucket_file_id(bucket, job.environment.ids.uuid())
    return FileAssignment(
        number=number,
        partition_path=partition_path,
        file_id=file_id,
        former=former,
        updates=rows if former and is_upsert else 0,
        inserts=0 if former and is_upsert else rows,
        appends=job.is_lock_less or (job.is_merge_on_read and former is not None),
    )
