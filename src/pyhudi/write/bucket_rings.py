"""The rings of buckets that a write to a consistent bucket index goes by: loaded, or made for new partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyhudi.config.options_buckets import NUMBER_KEY
from pyhudi.errors import AlreadyExistsError, ConfigError, CorruptDataError
from pyhudi.format.buckets import INITIAL_INSTANT, HashRing, initial_ring
from pyhudi.format.metadata.hashing import COMMIT_SUFFIX, encode_ring
from pyhudi.index.buckets.index import BucketIndex
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import FileSystemView
from pyhudi.table.hash_rings import PendingResize, load_ring, pending_resizes, ring_path
from pyhudi.table.state import TableState


@dataclass(frozen=True, slots=True)
class Rings:
    """The ring of each partition of a write, and the resizes of them that are pending."""

    now: Mapping[str, HashRing]
    resizes: Mapping[str, PendingResize] = field(default_factory=dict)


def rings_of_write(
    table: TableState, view: FileSystemView, index: BucketIndex, partition_paths: Iterable[str]
) -> Rings:
    """The rings of the partitions of a write.

    A partition without one gets the first one, which is the same whoever makes it, so that it does no harm if the write
    fails; but its buckets then have the number of this write. Cost: what `load_ring` costs for each partition; one put
    for each new one, and for each one that was resized since the last write.

    Raises:
        ConfigError: a new partition, and neither the table nor the options say its number of buckets.
        CorruptDataError: a bucket's file group was replaced by a write that left the ring as it was.
    """
    rings = {path: _ring_of(table.storage, table, index, path) for path in sorted(partition_paths)}
    for path, ring in rings.items():
        gone = {group.file_id for group in view.replaced if group.partition_path == path}
        if lost := sorted(node.file_id for node in ring.nodes if node.file_id in gone):
            raise CorruptDataError(
                "a write replaced the file groups of a consistent bucket index and left its buckets as they were, as "
                "an overwrite of JVM Hudi does: rows that are written to them would not be seen; nothing was written: "
                "read the rows and write them into a new table",
                partition_path=path,
                file_groups=lost[:10],
            )
    return Rings(rings, pending_resizes(table, rings))


def make_rings(table: TableState, index: BucketIndex, partition_paths: Iterable[str]) -> None:
    """Make the first rings of partitions without one. Cost and errors: as of `rings_of_write`."""
    for path in sorted(partition_paths):
        _ring_of(table.storage, table, index, path)


def _ring_of(storage: Storage, table: TableState, index: BucketIndex, partition_path: str) -> HashRing:
    ring, lacks_mark = load_ring(storage, table.timeline, partition_path)
    if ring is None:
        return _made(storage, table, index, partition_path)
    if lacks_mark:
        with suppress(AlreadyExistsError):
            storage.put_if_absent(ring_path(partition_path, ring.instant, COMMIT_SUFFIX), b"")
    return ring


def _made(storage: Storage, table: TableState, index: BucketIndex, partition_path: str) -> HashRing:
    if index.number is None:
        raise ConfigError(
            f"the rows are in a new partition, and the table does not say how many buckets it gets: set {NUMBER_KEY}",
            partition_path=partition_path,
        )
    ring = initial_ring(partition_path, index.number)
    try:
        storage.put_if_absent(ring_path(partition_path, INITIAL_INSTANT), encode_ring(ring))
    except AlreadyExistsError:
        # Another writer made it meanwhile, perhaps with another number.
        found, _ = load_ring(storage, table.timeline, partition_path)
        return found or ring
    return ring
