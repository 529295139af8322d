"""The part of a rollback that concerns the metadata table, under the table lock.

The delta commit of the write is undone. Where a compaction of the metadata table has merged it, which JVM Hudi
refuses, a delta commit of the rollback's own instant takes the files out. In table version 6 there is such a delta
commit in any case: a rollback adds logs with command blocks.

Indexes of records, and bounds of partitions, that have what the write said for good cannot take it back: what was there
before is not known. They are dropped before the write is touched, so that no reader asks them, and built again
afterwards by whoever asked for the rollback. So are indexes over a column that is another one without the write.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import pyarrow as pa

from pyhudi.format.metadata.rollback import RollbackMetadata
from pyhudi.format.timeline.instant import Instant
from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.metadata_table.file_changes import Change, change_of_rollback
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.metadata_table.undo import (
    forget_delta_commit,
    is_merged,
    partitions_with,
    undo_delta_commit,
    withdraw_compactions,
)
from pyhudi.metadata_table.update import apply_change
from pyhudi.table.index_definitions import types_at
from pyhudi.table.indexed_columns import indexed_columns
from pyhudi.table.metadata_table import drop_partitions, has_metadata_table
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_log = logging.getLogger("pyhudi")


def drop_what_stays(table: TableState, write: Instant, undone_by: str, check_held: CheckHeld) -> TableState:
    """Drop the partitions that would go on to say what a completed write said; the table as it is then.

    Cost: nothing without a metadata table; otherwise that of `partitions_with`, a read of definitions of indexes, and
    a put where something is dropped.
    """
    if not has_metadata_table(table):
        return table
    stays = partitions_with(table, write)
    change = Change(instant_time=undone_by, undoes=write.requested_time)
    lost = {
        partition.name
        for partition in kept_partitions(table)
        if partition.name in stays and not partition.follows(change)
    }
    lost |= _over_columns_of(table, write)
    if not lost:
        return table
    _log.warning(
        "%s cannot follow the rollback of %s, and must be built again", ", ".join(sorted(lost)), write.requested_time
    )
    check_held()
    drop_partitions(table, sorted(lost))
    return table.reload()


def _over_columns_of(table: TableState, write: Instant) -> frozenset[str]:
    """The indexes over columns that the table does not have without this write, or has with another type."""
    present = table.config.metadata_partitions
    definitions = {name: definition for name, definition in indexed_columns(table).items() if name in present}
    if not definitions:
        return frozenset()
    others = tuple(instant for instant in table.timeline.instants if instant.requested_time != write.requested_time)
    previous = load_table_schema(table.with_timeline(replace(table.timeline, instants=others)))
    schema = load_table_schema(table)
    before, now = (pa.schema([]) if known is None else known.arrow for known in (previous, schema))
    return frozenset(
        name
        for name, definition in definitions.items()
        if types_at(before, definition.source_columns) != types_at(now, definition.source_columns)
    )


def begin_rollback(table: TableState, instant_time: str, rollback_time: str) -> bool:
    """Take the delta commit of a write back, whose completed instant is gone already.

    Returns whether it was merged, so that `end_rollback` has to say what went. Cost: a listing and
    `undo_delta_commit`; nothing without a metadata table.
    """
    if not has_metadata_table(table):
        return False
    if is_merged(table, instant_time):
        return True
    withdraw_compactions(table)
    undo_delta_commit(table, instant_time, rollback_time)
    return False


def end_rollback(source: Source, done: RollbackMetadata, check_held: CheckHeld, *, was_merged: bool) -> None:
    """Say what a rollback changed besides, right before it completes. Cost: nothing, or that of `apply_change`."""
    change = change_of_rollback(done)
    if not was_merged:
        change = replace(change, removed={})
    if change.added or change.removed:
        apply_change(source, change, check_held)
    if was_merged:
        forget_delta_commit(source.table, done.instant_time)
