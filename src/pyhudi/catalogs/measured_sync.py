"""A sync with the catalog of a table's options: opened, run, and measured where there are metrics."""

from __future__ import annotations

from pyhudi.catalogs.open import opened_catalog
from pyhudi.catalogs.sync import Synced, sync_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.environment import SYSTEM
from pyhudi.events import CatalogSynced, Observe, ignore
from pyhudi.table.state import TableState


def sync_measured(table: TableState, config: WriteConfig) -> tuple[Synced, ...]:
    """Sync the catalog. Raises and costs as `sync_table`."""
    observe, began, has_failed = _observer(table, config), SYSTEM.clock.monotonic(), True
    try:
        with opened_catalog(config.catalog) as catalog:
            done = sync_table(table, catalog, config.catalog)
        has_failed = False
    finally:
        tool = config.catalog.kind.value.rpartition(".")[2]
        observe(CatalogSynced(tool=tool, seconds=SYSTEM.clock.monotonic() - began, has_failed=has_failed))
    return done


def _observer(table: TableState, config: WriteConfig) -> Observe:
    if not config.metrics.enabled:
        return ignore
    from pyhudi.telemetry.metrics import metrics_observer  # noqa: PLC0415 - servers, which few processes need

    return metrics_observer(config.metrics, table.config.name, table.storage.uri)
