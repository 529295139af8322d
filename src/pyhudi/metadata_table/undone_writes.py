"""Indexes that go on to say what a write said which JVM Hudi has rolled back since.

A rollback takes the delta commit of the write back. An index that was built between the two has what the write said in
its first files, and keeps it: JVM Hudi 1.2.0 even builds missing statistics right before it rolls back. Those of files
are then only of files that are gone; but bounds of partitions lack the values that came back, and indexes of records
lack the records. A rollback of pyhudi drops such partitions before (`rollback.py`).

It is so from when JVM Hudi takes the completed instant of the write away, at the begin of its rollback, and also where
pyhudi ends a rollback in which JVM Hudi died. Once the rollback is archived, nothing shows any more that an index is
such a one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import NotFoundError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.write_checks import INITIAL_PREFIX
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, load_rollback_plan, position_of

_NOT_YET: Final = "~"
"""In place of a time, after all of them: a rollback has not been completed."""


@dataclass(frozen=True, slots=True)
class _Undone:
    """When a write began, and when its rollback was completed."""

    began: str
    undone: str


def saying_undone_writes(table: TableState, inner: Timeline) -> frozenset[str]:
    """The partitions of the metadata table that were built with what JVM Hudi has rolled back since.

    `inner`: the timeline of the metadata table. One that was built beside a write which failed counts, too: nothing
    shows whether the write had been completed before. In table version 6 nothing shows when a partition was built.
    Cost: a read per rollback since the first index was built; where one is JVM Hudi's, a listing per index.
    """
    if not table.version.has_completion_times:
        return frozenset()
    built: dict[str, str] = {
        write.requested_time: position_of(write)
        for write in inner.completed_writes
        if write.requested_time.startswith(INITIAL_PREFIX)
    }
    undone = table.once("writes that JVM Hudi has rolled back", lambda: _undone_since(table, built))
    if not undone:
        return frozenset()
    change = Change(instant_time="", undoes="")
    names = (partition.name for partition in kept_partitions(table) if not partition.follows(change))
    return frozenset(
        name
        for name in names
        if any(write.began < time < write.undone for time in _built(table, name, built) for write in undone)
    )


def _undone_since(table: TableState, built: Mapping[str, str]) -> tuple[_Undone, ...]:
    """What rollbacks of JVM Hudi have undone, or are undoing, since the first known build of a partition."""
    first = min(built.values(), default=_NOT_YET)
    found = []
    for instant in table.timeline.instants:
        ended = position_of(instant) if instant.state is InstantState.COMPLETED else _NOT_YET
        if instant.action is not Action.ROLLBACK or ended <= first:
            continue
        try:
            plan = load_rollback_plan(table.storage, instant, table.version)
        except NotFoundError:  # it is being archived
            continue
        if not plan.is_ours:
            found.append(_Undone(plan.instant_time, ended))
    return tuple(found)


def _built(table: TableState, partition: str, built: Mapping[str, str]) -> tuple[str, ...]:
    """When a partition was built: whenever any was, where its first files are gone."""
    names = (parse_data_file(name) for name in table.storage.list_names(partition_folder(partition)))
    first = max(
        (name.instant_time for name in names if name and name.instant_time.startswith(INITIAL_PREFIX)), default=""
    )
    return (built[first],) if first in built else tuple(built.values())
