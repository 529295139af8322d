"""The audit of a past state: whether every file of it is still there, at the size that its write left. Only reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.errors import HistoryNotRetainedError, WriteConflictError
from pyhudi.format.timeline.instant import Instant
from pyhudi.services.cleaning.execute import load_clean_plan, pending_cleans
from pyhudi.storage.protocol import FileInfo
from pyhudi.table.file_slice import FileSlice
from pyhudi.table.lister import list_data_files
from pyhudi.table.retention import load_cleaned
from pyhudi.table.savepoints import view_after
from pyhudi.table.state import TableState

NAMED_MAX = 10
"""How many files an error names."""


@dataclass(frozen=True, slots=True)
class PastState:
    """A state of the table of which every file is there.

    `slices`: the newest slice of each file group, by partition path. `listed`: all data files of the table now.
    """

    slices: Mapping[str, tuple[FileSlice, ...]] = field(repr=False)
    listed: tuple[FileInfo, ...] = field(repr=False)

    @property
    def paths(self) -> frozenset[str]:
        """The files of the state, relative to the table."""
        return frozenset(path for slices in self.slices.values() for file_slice in slices for path in file_slice.paths)


def audit(table: TableState, write: Instant, *, verb: str) -> PastState:
    """The state of the table after a completed write of its active timeline.

    `verb`: what the caller is about to do, for messages. Cost: one listing of the table; one read per completed write
    that this process does not know, and per clean that began after the write.

    Raises `HistoryNotRetainedError` where cleaners have deleted files of the state, `CorruptDataError` where others
    are missing or cut off, and `WriteConflictError` where a clean that is planned names files of the state.
    """
    storage = table.storage
    listed = tuple(list_data_files(storage))
    view = view_after(storage, table.timeline, write, listed)
    past = view.timeline
    state = PastState(view.latest, listed)
    cleaned = load_cleaned(storage, view, since=write.requested_time)
    counted = past.completed_times
    if lost := cleaned.lost_at(lambda time: time in counted or past.starts_after(time)):
        missing = sorted(lost.values())
        raise HistoryNotRetainedError(
            f"cleaners have deleted files of this state, so that the table cannot {verb} it; nothing was changed",
            instant=write.requested_time,
            path=missing[0],
            missing=missing[:NAMED_MAX],
            earliest=cleaned.needless_from,
        )
    _check_cleans(table, state, write, verb)
    return state


def _check_cleans(table: TableState, state: PastState, write: Instant, verb: str) -> None:
    """A clean may be executed by anyone at any time, and deletes what its plan names."""
    for clean in pending_cleans(table.timeline):
        plan = load_clean_plan(table.storage, clean, table)
        if plan is not None and (shared := sorted(plan.paths & state.paths)):
            raise WriteConflictError(
                f"a clean that is planned is about to delete files of this state, so that the table cannot {verb} it; "
                "nothing was changed: choose a newer write, or give the clean up by "
                f'recovery.rollback("{clean.requested_time}"), if it has not begun',
                instant=write.requested_time,
                winner=clean.requested_time,
                action=clean.action.value,
                files=shared[:NAMED_MAX],
            )
