"""Process-local cache of the files that completed writes name.

A completed instant never changes, so its metadata are read once per process, by its path. Of instants that come again
(`timeline.comes_once`) nothing is cached. The cache belongs to the store object, which is shared by all uses of a table
in this process (`storage.open`).
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter
from weakref import WeakKeyDictionary

from pyhudi.errors import NotFoundError
from pyhudi.format.metadata.commit import JSON_BYTES_MAX, CommitMetadata
from pyhudi.format.metadata.written_files import (
    WrittenFile,
    WrittenFiles,
    columns_of_write,
    decode_written_files,
    end_of,
)
from pyhudi.format.timeline.instant import Instant
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import at_once, read_decoded
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_commit
from pyhudi.table.timeline import comes_once, instant_path

KEPT_ENTRIES_MAX = 500_000
"""How many files of commits are cached over all tables, some 150 MB. Beyond that, the oldest commits of the table that
was least recently used are dropped."""


class _Kept:
    """The cached commits of one table, by path. `used`: the number of the last use."""

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
            previous = self._files.pop(path, None)
            self._files[path] = files
            self.entries += files.count - (previous.count if previous is not None else 0)

    def make_room(self, entries: int, *, keeps: int) -> int:
        """Drop the oldest commits until so many entries are gone, but keep `keeps` commits; the number dropped."""
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
    """Reset the guard in a forked child: a thread of the parent may have held it."""
    global _kept, _kept_guard
    _kept, _kept_guard = WeakKeyDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def load_written_files(
    storage: Storage, version: TableVersion, instants: Iterable[Instant]
) -> dict[Instant, WrittenFiles]:
    """The files that each of these completed writes names.

    Cost: one read for each of them that this process has neither read nor written, several at once on object stores;
    for a write that was archived since the timeline was loaded also the archive files that may have it.

    Raises:
        CorruptDataError: the metadata are damaged; names the file.
        NotFoundError: the write was rolled back since the timeline was loaded.
    """
    kept = _kept_by(storage)
    found = {
        instant: kept.find(instant_path(instant, version)) if comes_once(instant, version) else None
        for instant in instants
    }
    missing = [instant for instant, files in found.items() if files is None]

    def load(instant: Instant) -> WrittenFiles:
        path = instant_path(instant, version)
        try:
            files = read_decoded(storage, path, JSON_BYTES_MAX, decode_written_files)
        except NotFoundError:
            archived = archived_commit(storage, version, instant)
            if archived is None:
                raise
            files = written_files_of(archived)
        if comes_once(instant, version):
            kept.keep(path, files)
        return files

    loaded = dict(zip(missing, at_once(storage, load, missing), strict=True))
    _make_room()
    return {instant: files if files is not None else loaded[instant] for instant, files in found.items()}


def remember_written_files(storage: Storage, version: TableVersion, instant: Instant, metadata: CommitMetadata) -> None:
    """Cache the files of a write that this process has just completed, so that they are not read again."""
    if comes_once(instant, version):
        _kept_by(storage).keep(instant_path(instant, version), written_files_of(metadata))
        _make_room()


def written_files_of(metadata: CommitMetadata) -> WrittenFiles:
    """The files that these metadata name."""
    written: dict[str, list[WrittenFile]] = {}
    for stats in metadata.stats_by_partition.values():
        for stat in stats:
            if stat.path:
                partition_path, _, name = stat.path.rpartition("/")
                start, size = stat.log_offset or 0, stat.file_size_in_bytes
                has_predecessor = stat.prev_commit not in ("", "null")
                file = WrittenFile(stat.file_id, name, start, end_of(start, size), has_predecessor)
                written.setdefault(partition_path, []).append(file)
    return WrittenFiles(
        {partition_path: tuple(files) for partition_path, files in written.items()},
        metadata.replaced_file_ids or {},
        *columns_of_write(metadata.extra, path="the metadata of a write"),
    )


def _kept_by(storage: Storage) -> _Kept:
    with _kept_guard:
        kept = _kept.setdefault(itself(storage), _Kept())
        kept.used = next(_uses)
        return kept


def _make_room() -> None:
    with _kept_guard:
        *others, newest = sorted(_kept.values(), key=attrgetter("used"))
        surplus = sum(table.entries for table in (*others, newest)) - KEPT_ENTRIES_MAX
        for table in others:
            surplus -= table.make_room(surplus, keeps=0)
        newest.make_room(surplus, keeps=1)
