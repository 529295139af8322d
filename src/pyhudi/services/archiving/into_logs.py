"""The archived timeline of table version 6: log files that hold a record for every state of an instant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Final

from pyhudi.errors import AlreadyExistsError, LockLostError
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, parse_archive_file
from pyhudi.format.timeline.archived_log_writing import (
    ArchivedState,
    archive_file_name,
    archive_number,
    archived_state,
    encode_archive_file,
)
from pyhudi.format.timeline.instant import Instant, format_instant_time, parse_instant_file_name
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState

INSTANTS_PER_FILE: Final = 200
"""How many instants one file gets, so that a long timeline is not held in memory at once."""


def add_to_logs(table: TableState, files: Mapping[Instant, Sequence[FileInfo]]) -> None:
    """Archive instants, given with their files, except for those that a run which died has archived before.

    A file of the archive is named by the next number, and created exclusively: what another archiver wrote stays.
    """
    storage, version = table.storage, table.version
    numbers = _numbers(storage, version)
    known = _archived_already(storage, numbers, files)
    new = [file for file in files if (file.requested_time, file.action.value) not in known]
    zone = table_zone(table.config)
    for number, at in enumerate(range(0, len(new), INSTANTS_PER_FILE), start=max(numbers, default=0) + 1):
        path = f"{version.history_folder}/{archive_file_name(number)}"
        states = [_state(table, info, zone) for one in new[at : at + INSTANTS_PER_FILE] for info in files[one]]
        create(storage, path, encode_archive_file(states, path=path))


def create(storage: Storage, path: str, data: bytes) -> None:
    """Put a file of the archive. Raises `LockLostError` where another archiver has put one of this name meanwhile."""
    try:
        storage.put_if_absent(path, data)
    except AlreadyExistsError as error:
        raise LockLostError("another process archived meanwhile; run the archiving again", path=path) from error


def _state(table: TableState, info: FileInfo, zone: tzinfo | None) -> ArchivedState:
    instant = parse_instant_file_name(info.name, table.version)
    assert instant is not None, "only files of instants are given"
    reached = format_instant_time(info.modified_ms, zone)
    return archived_state(instant, table.storage.read(info.path), reached, path=info.path)


def _numbers(storage: Storage, version: TableVersion) -> dict[int, str]:
    """The paths of the archive files by their numbers."""
    files = storage.list_folder(version.history_folder).files
    return {number: info.path for info in files if (number := archive_number(info.name)) is not None}


def _archived_already(
    storage: Storage, numbers: Mapping[int, str], instants: Iterable[Instant]
) -> set[tuple[str, str]]:
    """Which of these instants a run that died has archived before it could delete their files.

    Such a run wrote the newest files, so these are read until one has none of the instants.
    """
    asked = {(instant.requested_time, instant.action.value) for instant in instants}
    known: set[tuple[str, str]] = set()
    for number in sorted(numbers, reverse=True):
        data = read_at_most(storage, numbers[number], ARCHIVE_BYTES_MAX)
        held = {(one.instant_time, one.action) for one in parse_archive_file(data, path=numbers[number])}
        if held.isdisjoint(asked):
            break
        known |= held & asked
    return known
