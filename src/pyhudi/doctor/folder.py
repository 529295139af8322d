"""Findings of a folder that cannot be opened as a table: damaged properties or timeline, or a lost `.hoodie`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from pyhudi.config.table_config import TableConfig
from pyhudi.doctor.finding import Finding, Mend, Severity
from pyhudi.environment import Environment
from pyhudi.errors import ConfigError, CorruptDataError, NotFoundError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.properties import (
    CHECKSUM_KEY,
    DATABASE_NAME_KEY,
    PROPERTIES_BYTES_MAX,
    TABLE_NAME_KEY,
    check_table_properties,
    parse_properties,
    table_checksum,
)
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH, load_table, put_properties
from pyhudi.transaction.locks.table_lock import table_lock
from pyhudi.transaction.settings import TransactionSettings

_DEPTH_MAX: Final = 8
"""So many folders below each other are looked into for files of a table."""


def folder_findings(storage: Storage, environment: Environment) -> Iterator[Finding]:
    """Why a folder cannot be opened as a table; nothing for one that is none. Cost: some reads and ten listings."""
    damage = _damage(storage, PROPERTIES_PATH)
    match damage:
        case None:
            yield from _timeline_damage(storage)
        case NotFoundError():
            path = _file_of_a_table(storage, "", _DEPTH_MAX)
            if path is not None:
                yield Finding(
                    severity=Severity.ERROR,
                    problem="table has lost its .hoodie",
                    path=PROPERTIES_PATH,
                    detail=f"there are files of a table, such as {path}, and no properties: put a copy of the folder"
                    " .hoodie back. A table that is created here does not have their rows",
                )
        case _:
            mended = _mended(storage, environment)
            yield Finding(
                severity=Severity.ERROR,
                problem="table cannot be opened",
                path=f"{storage.uri}/{PROPERTIES_PATH}",
                detail=damage.message + ("; put a copy of the file back" if mended is None else mended.words),
                command=None if mended is None else "doctor PATH --fix",
                mend=None if mended is None else Mend.PROPERTIES,
            )


def _timeline_damage(storage: Storage) -> Iterator[Finding]:
    """Why a table whose properties are whole cannot be opened. Cost: that of `load_table`."""
    try:
        load_table(storage)
    except CorruptDataError as error:
        yield Finding(
            severity=Severity.ERROR,
            problem="table cannot be opened",
            path=str(error.context.get("path") or storage.uri),
            detail=f"{error.message}; put a copy of the file back",
        )


def mend_folder(storage: Storage, environment: Environment) -> tuple[str, ...]:
    """Put properties that can be opened, if there are any; what was done. Cost: the table lock, reads, a put."""
    with table_lock(storage, environment, wait_ms=TransactionSettings().lock_wait_ms) as lock:
        if isinstance(_damage(storage, PROPERTIES_PATH), NotFoundError | None):
            return ()
        mended = _mended(storage, environment)
        if mended is None:
            return ()
        lock.check_held()
        put_properties(storage, mended.values)
    return (Mend.PROPERTIES.value,)


class _Mended(NamedTuple):
    """Properties that can be opened, and where they are from."""

    values: dict[str, str]
    words: str


def _mended(storage: Storage, environment: Environment) -> _Mended | None:
    """The copy that a change of the properties made, or the properties with a checksum that fits the name.

    None for a file that is younger than the heartbeat expiry: JVM Hudi may be writing it.
    """
    info = storage.info(PROPERTIES_PATH)
    expiry_ms = TransactionSettings().heartbeat.expiry_ms
    if info is None or environment.clock.now_ms() - info.modified_ms <= expiry_ms:
        return None
    if _damage(storage, PROPERTIES_BACKUP_PATH) is None:
        values = _read(storage, PROPERTIES_BACKUP_PATH)
        return _Mended(values, f"; {PROPERTIES_BACKUP_PATH} is whole, and can take its place")
    with suppress(CorruptDataError, ConfigError):
        values = _read(storage, PROPERTIES_PATH)
        values[CHECKSUM_KEY] = table_checksum(values.get(DATABASE_NAME_KEY, ""), values.get(TABLE_NAME_KEY, ""))
        _check(values, PROPERTIES_PATH)
        return _Mended(values, ", as when the table is renamed by hand: that of the name can take its place")
    return None


def _damage(storage: Storage, path: str) -> CorruptDataError | ConfigError | NotFoundError | None:
    """What is wrong with a file of properties."""
    try:
        _check(_read(storage, path), path)
    except (CorruptDataError, ConfigError, NotFoundError) as error:
        return error
    return None


def _read(storage: Storage, path: str) -> dict[str, str]:
    return parse_properties(read_at_most(storage, path, PROPERTIES_BYTES_MAX), path=path)


def _check(values: dict[str, str], path: str) -> None:
    check_table_properties(values, path)
    TableConfig.from_properties(values, path=path)


def _file_of_a_table(storage: Storage, folder: str, depth: int) -> str | None:
    """A file that only a table has, in the first folders below each other."""
    listing = storage.list_folder(folder)
    for info in listing.files:
        if info.name.startswith(PARTITION_METADATA_FILE) or parse_data_file(info.name) is not None:
            return info.path
    below = min(listing.folders, default=None)
    return None if below is None or depth == 0 else _file_of_a_table(storage, below, depth - 1)
