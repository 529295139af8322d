"""Reading the archive of table version 6, file by file: an index of each file is kept, details are read on request.

An archiver may merge files while they are read: it deletes them once their instants are in a file with a greater
number. So a reader that misses a file lists the archive again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, ArchivedInstant, is_archive_file, parse_archive_file
from pyhudi.format.timeline.instant import Action
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import at_once, read_at_most
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.timeline import WRITE_ACTIONS

T = TypeVar("T")

LoggedWrite: TypeAlias = tuple[str, str]
"""Requested time and action of an archived write."""

_WRITES: Final = frozenset(action.value for action in WRITE_ACTIONS)

LISTINGS_MAX: Final = 5
"""How often an archive is listed whose files are merged meanwhile."""


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """The completed instants in a file, without details, as far as it can be read, and the error of the rest."""

    info: FileInfo
    instants: tuple[ArchivedInstant, ...]
    damage: CorruptDataError | None

    def detailed(self, storage: Storage) -> Iterator[ArchivedInstant]:
        """The instants with details. Cost: one read. Raises `CorruptDataError` naming a damaged file."""
        data = read_at_most(storage, self.info.path, ARCHIVE_BYTES_MAX)
        yield from parse_archive_file(data, path=self.info.path, details=True)

    def writes(self, storage: Storage) -> dict[LoggedWrite, CommitMetadata]:
        """The writes with their metadata. Cost: one read. Raises `CorruptDataError` naming a damaged file."""
        return {
            (instant.instant_time, instant.action): instant.metadata
            for instant in self.detailed(storage)
            if instant.action in _WRITES and instant.metadata is not None
        }


_kept: WeakKeyDictionary[Storage, dict[FileInfo, ArchivedLog]] = WeakKeyDictionary()
"""The files of the archive as this process has read them, by path, size and time: JVM Hudi may append to these files,
and a table that is created again reuses their names."""


def archived_logs(storage: Storage, version: TableVersion) -> list[ArchivedLog]:
    """The files of the archive, in the order of their names. Damage is in the result.

    Cost: one listing, and one read per file that this process has not read.
    """

    def load() -> list[ArchivedLog]:
        kept = _kept.setdefault(itself(storage), {})
        files = _files(storage, version)
        found = at_once(storage, lambda info: kept.get(info) or _read(storage, info), files)
        # What an archiver has merged since is not needed any more.
        _kept[itself(storage)] = dict(zip(files, found, strict=True))
        return found

    return again_while_merged(load)


def readable_logs(storage: Storage, version: TableVersion) -> list[ArchivedLog]:
    """The same; raises `CorruptDataError` naming a damaged file."""
    logs = archived_logs(storage, version)
    for log in logs:
        if log.damage is not None:
            raise log.damage
    return logs


def logged_instants(storage: Storage, version: TableVersion) -> Iterator[ArchivedInstant]:
    """The completed instants of the archive, without details, in no order, repeated by files. See `readable_logs`."""
    for log in readable_logs(storage, version):
        yield from log.instants


def logged_cleaned_files(storage: Storage, version: TableVersion, *, after: str) -> frozenset[str]:
    """The files that cleans after an instant time deleted. Cost: as `readable_logs`, and a read per file with such."""

    def load() -> frozenset[str]:
        paths: set[str] = set()
        for log in readable_logs(storage, version):
            if any(instant.action == Action.CLEAN.value and instant.instant_time > after for instant in log.instants):
                paths.update(*(clean.cleaned for clean in log.detailed(storage) if clean.instant_time > after))
        return frozenset(paths)

    return again_while_merged(load)


def logged_replacements(storage: Storage, version: TableVersion, *, after: str) -> dict[str, CommitMetadata]:
    """Replace commits after an instant time. Cost: as `readable_logs`, and a read per file with such."""

    def load() -> dict[str, CommitMetadata]:
        found: dict[str, CommitMetadata] = {}
        for log in readable_logs(storage, version):
            if any(
                instant.action == Action.REPLACE_COMMIT.value and instant.instant_time > after
                for instant in log.instants
            ):
                writes = log.writes(storage).items()
                found |= {
                    time: metadata for (time, action), metadata in writes if action == Action.REPLACE_COMMIT.value
                }
        return {time: metadata for time, metadata in found.items() if time > after}

    return again_while_merged(load)


def logged_writes(storage: Storage, version: TableVersion) -> Iterator[tuple[LoggedWrite, CommitMetadata]]:
    """The writes with their metadata, newest first. Cost: as `readable_logs`, and a read per file of those taken."""
    beside: dict[LoggedWrite, CommitMetadata | None] = {}
    for write in sorted(_places(storage, version), reverse=True):
        if write not in beside:
            beside = {write: None, **_beside(storage, version, write)}
        if (metadata := beside[write]) is not None:
            yield write, metadata


def logged_commit(storage: Storage, version: TableVersion, write: LoggedWrite) -> CommitMetadata | None:
    """The metadata of a write; None if no file has them. Cost: as `readable_logs`, and a read of the file."""
    return _beside(storage, version, write).get(write)


def _places(storage: Storage, version: TableVersion) -> dict[LoggedWrite, ArchivedLog]:
    return {
        (instant.instant_time, instant.action): log
        for log in readable_logs(storage, version)
        for instant in log.instants
        if instant.action in _WRITES
    }


def _beside(storage: Storage, version: TableVersion, write: LoggedWrite) -> dict[LoggedWrite, CommitMetadata]:
    """The metadata of this write and of those in the same file; nothing if no file has it."""

    def load() -> dict[LoggedWrite, CommitMetadata]:
        log = _places(storage, version).get(write)
        return log.writes(storage) if log is not None else {}

    return again_while_merged(load)


def again_while_merged(load: Callable[[], T]) -> T:
    """The result of reading the archive, which is tried again where a file has vanished under it."""
    for _ in range(LISTINGS_MAX - 1):
        try:
            return load()
        except NotFoundError:
            continue
    return load()


def _files(storage: Storage, version: TableVersion) -> list[FileInfo]:
    return [info for info in storage.list_folder(version.history_folder).files if is_archive_file(info.name)]


def _read(storage: Storage, info: FileInfo) -> ArchivedLog:
    instants: list[ArchivedInstant] = []
    damage = None
    try:
        found = parse_archive_file(read_at_most(storage, info.path, ARCHIVE_BYTES_MAX), path=info.path)
        instants.extend(replace(instant, action=sys.intern(instant.action)) for instant in found)
    except CorruptDataError as error:
        damage = error
    return ArchivedLog(info, tuple(instants), damage)
