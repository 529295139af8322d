"""Reading the archived timeline."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import TypeAlias
from weakref import WeakKeyDictionary

from pyhudi.errors import NotFoundError
from pyhudi.format.metadata.clean import decode_clean_metadata
from pyhudi.format.metadata.commit import CommitMetadata, decode_commit_metadata
from pyhudi.format.metadata.rollback import decode_rollback_metadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.format.timeline.lsm_history import (
    HISTORY_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    VERSION_BYTES_MAX,
    VERSION_FILE,
    HistoryEntry,
    HistoryFile,
    manifest_name,
    parse_history_file,
    parse_manifest,
    parse_manifest_name,
    parse_version_file,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.metered import itself
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.logs import (
    ArchivedLog,
    again_while_merged,
    logged_cleaned_files,
    logged_commit,
    logged_instants,
    logged_replacements,
    logged_writes,
    readable_logs,
)
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.timeline import WRITE_ACTIONS

_WRITE_WORDS = frozenset(action.value for action in WRITE_ACTIONS)


class ArchivedOutcome(enum.Enum):
    """How an archived instant ended."""

    COMPLETED = "completed"
    ROLLED_BACK = "rolled back"


def has_archive(storage: Storage, version: TableVersion) -> bool:
    """Whether instants of the table were ever archived. Cost: one listing."""
    return bool(storage.list_folder(version.history_folder).files)


def archived_cleaned_files(storage: Storage, version: TableVersion, *, after: str) -> frozenset[str]:
    """The files that archived cleans after an instant time deleted. Cost: the archive files since then.

    Raises `CorruptDataError` naming a damaged file, and `UnsafePathError` for files outside the table.
    """
    if version.has_completion_times:
        return frozenset().union(
            *(
                decode_clean_metadata(entry.metadata, path=path).paths
                for path, entry in _entries(storage, version, after=after)
                if entry.action == Action.CLEAN.value and entry.instant_time > after and entry.metadata
            )
        )
    return logged_cleaned_files(storage, version, after=after)


def archived_replacements(storage: Storage, version: TableVersion) -> dict[FileGroupId, str]:
    """The file groups that archived writes replaced, and the instants of these writes. Cost: the whole archive.

    Raises `CorruptDataError` naming a damaged file.
    """
    return {
        FileGroupId(partition_path, file_id): write.requested_time
        for write, metadata in archived_metadata(storage, version)
        for partition_path, file_ids in (metadata.replaced_file_ids or {}).items()
        for file_id in file_ids
    }


def archived_drops(storage: Storage, version: TableVersion, *, after: str) -> dict[str, str]:
    """The partitions that archived writes after an instant time dropped, and the newest of these writes for each.

    Cost: the archive files since then. Raises `CorruptDataError` naming a damaged file.
    """
    dropped: dict[str, str] = {}
    for time, metadata in _replacements(storage, version, after):
        if metadata.operation is WriteOperation.DELETE_PARTITION:
            for partition in metadata.replaced_file_ids or {}:
                dropped[partition] = max(time, dropped.get(partition, ""))
    return dropped


def _replacements(storage: Storage, version: TableVersion, after: str) -> Iterator[tuple[str, CommitMetadata]]:
    word = Action.REPLACE_COMMIT.value
    if not version.has_completion_times:
        yield from logged_replacements(storage, version, after=after).items()
        return
    for path, entry in _entries(storage, version, after=after):
        if entry.action == word and entry.instant_time > after and entry.metadata:
            yield entry.instant_time, decode_commit_metadata(entry.metadata, path=path)


def archived_metadata(storage: Storage, version: TableVersion) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The completed writes of the archived timeline with their metadata, newest first.

    Cost: three reads, and one per archive file as far as the caller iterates; in table version 6 also one per archive
    file that this process has not read. Raises `CorruptDataError` naming a damaged file.
    """
    if version.has_completion_times:
        for file in sorted(history_files(storage, version), key=attrgetter("max_time"), reverse=True):
            yield from _writes_in(storage, f"{version.history_folder}/{file.name}", is_newest_first=True)
        return
    for place, found in logged_writes(storage, version):
        yield _write(*place, None), found


