"""Parquet files of a table that cannot be opened, and deleting those that no completed write needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.errors import CorruptDataError, InvalidRequestError, NotFoundError
from pyhudi.format.file_names import BaseFileName, parse_data_file
from pyhudi.io.base_file import read_footer
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FileInfo, StorageSpec
from pyhudi.table.features import check_writable
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import TableState
from pyhudi.transaction.locks.table_lock import table_lock

_FILES_PER_TASK = 100
_BYTES_PER_FOOTER = 64 * 1024
_NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class FooterTask:
    """Base files to open."""

    storage: StorageSpec
    paths: tuple[str, ...]


def unreadable(_: TaskContext, task: FooterTask) -> tuple[str, ...]:
    """The files whose footers do not parse. One that is gone meanwhile is not among them."""
    storage, found = open_spec(task.storage), []
    for path in task.paths:
        try:
            read_footer(storage, path)
        except CorruptDataError:
            found.append(path)
        except NotFoundError:
            continue
    return tuple(found)


def invalid_parquet_files(
    table: TableState, engine: Engine, partitions: Collection[str] = (), instants: Collection[str] = ()
) -> tuple[str, ...]:
    """The base files that cannot be opened, of some partitions and instants, or of all; by path.

    Cost: a listing of the table, and a footer per base file, read by the engine's tasks.
    """
    paths = [info.path for info in list_data_files(table.storage) if _is_asked_for(info, partitions, instants)]
    spec = table.storage.spec
    tasks = [FooterTask(spec, tuple(paths[at : at + _FILES_PER_TASK])) for at in range(0, len(paths), _FILES_PER_TASK)]
    if not tasks:
        return ()
    size = len(paths) * _BYTES_PER_FOOTER
    found = engine.map(unreadable, tasks, size_bytes=size, description="open base files")
    return tuple(sorted(path for part in found for path in part))


def _is_asked_for(info: FileInfo, partitions: Collection[str], instants: Collection[str]) -> bool:
    name = parse_data_file(info.name)
    if not isinstance(name, BaseFileName) or name.extension != ".parquet":
        return False
    partition = info.path.rpartition("/")[0]
    return (not partitions or partition in partitions) and (not instants or name.instant_time in instants)


def delete_invalid_files(call: ServiceCall, paths: Sequence[str]) -> None:
    """Delete base files that cannot be opened. Cost: the table lock, a listing of the timeline, a delete per file.

    Raises `InvalidRequestError`, with nothing deleted, if one is of a write that is completed or pending, or older than
    the active timeline: without it readers would miss its rows in silence.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        timeline = call.table.reload().timeline
        known = {instant.requested_time for instant in timeline.instants}
        needed = []
        for path in paths:
            name = parse_data_file(path.rpartition("/")[2])
            if name is None or name.instant_time in known or timeline.starts_after(name.instant_time):
                needed.append(path)
        if needed:
            raise InvalidRequestError(
                f"{len(needed)} damaged file(s) are of writes that count, and their rows would be gone without a word: "
                "restore them from a copy, or go back by rollback_to_savepoint; nothing was deleted",
                files=needed[:_NAMED_MAX],
            )
        for path in paths:
            lock.check_held()
            storage.delete(path)
