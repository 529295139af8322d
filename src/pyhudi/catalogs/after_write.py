"""The sync that a write runs after its commit, if its options ask for it."""

from __future__ import annotations

import logging

from pyhudi.catalogs.open import opened_catalog
from pyhudi.catalogs.sync import sync_table
from pyhudi.config.options_catalogs import CatalogOptions
from pyhudi.errors import CatalogError, HudiError
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

_log = logging.getLogger("pyhudi")


def sync_after_write(storage: Storage, options: CatalogOptions) -> None:
    """Sync the catalog, if the options ask for it. Cost: a read, a listing, and that of `sync_table`.

    Raises `CatalogError` if that fails, unless the options say that it is a warning.
    """
    if not options.is_asked:
        return
    try:
        with opened_catalog(options) as catalog:
            sync_table(load_table(storage), catalog, options)
    except HudiError as error:
        message = (
            "the write is committed and must not be run again, but its catalog was not synced; the next sync makes up "
            f"for it: {error}"
        )
        if not options.ignores_errors:
            raise CatalogError(message, table=storage.uri) from error
        _log.warning("%s", message)
