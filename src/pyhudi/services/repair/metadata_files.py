"""Repairs of partition metafiles and below `.hoodie`: markers of ended writes, damaged planned cleans, properties."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import CorruptDataError, InvalidRequestError, NotFoundError, WriteConflictError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.partition import (
    PARTITION_METADATA_BYTES_MAX,
    PARTITION_METADATA_FILE,
    decode_partition_metadata,
    encode_partition_metadata,
)
from pyhudi.format.properties import check_table_properties
from pyhudi.format.safe_paths import check_file_name
from pyhudi.format.timeline.instant import InstantState
from pyhudi.services.cleaning.execute import load_clean_plan, pending_cleans
from pyhudi.services.cleaning.withdraw import withdraw_clean
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import check_loadable, check_writable
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH, TableState, put_properties, update_properties
from pyhudi.transaction.conflicts.check import check_nothing_exclusive
from pyhudi.transaction.conflicts.table import Own
from pyhudi.transaction.locks.table_lock import table_lock

FIXED: Final = (
    "hoodie.table.version",
    "hoodie.table.type",
    "hoodie.timeline.layout.version",
    "hoodie.timeline.path",
    "hoodie.timeline.history.path",
    "hoodie.table.base.file.format",
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
)
"""Properties that say how the bytes in the folder are to be read. Others call changes them, with what they describe."""


_BASE_FILES: Final = (".parquet", ".orc", ".hfile")
"""What the names of base files end with."""


@dataclass(frozen=True, slots=True)
class Metafiles:
    """The metafiles in the folder of a partition, by their form, and the names of base files that are not Hudi's."""

    as_text: bool
    as_base_file: bool
    strays: tuple[str, ...] = ()

    @property
    def is_marked(self) -> bool:
        """Whether JVM Hudi sees the folder as a partition."""
        return self.as_text or self.as_base_file


def partition_metafiles(storage: Storage) -> Mapping[str, Metafiles]:
    """The folders with data files, and which metafiles they have. Cost: a listing of the table."""
    names: dict[str, set[str]] = {}
    data: set[str] = set()
    strays: dict[str, list[str]] = {}
    for info in list_data_files(storage):
        folder, _, name = info.path.rpartition("/")
        if parse_data_file(name) is not None:
            data.add(folder)
        elif name.startswith(PARTITION_METADATA_FILE):
            names.setdefault(folder, set()).add(name)
        elif name.endswith(_BASE_FILES):
            strays.setdefault(folder, []).append(name)
    return {
        folder: Metafiles(
            PARTITION_METADATA_FILE in names.get(folder, ()),
            bool(names.get(folder, set()) - {PARTITION_METADATA_FILE}),
            tuple(sorted(strays.get(folder, ()))),
        )
        for folder in sorted(data | set(names))
    }


def metafile_problem(storage: Storage, folder: str) -> str | None:
    """What is wrong with the metafile of a partition; None if nothing is, or it is not there. Cost: a read."""
    path = _metafile_path(folder)
    try:
        found = read_decoded(storage, path, PARTITION_METADATA_BYTES_MAX, decode_partition_metadata)
    except NotFoundError:
        return None
    except CorruptDataError as error:
        return error.message
    depth = _depth_of(folder)
    return None if found.depth == depth else f"it says that the folder is {found.depth} deep, and it is {depth} deep"


