"""Reading one merged slice of a scan. Apart from `read/arrow.py`, whose libraries take long to load in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from pyhudi.errors import HistoryNotRetainedError, NotFoundError
from pyhudi.io.merged_slice import read_merged
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.protocol import Storage


def read_slice(storage: Storage, plan: ScanPlan, one: ScanSlice, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The merged rows of one slice of a scan, with these columns; conditions of the scan are not applied."""
    in_files = [name for name in columns if name not in plan.path_columns]
    values = dict(one.partition_values)
    with missing_files_named():
        for batch in read_merged(storage, one.files, plan.merging, in_files):
            arrays = [
                pa.repeat(pa.scalar(values.get(name), pa.string()), batch.num_rows)
                if name in plan.path_columns
                else batch.column(name)
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def missing_files_named() -> Iterator[None]:
    """Say of a file that was there when the read was planned, and is not any more, what has become of it."""
    try:
        yield
    except NotFoundError as error:
        raise HistoryNotRetainedError(
            "a file of this read has been deleted since the read was planned, as cleaners do with files that newer "
            "ones replace: refresh() the table, or load it anew, and read again",
            path=error.context.get("path"),
        ) from error
