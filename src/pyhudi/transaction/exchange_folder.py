"""The exchange folder of a write, for rows between its tasks, and the removal of abandoned ones."""

from __future__ import annotations

import bisect
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.engine.protocol import Engine
from pyhudi.engine.spilled_rows import temporary_folder
from pyhudi.environment import Environment
from pyhudi.errors import LockLostError, NotFoundError, StorageError
from pyhudi.io.exchange import ExchangeFolder
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.heartbeat import Heartbeat, HeartbeatSettings, Liveness, liveness_of

EXCHANGE_FOLDER = ".hoodie/.aux/.exchange"
_OWNER = "owner"
_log = logging.getLogger("pyhudi")


@contextmanager
def exchange_folder(
    engine: Engine, storage: Storage, settings: HeartbeatSettings, environment: Environment, spills: str | None
) -> Iterator[ExchangeFolder]:
    """A new folder for the exchange files of a write; it is deleted at the end of the block.

    It is in `spills` (None: the temporary folder) where all tasks run on this machine, else on the table's store.
    Folders that dead writers left on the table's store are deleted first, also by writers that need none there.
    Cost: on this machine one listing; else that of `shared_exchange_folder`. Two calls for each folder that is checked.
    """
    if engine.on_one_machine:
        _remove_abandoned(storage, settings, environment, beside=f"{EXCHANGE_FOLDER}/{environment.ids.uuid()}")
        with temporary_folder(spills) as folder:
            # A process keeps the stores open that it has used, so all writes share that of the parent.
            yield ExchangeFolder(LocalStorage(folder.parent).spec, f"{folder.name}/{environment.ids.uuid()}")
    else:
        with shared_exchange_folder(storage, settings, environment) as path:
            yield ExchangeFolder(storage.spec, path)


@contextmanager
def shared_exchange_folder(storage: Storage, settings: HeartbeatSettings, environment: Environment) -> Iterator[str]:
    """A new folder on the table's store. Folders of dead writers are deleted first.

    Cost: five calls, and two for each folder of another writer that is checked.

    Raises `LockLostError` where another writer took this one for dead, and the block misses files for that.
    """
    name = environment.ids.uuid()
    folder = f"{EXCHANGE_FOLDER}/{name}"
    _remove_abandoned(storage, settings, environment, beside=folder)
    heartbeat = Heartbeat(storage, f"{folder}/{_OWNER}", settings, environment)
    heartbeat.start()
    try:
        yield f"{folder}/{name}"
    except NotFoundError as error:
        if storage.info(f"{folder}/{_OWNER}") is not None:
            raise
        raise LockLostError(
            "this write stood still for longer than its heartbeat lasts; another writer took it for dead and removed "
            "its files; nothing of it is visible; run it again",
            table=storage.uri,
        ) from error
    finally:
        heartbeat.stop()
        try:
            _remove(storage, folder)
        except StorageError as error:
            # The write has failed or is committed already; this must not change its outcome.
            _log.warning("exchange files could not be removed; a later write will do it: %s", error)


def _remove_abandoned(storage: Storage, settings: HeartbeatSettings, environment: Environment, *, beside: str) -> None:
    """Delete folders of dead writers. Cost: one listing, and two requests for each folder that is checked.

    Checks only some folders, because every write runs this and a full scan would cost the square of their
    number. It starts at
    our own random name, so that writers cover different parts, and stops at the first folder whose owner is alive.
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
                # The folder is being created or deleted; only folders with an owner file are decided here.
                pass


def _remove(storage: Storage, folder: str) -> None:
    """Delete a folder, its owner file last, so that another write can finish an interrupted deletion."""
    storage.delete_folder(f"{folder}/{folder.rpartition('/')[2]}")
    storage.delete_folder(folder)