def add_partition_metafiles(call: ServiceCall, *, damaged: Collection[str] = ()) -> tuple[str, ...]:
    """Put the metafiles that are missing, and those of the `damaged` partitions; the partitions.

    They name the newest completed write, as those of JVM Hudi's repair do. Cost: the table lock, a listing, a read per
    damaged one, a put for each.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        writes = call.table.reload().timeline.completed_writes
        newest = writes[-1].requested_time if writes else "00000000000000"
        put = [
            folder
            for folder, files in partition_metafiles(storage).items()
            if not files.is_marked or (folder in damaged and metafile_problem(storage, folder) is not None)
        ]
        for folder in put:
            lock.check_held()
            storage.put(_metafile_path(folder), encode_partition_metadata(newest, _depth_of(folder)))
    return tuple(put)


def _metafile_path(folder: str) -> str:
    return f"{folder}/{PARTITION_METADATA_FILE}" if folder else PARTITION_METADATA_FILE


def _depth_of(folder: str) -> int:
    return folder.count("/") + 1 if folder else 0


def finish_change_of_properties(call: ServiceCall) -> None:
    """Put the properties as they are read, and delete the copy that a change of them left when its process died.

    A younger copy than the heartbeat expiry stays: its process may be at work. Cost: the table lock, and five requests.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        backup = storage.info(PROPERTIES_BACKUP_PATH)
        now_ms = call.environment.clock.now_ms()
        if backup is not None and now_ms - backup.modified_ms > call.settings.heartbeat.expiry_ms:
            lock.check_held()
            update_properties(storage, {})
            storage.delete(PROPERTIES_BACKUP_PATH)


def delete_markers(call: ServiceCall, instant_time: str) -> None:
    """Delete the folder with the markers of a write. Cost: the table lock, a listing, and the deletion.

    Raises:
        InvalidRequestError: the write is pending: its markers say which files its rollback has to delete.
        UnsafePathError: the instant cannot be one.
    """
    check_writable(call.table)
    check_file_name(instant_time, source="instant_time")
    if not (instant_time.isascii() and instant_time.isdigit()):
        raise InvalidRequestError("instant_time must be an instant, such as 20240131100000000", instant=instant_time)
    with table_lock(call.table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        timeline = call.table.reload().timeline
        for instant in timeline.instants:
            if instant.requested_time == instant_time and instant.state is not InstantState.COMPLETED:
                raise InvalidRequestError(
                    "this instant is pending, and its markers say which files belong to it: roll it back, or let it "
                    "end; nothing was deleted",
                    instant=instant_time,
                )
        lock.check_held()
        call.table.storage.delete_folder(marker_folder(instant_time))


def remove_corrupt_clean_plans(call: ServiceCall) -> tuple[str, ...]:
    """Take the pending cleans with a damaged plan from the timeline; their instants. What they deleted stays deleted.

    Raises `InvalidRequestError` where another process is executing one. Cost: the table lock, a read per pending clean.
    """
    check_writable(call.table)
    removed: list[str] = []
    with table_lock(call.table.storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.CLEAN)
        for instant in pending_cleans(table.timeline):
            try:
                load_clean_plan(table.storage, instant, table)
            except CorruptDataError:
                withdraw_clean(table, instant, call.settings.heartbeat, call.environment, lock, is_damaged=True)
                removed.append(instant.requested_time)
    return tuple(removed)


def overwrite_properties(call: ServiceCall, values: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Replace all properties; the old and the new value of each, by name. Cost: the table lock, a read and a put.

    Raises:
        InvalidRequestError: they would change a property of `FIXED`.
        CorruptDataError: they are not those of a table, or the checksum does not match its name.
        ConfigError: they contradict each other.
        WriteConflictError: a write is pending.
    """
    storage = call.table.storage
    check_writable(call.table)
    check_table_properties(values, PROPERTIES_PATH)
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        table = call.table.reload()
        check_nothing_exclusive(table.timeline, Own.ARCHIVING)
        if table.timeline.pending_writes:
            raise WriteConflictError(
                "a write is pending, which works with the properties as they are; nothing was changed",
                winner=table.timeline.pending_writes[0].requested_time,
            )
        old = dict(table.config.values)
        for name in FIXED:
            if (old.get(name) or None) != (values.get(name) or None):
                raise InvalidRequestError(
                    f"{name} says how the table's files are to be read, and cannot be changed by its property alone; "
                    "nothing was changed",
                    stored=old.get(name),
                    given=values.get(name),
                )
        config = TableConfig.from_properties(dict(values), path=PROPERTIES_PATH)
        check_loadable(TableState(storage, config, table.timeline))
        lock.check_held()
        put_properties(storage, values)
    return {name: (old.get(name), values.get(name)) for name in sorted({*old, *values})}
