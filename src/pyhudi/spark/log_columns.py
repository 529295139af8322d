"""What a worker does for a column of log records. Apart from `spark/reader.py`, which takes long to load there."""

from __future__ import annotations

import pickle
import zlib
from functools import lru_cache

import numpy as np
import pyarrow as pa

from pyhudi.io.log_columns import LogColumns
from pyhudi.io.split_slice import part_of_logs
from pyhudi.read.scan import ScanPlan
from pyhudi.storage.opening import open_spec


def read_log_column(pickled: bytes, field: pa.Field, parts: pa.Array, places: pa.Array) -> pa.Array:
    """A column of log records, of which rows of one part come together."""
    part_numbers, numbers = parts.to_numpy(), places.to_numpy()
    ends = [*(np.flatnonzero(np.diff(part_numbers)) + 1).tolist(), len(numbers)]
    chunks: list[pa.Array] = []
    for first, end in zip([0, *ends], ends, strict=False):
        if first < end:
            columns = _open_log_columns(pickled, part_of_logs(int(part_numbers[first])))
            chunks += columns.take(field.name, numbers[first:end]).cast(field.type).chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.nulls(0, field.type)


@lru_cache(maxsize=1)
def _open_log_columns(pickled: bytes, number: int) -> LogColumns:
    """Kept from batch to batch, and from column to column, of the slice that a task is at."""
    # Spark's own cloudpickle wrote these bytes in this program's driver.
    plan: ScanPlan = pickle.loads(zlib.decompress(pickled))  # noqa: S301
    return LogColumns(open_spec(plan.storage), plan.merged[number].files, plan.merging)
