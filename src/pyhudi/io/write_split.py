"""Bulk insert: a split's rows go into new file groups as they come, without an index and without a plan.

Source: mission rows S1-36, S2-38; `format/timeline.md` 4.1.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.format.commit_metadata import WriteStat
from pyhudi.format.file_names import file_id
from pyhudi.format.keys import KeyGenerator
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.merge_rules import first_versions
from pyhudi.format.meta_columns import PARTITION_PATH
from pyhudi.io.data_file import DataFile, SequenceNumbers, WriteTarget, base_file_path, ensure_partition
from pyhudi.io.keyed import keyed_rows
from pyhudi.storage.opening import open_spec
from pyhudi.storage.protocol import Storage
from pyhudi.table.markers.announcing import announce

BUFFERED_BYTES = 256 * 1024 * 1024
"""When the open files of one task hold more rows than this in memory, the fullest writes its row group early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Write the rows of any split.

    `seed` makes file ids unique to the write. Attempts of a task share them, whatever order their rows come in: an
    attempt that outlives the commit then writes into groups that the commit lists with another file, which counts.
    """

    target: WriteTarget
    keys: KeyGenerator
    seed: str


def write_split(task: SplitTask, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> tuple[WriteStat, ...]:
    """Write a split as it comes: one open file per partition path, rolled over at the maximum file size.

    Memory: `BUFFERED_BYTES` and one batch.
    """
    with ExitStack() as stack:
        target = task.target
        files = _OpenFiles(open_spec(target.storage), task, context, stack)
        row = 0
        for batch in batches:
            if batch.num_rows:
                rows = keyed_rows(task.keys, target.schema, target.instant_time, context, batch, row)
                files.write(first_versions(target.rules.merger, rows))
                row += batch.num_rows
        return files.close()


class _OpenFiles:
    """The files of one split: at most one open per partition path."""

    def __init__(self, storage: Storage, task: SplitTask, context: TaskContext, stack: ExitStack) -> None:
        self._storage, self._task, self._context, self._stack = storage, task, context, stack
        self._open: dict[str, DataFile] = {}
        self._stats: list[WriteStat] = []
        self._opened: Counter[str] = Counter()
        self._numbers = SequenceNumbers(task.target.instant_time, context)
        self._uuid = uuid.uuid5(uuid.UUID(task.seed), str(context.partition))

    def write(self, rows: pa.RecordBatch) -> None:
        """Distribute a batch over the files of its partition paths."""
        paths = rows.column(PARTITION_PATH).dictionary_encode()
        codes = paths.indices.to_numpy()
        values = paths.dictionary.to_pylist()
        self._open_files([value for value in values if value not in self._open])
        if len(values) == 1:
            self._append(values[0], rows)
            return
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
        for value, start, end in zip(values, bounds[:-1], bounds[1:], strict=True):
            # Taken one by one: slices of one copy would keep all of it in memory until the slowest file is flushed.
            self._append(value, rows.take(pa.array(order[start:end])))

    def close(self) -> tuple[WriteStat, ...]:
        """Finish all files."""
        self._stats.extend(file.close() for file in self._open.values())
        self._open.clear()
        return tuple(self._stats)

    def _append(self, partition_path: str, rows: pa.RecordBatch) -> None:
        file = self._open[partition_path]
        file.append(rows)
        if file.size_estimate >= self._task.target.files.max_file_size:
            self._stats.append(self._open.pop(partition_path).close())
        elif sum(other.buffered_bytes for other in self._open.values()) > BUFFERED_BYTES:
            max(self._open.values(), key=lambda other: other.buffered_bytes).flush()

    def _open_files(self, partition_paths: list[str]) -> None:
        """Begin a file in each of the partitions. All are announced at once: a batch may open hundreds."""
        target = self._task.target
        new = [(path, self._next_group(path)) for path in partition_paths]
        markers = [Marker(base_file_path(target, self._context, path, group), MarkerKind.CREATE) for path, group in new]
        if markers:
            announce(self._storage, target.instant_time, target.markers, markers, groups_exist=False)
        for path, group in new:
            ensure_partition(self._storage, path, target.instant_time)
            file = DataFile(
                self._storage, target, self._context, path, group, None, numbers=self._numbers, is_announced=True
            )
            self._open[path] = self._stack.enter_context(file)

    def _next_group(self, partition_path: str) -> str:
        """The id of the next file group of this task in a partition."""
        number = self._opened[partition_path]
        self._opened[partition_path] += 1
        return file_id(str(uuid.uuid5(self._uuid, partition_path)), number)
