"""Clustering of one group: the rows of its file slices go into new file groups, in order and in files of a good size.

Records keep the commit time and the sequence number of their write, so that no reader takes them for changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.buckets import HashRing, ring_hashes
from pyhudi.format.file_names import file_id
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.metadata_table.ranges import Range
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.format.tombstones import TOMBSTONES_KEY
from pyhudi.io.base_file import read_footer, read_ranges
from pyhudi.io.log.changes import merge_logs
from pyhudi.io.log.records import LogVersions, read_log_versions
from pyhudi.io.row_group_copy import FileJoin, NotAlikeError
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.files import SliceFiles
from pyhudi.io.slices.merged import MergeSettings, merge_base
from pyhudi.merge.control_columns import BY_COMMIT_TIME, DELETED
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.tasks.data_file import (
    COPIED_META_COLUMNS,
    DataFile,
    DataFileSpec,
    SequenceNumbers,
    WriteTarget,
    check_write_is_running,
    column_ranges,
    ensure_partition,
)
from pyhudi.tasks.sort_rows import SortOrder, sorted_rows
from pyhudi.transaction.markers.announcing import create_markers

_log = logging.getLogger(__name__)
_COPIED_BYTES_MIN: Final = 1024 * 1024
"""Row groups of this mean size are copied if nothing is sorted: in larger ones readers would gain nothing. Smaller ones
are decoded and put together, as each of them costs a reader a request and a dictionary per column, and of the smallest
the footers cost as much as their rows."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ResizedBuckets:
    """The ring of a partition before and after its resize, and which file groups of it a task reads.

    `fields`: the record key fields whose values are hashed.
    """

    before: HashRing
    after: HashRing
    read: frozenset[str]
    fields: tuple[str, ...]

    def split(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each bucket to come, by the id of its file group.

        Raises `CorruptDataError` for a row that was in another bucket than its key says: it would get lost.
        """
        keys = rows.column(RECORD_KEY)
        hashes = ring_hashes(keys, self.fields)
        ids = np.array([node.file_id for node in self.before.nodes])
        strange = ~np.isin(ids[self.before.nodes_of(hashes)], list(self.read))
        if strange.any():
            raise CorruptDataError(
                "a record is not in the bucket that its key says, so the buckets cannot be resized; nothing was "
                "changed: if other fields than all record key fields are hashed, name them in "
                "hoodie.bucket.index.hash.field",
                partition_path=self.before.partition_path,
                first_key=keys[int(np.flatnonzero(strange)[0])].as_py(),
                hashed_fields=self.fields,
            )
        numbers = self.after.nodes_of(hashes)
        for number in np.unique(numbers).tolist():
            yield self.after.nodes[number].file_id, rows.filter(pa.array(numbers == number))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTask:
    """Write the rows of some slices of one partition into new file groups.

    `seed` is a UUID: file ids are made from it, the same in all attempts of the task. `run` replaces the task's stage
    number in the write token. `stored_bytes`: the size of the slices. `copies`: if nothing is sorted, row groups are
    copied where that is possible, also small ones. `sample_rows`: of how many rows a curve is made. `buckets`: those
    that the rows go to by the hash of their keys.
    """

    target: WriteTarget
    partition_path: str
    seed: str
    slices: tuple[SliceFiles, ...]
    merging: MergeSettings
    order: SortOrder
    stored_bytes: int
    run: int
    copies: bool = False
    sample_rows: int = 200_000
    buckets: ResizedBuckets | None = None


def cluster_group(context: TaskContext, task: ClusterTask) -> tuple[WriteStat, ...]:
    """Write the files and return their stats.

    Memory: the log records of one slice at a time (`SpillSettings`), a row group, and what `sorted_rows` needs.
    """
    storage = open_spec(task.target.storage)
    may_copy = not task.order.columns and task.buckets is None
    if may_copy and (stats := _copied(storage, context, task)) is not None:
        return stats
    past = _Past()
    rows = _rows(storage, task, past)
    if task.order.columns:
        order = task.order
        if order.needs_curve:
            order = order.along_curve(_samples(storage, task), task.sample_rows)
        rows = sorted_rows(rows, order, stored_bytes=task.stored_bytes, spill_folder=task.merging.spill.folder)
    if task.buckets is not None:
        ensure_partition(storage, task.partition_path, task.target.instant_time)
        numbers = SequenceNumbers(task.target.instant_time, context)
        return tuple(
            write_buckets(rows, task.buckets, lambda name: DataFile(storage, _spec_of(context, task, name), numbers))
        )
    return tuple(_write(storage, context, task, rows, past))


@dataclass(slots=True)
class _Past:
    """What the footers of the new files have to remember of deleted records, as far as the slices were read."""

    footers: dict[str, str] = field(default_factory=dict)
    deletes: list[pa.RecordBatch] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.footers or self.deletes)


def _rows(storage: Storage, task: ClusterTask, past: _Past) -> Iterator[pa.RecordBatch]:
    """The records of the slices, one slice after the other."""
    columns = [*COPIED_META_COLUMNS, *task.target.schema.names]
    remembers = task.target.tombstones_since is not None
    for files in task.slices:
        if remembers and files.base is not None:
            text = read_footer(storage, files.base).values.get(TOMBSTONES_KEY)
            if text is not None:
                past.footers[files.base] = text
        if not files.logs and files.base is not None:
            schema = pa.schema([task.merging.schema.field(name).with_nullable(True) for name in columns])
            for batch in read_base_rows(storage, files, schema):
                yield align(batch, schema)
            continue
        schema = task.merging.needed_for(columns)
        versions = read_log_versions(
            storage,
            files.logs,
            schema,
            task.merging.rules.in_logs,
            blocks=files.judged_by(task.merging.blocks),
            spill=task.merging.spill,
            names=files.names,
        )
        if remembers:
            past.deletes.append(_deletes(task, versions))
        for piece in merge_base(storage, files, versions, task.merging, schema, columns):
            for rows in (piece.stored, piece.updated, piece.inserted):
                if rows.num_rows:
                    yield rows


def _samples(storage: Storage, task: ClusterTask) -> Iterator[pa.RecordBatch]:
    """The sort columns of the base files. What logs have changed is few beside them; if there are none, the logs' rows.

    Cost: the pages of these columns.
    """
    columns = list(dict.fromkeys(_top_column(name, task.target.schema) for name in task.order.columns))
    schema = pa.schema([task.merging.schema.field(name).with_nullable(True) for name in columns])
    with_base = [files for files in task.slices if files.base is not None]
    if not with_base:
        yield from _rows(storage, task, _Past())
    for files in with_base:
        for batch in read_base_rows(storage, files, schema):
            yield align(batch, schema)


def _top_column(name: str, schema: pa.Schema) -> str:
    return name if name in schema.names else name.partition(".")[0]


def _copied(storage: Storage, context: TaskContext, task: ClusterTask) -> tuple[WriteStat, ...] | None:
    """Copy the row groups of the slices; None if they are not plain, too small, or must be decoded."""
    bases = [files.base for files in task.slices if files.base is not None]
    if len(bases) < len(task.slices) or not all(files.is_plain for files in task.slices):
        return None
    bytes_min = 0 if task.copies else _COPIED_BYTES_MIN
    if task.stored_bytes < bytes_min * len(bases):
        return None
    try:
        joins = joins_of(storage, bases, task.target)
    except NotAlikeError as error:
        _log.info("row groups of %s are decoded: %s", task.partition_path or "the table's own folder", error)
        return None
    if any(join.row_group_bytes < bytes_min for join in joins):
        return None
    ensure_partition(storage, task.partition_path, task.target.instant_time)
    return tuple(write_joined(storage, _spec(context, task, number), join) for number, join in enumerate(joins))


def _spec(context: TaskContext, task: ClusterTask, number: int) -> DataFileSpec:
    """The base file with this number in the group."""
    return _spec_of(context, task, file_id(task.seed, number))


def _spec_of(context: TaskContext, task: ClusterTask, name: str) -> DataFileSpec:
    return DataFileSpec(
        target=task.target,
        context=replace(context, stage=task.run),
        partition_path=task.partition_path,
        file_id=name,
    )


def _deletes(task: ClusterTask, versions: LogVersions) -> pa.RecordBatch:
    """The deletes with ordering values that are the last versions of their records."""
    changes = merge_logs(task.merging.rules, versions).merged
    return changes.filter(pc.and_not(changes.column(DELETED), pc.fill_null(changes.column(BY_COMMIT_TIME), False)))


def _write(
    storage: Storage, context: TaskContext, task: ClusterTask, rows: Iterator[pa.RecordBatch], past: _Past
) -> Iterator[WriteStat]:
    """Write rows into one file after the other. The last one gets what is to be remembered of deleted records."""
    ensure_partition(storage, task.partition_path, task.target.instant_time)
    numbers = SequenceNumbers(task.target.instant_time, context)
    written, batch = 0, next(rows, None)
    while batch is not None or (past and not written):
        with DataFile(storage, _spec(context, task, written), numbers) as file:
            while batch is not None:
                count = file.carry_fitting(batch)
                batch = batch.slice(count) if count < batch.num_rows else next(rows, None)
                if file.is_full():
                    break
            if batch is None:
                file.inherit(past.footers)
                for deleted in past.deletes:
                    file.bury(deleted)
            yield file.close()
        written += 1


def write_buckets(
    rows: Iterator[pa.RecordBatch], resized: ResizedBuckets, opened: Callable[[str], DataFile]
) -> list[WriteStat]:
    """Write rows into one file for each bucket that gets any. `opened` gives the file of a file group.

    Memory: that of as many open files as buckets come of a group of the plan, one or two.
    """
    files: dict[str, DataFile] = {}
    with ExitStack() as stack:
        for batch in rows:
            for file_id, part in resized.split(batch):
                if file_id not in files:
                    files[file_id] = stack.enter_context(opened(file_id))
                _carry(files[file_id], part)
        return [file.close() for file in files.values()]


def _carry(file: DataFile, rows: pa.RecordBatch) -> None:
    carried = 0
    while carried < rows.num_rows:
        carried += file.carry_fitting(rows.slice(carried))
        file.is_full()  # ends the row group where it is


def joins_of(storage: Storage, paths: Sequence[str], target: WriteTarget) -> list[FileJoin]:
    """The new files: base files in order, those together whose sizes add up to the maximum size of a file at most.

    Raises `NotAlikeError` if they must be decoded. Cost: the footers, and a request per file for its size.
    """
    settings = target.files
    if not _same_columns(read_footer(storage, paths[0]).schema, target.whole_schema):
        # Readers may find the columns of a file by the schema of its instant, which is now a newer one.
        raise NotAlikeError(f"the columns of {paths[0]} are not those of the table")
    sizes = []
    for path in paths:
        info = storage.info(path)
        if info is None:
            raise NotFoundError("a file is gone that was to be copied", path=path)
        sizes.append(info.size)
    return [FileJoin(storage, pack, settings.bloom) for pack in packs(paths, sizes, settings.max_file_size)]


def packs(items: Sequence[T], sizes: Sequence[int], size_max: int) -> list[list[T]]:
    """Items in order, those together whose sizes add up to the maximum at most; a larger one is alone."""
    found: list[list[T]] = []
    room = -1
    for item, size in zip(items, sizes, strict=True):
        if size > room:
            found.append([])
            room = size_max
        found[-1].append(item)
        room -= size
    return found


def _same_columns(found: pa.Schema, expected: pa.Schema) -> bool:
    return found.names == expected.names and all(
        _same_type(field.type, other.type) for field, other in zip(found, expected, strict=True)
    )


def _same_type(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether the types are the same, whatever the elements of lists and maps are called in files."""
    if found.id != expected.id:
        return False
    if pa.types.is_list(found):
        return _same_type(found.value_type, expected.value_type)
    if pa.types.is_map(found):
        return _same_type(found.key_type, expected.key_type) and _same_type(found.item_type, expected.item_type)
    if pa.types.is_struct(found):
        return _same_columns(pa.schema(list(found)), pa.schema(list(expected)))
    return bool(found == expected)


def write_joined(storage: Storage, spec: DataFileSpec, join: FileJoin) -> WriteStat:
    """Write the first base file of a new file group. Memory: some megabytes, and the footers."""
    target, path = spec.target, spec.path
    marker = Marker(path, MarkerKind.CREATE)
    create_markers(storage, target.instant_time, target.markers, [marker], groups_exist=False)
    with storage.open_output(path) as sink:
        rows = join.write(sink, str(spec.name), target.files.codec)
        size = sink.tell()
    check_write_is_running(storage, target, marker)
    return WriteStat(
        file_id=spec.file_id,
        path=path,
        prev_commit="null",
        num_writes=rows,
        num_inserts=rows,
        total_write_bytes=size,
        file_size_in_bytes=size,
        partition_path=spec.partition_path,
        column_ranges=column_ranges(target, spec.partition_path, str(spec.name), _ranges(storage, path, target)),
    )


def _ranges(storage: Storage, path: str, target: WriteTarget) -> list[Range]:
    columns = target.files.indexed_columns
    return read_ranges(storage, path, columns) if columns else []
