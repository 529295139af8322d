"""The metadata table: this release does not maintain it, so a commit takes it away first.

A commit that a live metadata table does not list is invisible to real Hudi and lost at its next upsert
(`format/logs-and-indexes.md` 4.8). Real Hudi builds the table anew at its next write. Property first, then the
folder: a reader between the two steps ignores the folder.
"""

from __future__ import annotations

from pyhudi.table.state import TableState, update_properties

METADATA_TABLE_FOLDER = ".hoodie/metadata"
PARTITIONS_KEY = "hoodie.table.metadata.partitions"
INFLIGHT_PARTITIONS_KEY = "hoodie.table.metadata.partitions.inflight"


def drop_metadata_table(state: TableState) -> None:
    """Switch a live metadata table off, under the table lock. Cost: one request where there is none."""
    if any(state.config.values.get(key) for key in (PARTITIONS_KEY, INFLIGHT_PARTITIONS_KEY)):
        update_properties(state.storage, {PARTITIONS_KEY: "", INFLIGHT_PARTITIONS_KEY: ""})
    listing = state.storage.list_folder(METADATA_TABLE_FOLDER)
    if listing.files or listing.folders:
        state.storage.delete_folder(METADATA_TABLE_FOLDER)
