"""Bootstrap of files whose rows are copied: a bulk insert whose input is files of the source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import RecordKeyError
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.schema.evolution import align_incoming
from pyhudi.io.slices.base_rows import read_source_rows
from pyhudi.io.slices.files import SourceFile
from pyhudi.tasks.bulk_insert import SplitTask, write_split


@dataclass(frozen=True, slots=True)
class CopySourceTask:
    """Copy the rows of some files."""

    split: SplitTask
    files: tuple[SourceFile, ...]


def copy_source(context: TaskContext, task: CopySourceTask) -> tuple[WriteStat, ...]:
    """Write the rows of the files, and return the stats. Memory: see `write_split`.

    Raises `RecordKeyError`, which names the file, for a key that is null or empty.
    """
    opened: list[SourceFile] = []
    try:
        return write_split(task.split, context, _rows(task, opened))
    except RecordKeyError as error:
        raise RecordKeyError(error.message, **{**error.context, "path": opened[-1].uri}) from error


def _rows(task: CopySourceTask, opened: list[SourceFile]) -> Iterator[pa.RecordBatch]:
    """The rows of the files, one after the other. `opened` gets each file whose rows are asked for."""
    schema = task.split.target.schema
    for file in task.files:
        opened.append(file)
        for batch in read_source_rows(file, file.uri, schema):
            yield align_incoming(batch, schema)
