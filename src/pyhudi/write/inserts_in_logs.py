"""Logs with inserts: file groups whose keys must be looked up in logs, too."""

from __future__ import annotations

from collections.abc import Iterable

from pyhudi.format.metadata.commit import WRITER_KEY
from pyhudi.format.timeline.instant import Action
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.state import TableState


def groups_with_inserts_in_logs(table: TableState, slices: Iterable[FileSlice]) -> frozenset[FileGroupId]:
    """The groups whose logs may hold records that their base files do not.

    pyhudi writes new records into base files, unless the table has buckets, for which this is not asked; and its
    commits have `WRITER_KEY`. Some indexes of JVM Hudi write them into logs, and its stats count all rows of a log as
    updates. So a log of another writer may hold any record.
    Cost: one read per delta commit that wrote one of the logs; in version 6, where names of logs do not show their
    write, per delta commit since the oldest slice with logs began. Nothing if no slice has both a base file and logs.
    """
    with_logs = [file_slice for file_slice in slices if file_slice.base is not None and file_slice.logs]
    if not with_logs:
        return frozenset()
    not_ours = {log.path for file_slice in with_logs for log in file_slice.logs}
    named = {log.instant_time for file_slice in with_logs for log in file_slice.logs}
    oldest = min(file_slice.instant_time for file_slice in with_logs)
    for instant in reversed(table.timeline.completed_writes):
        if not not_ours or instant.requested_time < oldest:
            break
        by_name = table.version.has_completion_times
        if instant.action is Action.DELTA_COMMIT and (instant.requested_time in named or not by_name):
            metadata = load_commit_metadata(table.storage, instant, table.version)
            if WRITER_KEY in metadata.extra:
                not_ours -= metadata.paths()
    return frozenset(
        file_slice.group for file_slice in with_logs if any(log.path in not_ours for log in file_slice.logs)
    )
