"""Reading one merged slice of a scan. Apart from `read/arrow.py`, whose libraries take long to load in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from pyhudi.io.merged_slice import read_merged
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.protocol import Storage


def read_slice(storage: Storage, plan: ScanPlan, one: ScanSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The merged rows of one slice of a scan, with these columns; conditions of the scan are not applied."""
    in_files = [name for name in columns if name not in plan.path_columns]
    values = dict(one.partition_values)
    for batch in read_merged(storage, one.files, plan.merging, in_files):
        arrays = [
            pa.repeat(pa.scalar(values.get(name), pa.string()), batch.num_rows)
            if name in plan.path_columns
            else batch.column(name)
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
