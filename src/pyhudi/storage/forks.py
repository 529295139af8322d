"""Clients of stores in forked processes: their threads stay behind, so that a request of the child would never end."""

from __future__ import annotations

import functools
import os

from pyhudi.errors import UnsupportedFeatureError


def refuse_fork(library: str, store: str) -> None:
    """Refuse to go on in a child of a process that has used this library of clients before the fork.

    Raises:
        UnsupportedFeatureError: this is such a child.
    """
    if _client_process(library) != os.getpid():
        raise UnsupportedFeatureError(
            "this process was forked from one that had used such a store: it lacks the client's threads, and a "
            "request would never end; start processes by spawn or forkserver (multiprocessing.get_context), or "
            "use the store only after the fork",
            store=store,
        )


# Cached until the process ends; forked children inherit the cached value.
@functools.cache
def _client_process(library: str) -> int:
    """The id of the process whose threads serve all clients of a library: the first process that made one."""
    del library
    return os.getpid()
