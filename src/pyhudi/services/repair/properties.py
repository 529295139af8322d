"""Replacing the properties of a table by those of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import InvalidRequestError, WriteConflictError
from pyhudi.format.properties import check_table_properties
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.features import check_loadable, check_writable
from pyhudi.table.state import PROPERTIES_PATH, TableState, put_properties
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
