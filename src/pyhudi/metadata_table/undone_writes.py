"""Indexes that go on to say what a write said which JVM Hudi has rolled back since.

A rollback takes the delta commit of the write back. An index that was built between the two has what the write said in
its first files, and keeps it: JVM Hudi 1.2.0 even builds missing statistics right before it rolls back. Those of files
are then only of files that are gone; but bounds of partitions lack the values that came back, and indexes of records
lack the records. A rollback of pyhudi drops such partitions before (`rollback.py`).

It is so from when JVM Hudi takes the completed instant of the write away, at the begin of its rollback, and also where
pyhudi ends a rollback in which JVM Hudi died. Once the rollback is archived, nothing shows any more that an index is
such a one.

In table version 6, when an index was built is in the name of its first files if JVM Hudi has built it. Otherwise it is
when the instant of the build was last modified, which is what completion times are in that version: a table that was
copied without these times tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import NotFoundError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime, parse_instant_time
from pyhudi.metadata_table.file_changes import Change
from pyhudi.metadata_table.folders import inner_version, partition_folder
from pyhudi.metadata_table.partitions.maintained import kept_partitions
from pyhudi.metadata_table.write_checks import INITIAL_PREFIX, is_of_build
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, instant_path, load_rollback_plan, position_of

_DAY_MS: Final = 86_400_000
_NOT_YET: Final = "~"
"""In place of a time, after all of them: a rollback has not been completed."""


@dataclass(frozen=True, slots=True)
class _Undone:
    """When a write began, and when its rollback was completed."""

    began: str
    undone: str
    modified_ms: int | None = None
    """In table version 6, when the instant of its completed rollback was put, by the store's clock."""


def saying_undone_writes(table: TableState, inner: Timeline) -> frozenset[str]:
    """The partitions of the metadata table that were built with what JVM Hudi has rolled back since.

    `inner`: the timeline of the metadata table. One that was built beside a write which failed counts, too: nothing
    shows whether the write had been completed before. Cost: a read per rollback since the first index was built; where
    one is JVM Hudi's, a listing per index.
    """
    built: dict[str, str] = {
        write.requested_time: position_of(write)
        for write in inner.completed_writes
        if is_of_build(write.requested_time)
    }
    has_times = table.version.has_completion_times
    undone = table.once(
        "writes that JVM Hudi has rolled back",
        lambda: _undone_since(table, built) if has_times else _undone_in_version_6(table, inner),
    )
    if not undone:
        return frozenset()
    change = Change(instant_time="", undoes="")
    names = (partition.name for partition in kept_partitions(table) if not partition.follows(change))
    return frozenset(
        name
        for name in names
        if any(_may_say(table, time, write) for time in _built(table, name, built) for write in undone)
    )


def _may_say(table: TableState, built: str, write: _Undone) -> bool:
    if not table.version.has_completion_times:
        return _may_be_built_between(table, built, write)
    return write.began < built < write.undone


def _undone_since(table: TableState, built: Mapping[str, str]) -> tuple[_Undone, ...]:
    """What rollbacks of JVM Hudi have undone, or are undoing, since the first known build of a partition."""
    first = min(built.values(), default=_NOT_YET)
    found = []
    for instant in table.timeline.instants:
        ended = position_of(instant) if instant.state is InstantState.COMPLETED else _NOT_YET
        if instant.action is not Action.ROLLBACK or ended <= first:
            continue
        began = _undone_by_jvm_hudi(table, instant)
        if began is not None:
            found.append(_Undone(began, ended))
    return tuple(found)


def _undone_by_jvm_hudi(table: TableState, rollback: Instant) -> str | None:
    """The write that a rollback of JVM Hudi undoes; None where it is one of pyhudi. Cost: one read."""
    try:
        plan = load_rollback_plan(table.storage, rollback, table.version)
    except NotFoundError:  # it is being archived
        return None
    return None if plan.is_ours else plan.instant_time


def _built(table: TableState, partition: str, built: Mapping[str, str]) -> tuple[str, ...]:
    """When a partition was built: whenever any was, where its first files are gone."""
    names = (parse_data_file(name) for name in table.storage.list_names(partition_folder(partition)))
    first = max((name.instant_time for name in names if name and is_of_build(name.instant_time)), default="")
    return (built[first],) if first in built else tuple(built.values())


# --- table version 6 -------------------------------------------------------------------------------------------------


def _undone_in_version_6(table: TableState, inner: Timeline) -> tuple[_Undone, ...]:
    """What rollbacks of JVM Hudi have undone, or are undoing, of what the metadata table had been told.

    A rollback of a write that had not come so far leaves no rollback in the metadata table, whose times begin with its
    own. Cost: two requests for each rollback that counts.
    """
    known_from = min((i.requested_time for i in inner.instants if not is_of_build(i.requested_time)), default=_NOT_YET)
    inner_rollbacks = [i.requested_time for i in inner.instants if i.action is Action.ROLLBACK]
    found = []
    for rollback in table.timeline.instants:
        if rollback.action is not Action.ROLLBACK:
            continue
        is_pending = rollback.state is not InstantState.COMPLETED
        was_told = any(time.startswith(rollback.requested_time) for time in inner_rollbacks)
        if not is_pending and not was_told and known_from < rollback.requested_time:
            continue
        began = _undone_by_jvm_hudi(table, rollback)
        if began is not None:
            info = None if is_pending else table.storage.info(instant_path(rollback, table.version))
            undone = rollback.requested_time if info is not None else _NOT_YET
            found.append(_Undone(began, undone, None if info is None else info.modified_ms))
    return tuple(found)


def _may_be_built_between(table: TableState, build: str, write: _Undone) -> bool:
    """Whether a partition may have been built after a write began, and before it was undone.

    `build`: the instant of the build. The clock of the store is compared with the time of the write, whose zone may be
    that of another machine; so a build counts from a day before the write on. Cost: one request for a build of pyhudi.
    """
    if not build.startswith(INITIAL_PREFIX):  # it has the time of the newest action that was completed before
        return write.began <= build[: len(write.began)] < write.undone
    completed = Instant(InstantTime(build), Action.DELTA_COMMIT, InstantState.COMPLETED)
    info = table.storage.info(instant_path(completed, inner_version(table.version)))
    began_ms = parse_instant_time(write.began, table_zone(table.config))
    if info is None or began_ms is None:
        return True
    return began_ms - _DAY_MS <= info.modified_ms and (
        write.modified_ms is None or info.modified_ms <= write.modified_ms
    )
