"""The metadata table as the table's properties show it, and how it is switched off, whole or in part.

A commit that is missing in a live metadata table is invisible to JVM Hudi, and lost at its next upsert. So what a
commit cannot keep it drops first, and JVM Hudi builds it again at its next write. The property is cleared before the
files are deleted: a reader between the two steps ignores them. What keeps it is in `pyhudi.metadata_table`.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def drop_partitions(state: TableState, partitions: Sequence[str]) -> None:
    """Take partitions out of a metadata table that stays, under the table lock; their files in this order.

    Cost: a read and a put of the properties, and a deletion of each folder.
    """
    config, gone = state.config, {*partitions}
    changes = {
        PARTITIONS_KEY: ",".join(name for name in config.metadata_partitions if name not in gone),
        INFLIGHT_PARTITIONS_KEY: ",".join(name for name in config.metadata_partitions_inflight if name not in gone),
    }
    update_properties(state.storage, changes)
    for partition in partitions:
        state.storage.delete_folder(f"{METADATA_TABLE_FOLDER}/{partition}")
