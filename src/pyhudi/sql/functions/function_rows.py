"""The rows of the table functions that show metadata, as Arrow tables with the columns of JVM Hudi."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from pyhudi.format.timeline.instant import InstantState, instant_file_name
from pyhudi.sql.procedures.declared import columns
from pyhudi.sql.procedures.file_slices import all_slices, full_path
from pyhudi.sql.procedures.globs import glob_pattern
from pyhudi.sql.procedures.looks import completion_text, times_if_needed, totals, writes_newest_first
from pyhudi.table.archive.actions import archived_instants
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS

TIMELINE: Final = columns(
    "Timestamp string, Action string, State string, Completion_Time string, File_Name string, "
    "Total_Bytes_Written bigint, Total_Files_Updated bigint, Total_Partitions_Written bigint, "
    "Total_Records_Written bigint, Total_Updated_Records_Written bigint, Total_Write_Errors bigint"
)
FILE_SLICES: Final = columns(
    "File_ID string, Partition_Path string, Base_Instant_Time string, Base_File_Path string, Base_File_Size bigint, "
    "Log_File_Count bigint, Log_File_Size bigint, Log_File_Scheduled bigint, Log_File_Unscheduled bigint"
)
_NO_WRITE: Final[tuple[int, ...]] = (-1,) * 6


def timeline_rows(table: TableState, *, archived: bool) -> pa.Table:
    """The instants, oldest first, with what writes wrote; -1 for other actions and for what is pending.

    Cost: a read per completed write of the active timeline, and the archive if it is asked for.
    """
    active = {(instant.requested_time, instant.action): instant for instant in table.timeline.instants}
    older = archived_instants(table) if archived else []
    instants = [
        *active.values(),
        *(instant for instant in older if (instant.requested_time, instant.action) not in active),
    ]
    times = times_if_needed(table)
    written = {instant.requested_time: totals(metadata) for instant, metadata in writes_newest_first(table)}
    if archived:
        for instant, metadata in archived_metadata(table.storage, table.version):
            written.setdefault(instant.requested_time, totals(metadata))
    rows = []
    for instant in sorted(instants, key=lambda instant: (instant.requested_time, instant.state)):
        is_write = instant.state is InstantState.COMPLETED and instant.action in WRITE_ACTIONS
        numbers = _NO_WRITE
        if is_write:
            bytes_, _, *others = written[instant.requested_time]
            numbers = (bytes_, *others)
        name = instant_file_name(instant, table.version)
        rows.append(
            (
                instant.requested_time,
                instant.action.value,
                instant.state.name,
                completion_text(table, instant, times),
                name,
                *numbers,
            )
        )
    return _as_table(rows, TIMELINE)


def file_slice_rows(table: TableState, partitions: str | None) -> pa.Table:
    """The file slices of the groups that are not replaced, of the partitions that a glob matches, or of all."""
    wanted = None if partitions is None else glob_pattern(partitions)
    rows = [
        (
            file_slice.file_id,
            file_slice.partition_path,
            file_slice.instant_time,
            full_path(table, file_slice.base.path) if file_slice.base else "",
            file_slice.base.size if file_slice.base else 0,
            len(file_slice.logs),
            sum(log.size for log in file_slice.logs),
            sum(log.size for log in file_slice.logs if log.name.instant_time == file_slice.instant_time),
            sum(log.size for log in file_slice.logs if log.name.instant_time != file_slice.instant_time),
        )
        for path, slices in all_slices(load_view(table.storage, table.timeline)).items()
        if wanted is None or wanted.fullmatch(path)
        for file_slice in slices
    ]
    return _as_table(rows, FILE_SLICES)


def _as_table(rows: list[tuple[Any, ...]], shown: Any) -> pa.Table:
    arrays = [pa.array([row[at] for row in rows], column.type.arrow) for at, column in enumerate(shown)]
    return pa.Table.from_arrays(arrays, names=[column.name for column in shown])
