"""The only writer of a table, where neither the store nor a lock provider can keep several apart.

Such a writer says that it is there, in a file of its own, and looks for the files of others afterwards: of two that
come at one moment at least one sees the other. Nothing is needed of the store but that a listing shows every finished
put.

Source: issue 5 part 1; reliability.md 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from pyhudi.environment import Environment
from pyhudi.errors import StorageError
from pyhudi.table.state import TableState
from pyhudi.transaction.heartbeat import Heartbeat, HeartbeatSettings, Liveness, heartbeat_path, liveness_of
from pyhudi.transaction.locks.in_process import InProcessLocks
from pyhudi.transaction.locks.table_lock import needs_lock_provider

WRITERS_FOLDER = ".hoodie/.aux/.writers"


@contextmanager
def alone_if_needed(table: TableState, settings: HeartbeatSettings, environment: Environment) -> Iterator[Environment]:
    """The environment to write in: the same one, or on a store without exclusive creation one for the only writer.

    Raises `UnsupportedFeatureError`, which names the fix, when there is another writer, who is not certainly dead.
    Cost: nothing, but on such a store, where no lock provider is set: two requests, and two for each other writer.
    """
    storage = table.storage
    if environment.locks is not None or storage.creates_exclusively():
        yield environment
        return
    path = f"{WRITERS_FOLDER}/{environment.ids.uuid()}"
    heartbeat = Heartbeat(storage, path, settings, environment)
    heartbeat.start()
    try:
        others = [info.path for info in storage.list_folder(WRITERS_FOLDER).files if info.path != path]
        dead = [one for one in others if liveness_of(storage, one, settings, environment) is Liveness.DEAD]
        pending = [heartbeat_path(instant.requested_time) for instant in table.reload().timeline.pending_writes]
        alive = [one for one in pending if liveness_of(storage, one, settings, environment) is not Liveness.DEAD]
        if len(dead) < len(others) or alive:
            raise needs_lock_provider(storage, "a second writer would destroy what the first one writes")
        for one in dead:
            storage.delete(one)
        yield replace(environment, locks=InProcessLocks())
    finally:
        heartbeat.stop()
        # If this fails, others take the writer for dead when its heartbeat has expired.
        with suppress(StorageError):
            storage.delete(path)
