"""The warning that the metadata table, or an index in it, is not used, and how it is repaired."""

from __future__ import annotations

import logging
import warnings
from typing import Final
from weakref import WeakKeyDictionary

from pyhudi.errors import MetadataTableWarning
from pyhudi.storage.protocol import Storage

_log = logging.getLogger("pyhudi")
_REBUILD: Final = (
    "Build it again with table.recovery.rebuild_metadata_table(), or drop it with a write under "
    "hoodie.metadata.enable=false"
)
_told: WeakKeyDictionary[Storage, set[tuple[str, str]]] = WeakKeyDictionary()


def warn_of_metadata_table(storage: Storage, reason: str, *, is_listed: bool = False) -> None:
    """Warn that the metadata table is not used. `is_listed`: files are listed instead, of which each read tells."""
    is_new = _is_new(storage, "", reason)
    if is_listed:
        _warn(
            "the metadata table is not used",
            reason,
            f"files are listed instead, which gives the right rows. {_REBUILD}",
        )
    elif is_new:
        _warn("no index of the metadata table is used", reason, _REBUILD)


def warn_of_index(storage: Storage, index: str, reason: str, *, is_there: bool = True) -> None:
    """Warn that an index is not used, for each reason once as long as a process uses this store.

    `index`: the name of its partition. `is_there`: whether the table has it, so that it is to be built again.
    """
    if _is_new(storage, index, reason):
        verb = "refresh" if is_there else "create"
        _warn(
            f"the index {index} is not used",
            reason,
            f"Build it {'again ' if is_there else ''}with table.indexes.{verb}({index!r})",
        )


def _is_new(storage: Storage, index: str, reason: str) -> bool:
    told = _told.setdefault(storage, set())
    is_new = (index, reason) not in told
    told.add((index, reason))
    return is_new


def _warn(what: str, reason: str, repair: str) -> None:
    _log.warning("%s: %s; %s", what, reason, repair)
    warnings.warn(f"{what}: {reason}; {repair}", MetadataTableWarning, stacklevel=5)
