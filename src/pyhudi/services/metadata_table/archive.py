"""Archiving of the metadata table's own timeline, by the bounds of JVM Hudi.

A delta commit counts as older than the timeline once it has left it. So what leaves is the oldest part without holes;
it was merged by a compaction, and is older than the table's own timeline, by which readers tell what counts.
"""

from __future__ import annotations

from dataclasses import replace

from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.metadata_table.delta_commit import CheckHeld
from pyhudi.services.archiving.archive import files_of_instants
from pyhudi.services.archiving.into_history import add_to_history, tidy_history
from pyhudi.services.archiving.into_logs import add_to_logs
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.timeline import Timeline, position_of

COMMITS_MIN = 20
COMMITS_MAX = 30
"""JVM Hudi's defaults for the metadata table."""


def archive_instants(call: ServiceCall, inner: Timeline, check_held: CheckHeld) -> int:
    """Move the oldest instants of the metadata table into its archive, under the table lock; how many."""
    instants = archivable_instants(call.table.timeline, inner)
    if not instants:
        return 0
    table = call.table.with_timeline(inner)
    files = files_of_instants(table, instants)
    check_held()
    if inner.version.has_completion_times:
        add_to_history(table, files)
    else:
        add_to_logs(table, files)
    for instant in instants:
        check_held()
        for info in files[instant]:
            table.storage.delete(info.path)
    if inner.version.has_completion_times:
        tidy_history(replace(call, table=table))
    return len(instants)


def archivable_instants(timeline: Timeline, inner: Timeline) -> tuple[Instant, ...]:
    """The instants that may leave, oldest first. Pure."""
    writes = inner.completed_writes
    compactions = sorted(write.requested_time for write in writes if write.action is Action.COMMIT)
    if len(writes) <= COMMITS_MAX or len(compactions) < 2:
        return ()
    kept_slice = compactions[-2]
    bounds = [
        kept_slice,
        writes[-COMMITS_MIN].requested_time,
        *(write.requested_time for write in writes if position_of(write) >= kept_slice),
        *(instant.requested_time for instant in inner.instants if instant.state is not InstantState.COMPLETED),
        *(instant.requested_time for instant in timeline.instants),
    ]
    bound = min(bounds)
    return tuple(instant for instant in inner.instants if instant.requested_time < bound)
