"""Bulk insert: a split's rows go into new file groups as they come, without an index and without a plan.

Rows wait by partition path until they make a row group, so few files are open however many partitions there are. When
those that wait take too much memory, they go where they do least harm: into their files where that makes large row
groups, or where the input has left their partitions behind; else to local disk, until the input has ended.
"""

from __future__ import annotations

import itertools
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
import pyarrow as pa

from pyhudi.engine.protocol import TaskContext
from pyhudi.engine.spilled_rows import SpilledRows
from pyhudi.errors import LockLostError
from pyhudi.format.file_names import file_id
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.markers import Marker, MarkerKind
from pyhudi.format.metadata.commit import WriteStat
from pyhudi.format.schema.meta_columns import PARTITION_PATH
from pyhudi.io.base_file import ROW_GROUP_BYTES
from pyhudi.merge.rules import first_versions
from pyhudi.storage.open import open_spec
from pyhudi.table.plain_partitions import check_not_plain
from pyhudi.tasks.data_file import (
    DataFile,
    DataFileSpec,
    SequenceNumbers,
    WriteTarget,
    ensure_partition,
)
from pyhudi.tasks.hash_keys import keyed_rows
from pyhudi.transaction.markers.announcing import create_markers, remove_markers

BUFFERED_BYTES = 256 * 1024 * 1024
"""Rows of one task that wait in memory, all partitions together."""
OPEN_FILES_MAX = 16
LARGE_PART_BYTES = BUFFERED_BYTES // OPEN_FILES_MAX
"""What waits of a partition and is worth a row group of its own."""
JOINED_BYTES_MAX = 1 << 30
"""Batches are joined up to this size: an Arrow array holds no more than twice as much text."""
IDLE_BATCHES = 4
"""After so many batches without one of its rows the input is taken to have left a partition behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Write the rows of any split.

    `seed` makes file ids unique to the write. Attempts of a task share them, whatever order their rows come in: an
    attempt that outlives the commit then writes into groups that the commit lists with another file, which counts.
    `spill_folder`: where rows may wait on local disk; None: where the system has temporary files.
    """

    target: WriteTarget
    keys: KeyGenerator
    seed: str
    spill_folder: str | None = None


