"""What the completed writes of a timeline did to files, kept in the process once it was read.

A completed instant never changes, so its metadata are read once per process. The store that they were read from keeps
them: whoever opens the same table again in this process (`storage.opening`) finds them, and they go with the store.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from weakref import WeakKeyDictionary

from pyhudi.format.metadata.commit import JSON_BYTES_MAX, CommitMetadata
from pyhudi.format.metadata.written_files import WrittenFile, WrittenFiles, decode_written_files, end_of
from pyhudi.format.timeline.instant import Instant
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import at_once, read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import instant_path

KEPT_ENTRIES_MAX = 500_000
"""Files of all commits of all tables that are kept, some 150 MB; beyond, those go that were not asked for the longest:
of the table that was not, its oldest."""


class _Kept:
    """What is known of the completed instants of one table, by the path of their files. `used`: when, as a number."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._files: OrderedDict[str, WrittenFiles] = OrderedDict()
        self.entries = 0
        self.used = 0

    def find(self, path: str) -> WrittenFiles | None:
        with self._guard:
            found = self._files.get(path)
            if found is not None:
                self._files.move_to_end(path)
            return found

    def keep(self, path: str, files: WrittenFiles) -> None:
        with self._guard:
            former = self._files.pop(path, None)
            self._files[path] = files
            self.entries += files.count - (former.count if former is not None else 0)

    def make_room(self, entries: int, *, keeps: int) -> int:
        """Drop the oldest until so many entries are gone, but `keeps` of the commits; how many entries went."""
        before = self.entries
        with self._guard:
            while before - self.entries < entries and len(self._files) > keeps:
                _, oldest = self._files.popitem(last=False)
                self.entries -= oldest.count
            return before - self.entries


_kept: WeakKeyDictionary[Storage, _Kept] = WeakKeyDictionary()
_kept_guard = threading.Lock()
_uses = itertools.count(1)


def _begin_anew() -> None:
    """In a forked child: a thread that is none of its own may have held what guards all this, in the midst of it."""
    global _kept, _kept_guard
    _kept, _kept_guard = WeakKeyDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def load_written_files(
    storage: Storage, version: TableVersion, instants: Iterable[Instant]
) -> dict[Instant, WrittenFiles]:
    """What each of these completed writes did to files.

    Cost: one read for each of them that this process has neither read nor written, several at once on object stores.

    Raises:
        CorruptDataError: naming the instant's file, when it does not parse.
        NotFoundError: the instant has left the active timeline since that was loaded.
    """
    kept = _kept_by(storage)
    found = {instant: kept.find(instant_path(instant, version)) for instant in instants}
    missing = [instant for instant, files in found.items() if files is None]

    def load(instant: Instant) -> WrittenFiles:
        path = instant_path(instant, version)
        files = read_decoded(storage, path, JSON_BYTES_MAX, decode_written_files)
        kept.keep(path, files)
        return files

    loaded = dict(zip(missing, at_once(storage, load, missing), strict=True))
    _make_room()
    return {instant: files if files is not None else loaded[instant] for instant, files in found.items()}


def remember_written_files(storage: Storage, version: TableVersion, instant: Instant, metadata: CommitMetadata) -> None:
    """Keep what a write of this process has just completed, so that nobody reads it again."""
    _kept_by(storage).keep(instant_path(instant, version), written_files_of(metadata))
    _make_room()


def written_files_of(metadata: CommitMetadata) -> WrittenFiles:
    """The same of metadata that are at hand."""
    written: dict[str, list[WrittenFile]] = {}
    for stats in metadata.stats_by_partition.values():
        for stat in stats:
            if stat.path:
                partition_path, _, name = stat.path.rpartition("/")
                start, size = stat.log_offset or 0, stat.file_size_in_bytes
                file = WrittenFile(stat.file_id, name, start, end_of(start, size))
                written.setdefault(partition_path, []).append(file)
    return WrittenFiles(
        {partition_path: tuple(files) for partition_path, files in written.items()}, metadata.replaced_file_ids or {}
    )


def _kept_by(storage: Storage) -> _Kept:
    with _kept_guard:
        kept = _kept.setdefault(storage, _Kept())
        kept.used = next(_uses)
        return kept


def _make_room() -> None:
    with _kept_guard:
        *others, newest = sorted(_kept.values(), key=attrgetter("used"))
        surplus = sum(table.entries for table in (*others, newest)) - KEPT_ENTRIES_MAX
        for table in others:
            surplus -= table.make_room(surplus, keeps=0)
        newest.make_room(surplus, keeps=1)
