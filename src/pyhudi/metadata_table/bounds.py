"""The bound that a metadata table sets to the archiving of its table.

Readers of the metadata table ask the active timeline of the table which delta commits count. A delta commit that a
compaction has merged is not asked for any more.
"""

from __future__ import annotations

from pyhudi.format.timeline.instant import Action
from pyhudi.metadata_table.folders import inner_version
from pyhudi.table.metadata_table import has_metadata_table
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_timeline, position_of


def first_unmerged_write(table: TableState) -> str | None:
    """The oldest write that has to stay on the timeline for the metadata table; None where it needs none.

    As in JVM Hudi: the first that was completed since the newest compaction of the metadata table, and without one the
    first of all. Cost: a listing, where the table has a metadata table.
    """
    if not has_metadata_table(table):
        return None
    inner = load_timeline(table.storage, inner_version(table.version))
    newest = max((one.requested_time for one in inner.completed_writes if one.action is Action.COMMIT), default="")
    return min(
        (one.requested_time for one in table.timeline.completed_writes if position_of(one) >= newest), default=None
    )