def write_split(task: SplitTask, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> tuple[WriteStat, ...]:
    """Write a split into files that are closed at the maximum file size.

    Memory: `BUFFERED_BYTES`, one batch, and the filters of `OPEN_FILES_MAX` files. The input is sorted by partition
    path, or has few partitions, or more of its rows than fit into memory go through local disk once.
    """
    target = task.target
    with SpilledRows(task.spill_folder) as spilled, _SplitFiles(task, context) as files:
        waiting, row = _Waiting(), 0
        row_group = min(ROW_GROUP_BYTES, target.files.row_group_size)
        for batch in batches:
            if batch.num_rows:
                rows = keyed_rows(task.keys, target.schema, target.instant_time, context, batch, row)
                waiting.add(first_versions(target.rules.merger, rows))
                row += batch.num_rows
                for path in waiting.larger_than(row_group):
                    files.write(path, waiting.take(path))
                if waiting.bytes + files.buffered_bytes > BUFFERED_BYTES:
                    _make_room(waiting, files, spilled)
        rest = dict.fromkeys([*spilled.names(), *waiting.parts])
        files.create_markers(rest)
        for path in rest:
            for rows in itertools.chain(spilled.read(path), waiting.take(path)):
                files.write(path, [rows])
            files.finish(path)
        return files.close()


@dataclass(slots=True)
class _Part:
    """The waiting rows of one partition."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    last_seen: int = 0


class _Waiting:
    """Rows in memory, by partition path."""

    def __init__(self) -> None:
        self.parts: dict[str, _Part] = {}
        self.bytes = 0
        self._batches = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Distribute a batch over its partition paths."""
        self._batches += 1
        paths = rows.column(PARTITION_PATH).dictionary_encode()
        values = paths.dictionary.to_pylist()
        # Where they wait tells it; copies of it would be of no use.
        rows = rows.drop_columns([PARTITION_PATH])
        if len(values) == 1:
            self._put(values[0], rows)
            return
        codes = paths.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
        for value, start, end in zip(values, bounds[:-1], bounds[1:], strict=True):
            # Taken one by one: slices of one copy would keep all of it in memory until the last of them is written.
            self._put(value, rows.take(pa.array(order[start:end])))

    def take(self, path: str) -> list[pa.RecordBatch]:
        """The rows of a partition, which wait no longer."""
        part = self.parts.pop(path, None) or _Part()
        self.bytes -= part.bytes
        is_joined = len(part.batches) > 1 and part.bytes < JOINED_BYTES_MAX
        return [pa.concat_batches(part.batches)] if is_joined else part.batches

    def larger_than(self, size: int) -> list[str]:
        """The partitions of which at least so many bytes wait."""
        return [path for path, part in self.parts.items() if part.bytes >= size]

    def idle(self) -> list[str]:
        """The partitions that the input seems to be done with."""
        return [path for path, part in self.parts.items() if self._batches - part.last_seen >= IDLE_BATCHES]

    def _put(self, path: str, rows: pa.RecordBatch) -> None:
        part = self.parts.setdefault(path, _Part())
        part.batches.append(rows)
        part.bytes += rows.nbytes
        part.last_seen = self._batches
        self.bytes += rows.nbytes


def _make_room(waiting: _Waiting, files: _SplitFiles, spilled: SpilledRows) -> None:
    """Let rows wait no longer in memory, some of them or all."""
    idle = waiting.idle()
    if 2 * sum(waiting.parts[path].bytes for path in idle) >= waiting.bytes:
        files.create_markers(idle)
        for path in idle:
            files.write(path, waiting.take(path))
            files.finish(path)
        return
    large = waiting.larger_than(LARGE_PART_BYTES)
    for path in large:
        files.write(path, waiting.take(path))
    files.flush()
    if not large:
        for path in list(waiting.parts):
            for rows in waiting.take(path):
                spilled.write(path, rows)


class _SplitFiles:
    """The files of one split: one after the other in each partition, few of them open at a time."""

    def __init__(self, task: SplitTask, context: TaskContext) -> None:
        self._storage, self._task, self._context = open_spec(task.target.storage), task, context
        self._open: dict[str, DataFile] = {}
        self._next: dict[str, DataFileSpec] = {}
        self._stats: list[WriteStat] = []
        self._announced: list[Marker] = []
        self._begun: Counter[str] = Counter()
        self._numbers = SequenceNumbers(task.target.instant_time, context)
        self._uuid = uuid.uuid5(uuid.UUID(task.seed), str(context.partition))

    def __enter__(self) -> _SplitFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not held by an ExitStack: it would keep the filters of all files that were ever open.
        for file in self._open.values():
            file.__exit__(kind, error, trace)
        if isinstance(error, LockLostError):  # the write has ended
            target = self._task.target
            remove_markers(self._storage, target.instant_time, target.markers, self._announced)

    def create_markers(self, partition_paths: Iterable[str]) -> None:
        """Create the marker of the next file of each partition without one, all at once: they may be hundreds."""
        target = self._task.target
        new = {
            path: DataFileSpec(
                target=target,
                context=self._context,
                partition_path=path,
                file_id=self._next_group(path),
                has_marker=True,
            )
            for path in partition_paths
            if path not in self._open and path not in self._next
        }
        markers = [Marker(spec.path, MarkerKind.CREATE) for spec in new.values()]
        if markers:
            create_markers(self._storage, target.instant_time, target.markers, markers, groups_exist=False)
            self._announced += markers
        self._next.update(new)

    def write(self, partition_path: str, batches: Iterable[pa.RecordBatch]) -> None:
        """Write rows as row groups. A file that reaches the maximum size is closed, and the next one takes the rest."""
        for rows in batches:
            start = 0
            while start < rows.num_rows:
                file = self._file(partition_path)
                start += file.append_fitting(rows.slice(start))
                if file.is_full():
                    self.finish(partition_path)

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes that the open files hold for their next row groups."""
        return sum(file.buffered_bytes for file in self._open.values())

    def flush(self) -> None:
        """Write what the open files hold as row groups."""
        for file in self._open.values():
            file.flush()

    def finish(self, partition_path: str) -> None:
        """Close the file that is open in a partition, if there is one."""
        file = self._open.pop(partition_path, None)
        if file is not None:
            self._stats.append(file.close())

    def close(self) -> tuple[WriteStat, ...]:
        """Close all files."""
        for path in list(self._open):
            self.finish(path)
        return tuple(self._stats)

    def _file(self, partition_path: str) -> DataFile:
        file = self._open.pop(partition_path, None)
        if file is None:
            while len(self._open) >= OPEN_FILES_MAX:
                self.finish(next(iter(self._open)))
            self.create_markers([partition_path])
            check_not_plain(self._storage, partition_path)
            ensure_partition(self._storage, partition_path, self._task.target.instant_time)
            file = DataFile(self._storage, self._next.pop(partition_path), self._numbers)
        # The one that was not used for longest is the first.
        self._open[partition_path] = file
        return file

    def _next_group(self, partition_path: str) -> str:
        """The id of the next file group of this task in a partition."""
        number = self._begun[partition_path]
        self._begun[partition_path] += 1
        return file_id(str(uuid.uuid5(self._uuid, partition_path)), number)
