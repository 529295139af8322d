"""Errors that say which table they are about: most of them know paths in it alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import CorruptDataError, HistoryNotRetainedError, LockLostError, WriteConflictError
from pyhudi.storage.protocol import Storage


@contextmanager
def naming(storage: Storage) -> Iterator[None]:
    """Add the URI of the table to conflicts, and to errors of damaged and deleted files, raised in the block."""
    try:
        yield
    except (WriteConflictError, LockLostError, CorruptDataError, HistoryNotRetainedError) as error:
        error.context.setdefault("table", storage.uri)
        raise
