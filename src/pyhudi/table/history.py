"""The archived timeline: what is asked of instants that have left the active one.

Source: `format/timeline.md` 1.6.
"""

from __future__ import annotations

from collections.abc import Collection

from pyhudi.format.lsm_history import (
    VERSION_FILE,
    HistoryFile,
    manifest_name,
    parse_history_file,
    parse_manifest,
    parse_version_file,
)
from pyhudi.format.table_version import TableVersion
from pyhudi.storage.protocol import Storage


def has_archive(storage: Storage, version: TableVersion) -> bool:
    """Whether instants of the table were ever archived. Cost: one listing."""
    return bool(storage.list_folder(version.history_folder).files)


def archived_completion_times(storage: Storage, version: TableVersion, instants: Collection[str]) -> dict[str, str]:
    """When archived writes became visible, by requested time; those that the archive does not know are left out.

    Only for table versions with completion times. Cost: two reads, and one per archive file that spans one of the
    instants. Raises `CorruptDataError` naming a damaged file.
    """
    times: dict[str, str] = {}
    for file in history_files(storage, version) if instants else ():
        if any(file.min_time <= instant <= file.max_time for instant in instants):
            path = f"{version.history_folder}/{file.name}"
            for entry in parse_history_file(storage.read(path), path=path):
                if entry.instant_time in instants:
                    times[entry.instant_time] = entry.completion_time
    return times


def history_files(storage: Storage, version: TableVersion) -> tuple[HistoryFile, ...]:
    """The files of the archived timeline of a table version with completion times; none where nothing was archived.

    Cost: two reads. Raises `CorruptDataError` naming a damaged file.
    """
    path = f"{version.history_folder}/{VERSION_FILE}"
    if storage.info(path) is None:
        return ()
    manifest = f"{version.history_folder}/{manifest_name(parse_version_file(storage.read(path), path=path))}"
    return parse_manifest(storage.read(manifest), path=manifest)
