"""Which writes the archived timeline knows as completed: what a file from before the active timeline is judged by.

What a file of the archive says is kept in the process, by the store that it was read from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, is_archive_file, parse_archive_file
from pyhudi.format.timeline.instant import Action
from pyhudi.format.timeline.lsm_history import HistoryFile
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import at_once, read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.history import history_files, times_in
from pyhudi.table.timeline import WRITE_ACTIONS, Timeline, load_rollback_plan


@dataclass(frozen=True, slots=True)
class ArchivedWrites:
    """When archived writes became visible, by requested time; in table version 6 that time again.

    `known_from`: the oldest instant that the archive tells of; None where nothing was archived. `taken_back`: older
    ones that were rolled back. `damage`: why some of the archive could not be read.
    """

    completed: Mapping[str, str] = field(default_factory=dict, repr=False)
    known_from: str | None = None
    taken_back: frozenset[str] = frozenset()
    damage: CorruptDataError | None = None

    def has(self, instant_time: str) -> bool:
        """Whether a write of this time was completed.

        What is older than all that the archive tells of counts: then its beginning was removed, and to hide the rows
        of those writes would be worse than to show what one of them left behind.
        """
        if instant_time in self.completed:
            return True
        is_older = self.known_from is not None and instant_time < self.known_from
        return is_older and instant_time not in self.taken_back


_WRITES = frozenset(action.value for action in WRITE_ACTIONS)


@dataclass(frozen=True, slots=True)
class _ArchiveLog:
    """The writes that an archive file of table version 6 tells of, as far as it is whole."""

    times: tuple[str, ...]
    damage: CorruptDataError | None


_kept: WeakKeyDictionary[Storage, dict[FileInfo, _ArchiveLog]] = WeakKeyDictionary()
"""What archive files of table version 6 say, by path, size and time: JVM Hudi may append to them, and their names are
numbers that come again when a table is made anew."""


def load_archived_writes(
    storage: Storage, version: TableVersion, instants: Collection[str] | None = None
) -> ArchivedWrites:
    """What the archive tells of these instants, and maybe of others; of all that it has, if none are given.

    Cost: nothing for no instants; else two reads, in version 6 a listing, and each archive file that may tell of one of
    them and that this process has not read: those that span it, in version 6 all.

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
    """Like `load_archived_writes`, but of table version 6 what can be read, and the damage.

    An archiver of JVM Hudi that dies leaves half a block at the end of a file. It loses nothing: instants leave the
    active timeline after they were archived, and the next archiver writes them once more.
    """
    if instants is not None and not instants:
        return ArchivedWrites()
    if not version.has_completion_times:
        return _in_logs(storage, version)
    files = history_files(storage, version)
    spanning = [file for file in files if instants is None or _spans(file, instants)]
    times = (one for file in at_once(storage, lambda file: times_in(storage, version, file), spanning) for one in file)
    completed = {requested: ended or requested for requested, ended, action in times if action in _WRITES}
    return ArchivedWrites(completed, min((file.min_time for file in files), default=None))


def in_place_of_archive(storage: Storage, timeline: Timeline) -> ArchivedWrites:
    """What holds where there are files from before the active timeline, and no archive at all.

    Somebody has removed the archive, or moved the table without it: then what is older than the active timeline counts,
    as for JVM Hudi. Or nothing was archived yet: then all rollbacks are on the active timeline still. Cost: a read for
    each of these. Raises `CorruptDataError` naming a damaged plan.
    """
    taken_back = set()
    for rollback in (instant for instant in timeline.instants if instant.action is Action.ROLLBACK):
        with suppress(NotFoundError):
            taken_back.add(load_rollback_plan(storage, rollback, timeline.version).instant_time)
    return ArchivedWrites(known_from=timeline.first_time, taken_back=frozenset(taken_back))


def _spans(file: HistoryFile, instants: Collection[str]) -> bool:
    return any(file.min_time <= instant <= file.max_time for instant in instants)


def _in_logs(storage: Storage, version: TableVersion) -> ArchivedWrites:
    files = [info for info in storage.list_folder(version.history_folder).files if is_archive_file(info.name)]
    logs = list(at_once(storage, lambda info: _read_log(storage, info), files))
    times = {time: time for log in logs for time in log.times}
    damage = next((log.damage for log in logs if log.damage is not None), None)
    return ArchivedWrites(times, min(times, default=None), damage=damage)


def _read_log(storage: Storage, info: FileInfo) -> _ArchiveLog:
    kept = _kept.setdefault(storage, {})
    if info not in kept:
        times: dict[str, None] = {}
        damage = None
        try:
            for one in parse_archive_file(read_at_most(storage, info.path, ARCHIVE_BYTES_MAX), path=info.path):
                if one.action in _WRITES:
                    times[one.instant_time] = None
        except CorruptDataError as error:
            damage = error
        kept[info] = _ArchiveLog(tuple(times), damage)
    return kept[info]
