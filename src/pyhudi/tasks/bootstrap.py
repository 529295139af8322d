"""The tasks of a bootstrap: skeletons of files that stay where they are, copies of rows, repeated keys, a timed sample.

A skeleton has the five meta columns, and as many rows as its source file, in the same order. Of the source only the
columns of record keys and partition paths are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.environment import SYSTEM
from pyhudi.errors import ConfigError, RecordKeyError
from pyhudi.format.bootstrap_notes import SourceIdentity, encode_note
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.schema.evolution import align, align_incoming
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.base_file import read_batches
from pyhudi.io.slices.base_rows import DIVIDED_FROM_BYTES, ROWS_PER_PART, parts_of_source, read_source_rows
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage, StorageSpec
from pyhudi.tasks.bulk_insert import SplitTask, write_split
from pyhudi.tasks.data_file import DataFile, DataFileSpec, SequenceNumbers, WriteTarget, ensure_partition
from pyhudi.tasks.sort_rows import SortOrder, sorted_rows

SKELETON_SCHEMA = pa.schema([])
"""The columns of a skeleton beside the meta columns."""
NOTED_FILES = 64
NOTED_BYTES = 64 * 1024 * 1024
"""After so many skeletons, or so much of the source, a task notes what it has finished."""
EXAMPLES_MAX = 5
"""How many keys an error names."""
_TURNS = 2
"""The first turn loads what the process has not used yet, and is not counted."""


@dataclass(frozen=True, slots=True)
class SampleTask:
    """The first rows of a file. `columns`: those that are read; `target` has those that are written."""

    target: WriteTarget
    keys: KeyGenerator
    columns: pa.Schema
    file: SourceFile


@dataclass(frozen=True, slots=True)
class Notes:
    """Where a task notes what it has finished, for a run that goes on after this one has died.

    `number`: that of the task; no other task whose files stay has it. It stands for the number that the engine gives,
    so that no two rows get one sequence number. `sources`: the identities of the task's source files, in their order.
    """

    folder: str
    number: int
    sources: tuple[SourceIdentity, ...]

    def context(self, context: TaskContext) -> TaskContext:
        """The identity of the task."""
        return replace(context, partition=self.number)

    def put(self, storage: Storage, first: int, count: int, stats: Sequence[WriteStat]) -> None:
        """Note these files of the table, which have all rows of `count` source files from `first` on. Cost: one put."""
        data = encode_note(self.number, self.sources[first : first + count], stats)
        storage.put(f"{self.folder}/{self.number}-{first}", data, durable=False)


@dataclass(frozen=True, slots=True)
class CopySourceTask:
    """Copy the rows of some files. `notes`: where that is noted; None: nowhere."""

    split: SplitTask
    files: tuple[SourceFile, ...]
    notes: Notes | None = None


@dataclass(frozen=True, slots=True)
class RepeatedKeysTask:
    """The skeleton files of one partition, their size in bytes, and where rows may wait on local disk."""

    storage: StorageSpec
    paths: tuple[str, ...]
    size: int
    spill_folder: str | None


@dataclass(frozen=True, slots=True)
class RepeatedKeys:
    """How many rows have the key of a row before them, and some of these keys."""

    rows: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A skeleton to write: its file id and partition, and the file that it stands beside."""

    file_id: str
    partition_path: str
    source: SourceFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SkeletonTask:
    """Write some skeletons. `key_columns`: the columns of record keys and partition paths, typed as in the table."""

    target: WriteTarget
    keys: KeyGenerator
    key_columns: pa.Schema
    skeletons: tuple[Skeleton, ...]
    notes: Notes


def write_skeletons(context: TaskContext, task: SkeletonTask) -> tuple[WriteStat, ...]:
    """Write the files and return their stats. Memory: one batch of key columns, and a row group of keys.

    Cost, beside that of the files: one put for each `NOTED_FILES` of them, or `NOTED_BYTES` of the source.

    Raises:
        RecordKeyError: a key is null or empty.
        ConfigError: rows of a file belong to another partition than that of its folder.
    """
    storage = open_spec(task.target.storage)
    context = task.notes.context(context)
    numbers = SequenceNumbers(task.target.instant_time, context)
    stats: list[WriteStat] = []
    noted = size = 0
    for skeleton in task.skeletons:
        ensure_partition(storage, skeleton.partition_path, task.target.instant_time)
        spec = DataFileSpec(
            target=task.target,
            context=context,
            partition_path=skeleton.partition_path,
            file_id=skeleton.file_id,
        )
        with DataFile(storage, spec, numbers) as file:
            for rows in _parts_of(skeleton):
                for keys in _record_keys(task, skeleton, rows):
                    file.append(pa.RecordBatch.from_arrays([keys], [RECORD_KEY]))
                if rows is not None:
                    file.flush()
            stats.append(file.close())
        size += skeleton.source.size
        if len(stats) - noted == NOTED_FILES or size >= NOTED_BYTES or len(stats) == len(task.skeletons):
            task.notes.put(storage, noted, len(stats) - noted, stats[noted:])
            noted, size = len(stats), 0
    return tuple(stats)


