"""The archived timeline of table versions 8 and 9: history files, a manifest that names them, levels that are merged.

A reader finds a file once the manifest that the version file names has it: so the file is put first, then the manifest,
then the version file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from pyhudi.errors import AlreadyExistsError, LockLostError, NotFoundError
from pyhudi.format.timeline.instant import Instant, InstantState, InstantTime, parse_instant_file_name
from pyhudi.format.timeline.lsm_history import (
    HAVE_PLANS,
    HISTORY_BYTES_MAX,
    VERSION_FILE,
    HistoryFile,
    HistoryRow,
    encode_history_file,
    encode_manifest,
    encode_version_file,
    history_file_name,
    manifest_name,
    merge_history_files,
    parse_manifest_name,
)
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.archive.history import current_manifest, history_files, times_in
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path


def add_to_history(table: TableState, files: Mapping[Instant, Sequence[FileInfo]]) -> None:
    """Archive instants, given with their files, except for those that a run which died has archived before."""
    storage, version = table.storage, table.version
    number = _next_manifest(storage, version)
    known = _archived_already(storage, version, tuple(files))
    new = [file for file in files if (file.requested_time, file.action.value) not in known]
    if new:
        _publish(storage, version, [_row(storage, instant, files[instant], version) for instant in new], number)


def tidy_history(call: ServiceCall) -> None:
    """Merge levels that have enough files, and delete manifests that no reader opens any more."""
    _merge(call)
    _forget_manifests(call)


def _row(storage: Storage, instant: Instant, files: Sequence[FileInfo], version: TableVersion) -> HistoryRow:
    plan = None
    for info in files:
        parsed = parse_instant_file_name(info.name, version)
        if parsed is not None and parsed.state is InstantState.REQUESTED and parsed.action in HAVE_PLANS:
            plan = storage.read(info.path) or None
    metadata = storage.read(instant_path(instant, version))
    return HistoryRow(instant.requested_time, instant.completion_time or "", instant.action.value, metadata, plan)


def _archived_already(storage: Storage, version: TableVersion, instants: tuple[Instant, ...]) -> set[tuple[str, str]]:
    """Which of these instants a run that died has archived before it could delete their files."""
    first, last = instants[0].requested_time, instants[-1].requested_time
    spanning = [file for file in history_files(storage, version) if file.min_time <= last and file.max_time >= first]
    return {(time, action) for file in spanning for time, _, action in times_in(storage, version, file)}


def _publish(storage: Storage, version: TableVersion, rows: list[HistoryRow], number: int) -> None:
    """Add a history file to the archived timeline, by the manifest with this number."""
    file = _put_file(storage, version, encode_history_file(rows), [row.instant_time for row in rows], level=0)
    _put_manifest(storage, version, [*history_files(storage, version), file], number)


def _put_file(storage: Storage, version: TableVersion, data: bytes, times: Sequence[str], *, level: int) -> HistoryFile:
    """Put a file with instants of these times, and never over another of its name: a level higher, if need be.

    Another one may be of an archiver that died before its manifest, or of one that took the table lock meanwhile.
    """
    while True:
        name = history_file_name(times, level)
        path = f"{version.history_folder}/{name}"
        try:
            storage.put_if_absent(path, data)
        except AlreadyExistsError:
            if read_at_most(storage, path, HISTORY_BYTES_MAX) != data:
                level += 1
                continue
        return HistoryFile(name, len(data), InstantTime(min(times)), InstantTime(max(times)), level)


def _next_manifest(storage: Storage, version: TableVersion) -> int:
    """The number of the next manifest; to be asked for before the files that it is going to name. Cost: one listing."""
    numbers = map(parse_manifest_name, storage.list_names(version.history_folder))
    return max((number for number in numbers if number is not None), default=0) + 1


def _put_manifest(storage: Storage, version: TableVersion, files: Iterable[HistoryFile], number: int) -> None:
    """Make these files the archived timeline: readers find them once the version file names their manifest.

    Raises `LockLostError` where another archiver has put this manifest: one that took the table lock meanwhile.
    """
    path = f"{version.history_folder}/{manifest_name(number)}"
    try:
        storage.put_if_absent(path, encode_manifest(files))
    except AlreadyExistsError as error:
        raise LockLostError("another process archived meanwhile; run the archiving again", path=path) from error
    storage.put(f"{version.history_folder}/{VERSION_FILE}", encode_version_file(number))


def _merge(call: ServiceCall) -> None:
    """Merge the files of a level into one of the next where there are enough, so that their number stays small."""
    storage, version, batch = call.table.storage, call.table.version, call.config.archiving.merge_batch
    number = _next_manifest(storage, version)
    files = history_files(storage, version)
    for level in _levels(files):
        of_level = sorted((file for file in files if file.level == level), key=lambda file: file.min_time)
        if len(of_level) < batch:
            continue
        chosen = of_level[:batch]
        contents = (
            read_at_most(storage, f"{version.history_folder}/{file.name}", HISTORY_BYTES_MAX) for file in chosen
        )
        data, times = merge_history_files(contents, path=version.history_folder)
        merged = _put_file(storage, version, data, times, level=level + 1)
        files = (*(file for file in files if file not in chosen), merged)
        _put_manifest(storage, version, files, number)
        number += 1


def _levels(files: Iterable[HistoryFile]) -> Iterator[int]:
    level = 0
    while level <= max((file.level for file in files), default=-1):
        yield level
        level += 1


def _forget_manifests(call: ServiceCall) -> None:
    """Delete manifests that no reader opens any more, and the history files that only they name."""
    storage, version = call.table.storage, call.table.version
    current = current_manifest(storage, version)
    if current is None:
        return
    numbers = [parse_manifest_name(name) for name in storage.list_names(version.history_folder)]
    old = sorted(n for n in numbers if n is not None and n <= current - call.config.archiving.manifests_retained)
    if not old:
        return
    kept = _named_by(storage, version, (n for n in numbers if n is not None and n not in old))
    for file in _named_by(storage, version, old) - kept:
        storage.delete(f"{version.history_folder}/{file}")
    for number in old:
        storage.delete(f"{version.history_folder}/{manifest_name(number)}")


def _named_by(storage: Storage, version: TableVersion, manifests: Iterable[int]) -> set[str]:
    names: set[str] = set()
    for number in manifests:
        with suppress(NotFoundError):
            names |= {file.name for file in history_files(storage, version, manifest=number)}
    return names
