"""Changes in the logs of a slice: one merged row per record, to be merged with its stored row."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.pieces import PIECE_BYTES, one_batch, row_bytes, take_rows, within_arrays
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.log.records import LogVersions
from pyhudi.merge.control_columns import BY_COMMIT_TIME, CONTROL_COLUMNS, DELETED, FRESH, HIDES
from pyhudi.merge.log_merge import apply_log_merge_rule
from pyhudi.merge.rules import OF_THE_WRITE
from pyhudi.merge.table_rules import TableRules
from pyhudi.merge.versions import merge_versions

_VERSION = "#version"
"""The column with the number of the version that a merged row is."""


@dataclass(frozen=True, slots=True)
class LogChanges:
    """Merged log records. `merged` has keys, control columns and the columns that the rules need, or whole rows.

    If every merged row is one of its versions, the other columns remain in the `versions`, which may be a mapped file:
    `take` gets them for some rows at a time.
    """

    merged: pa.RecordBatch
    versions: pa.Table | None

    @property
    def count(self) -> int:
        """How many records the logs change."""
        return int(self.merged.num_rows)

    @property
    def keys(self) -> pa.Array:
        """Their record keys."""
        return self.merged.column(RECORD_KEY)

    @property
    def deleted(self) -> pa.Array:
        """Whether each is deleted."""
        return self.merged.column(DELETED)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The number of the version of each record, if every merged row is one of its versions."""
        numbers: npt.NDArray[np.int64] = self.merged.column(_VERSION).to_numpy()
        return numbers

    def sizes(self) -> npt.NDArray[np.int64]:
        """About how many bytes each record takes with all its columns; None if all together are few."""
        held = pa.Table.from_batches([self.merged]) if self.versions is None else self.versions
        if held.nbytes <= PIECE_BYTES:
            return np.zeros(self.count, dtype=np.int64)
        sizes = row_bytes(held)
        return sizes if self.versions is None else sizes[self.numbers]

    def take(self, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Some of the rows, with all columns."""
        part = self.merged.take(pa.array(rows))
        if self.versions is None:
            return part
        numbers = part.column(_VERSION).to_numpy()
        part = part.drop_columns([_VERSION])
        others = self.versions.drop_columns([name for name in part.schema.names if name in self.versions.column_names])
        if not others.num_columns:
            return part
        wide = take_rows(others, numbers)
        return pa.RecordBatch.from_arrays(
            [*wide.columns, *part.columns], schema=pa.schema([*wide.schema, *part.schema])
        )


def merge_logs(rules: TableRules, versions: LogVersions) -> LogChanges:
    """Make one row of the versions of each record.

    If the logs delete a record and insert it again, only the last version is merged with the stored row, as in JVM
    Hudi. A custom merger is an exception: it is also told of the delete, so that it can start from nothing. Memory:
    keys, ordering values and meta columns of the versions if the rules select versions; otherwise all merged rows.
    Raises `UnsupportedFeatureError` if one column of that takes more than 2 GiB.
    """
    rows, merging = versions.rows, rules.in_logs
    selects = merging.selects and not versions.column_sets
    if selects:
        decisive = {RECORD_KEY, *CONTROL_COLUMNS, *merging.ordering_fields, *OF_THE_WRITE}
        if merging.delete_marker is not None:
            decisive.add(merging.delete_marker[0])
        rows = rows.select([name for name in rows.column_names if name in decisive])
        rows = rows.append_column(_VERSION, pa.array(np.arange(rows.num_rows, dtype=np.int64)))
    if rules.log_merge is not None and rules.log_merge.matters(merging, rows):
        rows, merging = apply_log_merge_rule(rules.log_merge, merging, rows), replace(merging, ordering_fields=())
    with within_arrays(rows):
        changes = merge_versions(merging, rows, [RECORD_KEY], column_sets=versions.column_sets)
    if merging.merger is None:
        changes = changes.drop_columns([name for name in (FRESH, HIDES) if name in changes.column_names])
    if rules.deletes_reach_base:
        at = changes.schema.get_field_index(BY_COMMIT_TIME)
        changes = changes.set_column(at, changes.schema.field(at), changes.column(DELETED))
    return LogChanges(one_batch(changes), versions.rows if selects else None)


def ordered_deletes(rules: TableRules, versions: LogVersions) -> pa.RecordBatch:
    """The deletes with ordering values that are the last versions of their records. Cost and errors of `merge_logs`."""
    changes = merge_logs(rules, versions).merged
    return changes.filter(pc.and_not(changes.column(DELETED), pc.fill_null(changes.column(BY_COMMIT_TIME), False)))
