"""Reads of single columns of log records in a worker. Separate from `reader.py`, because workers load that slowly."""

from __future__ import annotations

import pickle
import zlib

import numpy as np
import pyarrow as pa

from pyhudi.format.pieces import runs
from pyhudi.io.log.columns import LogColumns
from pyhudi.io.slices.mask import part_of_logs
from pyhudi.read.scan import ScanPlan
from pyhudi.spark.workers import begin_task
from pyhudi.storage.open import open_spec

_open: dict[tuple[bytes, int], LogColumns] = {}
"""The open slices of the running task, by plan and slice number: reused for all columns and for later batches."""


def unpacked_plan(pickled: bytes) -> ScanPlan:
    """The plan of a scan. This program's driver has pickled it with Spark's cloudpickle, and compressed it."""
    plan: ScanPlan = pickle.loads(zlib.decompress(pickled))  # noqa: S301
    return plan


def read_log_column(pickled: bytes, name: str, kind: pa.DataType, parts: pa.Array, places: pa.Array) -> pa.Array:
    """The values of one column for log records at these positions. Records of the same part must be adjacent."""
    begin_task()
    part_numbers, places_of_part = parts.to_numpy(), places.to_numpy()
    _keep(pickled, {part_of_logs(part) for part in np.unique(part_numbers).tolist()})
    chunks: list[pa.Array] = []
    for first, end in runs(part_numbers):
        slice_logs = _open[pickled, part_of_logs(int(part_numbers[first]))]
        chunks += slice_logs.take(name, places_of_part[first:end]).cast(kind).chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def _keep(pickled: bytes, numbers: set[int]) -> None:
    """Open the slices of a batch and close all others. Spark reads all columns of a batch before the next batch."""
    for key in [key for key in _open if key[0] != pickled or key[1] not in numbers]:
        del _open[key]
    missing = [number for number in numbers if (pickled, number) not in _open]
    if missing:
        plan = unpacked_plan(pickled)
        storage, slices = open_spec(plan.storage), plan.merged
        for number in missing:
            _open[pickled, number] = LogColumns(storage, slices[number].files, plan.merging)
