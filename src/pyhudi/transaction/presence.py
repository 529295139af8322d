"""Presence files: they allow one writer at a time where neither the store nor a lock provider can keep several apart.

Each writer first creates a presence file and then lists the presence files of others. If two writers start at the same
time, at least one sees the other. The store only has to show every finished put in a listing.
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
def only_writer_if_needed(
    table: TableState, settings: HeartbeatSettings, environment: Environment
) -> Iterator[Environment]:
    """The environment to write in: the same one, or, on a store without exclusive creation, one for the only writer.

    Raises `UnsupportedFeatureError`, which names the fix, when another writer is alive or may be. Cost: two requests
    on such a store without a lock provider, and two for each other writer; nothing otherwise.
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
        dead = [beat for beat in others if liveness_of(storage, beat, settings, environment) is Liveness.DEAD]
        pending = [heartbeat_path(instant.requested_time) for instant in table.reload().timeline.pending_writes]
        alive = [beat for beat in pending if liveness_of(storage, beat, settings, environment) is not Liveness.DEAD]
        if len(dead) < len(others) or alive:
            raise needs_lock_provider(storage, "a second writer would destroy what the first one writes")
        for beat in dead:
            storage.delete(beat)
        yield replace(environment, locks=InProcessLocks())
    finally:
        heartbeat.stop()
        # If this fails, the file remains, and counts as dead when its heartbeat has expired.
        with suppress(StorageError):
            storage.delete(path)
