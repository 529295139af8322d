"""Pending clusterings of JVM Hudi, and the file groups that are their input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyhudi.errors import NotFoundError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
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
            groups = _input_of(storage, timeline.version, instant)
            if groups is not None:
                yield instant, groups


def is_clustering_plan(storage: Storage, version: TableVersion, instant: Instant) -> bool:
    """Whether a pending replace commit is a clustering: before version 8 they share a name. Cost: one read."""
    return _may_cluster(instant, version) and _input_of(storage, version, instant) is not None


def clustered_groups(storage: Storage, timeline: Timeline) -> frozenset[FileGroupId]:
    """The file groups that are input of pending clusterings. Cost: see `load_clustering_plans`."""
    return frozenset(group for _, groups in load_clustering_plans(storage, timeline) for group in groups)


def _may_cluster(instant: Instant, version: TableVersion) -> bool:
    return instant.action is Action.REPLACE_COMMIT and not version.has_clustering_action


def _input_of(storage: Storage, version: TableVersion, instant: Instant) -> frozenset[FileGroupId] | None:
    path = instant_path(replace(instant, state=InstantState.REQUESTED), version)
    try:
        return read_decoded(storage, path, CONTAINER_BYTES_MAX, _decode_input)
    except NotFoundError:
        # It ended since the timeline was loaded, or its writer does not create such a file.
        return None


def _decode_input(data: bytes, *, path: str) -> frozenset[FileGroupId] | None:
    clustered = decode_requested_replace_metadata(data, path=path).clustered if data else None
    if clustered is None:
        return None
    return frozenset(FileGroupId(partition_path, file_id) for partition_path, file_id in clustered)
