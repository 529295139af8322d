"""The sync that a write runs after its commit, if its options ask for it."""

from __future__ import annotations

import logging

from pyhudi.catalogs.measured_sync import sync_measured
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import CatalogError, HudiError
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

_log = logging.getLogger("pyhudi")


def sync_after_write(storage: Storage, config: WriteConfig) -> None:
    """Sync the catalog, if the options ask for it. Cost: a read, a listing, and that of `sync_table`.

    Raises `CatalogError` if that fails, unless the options say that it is a warning.
    """
    if not config.catalog.is_asked:
        return
    try:
        sync_measured(load_table(storage), config)
    except HudiError as error:
        message = (
            "the write is committed and must not be run again, but its catalog was not synced; the next sync makes up "
            f"for it: {error}"
        )
        if not config.catalog.ignores_errors:
            raise CatalogError(message, table=storage.uri) from error
        _log.warning("%s", message)
