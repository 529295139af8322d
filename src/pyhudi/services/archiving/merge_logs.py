"""Merging small archive files of table version 6, in the steps of JVM Hudi 0.15: each finishes what the other began.

First a plan that names the files, then the merged file, then the deletion of the others, then that of the plan. A file
is only ever deleted when the merged one has all its states: so readers find each instant at any time, some twice.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from pyhudi.errors import CorruptDataError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.archive_merge import (
    MERGE_PLAN_FILE,
    ArchiveMergePlan,
    decode_merge_plan,
    encode_merge_plan,
)
from pyhudi.format.timeline.archived_log import ARCHIVE_BYTES_MAX, check_archive_blocks
from pyhudi.format.timeline.archived_log_writing import archive_file_name, archive_number, parse_archived_states
from pyhudi.services.archiving.into_logs import create
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.table_lock import HeldLock

MERGED_BYTES_MAX: Final = 256 * 1024 * 1024
"""The files of one merging have this size at most, all together: they are in memory at once."""

_log = logging.getLogger("pyhudi")


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
    check_archive_blocks(data, path=path)
    return data


def _states(storage: Storage, path: str) -> set[tuple[str, str, str]]:
    """The states in a file, as far as it can be read."""
    found: set[tuple[str, str, str]] = set()
    with suppress(CorruptDataError):
        for state in parse_archived_states(read_at_most(storage, path, ARCHIVE_BYTES_MAX), path=path):
            one = state.instant
            found.add((one.requested_time, one.action.value, one.state.name))
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
