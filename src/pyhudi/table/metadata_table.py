"""The metadata table: this release does not maintain it, so a commit deletes it first.

A commit that is missing in a live metadata table is invisible to JVM Hudi, and lost at its next upsert. JVM Hudi builds
the metadata table again at its next write. The property is cleared before the folder is deleted: a reader between the
two steps ignores the folder.
"""

from __future__ import annotations

from pyhudi.table.state import TableState, update_properties

METADATA_TABLE_FOLDER = ".hoodie/metadata"
PARTITIONS_KEY = "hoodie.table.metadata.partitions"
INFLIGHT_PARTITIONS_KEY = "hoodie.table.metadata.partitions.inflight"


def has_metadata_table(state: TableState) -> bool:
    """Whether the table's properties say that it has a metadata table, or that one is being built."""
    return any(state.config.values.get(key) for key in (PARTITIONS_KEY, INFLIGHT_PARTITIONS_KEY))


def drop_metadata_table(state: TableState) -> None:
    """Switch a live metadata table off, under the table lock. Cost: one request where there is none."""
    if has_metadata_table(state):
        update_properties(state.storage, {PARTITIONS_KEY: "", INFLIGHT_PARTITIONS_KEY: ""})
    listing = state.storage.list_folder(METADATA_TABLE_FOLDER)
    if listing.files or listing.folders:
        state.storage.delete_folder(METADATA_TABLE_FOLDER)
