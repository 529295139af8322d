"""The archived timeline: what is asked of instants that have left the active one.

Source: `format/timeline.md` 1.6.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from contextlib import suppress

from pyhudi.errors import NotFoundError
from pyhudi.format.archived_log import ARCHIVE_BYTES_MAX, is_archive_file, parse_archive_file
from pyhudi.format.instant import Action
from pyhudi.format.lsm_history import (
    HISTORY_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    VERSION_BYTES_MAX,
    VERSION_FILE,
    HistoryFile,
    manifest_name,
    parse_history_file,
    parse_manifest,
    parse_manifest_name,
    parse_version_file,
)
from pyhudi.format.rollback_metadata import decode_rollback_metadata
from pyhudi.format.table_version import TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage


class ArchivedOutcome(enum.Enum):
    """How an archived instant ended."""

    COMPLETED = "completed"
    ROLLED_BACK = "rolled back"


def has_archive(storage: Storage, version: TableVersion) -> bool:
    """Whether instants of the table were ever archived. Cost: one listing."""
    return bool(storage.list_folder(version.history_folder).files)


def archived_completion_times(storage: Storage, version: TableVersion, instants: Collection[str]) -> dict[str, str]:
    """When archived writes became visible, by requested time; those that the archive does not know are left out.

    Only for table versions with completion times. Cost: two reads, and one per archive file that spans one of the
    instants. Raises `CorruptDataError` naming a damaged file.
    """
    times: dict[str, str] = {}
    for file in _history_files(storage, version) if instants else ():
        if any(file.min_time <= instant <= file.max_time for instant in instants):
            path = f"{version.history_folder}/{file.name}"
            for entry in parse_history_file(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path):
                if entry.instant_time in instants:
                    times[entry.instant_time] = entry.completion_time
    return times


def archived_outcome(storage: Storage, version: TableVersion, instant_time: str) -> ArchivedOutcome | None:
    """How an instant ended that was archived, or was taken away by an archived rollback; None where nothing tells.

    Cost: one read per archive file that may have it: those that span its time, and all younger ones; in table version
    6 all. Raises `CorruptDataError` naming a damaged file.
    """
    if version.has_completion_times:
        return _in_history(storage, version, instant_time)
    return _in_log(storage, version, instant_time)


def _in_history(storage: Storage, version: TableVersion, instant_time: str) -> ArchivedOutcome | None:
    for file in _history_files(storage, version):
        if file.max_time < instant_time:
            continue
        path = f"{version.history_folder}/{file.name}"
        for entry in parse_history_file(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path):
            if entry.instant_time == instant_time:
                return ArchivedOutcome.COMPLETED
            if entry.action != Action.ROLLBACK.value or entry.instant_time < instant_time or not entry.metadata:
                continue
            if decode_rollback_metadata(entry.metadata, path=path).instant_time == instant_time:
                return ArchivedOutcome.ROLLED_BACK
    return None


def _in_log(storage: Storage, version: TableVersion, instant_time: str) -> ArchivedOutcome | None:
    for info in storage.list_folder(version.history_folder).files:
        if not is_archive_file(info.name):
            continue
        for instant in parse_archive_file(read_at_most(storage, info.path, ARCHIVE_BYTES_MAX), path=info.path):
            if instant.instant_time == instant_time:
                return ArchivedOutcome.COMPLETED
            if instant_time in instant.rolled_back:
                return ArchivedOutcome.ROLLED_BACK
    return None


def _history_files(storage: Storage, version: TableVersion) -> tuple[HistoryFile, ...]:
    """The files of the archived timeline of a table version with completion times; none where nothing was archived.

    Cost: two reads. Raises `CorruptDataError` naming a damaged file.
    """
    number = _current_manifest(storage, version)
    if number is None:
        return ()
    manifest = f"{version.history_folder}/{manifest_name(number)}"
    return parse_manifest(read_at_most(storage, manifest, MANIFEST_BYTES_MAX), path=manifest)


def _current_manifest(storage: Storage, version: TableVersion) -> int | None:
    """The number of the manifest that counts; None where nothing was archived.

    Real Hudi deletes the file that says it before it writes a new one, which it may fill later. Meanwhile its newest
    manifest counts, which is there by then.
    """
    path = f"{version.history_folder}/{VERSION_FILE}"
    with suppress(NotFoundError):
        if data := read_at_most(storage, path, VERSION_BYTES_MAX):
            return parse_version_file(data, path=path)
    names = storage.list_names(version.history_folder)
    return max((number for name in names if (number := parse_manifest_name(name)) is not None), default=None)
