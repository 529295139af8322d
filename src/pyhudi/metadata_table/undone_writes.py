"""Indexes that go on to say what a write said which JVM Hudi has rolled back since.

A rollback takes the delta commit of the write back. An index that was built between the two has what the write said in
its first files, and keeps it: JVM Hudi 1.2.0 even builds missing statistics right before it rolls back. Those of files
are then only of files that are gone; but bounds of partitions lack the values that came back, and indexes of records
lack the records. A rollback of pyhudi drops such partitions before (`rollback.py`).

A rollback leaves an instant of its own time on the timeline of the metadata table. So nothing is read where JVM Hudi
has rolled nothing back. Once both timelines have archived it, nothing shows any more that an index is such a one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.format.file_names import parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.write_checks import INITIAL_PREFIX
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, load_rollback_plan, position_of


@dataclass(frozen=True, slots=True)
class _Undone:
    """When a write began, and when its rollback was completed."""

    began: str
    undone: str


def saying_undone_writes(table: TableState, inner: Timeline) -> frozenset[str]:
    """The partitions of the metadata table that were built with what JVM Hudi has rolled back since.

    `inner`: the timeline of the metadata table. One that was built beside a write which failed counts, too: nothing
    shows whether the write had been completed before. In table version 6 nothing shows when a partition was built.
    Cost: nothing where JVM Hudi has rolled nothing back; otherwise a read per rollback, and a listing per index.
    """
    if not table.version.has_completion_times:
        return frozenset()
    built: dict[str, str] = {
        write.requested_time: position_of(write)
        for write in inner.completed_writes
        if write.requested_time.startswith(INITIAL_PREFIX)
    }
    undone = table.once("writes that JVM Hudi has rolled back", lambda: _undone_since(table, inner, built))
    if not undone:
        return frozenset()
    change = Change(instant_time="", undoes="")
    names = (partition.name for partition in kept_partitions(table) if not partition.follows(change))
    return frozenset(
        name
        for name in names
        if any(write.began < time < write.undone for time in _built(table, name, built) for write in undone)
    )


def _undone_since(table: TableState, inner: Timeline, built: Mapping[str, str]) -> tuple[_Undone, ...]:
    """What rollbacks of JVM Hudi have undone since the first build of a partition of which the timeline knows."""
    known, first = {instant.requested_time for instant in inner.instants}, min(built.values(), default=None)
    found = []
    for instant in table.timeline.instants:
        if first is None or not _is_rollback(instant) or instant.requested_time not in known:
            continue
        plan = load_rollback_plan(table.storage, instant, table.version)
        if not plan.is_ours and position_of(instant) > first:
            found.append(_Undone(plan.instant_time, position_of(instant)))
    return tuple(found)


def _is_rollback(instant: Instant) -> bool:
    return instant.action is Action.ROLLBACK and instant.state is InstantState.COMPLETED


def _built(table: TableState, partition: str, built: Mapping[str, str]) -> tuple[str, ...]:
    """When a partition was built: whenever any was, where its first files are gone."""
    names = (parse_data_file(name) for name in table.storage.list_names(partition_folder(partition)))
    first = max(
        (name.instant_time for name in names if name and name.instant_time.startswith(INITIAL_PREFIX)), default=""
    )
    return (built[first],) if first in built else tuple(built.values())
