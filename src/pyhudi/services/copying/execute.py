"""Copying a table, safe to repeat: the folder is a table from its last step on, the put of the properties.

A copy that died leaves a note of what it copied. The same copy continues with the data files that are there, which
never change. Two processes that copy into one folder do no harm: the one that began later ends the copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.engine.protocol import TaskContext
from pyhudi.errors import AlreadyExistsError, InvalidRequestError, NotFoundError, TableExistsError, WriteConflictError
from pyhudi.markup import Shown
from pyhudi.metadata_table.initialize import initialize_partitions
from pyhudi.metadata_table.partitions.maintained import maintained_partition
from pyhudi.services.copying.plan import CopyPlan, is_of_copy, plan_copy, still_holds
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.open import open_spec
from pyhudi.storage.paths import lie_in_each_other
from pyhudi.storage.protocol import FileInfo, Storage, StorageSpec
from pyhudi.table.metadata_partitions import FILES, is_maintained
from pyhudi.table.metadata_table import INFLIGHT_PARTITIONS_KEY, PARTITIONS_KEY
from pyhudi.table.state import TableState, create_table, table_exists
from pyhudi.transaction.locks.table_lock import LOCK_FOLDER, table_lock

BYTES_PER_TASK: Final = 256 * 1024 * 1024
FILES_PER_TASK: Final = 100
_NOTE: Final = ".hoodie/.temp/copy.json"
_NOTE_BYTES_MAX: Final = 1 << 16
_PIECE: Final = 8 * 1024 * 1024
_TRIES: Final = 5
"""How often a copy is planned, each time because the table was cleaned or archived while its files were copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied(Shown):
    """What a copy has: where it is, its newest completed write, how many files, and their size in bytes.

    `metadata_partitions`: the parts of its metadata table, which was built for it.
    """

    uri: str
    last_write: str | None
    files: int
    bytes: int
    metadata_partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Files to copy from one store to another under the same paths. `replaces`: files of these names may be there."""

    source: StorageSpec
    target: StorageSpec
    files: tuple[FileInfo, ...]
    replaces: bool


def copy_files(_: TaskContext, task: CopyTask) -> None:
    """Copy files. Raises `NotFoundError` for one that is gone."""
    source, target = open_spec(task.source), open_spec(task.target)
    for info in task.files:
        if task.replaces:
            target.delete(info.path)
        try:
            _copy(source, target, info.path)
        except AlreadyExistsError:  # of an attempt of this task that died, or of a copy of the same files
            target.delete(info.path)
            _copy(source, target, info.path)


def _copy(source: Storage, target: Storage, path: str) -> None:
    with source.open_input(path) as read, target.open_output(path) as written:
        while piece := read.read(_PIECE):
            written.write(piece)


def copy_table(call: ServiceCall, target: Storage, *, newest: bool) -> Copied:
    """Copy the table of the call, as it is now, into an empty folder. Errors and arguments: see `Recovery.copy`."""
    source = call.table.storage
    _check_apart(source, target)
    note = json.dumps({"source": source.uri, "newest": newest, "copy": call.environment.ids.uuid()}).encode()
    there = _sizes(target)  # before the lock, which some providers keep in the folder
    with table_lock(target, call.environment, wait_ms=call.settings.lock_wait_ms):
        _begin(target, note, is_empty=not there)
    for _ in range(_TRIES):
        table = call.table.reload()
        plan = plan_copy(table, newest=newest)
        if _copied_all(call, target, plan, there) and still_holds(table, plan):
            break
        there = _sizes(target)
    else:
        raise WriteConflictError(
            "the table was cleaned, archived or, in version 6, appended to while it was copied: run the copy again, "
            "and it goes on with the files that are there",
            path=source.uri,
        )
    with table_lock(target, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        if table_exists(target) or _note_of(target) != note:
            raise WriteConflictError("another process copies into the same folder: let it end", path=target.uri)
        lock.check_held()
        copied = create_table(target, {**table.config.values, PARTITIONS_KEY: "", INFLIGHT_PARTITIONS_KEY: ""})
        target.delete(_NOTE)
        names = _metadata_partitions(table)
        if names:
            parts = [maintained_partition(name, copied) for name in names]
            initialize_partitions(call.source_of(copied), parts, lock.check_held)
    return Copied(
        uri=target.uri,
        last_write=max(copied.timeline.completed_times, default=None),
        files=len(plan.data) + len(plan.metadata),
        bytes=plan.bytes,
        metadata_partitions=names,
    )


def _check_apart(source: Storage, target: Storage) -> None:
    if lie_in_each_other(source.uri, target.uri):
        raise InvalidRequestError(
            "a table and its copy must not lie in each other: name another folder", path=source.uri, target=target.uri
        )


def _sizes(target: Storage) -> dict[str, int]:
    return {info.path: info.size for info in target.list_recursive("") if not info.path.startswith(f"{LOCK_FOLDER}/")}


def _begin(target: Storage, note: bytes, *, is_empty: bool) -> None:
    """Let the folder be that of this copy, under its lock."""
    if table_exists(target):
        raise TableExistsError("the folder of the copy has a table", path=target.uri)
    previous = _note_of(target)
    if previous is None and not is_empty:
        raise InvalidRequestError("the folder of a copy must be empty, and this one has files", path=target.uri)
    if previous is not None and _subject(previous) != _subject(note):
        raise InvalidRequestError(
            "the folder has what another copy left that did not end: delete it, or name another folder",
            path=target.uri,
            copy_of=_subject(previous)[0],
        )
    target.put(_NOTE, note)


def _note_of(target: Storage) -> bytes | None:
    try:
        return read_at_most(target, _NOTE, _NOTE_BYTES_MAX)
    except NotFoundError:
        return None


def _subject(note: bytes) -> tuple[object, object]:
    try:
        values = json.loads(note)
        return values["source"], values["newest"]
    except (ValueError, TypeError, KeyError):
        return "unknown", None


def _copied_all(call: ServiceCall, target: Storage, plan: CopyPlan, there: Mapping[str, int]) -> bool:
    """Copy the files of a plan that are not there, and delete what it does not name; False where some are gone."""
    named = {info.path for info in (*plan.data, *plan.metadata)}
    for path in there:
        if path not in named and is_of_copy(path, call.table.version):
            target.delete(path)
    data = [info for info in plan.data if there.get(info.path) != info.size]
    specs = (call.table.storage.spec, target.spec)
    tasks = [CopyTask(*specs, files, False) for files in _pieces(data)]
    tasks += [CopyTask(*specs, files, True) for files in _pieces(plan.metadata)]
    try:
        call.engine.map(
            copy_files,
            tasks,
            size_bytes=sum(info.size for task in tasks for info in task.files),
            description="copy files of the table",
        )
    except NotFoundError:
        return False
    return True


def _pieces(files: Iterable[FileInfo]) -> Iterator[tuple[FileInfo, ...]]:
    piece: list[FileInfo] = []
    size = 0
    for info in files:
        piece.append(info)
        size += info.size
        if size >= BYTES_PER_TASK or len(piece) >= FILES_PER_TASK:
            yield tuple(piece)
            piece, size = [], 0
    if piece:
        yield tuple(piece)


def _metadata_partitions(table: TableState) -> tuple[str, ...]:
    """What the metadata table of the copy is to have; nothing where the table has none."""
    names = table.config.metadata_partitions
    return (FILES, *sorted(name for name in names if is_maintained(name) and name != FILES)) if names else ()
