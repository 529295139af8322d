"""The undoing of a delta commit of the metadata table, completed or not.

From table version 8 on its files are deleted, as JVM Hudi does it: each carries the instant in its name. In version 6
logs are named after their slice, and a command block behind them excludes the blocks of the instant. The completed
instant goes first, so that readers see all of it or nothing. Every step can be repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState, parse_instant_file_name
from pyhudi.io.log.block_filter import LogSlice, exclude_blocks
from pyhudi.metadata_table.folders import inner_version, partition_folder
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.metadata_table.write_checks import INITIAL_PREFIX, is_of_build
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, has_metadata_table
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_timeline, position_of

_PENDING: Final = frozenset({InstantState.INFLIGHT, InstantState.REQUESTED})


def undo_delta_commit(table: TableState, instant_time: str, undone_by: str) -> None:
    """Take the delta commit of an instant back, under the table lock; nothing where there is none.

    `undone_by`: the instant that the command blocks of version 6 carry. Logs that were written ahead go, too. Cost: two
    listings and one more per partition; one delete per file; in version 6 the headers of the log blocks.
    """
    if not has_metadata_table(table):
        return
    _delete_instant(table, instant_time, frozenset({InstantState.COMPLETED}))
    _undo_all_files(table, instant_time, undone_by)
    _delete_instant(table, instant_time, _PENDING)


def withdraw_compactions(table: TableState) -> None:
    """Take back the compactions of the metadata table that have not ended, under the table lock.

    Nothing is lost: they only repeat what logs say. Their plans name logs that a rollback deletes. In version 6 only
    those of logs: there the logs of later delta commits are named after a compaction, and a plan names whole slices,
    whose blocks count by their instants. Cost: a listing; for each of them one per partition, and the deletes.
    """
    version = inner_version(table.version)
    for compaction in load_timeline(table.storage, version).pending_compactions:
        if compaction.action is Action.LOG_COMPACTION:
            _undo_all_files(table, compaction.requested_time, compaction.requested_time)
        elif version.has_completion_times:
            _delete_base_files(table, compaction.requested_time)
        else:
            continue
        _delete_instant(table, compaction.requested_time, _PENDING, compaction.action)


def _delete_base_files(table: TableState, instant_time: str) -> None:
    for folder in _partition_folders(table):
        for name in table.storage.list_names(folder):
            parsed = parse_data_file(name)
            if isinstance(parsed, BaseFileName) and parsed.instant_time == instant_time:
                table.storage.delete(f"{folder}/{name}")


def _partition_folders(table: TableState) -> list[str]:
    folders = table.storage.list_folder(METADATA_TABLE_FOLDER).folders
    return [folder for folder in folders if folder.rpartition("/")[2] != ".hoodie"]


def _undo_all_files(table: TableState, instant_time: str, undone_by: str) -> None:
    for folder in _partition_folders(table):
        _undo_files(table, folder, instant_time, undone_by)


def forget_delta_commit(table: TableState, instant_time: str) -> None:
    """Take the instant of a merged delta commit off the timeline, when another one has corrected what it said.

    Its logs are of older slices, and stay until these are deleted. Cost: a listing and three deletes.
    """
    _delete_instant(table, instant_time, frozenset(InstantState))


def _delete_instant(
    table: TableState, instant_time: str, states: Collection[InstantState], action: Action = Action.DELTA_COMMIT
) -> None:
    """Delete files of an instant of the metadata table, that of the completed state first."""
    storage, version = table.storage, inner_version(table.version)
    found = []
    for name in storage.list_names(version.timeline_folder):
        instant = parse_instant_file_name(name, version)
        if instant is None or instant.action is not action:
            continue  # a compaction may have the same time
        if instant.requested_time == instant_time and instant.state in states:
            found.append((instant.state, name))
    for _, name in sorted(found, reverse=True):
        storage.delete(f"{version.timeline_folder}/{name}")


def is_merged(table: TableState, instant_time: str) -> bool:
    """Whether files of the metadata table have what a write said, and not by a delta commit that can be undone.

    A compaction of the metadata table, or of its logs, has merged its delta commit, or the metadata table was built
    after the write. Then what it said must be said otherwise by another delta commit. Cost: a listing.
    """
    state = load_metadata_state(table)
    inner = state.timeline
    merging = state.compactions | (state.log_compactions & inner.completed_times)
    writes = (write for write in inner.completed_writes if write.action is not Action.COMMIT)
    mine = next((write for write in writes if write.requested_time == instant_time), None)
    if mine is not None:
        return position_of(mine) < max(merging, default="")
    if not table.version.has_completion_times:
        return True  # nothing says when the metadata table was built; to take out what is not there does no harm
    built = [position_of(write) for write in inner.completed_writes if write.requested_time.startswith(INITIAL_PREFIX)]
    own = [
        instant.requested_time for instant in inner.instants if not instant.requested_time.startswith(INITIAL_PREFIX)
    ]
    return instant_time < max([*own[:1], min(built, default="")])


def partitions_with(table: TableState, write: Instant) -> frozenset[str]:
    """The partitions of the metadata table whose files have what a completed write said, for good; see `is_merged`.

    One that was built after the write was completed has its records in its first files. In table version 6, where
    nothing says when it was built, first files with records count. Cost: a listing, and one for each partition.
    """
    names = frozenset(table.config.metadata_partitions)
    if is_merged(table, write.requested_time):
        return names
    inner = load_timeline(table.storage, inner_version(table.version))
    built: dict[str, str] = {
        instant.requested_time: instant.completion_time or "" for instant in inner.completed_writes
    }
    return frozenset(name for name in names if _has(table, name, built, position_of(write)))


def _has(table: TableState, partition: str, built: Mapping[str, str], completed: str) -> bool:
    """Whether the first files of a partition were completed after a write."""
    parsed = [parse_data_file(name) for name in table.storage.list_names(partition_folder(partition))]
    first = [instant for instant in parsed if instant is not None and is_of_build(instant.instant_time)]
    if not table.version.has_completion_times:
        return any(isinstance(name, BaseFileName) for name in first)
    return built.get(max((instant.instant_time for instant in first), default=""), "") > completed


def _undo_files(table: TableState, folder: str, instant_time: str, undone_by: str) -> None:
    storage = table.storage
    slices: set[LogSlice] = set()
    for info in storage.list_folder(folder).files:
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName) and not table.version.has_completion_times:
            slices.add(LogSlice(folder, name.file_id, name.instant_time))
        elif isinstance(name, LogFileName) and name.instant_time == instant_time:
            storage.delete(info.path)
    for log_slice in sorted(slices, key=lambda group_slice: (group_slice.file_id, group_slice.base_instant)):
        exclude_blocks(storage, undone_by, instant_time, log_slice)
