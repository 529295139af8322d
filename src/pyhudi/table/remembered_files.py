"""Process-local memory of the files in a table's folders, handed on from one action of this process to its next.

A listing is remembered with the whole timeline under which it was made. It is used only under the very same timeline:
instants carry their completion times, which do not come again. Whatever else changes a folder leaves an instant: a
write, a compaction, a clustering, a clean, a rollback, a restore, each already while it is pending. An action of this
process hands the memory on to the timeline that it makes, with the files that it added and removed; any other new
instant, and each that is gone, makes the memory useless.

Files can also come without an instant: tasks that outlive the rollback of their write still write, and JVM Hudi would
read their files one day, so writes search for them (`services/rollback/orphans.py`). Therefore nothing is remembered
while the timeline has a rollback or a restore. Nor is it in table version 6, whose instants have no completion times.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakKeyDictionary

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.file_system_view import SlicesByPartition, load_view
from pyhudi.table.lister import Lister
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline

FILES_MAX: Final = 200_000
"""How many files are remembered over all tables, some 60 MB. Beyond that, those of the other tables are forgotten, and
then those of the last one."""
_UNDOING: Final = frozenset({Action.ROLLBACK, Action.RESTORE})

FilesByFolder = Mapping[str, Mapping[str, FileInfo]]
"""Files by the path of their folder, and by their name."""


@dataclass(frozen=True)
class _Remembered:
    """The files of some folders under a timeline. `is_whole`: there are no others in the table."""

    timeline: Timeline
    folders: FilesByFolder = field(repr=False)
    is_whole: bool

    @property
    def count(self) -> int:
        return sum(map(len, self.folders.values()))


_kept: WeakKeyDictionary[Storage, _Remembered] = WeakKeyDictionary()
_guard = threading.Lock()


def _begin_anew() -> None:
    """Reset the guard in a forked child: a thread of the parent may have held it."""
    global _kept, _guard
    _kept, _guard = WeakKeyDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


class RememberingLister:
    """The `Lister` of one write under a timeline: it lists each folder once, and none that is remembered."""

    def __init__(self, storage: Storage, timeline: Timeline, lister: Lister) -> None:
        """`lister` lists what is not remembered. `recalled`: the folders that are."""
        self._storage, self._timeline, self._lister = storage, timeline, lister
        kept = _remembered(storage, timeline)
        self._folders: dict[str, Mapping[str, FileInfo]] = {} if kept is None else dict(kept.folders)
        self.recalled = tuple(self._folders)
        self._is_whole = kept is not None and kept.is_whole
        self._is_listed = False

    def partitions(self, paths: Sequence[str]) -> list[FileInfo]:
        """See `Lister`. Cost: that of the lister, for folders that it has not listed and that are not remembered."""
        if unknown := [] if self._is_listed else [path for path in paths if path not in self._folders]:
            self._folders |= _by_folder(unknown, self._lister.partitions(unknown))
            _keep(self._storage, _Remembered(self._timeline, self._folders, self._is_whole))
        return [info for path in paths for info in self._folders.get(path, {}).values()]

    def table(self) -> list[FileInfo]:
        """See `Lister`. Cost: that of the lister, once, and only if not all of the table is remembered."""
        if not self._is_whole:
            self._folders, self._is_whole, self._is_listed = _by_folder((), self._lister.table()), True, True
            _keep(self._storage, _Remembered(self._timeline, self._folders, is_whole=True))
        return [info for files in self._folders.values() for info in files.values()]


@contextmanager
def listed_once(storage: Storage, timeline: Timeline, lister: Lister) -> Iterator[RememberingLister]:
    """The lister of a write, which runs in the block. If it fails on a file, folders that were remembered are listed.

    A file that was deleted by hand leaves no instant. A write that reads it raises `CorruptDataError` here, as it does
    where it lists the folder. Cost: that of the lister, and only for what it is asked.
    """
    remembering = RememberingLister(storage, timeline, lister)
    try:
        yield remembering
    except (NotFoundError, CorruptDataError):
        if remembering.recalled:
            _taken(storage)
            _ = load_view(storage, timeline, remembering.recalled, lister=lister).latest
        raise


def latest_slices(table: TableState, lister: Lister, partition_paths: Iterable[str] | None = None) -> SlicesByPartition:
    """The newest file slices of some partitions, or of all, by partition path.

    Cost: that of `load_view`, with the listings of `listed_once`.
    """
    with listed_once(table.storage, table.timeline, lister) as remembering:
        return load_view(table.storage, table.timeline, partition_paths, lister=remembering).latest


def remembered_files(storage: Storage, timeline: Timeline) -> FilesByFolder:
    """The files of the folders that are known under this timeline; no folder is in it that has none. Cost: none."""
    kept = _remembered(storage, timeline)
    return {} if kept is None else kept.folders


def hand_on_files(
    storage: Storage,
    timeline: Timeline,
    completed: Instant,
    *,
    added: Mapping[str, Iterable[FileInfo]],
    removed: Mapping[str, Iterable[str]],
) -> None:
    """Take the memory over to the timeline that an action of this process has just made. Cost: none.

    `timeline`: the one on which the action was completed, where it is still pending. `added` and `removed`: files, and
    names of files, by the path of their folder.
    """
    kept = _taken(storage)
    if kept is None or not _are_same(_without(kept.timeline, completed), _without(timeline, completed)):
        return
    folders = dict(kept.folders)
    for folder in {*added, *removed}:
        if folder in folders or kept.is_whole:
            gone = frozenset(removed.get(folder, ()))
            files = {name: info for name, info in folders.get(folder, {}).items() if name not in gone}
            folders[folder] = files | {info.name: info for info in added.get(folder, ())}
    _keep(storage, _Remembered(_with(_without(timeline, completed), completed), folders, kept.is_whole))


def hand_on_past_archiving(storage: Storage, timeline: Timeline, archived: Iterable[Instant]) -> None:
    """Take the memory over to the timeline that is left when this process has archived instants. Cost: none."""
    kept = _taken(storage)
    if kept is not None and _are_same(kept.timeline, timeline):
        for instant in archived:
            timeline = _without(timeline, instant)
        _keep(storage, replace(kept, timeline=timeline))


def _by_folder(folders: Iterable[str], files: Iterable[FileInfo]) -> dict[str, Mapping[str, FileInfo]]:
    found: dict[str, dict[str, FileInfo]] = {folder: {} for folder in folders}
    for info in files:
        found.setdefault(info.path.rpartition("/")[0], {})[info.name] = info
    return dict(found)


def _remembered(storage: Storage, timeline: Timeline) -> _Remembered | None:
    """What is remembered under a timeline.

    Not the folders without files, which are listed again: no instant tells whether others have put plain files there.
    """
    with _guard:
        kept = _kept.get(itself(storage))
    if kept is None or not _are_same(kept.timeline, timeline):
        return None
    return replace(kept, folders={folder: files for folder, files in kept.folders.items() if files})


def _taken(storage: Storage) -> _Remembered | None:
    with _guard:
        return _kept.pop(itself(storage), None)


def _keep(storage: Storage, remembered: _Remembered) -> None:
    """Remember folders in place of what was remembered before."""
    count = remembered.count
    with _guard:
        _kept.pop(itself(storage), None)
        if not _shows_all_changes(remembered.timeline) or count > FILES_MAX:
            return
        if count + sum(other.count for other in _kept.values()) > FILES_MAX:
            _kept.clear()
        _kept[itself(storage)] = remembered


def _shows_all_changes(timeline: Timeline) -> bool:
    """Whether a folder can only change together with the timeline; see the head of this module."""
    is_known = timeline.version.has_completion_times and not timeline.foreign
    return is_known and not any(instant.action in _UNDOING for instant in timeline.instants)


def _are_same(one: Timeline, other: Timeline) -> bool:
    return (one.version, one.instants, one.foreign) == (other.version, other.instants, other.foreign)


def _without(timeline: Timeline, own: Instant) -> Timeline:
    """The timeline without the action of an instant, whatever its state."""
    return replace(
        timeline,
        instants=tuple(instant for instant in timeline.instants if instant.requested_time != own.requested_time),
    )


def _with(timeline: Timeline, completed: Instant) -> Timeline:
    at = sum(instant.requested_time < completed.requested_time for instant in timeline.instants)
    return replace(timeline, instants=(*timeline.instants[:at], completed, *timeline.instants[at:]))
