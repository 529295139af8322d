"""Timing of a bootstrap by some rows of its source, which are written into memory."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.environment import SYSTEM
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.slices.base_rows import read_source_rows
from pyhudi.io.slices.files import SourceFile
from pyhudi.storage.memory import MemoryStorage
from pyhudi.tasks.data_file import DataFile, DataFileSpec, SequenceNumbers, WriteTarget

_TURNS = 2
"""The first turn loads what the process has not used yet, and is not counted."""


@dataclass(frozen=True, slots=True)
class SampleTask:
    """The first rows of a file. `columns`: those that are read; `target` has those that are written."""

    target: WriteTarget
    keys: KeyGenerator
    columns: pa.Schema
    file: SourceFile


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
