"""The rings of a consistent bucket index: which file of hashing metadata counts, and what a pending resize changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.buckets import INITIAL_INSTANT, HashNode, HashRing
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.metadata.hashing import (
    CHILD_NODES_KEY,
    COMMIT_SUFFIX,
    PARTITION_KEY,
    RING_BYTES_MAX,
    RING_SUFFIX,
    decode_nodes,
    decode_ring,
)
from pyhudi.storage.bounded import read_at_most
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.writes import readable_archived_writes
from pyhudi.table.features import HASHING_METADATA_FOLDER
from pyhudi.table.pending_clusterings import load_clustering_plan, load_clustering_plans
from pyhudi.table.state import TableState
from pyhudi.table.timeline import Timeline, instant_path


@dataclass(frozen=True, slots=True)
class PendingResize:
    """A resize of a partition that is planned or running: its instant, and the ring that it will make.

    `made`: the file groups of the buckets that it makes. `versions`: the largest version of the logs that writes have
    put into them. JVM Hudi reads these logs in the order of their versions; its own writers always take 1.
    """

    instant_time: str
    ring: HashRing
    made: frozenset[str] = field(default_factory=frozenset)
    versions: Mapping[str, int] = field(default_factory=dict)


def ring_path(partition_path: str, instant_time: str, suffix: str = RING_SUFFIX) -> str:
    """Where the ring of an instant is, or with another suffix the mark that its resize was completed."""
    folder = f"{HASHING_METADATA_FOLDER}/{partition_path}" if partition_path else HASHING_METADATA_FOLDER
    return f"{folder}/{instant_time}{suffix}"


def load_ring(storage: Storage, timeline: Timeline, partition_path: str) -> tuple[HashRing | None, bool]:
    """The ring of a partition, None if it has none yet; and whether a mark has to be put that its resize was completed.

    The newest file counts whose resize was completed, by the timeline; by its mark or by the archive if the resize is
    older than the active timeline. JVM Hudi trusts the mark, which it puts at the first write after the resize. Cost:
    a listing and a read; the archive if there is no mark of an archived resize.
    """
    names = storage.list_names(ring_path(partition_path, "", "").rstrip("/"))
    marked = {name.removesuffix(COMMIT_SUFFIX) for name in names if name.endswith(COMMIT_SUFFIX)}
    for instant_time in sorted(name.removesuffix(RING_SUFFIX) for name in names if name.endswith(RING_SUFFIX))[::-1]:
        if _counts(storage, timeline, instant_time, is_marked=instant_time in marked):
            path = ring_path(partition_path, instant_time)
            ring = decode_ring(read_at_most(storage, path, RING_BYTES_MAX), path=path)
            return ring, instant_time not in marked and instant_time != INITIAL_INSTANT
    return None, False


def _counts(storage: Storage, timeline: Timeline, instant_time: str, *, is_marked: bool) -> bool:
    if instant_time == INITIAL_INSTANT or timeline.is_committed(instant_time):
        return True
    if not timeline.starts_after(instant_time):
        return False  # pending, or undone
    return is_marked or readable_archived_writes(storage, timeline.version, {instant_time}).has(instant_time)


def pending_resizes(table: TableState, rings: Mapping[str, HashRing]) -> dict[str, PendingResize]:
    """The pending resize of each of the partitions whose rings are given.

    Cost: a read per pending clustering, and a listing of each partition that one resizes.

    Raises:
        UnsupportedFeatureError: a pending clustering has groups of a partition, and does not say their buckets.
    """
    found: dict[str, PendingResize] = {}
    for instant, groups in load_clustering_plans(table.storage, table.timeline):
        plan = load_clustering_plan(table.storage, table.version, instant)
        path = instant_path(instant, table.version)
        nodes: dict[str, list[HashNode]] = {}
        for group in plan.groups if plan is not None else ():
            partition_path = group.extra.get(PARTITION_KEY)
            if partition_path is not None and CHILD_NODES_KEY in group.extra:
                nodes.setdefault(partition_path, []).extend(decode_nodes(group.extra[CHILD_NODES_KEY], path=path))
        for partition_path in {group.partition_path for group in groups} & rings.keys():
            if partition_path not in nodes or partition_path in found or not table.version.has_completion_times:
                raise UnsupportedFeatureError(
                    "a clustering of a consistent bucket index is pending that does not say its buckets, or there are "
                    "two, or the table is of version 6: let it finish first (services.run)",
                    instant=instant.requested_time,
                    partition_path=partition_path,
                )
            changes = tuple(nodes[partition_path])
            made = frozenset(node.file_id for node in changes if node.tag != "DELETE")
            ring = rings[partition_path].with_children(instant.requested_time, changes)
            versions = _log_versions(table.storage, partition_path, instant.requested_time)
            found[partition_path] = PendingResize(instant.requested_time, ring, made, versions)
    return found


def _log_versions(storage: Storage, partition_path: str, instant_time: str) -> dict[str, int]:
    """By file id, the largest version of the logs in a partition that are named after an instant."""
    versions: dict[str, int] = {}
    for info in storage.list_folder(partition_path).files:
        name = parse_data_file(info.name)
        if isinstance(name, LogFileName) and name.instant_time == instant_time:
            versions[name.file_id] = max(name.version, versions.get(name.file_id, 0))
    return versions
