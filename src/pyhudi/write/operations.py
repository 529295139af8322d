"""The operations that look at all of their rows before they place any, as values: one class per legal combination."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.config.enums import DuplicatePolicy
from pyhudi.config.write_config import WriteConfig
from pyhudi.format.keys.partition_pattern import PartitionPattern
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.tasks.row_changes import ChangeKeys


@dataclass(frozen=True, slots=True)
class Upsert:
    """Rows whose key is found replace the stored ones, or are merged with them; the others are inserted.

    `combine`: of several rows of one key in the batch one is kept.
    """

    combine: bool

    @property
    def operation(self) -> WriteOperation:
        """The name in the commit."""
        return WriteOperation.UPSERT


@dataclass(frozen=True, slots=True)
class Delete:
    """Stored rows whose key is in the batch are removed. `combine`: see `Upsert`.

    `by_meta_columns`: the meta columns of the batch have the keys, which the table has generated.
    """

    combine: bool
    by_meta_columns: bool = False

    @property
    def operation(self) -> WriteOperation:
        """The name in the commit."""
        return WriteOperation.DELETE


@dataclass(frozen=True, slots=True)
class Insert:
    """All rows are new records. `on_known`: what becomes of rows whose key is found. `combine`: see `Upsert`."""

    combine: bool
    on_known: DuplicatePolicy

    @property
    def operation(self) -> WriteOperation:
        """The name in the commit."""
        return WriteOperation.INSERT


@dataclass(frozen=True, slots=True)
class Append:
    """All rows are new records, in new file groups or in those of their buckets: a bulk insert.

    `combine`: see `Upsert`. Without combining, and without buckets, a bulk insert needs no look at all rows
    (`write/bulk_insert.py`).
    """

    combine: bool

    @property
    def operation(self) -> WriteOperation:
        """The name in the commit."""
        return WriteOperation.BULK_INSERT


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The rows replace the file groups of their partitions, or of the `whole_table`. `combine`: see `Upsert`.

    `partitions`: those that are replaced even if no row goes there. `reads_table`: whether the rows were computed from
    what they replace, so that others may not have changed it since.
    """

    combine: bool
    operation: WriteOperation
    whole_table: bool
    partitions: PartitionPattern | None = None
    reads_table: bool = False

    def replaces(self, path: str) -> bool:
        """Whether the partition of a path is replaced, even if no row goes there."""
        return self.whole_table or (self.partitions is not None and self.partitions.matches(path))


class RowsRead(enum.Enum):
    """Rows of the table that a write has read to compute its own.

    No other writer may change them before it is committed.
    """

    NONE = "none"
    CHANGED = "those that it changes"
    """Every change depends on one stored row. What others make of rows that it leaves alone may come after it."""
    ALL = "all"
    """That a row is inserted depends on all rows, none of which matched."""


@dataclass(frozen=True, slots=True)
class ApplyChanges:
    """Each row says what becomes of its record (`tasks/row_changes.py`): a merge, an update, a deletion by condition.

    `read`: the rows of the table from which the changes were computed. `columns`: if given, updates give new values to
    these columns only, and logs need not have the others. `asks_whether_stored`: what becomes of a row depends on
    whether its record is there.
    """

    operation: WriteOperation
    keys: ChangeKeys
    read: RowsRead
    columns: tuple[str, ...] | None = None
    asks_whether_stored: bool = True

    @property
    def combine(self) -> bool:
        """One row is kept for each record."""
        return True


LookingUp = Upsert | Delete | Insert | ApplyChanges
"""The operations that may look keys up; `looks_up` says which do."""
StagedWrite = LookingUp | Append | Overwrite


def looks_up(write: StagedWrite) -> bool:
    """Whether the table is searched for the keys of the batch."""
    if isinstance(write, Insert):
        return write.on_known is not DuplicatePolicy.NONE
    return isinstance(write, (Upsert, Delete, ApplyChanges))


def staged_write_of(config: WriteConfig, *, by_meta_columns: bool = False) -> StagedWrite:
    """The operation that the options ask for.

    `by_meta_columns`: the table generates its record keys, so that only meta columns name stored records.
    """
    combine = config.combines_input
    match config.operation:
        case WriteOperation.UPSERT:
            keys = ChangeKeys(rekeys=False, moves=True, is_merge=True, by_meta_columns=True)
            return ApplyChanges(config.operation, keys, RowsRead.NONE) if by_meta_columns else Upsert(combine)
        case WriteOperation.DELETE:
            return Delete(combine or by_meta_columns, by_meta_columns)
        case WriteOperation.INSERT:
            policy = config.duplicate_policy
            return Insert(combine or policy is DuplicatePolicy.DROP, policy)
        case WriteOperation.BULK_INSERT:
            return Append(combine)
        case _:
            return Overwrite(combine, config.operation, config.replaces_whole_table, config.overwritten)


def overwrite_of(config: WriteConfig) -> Overwrite:
    """The operation that replaces all rows of the table: save mode overwrite."""
    return Overwrite(staged_write_of(config).combine, WriteOperation.INSERT_OVERWRITE_TABLE, whole_table=True)
