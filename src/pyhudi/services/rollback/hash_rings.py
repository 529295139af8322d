"""The rings of buckets that a write has put, and that go with it."""

from __future__ import annotations

from pyhudi.format.metadata.hashing import COMMIT_SUFFIX, RING_SUFFIX
from pyhudi.format.timeline.instant import Action
from pyhudi.table.features import HASHING_METADATA_FOLDER
from pyhudi.table.state import TableState

_RESIZING = (Action.CLUSTERING, Action.REPLACE_COMMIT)
"""The actions that make rings, as they are called while they are pending, and when they are completed."""


def remove_rings(table: TableState, instant_time: str, action: Action) -> None:
    """Remove the rings of a write that is rolled back, before its instant.

    Without its instant JVM Hudi takes a ring for that of an archived resize, if a base file of any of its buckets is
    there. Cost: for tables with a consistent bucket index a listing of all rings.
    """
    if action not in _RESIZING or not table.has_hashing_metadata:
        return
    names = (instant_time + COMMIT_SUFFIX, instant_time + RING_SUFFIX)
    for info in list(table.storage.list_recursive(HASHING_METADATA_FOLDER)):
        if info.name in names:
            table.storage.delete(info.path)
