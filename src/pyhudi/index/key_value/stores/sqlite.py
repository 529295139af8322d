"""A store of index entries in an SQLite file: for all processes of one machine, without a server."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections import defaultdict
from collections.abc import Collection, Sequence

_WAIT_SECONDS = 60
_VARIABLES_MAX = 10_000
"""How many keys one statement names."""


class SqliteKeyStore:
    """Entries in one table of a file, which is made if it is not there; its folder is not. See `KeyStore`."""

    def __init__(self, path: str) -> None:
        # One thread at a time uses it, and not always the same.
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
        # Stores are forgotten, not closed; from Python 3.13 on an open connection that goes is a warning.
        weakref.finalize(self, self._connection.close)
        self._connection.execute("PRAGMA journal_mode=WAL")
        with self._connection:
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS entries (key BLOB, entry BLOB, PRIMARY KEY (key, entry)) WITHOUT ROWID"
            )
        self._path, self._file = path, _file_at(path)

    @property
    def is_at_its_path(self) -> bool:
        """Whether the file was neither removed nor replaced since: others do not find what is put into it then."""
        return self._file == _file_at(self._path)

    def get(self, keys: Sequence[bytes]) -> Sequence[Collection[bytes]]:
        """See `KeyStore.get`."""
        found: dict[bytes, list[bytes]] = defaultdict(list)
        for start in range(0, len(keys), _VARIABLES_MAX):
            named = keys[start : start + _VARIABLES_MAX]
            marks = ",".join("?" * len(named))
            query = f"SELECT key, entry FROM entries WHERE key IN ({marks})"  # noqa: S608 - marks only
            for key, entry in self._connection.execute(query, named):
                found[key].append(entry)
        return [found.get(key, []) for key in keys]

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """See `KeyStore.add`."""
        with self._connection:
            self._connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?)", zip(keys, entries, strict=True))

    def remove(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """See `KeyStore.remove`."""
        with self._connection:
            self._connection.executemany(
                "DELETE FROM entries WHERE key = ? AND entry = ?", zip(keys, entries, strict=True)
            )


def _file_at(path: str) -> tuple[int, int] | None:
    """What no other file is as long as this one is open."""
    try:
        found = os.stat(path)  # noqa: PTH116 - an SQLite path is a text
    except OSError:
        return None
    return found.st_dev, found.st_ino
