"""Identity of base files, under which a process may remember what it read of one."""

from __future__ import annotations

from typing import Final, TypeAlias

from pyhudi.environment import SYSTEM
from pyhudi.format.file_names import parse_data_file
from pyhudi.read.scan import ScanSlice
from pyhudi.storage.protocol import Storage

FileIdentity: TypeAlias = tuple[str, str, int, int]
"""Store, path, size and time of modification."""
_SETTLED_AFTER_MS: Final = 3_000
"""Stores tell times of modification in milliseconds or seconds: a younger file may change, and keep its time."""


def identity_of_base(storage: Storage, one: ScanSlice) -> FileIdentity | None:
    """What no other content of the slice's base file shares; None where nothing may be remembered of it.

    The name of a file of Hudi's is never given again. A plain file may be written anew at its path, with its size.
    """
    path = one.files.base
    assert path is not None
    is_young = SYSTEM.clock.now_ms() - one.modified_ms < _SETTLED_AFTER_MS
    if is_young and parse_data_file(path.rpartition("/")[2]) is None:
        return None
    return storage.uri, path, one.size, one.modified_ms
