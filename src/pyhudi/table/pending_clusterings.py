"""Pending clusterings: their plans, and the file groups that are their input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyhudi.errors import NotFoundError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.clustering import ClusteringPlan
from pyhudi.format.metadata.replace import decode_requested_replace_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.timeline import Timeline, instant_path


def load_clustering_plans(
    storage: Storage, timeline: Timeline, *, besides: str | None = None
) -> Iterator[tuple[Instant, frozenset[FileGroupId]]]:
    """Each pending clustering with its input, except that of the instant `besides`.

    Cost: one read per pending clustering; in version 6, where they are called replace commits, per pending replace
    commit. Raises `CorruptDataError` for a damaged plan.
    """
    for instant in timeline.instants:
        if instant.state is InstantState.COMPLETED or instant.requested_time == besides:
            continue
        if instant.action is Action.CLUSTERING or _may_cluster(instant, timeline.version):
            plan = load_clustering_plan(storage, timeline.version, instant)
            if plan is not None:
                yield instant, input_of(plan)


def is_clustering_plan(storage: Storage, version: TableVersion, instant: Instant) -> bool:
    """Whether a pending replace commit is a clustering: before version 8 they share a name. Cost: one read."""
    return _may_cluster(instant, version) and load_clustering_plan(storage, version, instant) is not None


def clustered_groups(storage: Storage, timeline: Timeline) -> frozenset[FileGroupId]:
    """The file groups that are input of pending clusterings. Cost: see `load_clustering_plans`."""
    return frozenset(group for _, groups in load_clustering_plans(storage, timeline) for group in groups)


def _may_cluster(instant: Instant, version: TableVersion) -> bool:
    return instant.action is Action.REPLACE_COMMIT and not version.has_clustering_action


def load_clustering_plan(storage: Storage, version: TableVersion, instant: Instant) -> ClusteringPlan | None:
    """The plan of a clustering; None if the instant is no clustering, or has ended. Cost: one read.

    Raises `CorruptDataError` for a damaged plan.
    """
    path = instant_path(replace(instant, state=InstantState.REQUESTED, completion_time=None), version)
    try:
        return read_decoded(storage, path, CONTAINER_BYTES_MAX, _decode_plan)
    except NotFoundError:
        # It ended since the timeline was loaded, or its writer does not create such a file.
        return None


def input_of(plan: ClusteringPlan) -> frozenset[FileGroupId]:
    """The file groups that a clustering reads and replaces."""
    return frozenset(FileGroupId(each.partition_path, each.file_id) for each in plan.slices)


def _decode_plan(data: bytes, *, path: str) -> ClusteringPlan | None:
    return decode_requested_replace_metadata(data, path=path).plan if data else None
