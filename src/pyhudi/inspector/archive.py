"""The archived timeline on the page: its newest instants and writes, within a budget of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Final

from pyhudi.errors import HudiError
from pyhudi.format.timeline.instant import Instant
from pyhudi.inspector.writes import WritesRead
from pyhudi.table.archive.actions import archived_instants
from pyhudi.table.archive.history import archived_metadata, history_files
from pyhudi.table.state import TableState
from pyhudi.table.timeline import WRITE_ACTIONS

BYTES_READ: Final = 16 << 20
"""So much of the archive is read at most: some 20,000 instants."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What was read of the archive, oldest first, without what is on the active timeline, too.

    `note` says in words what was not read; it is empty where all was.
    """

    instants: tuple[Instant, ...] = ()
    writes: WritesRead = ()
    note: str = ""

    @property
    def writes_of(self) -> int:
        """How many completed writes are among the instants."""
        return sum(instant.action in WRITE_ACTIONS for instant in self.instants)


def read_archive(state: TableState, writes: int, *, bytes_max: int = BYTES_READ) -> Archived:
    """The newest instants of the archive, and so many of its newest writes, from files of so many bytes at most.

    Cost: two reads, and one per archive file, twice if `writes` are wanted; in table version 6 a listing instead of
    the two.
    """
    try:
        oldest, note = _bounds(state, bytes_max)
        if oldest is None:
            return Archived(note=note)
        active = {(instant.requested_time, instant.action) for instant in state.timeline.instants}
        instants = tuple(
            instant
            for instant in reversed(archived_instants(state, since=oldest))
            if instant.requested_time >= oldest and (instant.requested_time, instant.action) not in active
        )
        some = Archived(instants, note=note)
        kept = islice(archived_metadata(state.storage, state.version), min(writes, some.writes_of))
        newest = [write for write in kept if (write[0].requested_time, write[0].action) not in active]
        return Archived(instants, newest[::-1], note)
    except HudiError as error:  # the page shows what else there is
        return Archived(note=f"The archived timeline cannot be read: {error}")


def _bounds(state: TableState, bytes_max: int) -> tuple[str | None, str]:
    """From which instant on the archive is read, None for none of it; and what that leaves out, in words."""
    if not state.version.has_completion_times:
        size = sum(file.size for file in state.storage.list_folder(state.version.history_folder).files)
        left_out = f"The archived timeline is not shown: it has {size:,} bytes."
        return (None, left_out) if size > bytes_max else ("", "")
    left, oldest = bytes_max, None
    files = sorted(history_files(state.storage, state.version), key=attrgetter("max_time"), reverse=True)
    for at, file in enumerate(files):
        left -= file.size
        if left < 0:
            return oldest, f"The oldest {len(files) - at:,} files of the archived timeline are not shown."
        oldest = file.min_time if oldest is None else min(oldest, file.min_time)
    return oldest, ""