def archived_commit(storage: Storage, version: TableVersion, instant: Instant) -> CommitMetadata | None:
    """The metadata of an archived write; None if the archive does not have it.

    Cost: two reads, and one per archive file whose range contains it; in table version 6 a listing, one read per
    archive file that this process has not read, and one of that with the write.
    """
    if not version.has_completion_times:
        return logged_commit(storage, version, (instant.requested_time, instant.action.value))
    wanted = (instant.requested_time, instant.action)
    spanning = (file for file in history_files(storage, version) if file.min_time <= wanted[0] <= file.max_time)
    found = (instant for file in spanning for instant in _writes_in(storage, f"{version.history_folder}/{file.name}"))
    return next((metadata for write, metadata in found if (write.requested_time, write.action) == wanted), None)


def archived_values(storage: Storage, version: TableVersion, key: str) -> dict[str, str]:
    """The values of a key in the extra metadata of archived writes, and the newest write of each value.

    Cost: three reads, and one per archive file that this process has not read for this key. Raises `CorruptDataError`
    naming a damaged file.
    """
    return again_while_merged(lambda: _values(storage, version, key))


def _values(storage: Storage, version: TableVersion, key: str) -> dict[str, str]:
    files: Sequence[HistoryFile | ArchivedLog] = (
        history_files(storage, version) if version.has_completion_times else readable_logs(storage, version)
    )
    of_store = _kept_values.setdefault(itself(storage), {})
    kept = of_store.get(key, {})
    # What is in no file any more has been merged into others.
    of_store[key] = kept = {
        place: kept[place] if place in kept else _values_in(storage, version, file, key)
        for place, file in ((_place(file), file) for file in files)
    }
    found: dict[str, str] = {}
    for values in kept.values():
        for value, instant_time in values.items():
            found[value] = max(instant_time, found.get(value, ""))
    return found


def _place(file: HistoryFile | ArchivedLog) -> HistoryFile | FileInfo:
    return file.info if isinstance(file, ArchivedLog) else file


def _values_in(storage: Storage, version: TableVersion, file: HistoryFile | ArchivedLog, key: str) -> dict[str, str]:
    if isinstance(file, ArchivedLog):
        times = ((time, metadata) for (time, _), metadata in file.writes(storage).items())
    else:
        writes = _writes_in(storage, f"{version.history_folder}/{file.name}")
        times = ((write.requested_time, metadata) for write, metadata in writes)
    return {metadata.extra[key]: time for time, metadata in times if key in metadata.extra}


_kept_values: WeakKeyDictionary[Storage, dict[str, dict[HistoryFile | FileInfo, dict[str, str]]]] = WeakKeyDictionary()
"""Values by key and file. Files of version 6 may be appended to, and their names are numbers that come again when a
table is made anew, so their size and time count."""


def _writes_in(
    storage: Storage, path: str, *, is_newest_first: bool = False
) -> Iterator[tuple[Instant, CommitMetadata]]:
    """The completed writes in a history file, in its order or the reverse of it; each is decoded as it is asked for."""
    entries = parse_history_file(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path)
    for entry in reversed(entries) if is_newest_first else entries:
        if entry.action in _WRITE_WORDS and entry.metadata:
            write = _write(entry.instant_time, entry.action, entry.completion_time)
            yield write, decode_commit_metadata(entry.metadata, path=path)


def _write(requested_time: str, action: str, completion_time: InstantTime | None) -> Instant:
    return Instant(InstantTime(requested_time), Action(action), InstantState.COMPLETED, completion_time)


