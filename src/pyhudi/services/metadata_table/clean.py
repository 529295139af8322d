"""Cleaning of the metadata table: of each file group the two newest slices stay, as JVM Hudi keeps them.

The files go without an instant of their own: no reader of the newest state opens them, and no other state is read.
"""

from __future__ import annotations

from collections import defaultdict

from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.state import MetadataState
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.timeline import Timeline, position_of

SLICES_KEPT = 2


def delete_old_slices(state: MetadataState) -> int:
    """Delete the files of older slices, under the table lock; how many. Cost: a listing per partition, the deletes."""
    deleted = 0
    for partition in kept_partitions(state.table):
        groups: dict[str, list[FileInfo]] = defaultdict(list)
        for info in state.storage.list_folder(partition_folder(partition.name)).files:
            name = parse_data_file(info.name)
            if name is not None:
                groups[name.file_id].append(info)
        for files in groups.values():
            for path in sorted(_old(state, files)):
                state.storage.delete(path)
                deleted += 1
    return deleted


def _old(state: MetadataState, files: list[FileInfo]) -> set[str]:
    """The files of a group before its newest slices."""
    named = [(parse_data_file(info.name), info.path) for info in files]
    bases = sorted(
        {name.instant_time for name, _ in named if isinstance(name, BaseFileName) and state.counts(name.instant_time)}
    )
    if len(bases) <= SLICES_KEPT:
        return set()
    kept = bases[-SLICES_KEPT]
    old = {path for name, path in named if isinstance(name, BaseFileName) and name.instant_time < kept}
    logs = ((name, path) for name, path in named if isinstance(name, LogFileName))
    return old | {path for name, path in logs if _place(name.instant_time, state.timeline) < kept}


def _place(instant_time: str, inner: Timeline) -> str:
    """Where a log stands among base files; one that is not on the timeline was archived, or belongs to a pending write.

    Instants are archived before the oldest kept slice only (`archive.py`), so the name of such a log is enough.
    """
    by_name: dict[str, str] = {write.requested_time: position_of(write) for write in inner.completed_writes}
    if instant_time in by_name:
        return by_name[instant_time]
    return instant_time if inner.starts_after(instant_time) else "9"
