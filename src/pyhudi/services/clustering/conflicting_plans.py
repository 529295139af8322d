"""Planned clusterings in the way of a write, which rolls them back if its options say so."""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.errors import InvalidRequestError
from pyhudi.services.rollback.rollback import roll_back_plan
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.pending_clusterings import load_clustering_plans
from pyhudi.transaction.transaction import Transaction


def roll_back_clusterings(transaction: Transaction, changes: Iterable[FileGroupId]) -> None:
    """With SparkAllowUpdateStrategy: roll back the planned clusterings of file groups that this write changes.

    One that is running stays, and the write fails when it is marked inflight. Cost: a read per pending clustering;
    that of a rollback for each that is in the way.
    """
    if not transaction.settings.rolls_back_clusterings:
        return
    table, changed = transaction.base, frozenset(changes)
    for instant, groups in load_clustering_plans(table.storage, table.timeline):
        if not groups & changed:
            continue
        try:
            roll_back_plan(table.reload(), instant.requested_time, transaction.settings, transaction.environment)
        except InvalidRequestError:
            # It is running, or has ended; the checks of the write find it in either case.
            continue
