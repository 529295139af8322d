"""The folder in which the tasks of one write leave rows for one another, and how abandoned ones go away."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.environment import Environment
from pyhudi.errors import StorageError
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.heartbeat import Heartbeat, HeartbeatSettings, Liveness, liveness_of

EXCHANGE_FOLDER = ".hoodie/.aux/.exchange"
_OWNER = "owner"
_log = logging.getLogger("pyhudi")


@contextmanager
def exchange_folder(storage: Storage, settings: HeartbeatSettings, environment: Environment) -> Iterator[str]:
    """A fresh folder that is removed at the end of the block; folders of dead writers go first."""
    name = environment.ids.uuid()
    folder = f"{EXCHANGE_FOLDER}/{name}"
    _remove_abandoned(storage, settings, environment, beside=folder)
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


def _remove_abandoned(storage: Storage, settings: HeartbeatSettings, environment: Environment, *, beside: str) -> None:
    """Remove the folders of dead writers. Cost: one listing, and two requests for each that is looked at.

    Not all that there are: every write begins with this, and with many of them each would look at all the others. The
    search begins at our own name, which is random, and ends when an owner was found alive.
    """
    folders = storage.list_folder(EXCHANGE_FOLDER).folders
    first = bisect.bisect(folders, beside)
    for folder in (*folders[first:], *folders[:first]):
        match liveness_of(storage, f"{folder}/{_OWNER}", settings, environment):
            case Liveness.DEAD:
                _remove(storage, folder)
            case Liveness.ALIVE:
                return
            case Liveness.UNKNOWN:
                # It has just come or is about to go; what counts is what has an owner.
                pass


def _remove(storage: Storage, folder: str) -> None:
    """The owner goes last, so that a removal which is interrupted will be finished."""
    storage.delete_folder(f"{folder}/{folder.rpartition('/')[2]}")
    storage.delete_folder(folder)
