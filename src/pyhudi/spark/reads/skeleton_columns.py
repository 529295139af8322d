"""Reads of single columns of skeleton files in a worker. Separate from `bootstrapped.py`, which workers load slowly."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from pyhudi.format.keys.partition_paths import typed_value
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.base_file import opened_base_file
from pyhudi.io.slices.files import SliceFiles
from pyhudi.read.scan import ScanPlan
from pyhudi.read.slices import missing_files_named
from pyhudi.spark.reads.log_columns import unpacked_plan
from pyhudi.spark.workers import begin_task
from pyhudi.storage.open import open_spec
from pyhudi.storage.paths import local_path
from pyhudi.storage.protocol import Storage


def plain_place(uri: str) -> str:
    """A file's place without what Spark, Hadoop and pyhudi write differently: slashes before it, the scheme of S3."""
    place = str(local_path(uri) or uri)
    return "/" + place.lstrip("/") if "://" not in place else place.replace("s3a://", "s3://", 1)


def place_of_spark(path: str) -> str:
    """The place of a file by `_metadata.file_path`, which has escapes."""
    return plain_place(urllib.parse.unquote(path))


@dataclass
class _Worker:
    """What the running tasks have open: the plan, its slices by the place of the source, and a piece of a column."""

    plan: ScanPlan
    storage: Storage
    slices: dict[str, SliceFiles]
    pieces: dict[tuple[str, str], tuple[int, pa.Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, pickled: bytes) -> _Worker:
        plan = unpacked_plan(pickled)
        slices = {
            plain_place(file_slice.files.source.uri): file_slice.files
            for file_slice in plan.slices
            if file_slice.files.source is not None
        }
        return cls(plan, open_spec(plan.storage), slices)

    def values(self, name: str, kind: pa.DataType, files: SliceFiles, first: int, last: int) -> pa.Array:
        """A column of the rows from `first` to before `last`, whose types may be what Spark prefers."""
        if name in META_COLUMNS:
            assert files.base is not None
            return self._of_skeleton(files.base, name, first, last).cast(kind)
        assert files.source is not None
        text = dict(files.source.path_values).get(name)
        value = None if text is None else typed_value(text, self.plan.schema.field(name).type)
        return pa.nulls(last - first, kind) if value is None else pa.repeat(value, last - first).cast(kind)

    def _of_skeleton(self, path: str, name: str, first: int, last: int) -> pa.Array:
        begin, piece = self.pieces.get((path, name), (0, pa.array([], pa.string())))
        if not (begin <= first and last <= begin + len(piece)):
            begin, piece = _row_groups(self.storage, path, name, first, last)
            for key in [key for key in self.pieces if key[0] != path]:
                del self.pieces[key]
            self.pieces[path, name] = begin, piece
        return piece.slice(first - begin, last - first)


_worker: dict[bytes, _Worker] = {}


def read_skeleton_column(pickled: bytes, name: str, kind: pa.DataType, paths: pa.Array, rows: pa.Array) -> pa.Array:
    """The values of one column for rows of source files, by `_metadata.file_path` and the number of the row in it.

    Cost: the row groups of the skeleton that have the rows, once for neighbouring batches.
    """
    begin_task()
    if pickled not in _worker:
        _worker.clear()
        _worker[pickled] = _Worker.of(pickled)
    worker, numbers = _worker[pickled], rows.to_numpy()
    codes = paths.dictionary_encode()
    at = codes.indices.to_numpy()
    ends = [*(np.flatnonzero((np.diff(at) != 0) | (np.diff(numbers) != 1)) + 1).tolist(), len(numbers)]
    chunks = []
    with missing_files_named(worker.storage):
        for first, end in zip([0, *ends], ends, strict=False):
            files = worker.slices[place_of_spark(codes.dictionary[int(at[first])].as_py())]
            chunks.append(worker.values(name, kind, files, int(numbers[first]), int(numbers[end - 1]) + 1))
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _row_groups(storage: Storage, path: str, name: str, first: int, last: int) -> tuple[int, pa.Array]:
    """A column of the row groups with these rows, and the number of its first row."""
    with opened_base_file(storage, path) as (_, parquet):
        sizes = [parquet.metadata.row_group(number).num_rows for number in range(parquet.num_row_groups)]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        low = int(np.searchsorted(starts, first, side="right")) - 1
        high = int(np.searchsorted(starts, last, side="left"))
        column = parquet.read_row_groups(list(range(low, high)), columns=[name], use_threads=False).column(0)
    return int(starts[low]), pa.concat_arrays(column.cast(pa.string()).chunks)
