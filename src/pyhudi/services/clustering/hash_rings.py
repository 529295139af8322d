"""New rings: those that a resize or an overwrite makes of the rings of a consistent bucket index, and their files.

The ring is put before the replace commit is completed, and counts from then on. Its mark, which JVM Hudi goes by after
the commit is archived, is put at once, or by the next write if the process dies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from pyhudi.config.bucket_properties import stored_buckets
from pyhudi.config.options_buckets import BucketOptions
from pyhudi.environment import Ids
from pyhudi.errors import AlreadyExistsError, CorruptDataError
from pyhudi.format.buckets import REMOVED, HashNode, HashRing
from pyhudi.format.metadata.clustering import ClusteringGroup, ClusteringPlan
from pyhudi.format.metadata.hashing import CHILD_NODES_KEY, COMMIT_SUFFIX, PARTITION_KEY, decode_nodes, encode_ring
from pyhudi.format.timeline.instant import Instant
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.hash_rings import load_ring, ring_path
from pyhudi.table.state import TableState
from pyhudi.table.timeline import instant_path
from pyhudi.tasks.cluster import ResizedBuckets
from pyhudi.transaction.conflicts.footprint import Heirs


@dataclass(frozen=True, slots=True)
class Resize:
    """The ring of a partition before and after a resize, or an overwrite."""

    before: HashRing
    after: HashRing


Resizes = Mapping[str, Resize]
"""By partition path."""


def resizes_of(table: TableState, instant: Instant, plan: ClusteringPlan) -> Resizes:
    """The rings that a plan resizes. Cost: what `load_ring` costs, for each partition.

    Raises `CorruptDataError` for a plan that does not say what becomes of the buckets that it reads, or was made for
    other rings.
    """
    path = instant_path(instant, table.version)
    nodes: dict[str, list[HashNode]] = {}
    read: dict[str, set[str]] = {}
    for group in plan.groups:
        for file_slice in group.slices:
            nodes.setdefault(file_slice.partition_path, [])
            read.setdefault(file_slice.partition_path, set()).add(file_slice.file_id)
        if group.slices:
            nodes[group.slices[0].partition_path] += _nodes_of(group, path)
    resizes = {}
    for partition_path, changes in nodes.items():
        ring, _ = load_ring(table.storage, table.timeline, partition_path)
        if ring is None:
            raise _unfit(path, partition_path)
        after = ring.with_children(instant.requested_time, tuple(changes))
        gone = {node.file_id for node in ring.nodes} - {node.file_id for node in after.nodes}
        if gone != read[partition_path]:
            raise _unfit(path, partition_path)
        resizes[partition_path] = Resize(ring, after)
    return resizes


def renewed_rings(table: TableState, partition_paths: Iterable[str], instant_time: str, ids: Ids) -> Resizes:
    """Rings with the same buckets and other file groups, for partitions whose rows a write replaces.

    No reader sees rows that are written into a replaced file group. Partitions without a ring are left out. Cost:
    what `load_ring` costs for each partition.
    """
    renewed = {}
    for path in sorted(partition_paths):
        ring, _ = load_ring(table.storage, table.timeline, path)
        if ring is not None:
            nodes = tuple(HashNode(node.value, ids.uuid()) for node in ring.nodes)
            renewed[path] = Resize(ring, replace(ring, instant=instant_time, sequence=ring.sequence + 1, nodes=nodes))
    return renewed


def with_buckets(replaced: Mapping[str, tuple[str, ...]], renewed: Resizes) -> dict[str, tuple[str, ...]]:
    """The replaced file groups, and those of buckets that have no row yet: another writer may be filling them."""
    buckets = {path: {node.file_id for node in resize.before.nodes} for path, resize in renewed.items()}
    return {path: (*ids, *sorted(buckets.get(path, set()) - set(ids))) for path, ids in replaced.items()}


def _nodes_of(group: ClusteringGroup, path: str) -> tuple[HashNode, ...]:
    partition_path = group.slices[0].partition_path
    if group.extra.get(PARTITION_KEY) != partition_path or CHILD_NODES_KEY not in group.extra:
        raise _unfit(path, partition_path)
    return decode_nodes(group.extra[CHILD_NODES_KEY], path=path)


def _unfit(path: str, partition_path: str) -> CorruptDataError:
    return CorruptDataError(
        "the plan of a resize does not fit the buckets of the table; nothing was changed: roll it back "
        "(recovery.rollback)",
        plan=path,
        partition_path=partition_path,
    )


def heirs_of(plan: ClusteringPlan, path: str) -> Heirs:
    """The file groups that come of those that a plan of a resize reads."""
    heirs: dict[FileGroupId, frozenset[FileGroupId]] = {}
    for group in plan.groups:
        made = frozenset(
            FileGroupId(group.slices[0].partition_path, node.file_id)
            for node in _nodes_of(group, path)
            if node.tag != REMOVED
        )
        heirs |= {FileGroupId(file_slice.partition_path, file_slice.file_id): made for file_slice in group.slices}
    return heirs


def buckets_of_group(resizes: Resizes, group: ClusteringGroup, fields: tuple[str, ...]) -> ResizedBuckets | None:
    """What the task of a group has to know of the rings; None if the plan resizes none."""
    if not resizes:
        return None
    resize = resizes[group.slices[0].partition_path]
    return ResizedBuckets(
        resize.before, resize.after, frozenset(file_slice.file_id for file_slice in group.slices), fields
    )


def hashed_fields(table: TableState, options: BucketOptions) -> tuple[str, ...]:
    """The fields that are hashed: those of the table, of the options, or all record key fields."""
    stored = stored_buckets(table.config.values, path=table.config.path)
    named = (None if stored is None else stored.hash_fields) or options.hash_fields
    return named or tuple(table.config.record_key_fields or ())


def put_rings(storage: Storage, resizes: Resizes) -> None:
    """Put new rings. Those of a resize are the same in every execution of its plan."""
    for path, resize in sorted(resizes.items()):
        storage.put(ring_path(path, resize.after.instant), encode_ring(resize.after))


def mark_rings(storage: Storage, resizes: Resizes) -> None:
    """Mark that what made the rings is completed."""
    for path, resize in sorted(resizes.items()):
        with suppress(AlreadyExistsError):
            storage.put_if_absent(ring_path(path, resize.after.instant, COMMIT_SUFFIX), b"")
