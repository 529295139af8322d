"""A slice with logs in two parts: which rows of its base file do not count, and the rows of its logs that do.

An engine that reads base files by itself, columns and row groups pruned, needs no more than that to have the merged
slice. Only for rules that select one of the versions of a record. Both parts name rows by numbers:

    base file   crc32(name of the file) * 2^31 + position of the row
    logs        -(1 + number of the slice * 2^31 + number of the record)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.evolution import align
from pyhudi.format.meta_columns import RECORD_KEY
from pyhudi.io.base_file import read_batches, read_footer
from pyhudi.io.log_changes import merge_logs
from pyhudi.io.log_records import LogVersions, read_log_versions
from pyhudi.io.merged_slice import MergeSettings, SliceFiles, read_merged, stays_as_it_is
from pyhudi.storage.protocol import Storage

ROW_NUMBER: Final = "__row_number"
ROWS_PER_FILE: Final = 2**31
KEY_BATCH_ROWS: Final = 1_000_000


def file_number(path: str) -> int:
    """What stands for a base file in the numbers of its rows. The caller sees to it that no two files share one."""
    return zlib.crc32(path.rpartition("/")[2].encode())


def rows_out_of_use(
    storage: Storage, files: SliceFiles, settings: MergeSettings, number: int
) -> Iterator[pa.RecordBatch]:
    """Numbers of stored rows that the logs replace or delete, and of log records that lose against stored rows.

    One column, `ROW_NUMBER`. Cost: keys and ordering values, of the base file and of the logs. Errors: see
    `merge_slice`.
    """
    if files.base is None:
        return
    schema = settings.looked_at([RECORD_KEY])
    versions = _versions(storage, files, settings, schema)
    first = file_number(files.base) * ROWS_PER_FILE
    if versions.column_sets:
        yield _numbers(first + np.arange(read_footer(storage, files.base).rows, dtype=np.int64))
        return
    changes = merge_logs(settings.rules, versions)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    for batch in read_batches(storage, files.base, columns=schema.names, batch_rows=KEY_BATCH_ROWS):
        stored = align(batch, nullable)
        at = pc.index_in(stored.column(RECORD_KEY), value_set=changes.keys)
        places = np.flatnonzero(at.is_valid().to_numpy(zero_copy_only=False))
        changed_by = at.drop_null().to_numpy().astype(np.int64)
        stays = stays_as_it_is(settings.rules, stored.take(pa.array(places)), changes.take(changed_by))
        yield _numbers(np.concatenate([first + places[~stays], _log_numbers(number, changed_by[stays])]))
        first += batch.num_rows


def rows_of_logs(
    storage: Storage, files: SliceFiles, settings: MergeSettings, columns: Sequence[str], number: int
) -> Iterator[pa.RecordBatch]:
    """The live records of the logs with these columns, and `ROW_NUMBER`; not yet without those that lose.

    Of logs with rows that say only some columns, the whole merged slice, whose rows have no numbers. Cost: the logs.
    """
    schema = settings.looked_at(columns)
    versions = _versions(storage, files, settings, schema)
    if versions.column_sets:
        for rows in read_merged(storage, files, settings, columns):
            yield rows.append_column(ROW_NUMBER, pa.nulls(rows.num_rows, pa.int64()))
        return
    changes = merge_logs(settings.rules, versions)
    live = np.flatnonzero(~changes.deleted.to_numpy(zero_copy_only=False))
    for start in range(0, len(live), KEY_BATCH_ROWS):
        numbers = live[start : start + KEY_BATCH_ROWS]
        rows = changes.take(numbers).select(list(columns))
        yield rows.append_column(ROW_NUMBER, pa.array(_log_numbers(number, numbers)))


def _versions(storage: Storage, files: SliceFiles, settings: MergeSettings, schema: pa.Schema) -> LogVersions:
    return read_log_versions(
        storage, files.logs, schema, settings.rules.in_logs, blocks=settings.blocks, spill=settings.spill
    )


def _log_numbers(number: int, records: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return -(1 + number * ROWS_PER_FILE + records)


def _numbers(numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(numbers, pa.int64())], names=[ROW_NUMBER])