def archived_outcome(storage: Storage, version: TableVersion, instant_time: str) -> ArchivedOutcome | None:
    """How an instant ended that was archived, or rolled back by an archived rollback; None if the archive has neither.

    Cost: one read per archive file whose range contains its time, and per younger file; in table version 6, and after
    an upgrade by JVM Hudi, all files.
    Raises `CorruptDataError` naming a damaged file.
    """
    if version.has_completion_times:
        return _in_history(storage, version, instant_time)
    return _in_log(storage, version, instant_time)


def _in_history(storage: Storage, version: TableVersion, instant_time: str) -> ArchivedOutcome | None:
    for path, entry in _entries(storage, version, after=instant_time):
        if entry.instant_time == instant_time:
            return ArchivedOutcome.COMPLETED
        if entry.action != Action.ROLLBACK.value or entry.instant_time < instant_time or not entry.metadata:
            continue
        if decode_rollback_metadata(entry.metadata, path=path).instant_time == instant_time:
            return ArchivedOutcome.ROLLED_BACK
    return None


def _in_log(storage: Storage, version: TableVersion, instant_time: str) -> ArchivedOutcome | None:
    for instant in logged_instants(storage, version):
        if instant.instant_time == instant_time:
            return ArchivedOutcome.COMPLETED
        if instant_time in instant.rolled_back:
            return ArchivedOutcome.ROLLED_BACK
    return None


def _entries(storage: Storage, version: TableVersion, *, after: str = "") -> Iterator[tuple[str, HistoryEntry]]:
    """The archived instants with their metadata and files, from files that end at `after` or later.

    Cost: two reads, and one per such file.
    """
    files = history_files(storage, version)
    is_in_doubt = not all(file.names_range for file in files)
    for file in files:
        if is_in_doubt or file.max_time >= after:
            path = f"{version.history_folder}/{file.name}"
            for entry in parse_history_file(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path):
                yield path, entry


_TimesIn: TypeAlias = tuple[tuple[str, InstantTime | None, str], ...]
_kept: WeakKeyDictionary[Storage, dict[HistoryFile, _TimesIn]] = WeakKeyDictionary()
"""The instants in history files, per store: these files never change."""


def times_in(storage: Storage, version: TableVersion, file: HistoryFile) -> _TimesIn:
    """Requested time, completion time and action of the instants in one file. Cost: one read, once per process."""
    kept = _kept.setdefault(itself(storage), {})
    if file not in kept:
        path = f"{version.history_folder}/{file.name}"
        entries = parse_history_file(read_at_most(storage, path, HISTORY_BYTES_MAX), path=path, metadata=False)
        kept[file] = tuple((entry.instant_time, entry.completion_time, entry.action) for entry in entries)
    return kept[file]


def history_files(storage: Storage, version: TableVersion, *, manifest: int | None = None) -> tuple[HistoryFile, ...]:
    """The files of the archived timeline of a table version with completion times; none if nothing was archived.

    `manifest`: of an older manifest than the current one.

    Cost: two reads. Raises `CorruptDataError` naming a damaged file.
    """
    number = current_manifest(storage, version) if manifest is None else manifest
    if number is None:
        return ()
    path = f"{version.history_folder}/{manifest_name(number)}"
    files = parse_manifest(read_at_most(storage, path, MANIFEST_BYTES_MAX), path=path)
    if manifest is None and (kept := _kept.get(itself(storage))):
        # What has been merged is not asked for any more.
        _kept[itself(storage)] = {file: kept[file] for file in files if file in kept}
    return files


def current_manifest(storage: Storage, version: TableVersion) -> int | None:
    """The number of the current manifest; None if nothing was archived.

    JVM Hudi deletes the file with this number before it writes a new one, which may be empty at first. The newest
    manifest exists by then, and is used meanwhile.
    """
    path = f"{version.history_folder}/{VERSION_FILE}"
    with suppress(NotFoundError):
        if data := read_at_most(storage, path, VERSION_BYTES_MAX):
            return parse_version_file(data, path=path)
    names = storage.list_names(version.history_folder)
    return max((number for name in names if (number := parse_manifest_name(name)) is not None), default=None)
