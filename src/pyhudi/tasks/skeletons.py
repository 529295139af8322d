"""Bootstrap of files that stay where they are: a skeleton file for each file of the source.

A skeleton has the five meta columns, and as many rows as its source file, in the same order. Of the source only the
columns of record keys and partition paths are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import ConfigError, RecordKeyError
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.schema.evolution import align_incoming
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.slices.base_rows import DIVIDED_FROM_BYTES, ROWS_PER_PART, parts_of_source, read_source_rows
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.open import open_spec
from pyhudi.tasks.data_file import DataFile, DataFileSpec, SequenceNumbers, WriteTarget, ensure_partition

SKELETON_SCHEMA = pa.schema([])
"""The columns of a skeleton beside the meta columns."""


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


def write_skeletons(context: TaskContext, task: SkeletonTask) -> tuple[WriteStat, ...]:
    """Write the files and return their stats. Memory: one batch of key columns, and a row group of keys.

    Raises:
        RecordKeyError: a key is null or empty.
        ConfigError: rows of a file belong to another partition than that of its folder.
    """
    storage = open_spec(task.target.storage)
    numbers = SequenceNumbers(task.target.instant_time, context)
    stats = []
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
