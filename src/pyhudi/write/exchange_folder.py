"""The folder in which the tasks of one write leave rows for one another, and how abandoned ones go away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment
from pyhudi.table.heartbeat import Heartbeat, HeartbeatSettings, Liveness, liveness_of

EXCHANGE_FOLDER = ".hoodie/.aux/.exchange"
_OWNER = "owner"


@contextmanager
def exchange_folder(storage: Storage, settings: HeartbeatSettings, environment: Environment) -> Iterator[str]:
    """A fresh folder that is removed at the end of the block; folders of dead writers go first."""
    _remove_abandoned(storage, settings, environment)
    folder = f"{EXCHANGE_FOLDER}/{environment.ids.uuid()}"
    heartbeat = Heartbeat(storage, f"{folder}/{_OWNER}", settings)
    heartbeat.start()
    try:
        yield folder
    finally:
        heartbeat.stop()
        storage.delete_folder(folder)


def _remove_abandoned(storage: Storage, settings: HeartbeatSettings, environment: Environment) -> None:
    for folder in storage.list_folder(EXCHANGE_FOLDER).folders:
        if liveness_of(storage, f"{folder}/{_OWNER}", settings, environment) is Liveness.DEAD:
            storage.delete_folder(folder)
