"""Decisive logs: logs that add records to their file slice, or delete some of those in its base file."""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.format.metadata.commit import WRITER_KEY
from pyhudi.format.timeline.instant import Action
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.state import TableState


def groups_with_decisive_logs(table: TableState, slices: Iterable[FileSlice]) -> frozenset[FileGroupId]:
    """The file groups whose logs may decide which records they hold.

    Most logs of pyhudi hold new versions of stored records only: its commits have `WRITER_KEY`, and their stats count
    inserts and deletes of each log. A log with either is decisive, and so is a log of another writer: some indexes of
    JVM Hudi write new records into logs, and its stats count all rows of a log as updates.
    Cost: one read per delta commit that wrote one of the logs; in version 6, where names of logs do not show their
    write, per delta commit since the oldest slice with logs began. Nothing if no slice has both a base file and logs.
    """
    with_logs = [file_slice for file_slice in slices if file_slice.base is not None and file_slice.logs]
    if not with_logs:
        return frozenset()
    decisive = {log.path for file_slice in with_logs for log in file_slice.logs}
    named = {log.instant_time for file_slice in with_logs for log in file_slice.logs}
    oldest = min(file_slice.instant_time for file_slice in with_logs)
    for instant in reversed(table.timeline.completed_writes):
        if not decisive or instant.requested_time < oldest:
            break
        by_name = table.version.has_completion_times
        if instant.action is Action.DELTA_COMMIT and (instant.requested_time in named or not by_name):
            metadata = load_commit_metadata(table.storage, instant, table.version)
            if WRITER_KEY in metadata.extra:
                decisive -= {
                    stat.path
                    for stats in metadata.stats_by_partition.values()
                    for stat in stats
                    if not stat.num_inserts and not stat.num_deletes
                }
    return frozenset(
        file_slice.group for file_slice in with_logs if any(log.path in decisive for log in file_slice.logs)
    )
