"""The part of a rollback that concerns the metadata table, under the table lock.

The delta commit of the write is undone. Where a compaction of the metadata table has merged it, which JVM Hudi
refuses, a delta commit of the rollback's own instant takes the files out. In table version 6 there is such a delta
commit in any case: a rollback adds logs with command blocks.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.environment import Environment
from pyhudi.format.metadata.rollback import RollbackMetadata
from pyhudi.metadata_table.change import change_of_rollback
from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.metadata_table.undo import forget_delta_commit, is_merged, undo_delta_commit
from pyhudi.metadata_table.update import apply_change
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.state import TableState


def begin_rollback(table: TableState, instant_time: str, rollback_time: str) -> bool:
    """Take the delta commit of a write back, whose completed instant is gone already.

    Returns whether it was merged, so that `end_rollback` has to say what went. Cost: a listing and
    `undo_delta_commit`; nothing without a metadata table.
    """
    if not has_metadata_table(table):
        return False
    if is_merged(table, instant_time):
        return True
    undo_delta_commit(table, instant_time, rollback_time)
    return False


def end_rollback(
    table: TableState, done: RollbackMetadata, environment: Environment, check_held: CheckHeld, *, was_merged: bool
) -> None:
    """Say what a rollback changed besides, right before it completes. Cost: nothing, or that of `apply_change`."""
    change = change_of_rollback(done)
    if not was_merged:
        change = replace(change, removed={}, undoes=None)
    if change.added or change.removed:
        apply_change(table, change, environment, check_held)
    if was_merged:
        forget_delta_commit(table, done.instant_time)
