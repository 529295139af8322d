"""The folder in which the tasks of one write leave rows for one another, and how abandoned ones go away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import StorageError
from pyhudi.storage.protocol import Storage
from pyhudi.table.environment import Environment
from pyhudi.table.heartbeat import Heartbeat, HeartbeatSettings, Liveness, liveness_of

EXCHANGE_FOLDER = ".hoodie/.aux/.exchange"
_OWNER = "owner"
_log = logging.getLogger("pyhudi")


@contextmanager
def exchange_folder(storage: Storage, settings: HeartbeatSettings, environment: Environment) -> Iterator[str]:
    """A fresh folder that is removed at the end of the block; folders of dead writers go first."""
    _remove_abandoned(storage, settings, environment)
    name = environment.ids.uuid()
    folder = f"{EXCHANGE_FOLDER}/{name}"
    heartbeat = Heartbeat(storage, f"{folder}/{_OWNER}", settings, environment)
    heartbeat.start()
    try:
        yield f"{folder}/{name}"
    finally:
        heartbeat.stop()
        try:
            _remove(storage, folder)
        except StorageError as error:
            # The write has failed or is committed already; this must not make it look otherwise.
            _log.warning("exchange files could not be removed; a later write will do it: %s", error)


def _remove_abandoned(storage: Storage, settings: HeartbeatSettings, environment: Environment) -> None:
    for folder in storage.list_folder(EXCHANGE_FOLDER).folders:
        if liveness_of(storage, f"{folder}/{_OWNER}", settings, environment) is Liveness.DEAD:
            _remove(storage, folder)


def _remove(storage: Storage, folder: str) -> None:
    """The owner goes last, so that a removal which is interrupted will be finished."""
    storage.delete_folder(f"{folder}/{folder.rpartition('/')[2]}")
    storage.delete_folder(folder)