def _parts_of(skeleton: Skeleton) -> Sequence[range | None]:
    """The rows of a large file between which its skeleton begins row groups, too: readers read both in parts."""
    if skeleton.source.size < DIVIDED_FROM_BYTES:
        return (None,)
    return parts_of_source(skeleton.source, _place(skeleton), ROWS_PER_PART)


def _place(skeleton: Skeleton) -> str:
    return f"{skeleton.partition_path}/{skeleton.file_id}"


def _record_keys(task: SkeletonTask, skeleton: Skeleton, part: range | None) -> Iterator[pa.Array]:
    for batch in read_source_rows(skeleton.source, _place(skeleton), task.key_columns, rows=part):
        rows = align_incoming(batch, task.key_columns)
        try:
            keys = task.keys.record_keys(rows)
        except RecordKeyError as error:
            raise RecordKeyError(error.message, **{**error.context, "path": skeleton.source.uri}) from error
        for path in pc.unique(task.keys.partition_paths(rows).dictionary_decode()).to_pylist():
            if path != skeleton.partition_path:
                raise ConfigError(
                    "a file of the source has rows of another partition than that of its folder; name other partition "
                    "columns, set hoodie.datasource.write.hive_style_partitioning, or, for folders with escapes, "
                    "hoodie.datasource.write.partitionpath.urlencode or the Decoded… translator "
                    "(hoodie.bootstrap.partitionpath.translator.class); or use mode full_record, which moves rows",
                    path=skeleton.source.uri,
                    folder=skeleton.partition_path,
                    partition=path,
                )
        yield keys


def find_repeated_keys(_: TaskContext, task: RepeatedKeysTask) -> RepeatedKeys:
    """Sort the keys, and compare neighbours. Memory: see `sorted_rows`."""
    rows, examples, last = 0, list[str](), pa.scalar(None, pa.string())
    for batch in sorted_rows(
        _keys(task), SortOrder((RECORD_KEY,)), stored_bytes=task.size, spill_folder=task.spill_folder
    ):
        keys = pa.concat_arrays([pa.array([last.as_py()], pa.string()), batch.column(RECORD_KEY)])
        repeats = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False)
        rows += repeats.true_count
        if len(examples) < EXAMPLES_MAX:
            found = pc.unique(keys[1:].filter(repeats))[:EXAMPLES_MAX].to_pylist()
            examples += [key for key in found if key not in examples]
        last = keys[-1]
    return RepeatedKeys(rows, tuple(examples[:EXAMPLES_MAX]))


def _keys(task: RepeatedKeysTask) -> Iterator[pa.RecordBatch]:
    storage = open_spec(task.storage)
    for path in task.paths:
        yield from read_batches(storage, path, columns=[RECORD_KEY])


def copy_source(context: TaskContext, task: CopySourceTask) -> tuple[WriteStat, ...]:
    """Write the rows of the files, and return the stats. Memory: see `write_split`.

    Raises `RecordKeyError`, which names the file, for a key that is null or empty.
    """
    opened: list[SourceFile] = []
    context = context if task.notes is None else task.notes.context(context)
    try:
        stats = write_split(task.split, context, _rows(task, opened))
    except RecordKeyError as error:
        raise RecordKeyError(error.message, **{**error.context, "path": opened[-1].uri}) from error
    if task.notes is not None:
        task.notes.put(open_spec(task.split.target.storage), 0, len(task.files), stats)
    return stats


def _rows(task: CopySourceTask, opened: list[SourceFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, one after the other. `opened` gets each file whose rows are asked for."""
    schema = task.split.target.schema
    for file in task.files:
        opened.append(file)
        for batch in read_source_rows(file, file.uri, schema):
            yield align_incoming(batch, schema)


def seconds_per_row(context: TaskContext, task: SampleTask) -> float:
    """Seconds of one thread for each row; 0 for a file without rows. Memory: one batch, and a file of it."""
    rows, seconds = 0, 0.0
    for _ in range(_TURNS):
        begin = SYSTEM.clock.monotonic()
        rows = _copied(context, task)
        seconds = SYSTEM.clock.monotonic() - begin
    return seconds / rows if rows else 0.0


def _copied(context: TaskContext, task: SampleTask) -> int:
    batch = next(read_source_rows(task.file, task.file.uri, task.columns), None)
    if batch is None:
        return 0
    rows = align(batch, task.columns)
    own = [rows.column(name) for name in task.target.schema.names]
    keyed = pa.RecordBatch.from_arrays([task.keys.record_keys(rows), *own], [RECORD_KEY, *task.target.schema.names])
    spec = DataFileSpec(target=task.target, context=context, partition_path="", file_id="sample")
    with DataFile(MemoryStorage(), spec, SequenceNumbers(task.target.instant_time, context)) as file:
        file.append(keyed)
        return file.close().num_writes
