"""The archived timeline of table version 6: log files with a record for every state of an instant; merging them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import tzinfo
from typing import Final

from pyhudi.errors import AlreadyExistsError, CorruptDataError, LockLostError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, archive_blocks, parse_archive_file
from pyhudi.format.timeline.archived_log_writing import (
    MERGE_PLAN_FILE,
    ArchivedState,
    ArchiveMergePlan,
    archive_file_name,
    archive_number,
    archived_state,
    decode_merge_plan,
    encode_archive_file,
    encode_merge_plan,
    parse_archived_states,
)
from pyhudi.format.timeline.instant import Instant, format_instant_time, parse_instant_file_name
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.instant_times import table_zone
from pyhudi.table.state import TableState
from pyhudi.transaction.locks.table_lock import HeldLock

INSTANTS_PER_FILE: Final = 200
"""How many instants one file gets, so that a long timeline is not held in memory at once."""
MERGED_BYTES_MAX: Final = 256 * 1024 * 1024
"""The files of one merging have this size at most, all together: they are in memory at once."""
_log = logging.getLogger("pyhudi")


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
        states = [_state(table, info, zone) for instant in new[at : at + INSTANTS_PER_FILE] for info in files[instant]]
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
        held = {(record.instant_time, record.action) for record in parse_archive_file(data, path=numbers[number])}
        if held.isdisjoint(asked):
            break
        known |= held & asked
    return known


def finish_merge(storage: Storage, folder: str, lock: HeldLock) -> None:
    """Finish the merging of an archiver that died, of pyhudi or of JVM Hudi, or undo it. Cost: a listing."""
    names = set(storage.list_names(folder))
    if MERGE_PLAN_FILE not in names:
        return
    path = f"{folder}/{MERGE_PLAN_FILE}"
    try:
        plan = decode_merge_plan(read_at_most(storage, path, CONTAINER_BYTES_MAX), path=path)
        _carry_out(storage, folder, plan, lock)
    except CorruptDataError as error:
        _log.warning("a merging of archive files is given up, because a file of it is damaged: %s", error)
    lock.check_held()
    storage.delete(path)


def _carry_out(storage: Storage, folder: str, plan: ArchiveMergePlan, lock: HeldLock) -> None:
    """The steps of a plan that are left, whoever took those before."""
    names = storage.list_names(folder)
    left = [name for name in plan.files if name in names and name != plan.merged]
    if plan.merged in names:
        merged = _states(storage, f"{folder}/{plan.merged}")
        held = [name for name in left if _states(storage, f"{folder}/{name}") <= merged]
        if len(left) == len(plan.files) and held != left:
            # The process died while it wrote the merged file, as JVM Hudi may.
            held = [plan.merged]
    else:
        held = left if len(left) == len(plan.files) else []
        if held:
            data = b"".join(_whole(storage, f"{folder}/{name}") for name in held)
            lock.check_held()
            create(storage, f"{folder}/{plan.merged}", data)
    for name in held:
        lock.check_held()
        storage.delete(f"{folder}/{name}")


def _whole(storage: Storage, path: str) -> bytes:
    data = read_at_most(storage, path, ARCHIVE_BYTES_MAX)
    for _ in archive_blocks(data, path=path):
        pass  # one that is not whole is an error
    return data


def _states(storage: Storage, path: str) -> set[tuple[str, str, str]]:
    """The states in a file, as far as it can be read."""
    found: set[tuple[str, str, str]] = set()
    with suppress(CorruptDataError):
        for state in parse_archived_states(read_at_most(storage, path, ARCHIVE_BYTES_MAX), path=path):
            instant = state.instant
            found.add((instant.requested_time, instant.action.value, instant.state.name))
    return found


def merge_logs(call: ServiceCall, lock: HeldLock) -> None:
    """Merge the small files of the archive into one with the next number, if there are enough of them.

    Cost: a listing; if there are enough, two reads and a delete for each of them, two puts and a delete.
    """
    storage, folder, options = call.table.storage, call.table.version.history_folder, call.config.archiving
    if not options.merge_logs:
        return
    numbered = {
        number: info for info in storage.list_folder(folder).files if (number := archive_number(info.name)) is not None
    }
    small = [numbered[number] for number in sorted(numbered) if numbered[number].size <= options.merge_logs_below_bytes]
    if len(small) < options.merge_logs_batch:
        return
    chosen: list[str] = []
    size = 0
    for info in small:
        size += info.size
        if size > MERGED_BYTES_MAX:
            break
        try:
            _whole(storage, info.path)
        except CorruptDataError as error:
            _log.warning("a damaged file of the archived timeline is not merged: %s", error)
        else:
            chosen.append(info.name)
    if len(chosen) < options.merge_logs_batch:
        return
    plan = ArchiveMergePlan(tuple(chosen), archive_file_name(max(numbered) + 1))
    lock.check_held()
    create(storage, f"{folder}/{MERGE_PLAN_FILE}", encode_merge_plan(plan, folder_uri=f"{storage.uri}/{folder}"))
    _carry_out(storage, folder, plan, lock)
    lock.check_held()
    storage.delete(f"{folder}/{MERGE_PLAN_FILE}")
