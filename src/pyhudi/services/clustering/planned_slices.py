"""The file slices that the plan of a clustering names, as they are when it is executed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyhudi.errors import CorruptDataError, UnsupportedFeatureError, WriteConflictError
from pyhudi.format.metadata.clustering import ClusteredSlice, ClusteringPlan
from pyhudi.format.timeline.instant import Instant, InstantState
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.file_slice import FileGroupId, FileSlice
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path, position_of
from pyhudi.transaction.conflicts.footprint import Heirs, footprint_of, forgotten_heirs


def planned_slices(
    table: TableState,
    instant: Instant,
    plan: ClusteringPlan,
    view: FileSystemView,
    heirs: Heirs,
) -> list[list[FileSlice]]:
    """The slices of each group, after checking that they are complete and still the newest of their file groups.

    Those of buckets that are resized may have more logs by now, which stay out: the same rows are in `heirs`, the
    buckets to come. Cost: for a resize a read per write that completed since it was planned.
    """
    latest = {file_slice.group: file_slice for slices in view.latest.values() for file_slice in slices}
    groups: list[list[FileSlice]] = []
    for group in plan.groups:
        groups.append([])
        for planned in group.slices:
            group_id = FileGroupId(planned.partition_path, planned.file_id)
            newest = latest.get(group_id)
            found = view.groups.get(group_id)
            there = {str(base.name) for base in found.base_files} if found else set()
            there |= {str(log.name) for log in found.logs} if found else set()
            if newest is not None and (missing := planned.file_names - there):
                raise CorruptDataError(
                    "a clustering plan names files that are missing, or whose writes are not completed; nothing was "
                    f'changed: give the plan up by recovery.rollback("{instant.requested_time}")',
                    plan=instant_path(replace(instant, state=InstantState.REQUESTED), table.version),
                    partition_path=planned.partition_path,
                    missing=sorted(missing)[:10],
                )
            if newest is None or not _is_as_planned(newest, planned, may_have_grown=group_id in heirs):
                raise _changed(table, instant, [group_id])
            logs = (log for log in newest.logs if group_id not in heirs or str(log.name) in planned.file_names)
            groups[-1].append(replace(newest, logs=tuple(logs)))
    if heirs:
        _check_heirs(table, instant, heirs)
    return groups


def _is_as_planned(newest: FileSlice, planned: ClusteredSlice, *, may_have_grown: bool) -> bool:
    """Whether a slice has the rows that it had when it was planned; if it may have grown, and others in more logs.

    In table version 6 it may have more logs, without rows of a completed write: those of failed writes, and what rolls
    them back.
    """
    bases = {str(newest.base.name)} if newest.base else set()
    logs = {str(log.name): any(part.end > part.start for part in log.committed) for log in newest.logs}
    if not planned.file_names <= bases | logs.keys():
        return False
    return bases <= planned.file_names and (
        may_have_grown or not any(has_rows for name, has_rows in logs.items() if name not in planned.file_names)
    )


def _check_heirs(table: TableState, resize: Instant, heirs: Heirs) -> None:
    """Check that all writes since a resize was planned went to the buckets that it makes, too."""
    for write in table.timeline.completed_writes:
        if position_of(write) <= resize.requested_time:
            continue
        theirs = footprint_of(load_commit_metadata(table.storage, write, table.version))
        if not theirs.changed & heirs.keys():
            continue
        if forgotten := forgotten_heirs(theirs, heirs):
            raise _changed(table, resize, forgotten)
        if not table.version.has_completion_times:
            raise UnsupportedFeatureError(
                "JVM Hudi wrote to the buckets of a planned resize, and in a table of version 6 its rows cannot be "
                "told from those that were there: execute the plan with JVM Hudi",
                instant=resize.requested_time,
                write=write.requested_time,
            )


def _changed(table: TableState, instant: Instant, groups: Iterable[FileGroupId]) -> WriteConflictError:
    return WriteConflictError(
        "file groups of a planned clustering have changed since, so it is rolled back; nothing of it is visible; plan "
        "it again",
        table=table.storage.uri,
        instant=instant.requested_time,
        file_groups=[f"{group.partition_path}/{group.file_id}" for group in groups],
    )
