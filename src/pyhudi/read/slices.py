"""Reading one slice of a scan. Separate from `read/arrow.py`, whose libraries take long to load in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import HistoryNotRetainedError, NotFoundError
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import COMMIT_TIME
from pyhudi.io.base_file import OpenedFile
from pyhudi.io.slices.base_rows import read_base_rows
from pyhudi.io.slices.changed import read_changed
from pyhudi.io.slices.merged import read_merged
from pyhudi.read.folder_constants import constants_of
from pyhudi.read.scan import ScanPlan, ScanSlice
from pyhudi.storage.naming import naming
from pyhudi.storage.protocol import Storage


def read_slice(
    storage: Storage,
    plan: ScanPlan,
    scan_slice: ScanSlice,
    columns: Sequence[str],
    rows: range | None = None,
    opened: OpenedFile | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one slice of a scan, with these columns: those of its range of time. Conditions are not applied.

    `rows`: those of a part of a slice without logs; None for all. `opened`: its base file, if the caller has it open.
    """
    if plan.commit_times is None:
        yield from _all_rows(storage, plan, scan_slice, columns, rows, opened)
        return
    if scan_slice.files.logs and plan.merging.commit_times is not None:
        constants, names = constants_of(plan, scan_slice), _in_files(plan, columns)
        with missing_files_named(storage):
            for batch in read_changed(storage, scan_slice.files, scan_slice.earlier, plan.merging, names):
                yield _with_constants(constants, batch, columns)
        return
    in_range = pa.array(sorted(plan.commit_times), pa.string())
    for batch in _all_rows(storage, plan, scan_slice, list(dict.fromkeys([*columns, COMMIT_TIME])), rows, opened):
        yield batch.filter(pc.is_in(batch.column(COMMIT_TIME), value_set=in_range)).select(list(columns))


def _all_rows(
    storage: Storage,
    plan: ScanPlan,
    scan_slice: ScanSlice,
    columns: Sequence[str],
    rows: range | None,
    opened: OpenedFile | None,
) -> Iterator[pa.RecordBatch]:
    if not scan_slice.files.logs:
        yield from _base_rows(storage, plan, scan_slice, columns, rows, opened)
        return
    constants = constants_of(plan, scan_slice)
    with missing_files_named(storage):
        for batch in read_merged(storage, scan_slice.files, plan.merging, _in_files(plan, columns)):
            yield _with_constants(constants, batch, columns)


def _base_rows(
    storage: Storage,
    plan: ScanPlan,
    scan_slice: ScanSlice,
    columns: Sequence[str],
    rows: range | None,
    opened: OpenedFile | None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one slice without logs, with these columns, in batches of bounded bytes, also for wide rows."""
    in_files = _in_files(plan, columns)
    schema = pa.schema([plan.schema.field(name).with_nullable(True) for name in in_files])
    constants = constants_of(plan, scan_slice)
    with missing_files_named(storage):
        for batch in read_base_rows(storage, scan_slice.files, schema, rows=rows, opened=opened):
            yield _with_constants(constants, align(batch, schema), columns)
            del batch


def _in_files(plan: ScanPlan, columns: Sequence[str]) -> list[str]:
    return [name for name in columns if name not in plan.path_columns]


def _with_constants(
    constants: Mapping[str, pa.Scalar], batch: pa.RecordBatch, columns: Sequence[str]
) -> pa.RecordBatch:
    """The batch with the columns that its folder tells."""
    arrays = [
        pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name) for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@contextmanager
def missing_files_named(storage: Storage) -> Iterator[None]:
    """Convert the error for a file that was deleted since the read was planned; it and others name the table."""
    with naming(storage):
        try:
            yield
        except NotFoundError as error:
            raise gone_meanwhile(error.context.get("path")) from error


def gone_meanwhile(path: str | None) -> HistoryNotRetainedError:
    """The error for a file that was deleted since the read was planned."""
    return HistoryNotRetainedError(
        "a file of this read has been deleted since the read was planned, as cleaners do with files that newer ones "
        "replace: refresh() the table, or load it anew, and read again",
        path=path,
    )
