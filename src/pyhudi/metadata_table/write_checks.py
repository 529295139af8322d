"""The check that a metadata table knows all that the table's timeline says: only then a commit may go on from it."""

from __future__ import annotations

from pyhudi.format.timeline.instant import InstantState
from pyhudi.metadata_table.folders import inner_version
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, load_timeline, position_of

INITIAL_PREFIX = "0" * 10
"""What the instants begin with under which partitions of the metadata table were built."""
_TIME_DIGITS = 17
_FIRST_BUILD_SUFFIX = "010"
_TIMELINE = "timeline of the metadata table"


def is_of_build(instant_time: str) -> bool:
    """Whether a partition of the metadata table was built under this instant.

    JVM Hudi 0.14 and 0.15 take the time of the table's newest completed action, and three digits from 010 on; smaller
    ones are those of compactions and other actions of the metadata table.
    """
    suffix = instant_time[_TIME_DIGITS:]
    return instant_time.startswith(INITIAL_PREFIX) or (len(suffix) == 3 and suffix >= _FIRST_BUILD_SUFFIX)


def problem_for_writes(table: TableState) -> str | None:
    """Why the metadata table must not be gone on from; None if nothing speaks against it. Cost: a listing.

    A release that does not know the metadata table commits beside it. So each write of the active timeline that was
    completed since the metadata table was built must have a delta commit there, unless that has been archived.
    """
    if FILES not in table.config.metadata_partitions:
        return "its building was not finished"
    inner = table.once(_TIMELINE, lambda: load_timeline(table.storage, inner_version(table.version)))
    completed = {instant.requested_time for instant in inner.instants if instant.state is InstantState.COMPLETED}
    if not completed:
        return "it has no completed commit"
    missed = missing_writes(table.timeline, inner)
    if missed:
        return f"{len(missed)} write(s) are missing in it, the first of them {missed[0]}"
    return None


def checked_timeline(table: TableState) -> Timeline | None:
    """The timeline of the metadata table that `problem_for_writes` has seen; None where it has not looked.

    For the holder of the table lock, who alone may change the metadata table, and has not since `table` was loaded.
    """
    found: Timeline | None = table.loaded(_TIMELINE)
    return found


def missing_writes(timeline: Timeline, inner: Timeline) -> tuple[str, ...]:
    """Completed writes that the metadata table should have and has not. Pure."""
    known = {instant.requested_time for instant in inner.instants if instant.state is InstantState.COMPLETED}
    built = [instant for instant in inner.instants if instant.requested_time.startswith(INITIAL_PREFIX)]
    first = min((time for time in known if not time.startswith(INITIAL_PREFIX)), default=None)
    since = min((position_of(instant) for instant in built if instant.completion_time is not None), default=None)
    return tuple(
        write.requested_time
        for write in timeline.completed_writes
        if write.requested_time not in known
        and ((first is not None and write.requested_time > first) or (since is not None and position_of(write) > since))
    )
