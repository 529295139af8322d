"""Reads of single columns of base files in a worker. Separate from `closed_stores.py`, which workers load slowly."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.format.pieces import runs, take_rows
from pyhudi.io.base_file import OpenedFile, opened_base_file, row_group_ends
from pyhudi.io.slices.files import SliceFiles
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.read.slices import missing_files_named, read_slice
from pyhudi.spark.reads.log_columns import read_log_column, unpacked_plan
from pyhudi.spark.workers import begin_task
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import Storage

FIRST, END = "first", "end"
ROW_GROUPS_TYPE = pa.list_(pa.struct([(FIRST, pa.int64()), (END, pa.int64())]))


@dataclass
class _BaseFile:
    """An open base file, and the row group of each of its columns that was asked for last."""

    storage: Storage
    plan: ScanPlan
    file_slice: ScanSlice
    closing: ExitStack = field(default_factory=ExitStack)
    pieces: dict[str, tuple[int, pa.Table]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        base = self.file_slice.files.base
        assert base is not None
        self._opened: OpenedFile = self.closing.enter_context(opened_base_file(self.storage, base))
        self._ends = np.array(row_group_ends(self._opened[1].metadata), dtype=np.int64)

    def take(self, name: str, places: npt.NDArray[np.int64]) -> list[pa.Array]:
        """A column's values of these rows."""
        groups = np.searchsorted(self._ends, places, side="right")
        chunks: list[pa.Array] = []
        for begin, end in runs(groups):
            group = int(groups[begin])
            first = int(self._ends[group - 1]) if group else 0
            rows, inside = self._row_group(name, group, first), places[begin:end] - first
            if (np.diff(inside) == 1).all():
                chunks += rows.slice(int(inside[0]), len(inside)).column(0).chunks
            else:
                chunks.append(take_rows(rows, inside).column(0))
        return chunks

    def _row_group(self, name: str, group: int, first: int) -> pa.Table:
        known, rows = self.pieces.get(name, (-1, None))
        if known != group:
            self.pieces.pop(name, None)
            span = range(first, int(self._ends[group]))
            read = read_slice(self.storage, self.plan, self.file_slice, [name], span, opened=self._opened)
            rows = pa.Table.from_batches(list(read))
            self.pieces[name] = group, rows
        return rows


@dataclass
class _Worker:
    """What the running tasks have open: the plan, and base files by the number of their slice."""

    plan: ScanPlan
    storage: Storage
    files: dict[int, _BaseFile] = field(default_factory=dict)

    @classmethod
    def of(cls, pickled: bytes) -> _Worker:
        # Spark itself leaves out the rows that are not of a range of time.
        plan = replace(unpacked_plan(pickled), commit_times=None)
        return cls(plan, open_spec(plan.storage))

    def keep(self, numbers: set[int]) -> None:
        """Open the base files of a batch, and close all others. Spark reads all columns of a batch before the next."""
        for number in self.files.keys() - numbers:
            self.files.pop(number).closing.close()
        for number in sorted(numbers - self.files.keys()):
            file_slice = self.plan.slices[number]
            alone = replace(file_slice, files=SliceFiles(file_slice.files.base, (), names=file_slice.files.names))
            self.files[number] = _BaseFile(self.storage, self.plan, alone)


_worker: dict[bytes, _Worker] = {}


def _worker_of(pickled: bytes) -> _Worker:
    begin_task()
    if pickled not in _worker:
        for other in _worker.values():
            other.keep(set())
        _worker.clear()
        _worker[pickled] = _Worker.of(pickled)
    return _worker[pickled]


def row_groups(pickled: bytes, parts: pa.Array) -> pa.Array:
    """The first row and the end of each row group of some base files, which are given by the numbers of their slices.

    Cost: the footers.
    """
    worker, found = _worker_of(pickled), []
    with missing_files_named(worker.storage):
        for number in parts.to_pylist():
            base = worker.plan.slices[number].files.base
            assert base is not None
            with opened_base_file(worker.storage, base) as (_, parquet):
                ends = row_group_ends(parquet.metadata)
            found.append([{FIRST: first, END: end} for first, end in zip((0, *ends), ends, strict=False)])
    return pa.array(found, ROW_GROUPS_TYPE)


def read_file_column(pickled: bytes, name: str, kind: pa.DataType, parts: pa.Array, places: pa.Array) -> pa.Array:
    """The values of one column for rows of base files and for log records, of which those of a part are adjacent.

    A batch may have both, because Spark may make one partition of those of a union. Cost: the column in the row groups
    that have the rows, once for neighbouring batches; a footer for each file.
    """
    of_logs = parts.to_numpy() < 0
    chunks: list[pa.Array] = []
    for begin, end in runs(of_logs):
        read = read_log_column if of_logs[begin] else _read_base_column
        chunks.append(read(pickled, name, kind, parts.slice(begin, end - begin), places.slice(begin, end - begin)))
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _read_base_column(pickled: bytes, name: str, kind: pa.DataType, parts: pa.Array, places: pa.Array) -> pa.Array:
    worker, numbers, at = _worker_of(pickled), parts.to_numpy(), places.to_numpy()
    chunks: list[pa.Array] = []
    with missing_files_named(worker.storage):
        worker.keep({*np.unique(numbers).tolist()})
        for begin, end in runs(numbers):
            chunks += worker.files[int(numbers[begin])].take(name, at[begin:end])
    chunks = [chunk.cast(kind) for chunk in chunks]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
