"""The completed writes of the archived timeline, which decide whether files older than the active timeline count.

`block_filter` selects the log blocks that count by the active timeline and the archive. Parsed files of the archive
are cached in the process, per store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.timeline.instant import Action
from pyhudi.format.timeline.lsm_history import HistoryFile
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.storage.bounded import at_once
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import history_files, times_in
from pyhudi.table.archive.logs import archived_logs
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, load_rollback_plan


@dataclass(frozen=True, slots=True)
class ArchivedWrites:
    """When archived writes became visible, by requested time; in table version 6 that time again.

    `known_from`: the oldest instant in the archive; None if nothing was archived. `rolled_back`: older instants that
    were rolled back. `damage`: the error of a part of the archive that could not be read.
    """

    completed: Mapping[str, str] = field(default_factory=dict, repr=False)
    known_from: str | None = None
    rolled_back: frozenset[str] = frozenset()
    damage: CorruptDataError | None = None

    def has(self, instant_time: str) -> bool:
        """Whether a write of this time was completed.

        Instants older than the whole archive count as completed: the start of the archive was removed, and to hide the
        rows of these writes would be worse than to show files that a failed one left.
        """
        if instant_time in self.completed:
            return True
        is_older = self.known_from is not None and instant_time < self.known_from
        return is_older and instant_time not in self.rolled_back


_WRITES = frozenset(action.value for action in WRITE_ACTIONS)


def load_archived_writes(
    storage: Storage, version: TableVersion, instants: Collection[str] | None = None
) -> ArchivedWrites:
    """The archived writes among these instants, and maybe others; all of them if `instants` is None.

    Cost: nothing for no instants; otherwise two reads (in version 6 a listing), and one read per archive file whose
    range contains one of them (in version 6, and after an upgrade by JVM Hudi, all files) and that this process has not
    read yet.

    Raises:
        CorruptDataError: naming a damaged file of the archive.
    """
    archived = readable_archived_writes(storage, version, instants)
    if archived.damage is not None:
        raise archived.damage
    return archived


def readable_archived_writes(
    storage: Storage, version: TableVersion, instants: Collection[str] | None = None
) -> ArchivedWrites:
    """Like `load_archived_writes`, but in table version 6 with the readable part of a damaged archive, and its error.

    An archiver of JVM Hudi that dies leaves half a block at the end of a file. Nothing is lost: instants leave the
    active timeline only after they were archived, and the next archiver writes them again.
    """
    if instants is not None and not instants:
        return ArchivedWrites()
    if not version.has_completion_times:
        return _in_logs(storage, version)
    files = history_files(storage, version)
    spanning = [file for file in files if instants is None or _spans(file, instants)]
    others = [file for file in files if file not in spanning]
    completed = _completed_in(storage, version, spanning)
    is_in_doubt = not all(file.names_range for file in files)
    if is_in_doubt and instants is not None and not completed.keys() >= set(instants):
        # The ranges of the other files need not be right, either.
        completed |= _completed_in(storage, version, others)
    return ArchivedWrites(completed, min((file.min_time for file in files), default=None))


def _completed_in(storage: Storage, version: TableVersion, files: list[HistoryFile]) -> dict[str, str]:
    """The writes in these history files with their completion times."""
    found = at_once(storage, lambda file: times_in(storage, version, file), files)
    times = (entry for entries in found for entry in entries)
    return {requested: ended or requested for requested, ended, action in times if action in _WRITES}


def in_place_of_archive(storage: Storage, timeline: Timeline) -> ArchivedWrites:
    """What counts if there are files older than the active timeline, and no archive.

    If the archive was removed, or not copied with the table, everything older than the active timeline counts, as in
    JVM Hudi. If nothing was archived yet, all rollbacks are still on the active timeline. Cost: a read per rollback.
    Raises `CorruptDataError` naming a damaged plan.
    """
    rolled_back = set()
    for rollback in (instant for instant in timeline.instants if instant.action is Action.ROLLBACK):
        with suppress(NotFoundError):
            rolled_back.add(load_rollback_plan(storage, rollback, timeline.version).instant_time)
    return ArchivedWrites(known_from=timeline.first_time, rolled_back=frozenset(rolled_back))


def _spans(file: HistoryFile, instants: Collection[str]) -> bool:
    return any(file.min_time <= instant <= file.max_time for instant in instants)


def _in_logs(storage: Storage, version: TableVersion) -> ArchivedWrites:
    logs = archived_logs(storage, version)
    times = {
        instant.instant_time: instant.instant_time
        for log in logs
        for instant in log.instants
        if instant.action in _WRITES
    }
    damage = next((log.damage for log in logs if log.damage is not None), None)
    return ArchivedWrites(times, min(times, default=None), damage=damage)


def block_filter(timeline: Timeline, completed: frozenset[str]) -> BlockFilter:
    """The filter for a timeline: the writes `completed` count, and those that were archived.

    Where the names of logs show their writes, the file-system view has selected the logs already.
    """
    if timeline.version.has_completion_times:
        return BlockFilter()
    return BlockFilter(committed=completed, archived_before=timeline.first_time or "", known=completed)


def with_archive(blocks: BlockFilter, archived: ArchivedWrites) -> BlockFilter:
    """The filter by which blocks from before the active timeline count only if the archive has their writes."""
    if blocks.committed is None:
        return blocks
    committed = blocks.committed.union(archived.completed)
    return replace(blocks, committed=committed, archived_before=archived.known_from or "")
