"""Pending clusterings: their plans, and the file groups that are their input."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.clustering import ClusteringPlan
from pyhudi.format.metadata.replace import decode_requested_replace_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_slice import FileGroupId
from pyhudi.table.timeline import Timeline, instant_path

_log = logging.getLogger("pyhudi")


def load_clustering_plans(
    storage: Storage, timeline: Timeline, *, besides: str | None = None
) -> Iterator[tuple[Instant, frozenset[FileGroupId]]]:
    """Each pending clustering with its input, except that of the instant `besides`.

    A damaged plan that no process has begun cannot be executed by any: it is passed over, with a warning that names it.
    Cost: one read per pending clustering; in version 6, where they are called replace commits, per pending replace
    commit. Raises `CorruptDataError` for a damaged plan that a process has begun.
    """
    for instant in possible_clusterings(timeline):
        try:
            plan = load_clustering_plan(storage, timeline.version, instant)
        except CorruptDataError as error:
            if instant.state is not InstantState.REQUESTED:
                raise
            _log.warning("a planned clustering is passed over: %s", error)
            continue
        if plan is not None and instant.requested_time != besides:
            yield instant, input_of(plan)


def possible_clusterings(timeline: Timeline) -> Iterator[Instant]:
    """What may be a pending clustering, by its name: in version 6 any pending replace commit."""
    for instant in timeline.instants:
        if instant.state is not InstantState.COMPLETED and (
            instant.action is Action.CLUSTERING or _may_cluster(instant, timeline.version)
        ):
            yield instant


def pending_clusterings(storage: Storage, timeline: Timeline) -> tuple[Instant, ...]:
    """The clusterings that are planned or running, oldest first, also those whose plans are damaged.

    Cost: in version 6 a read per pending replace commit. Raises `CorruptDataError` as `is_clustering_plan`.
    """
    found = possible_clusterings(timeline)
    return tuple(instant for instant in found if is_clustering_plan(storage, timeline.version, instant))


def is_clustering_plan(storage: Storage, version: TableVersion, instant: Instant) -> bool:
    """Whether a pending instant is a clustering; before version 8 its plan says so, and costs one read.

    A damaged plan counts as one. Raises `CorruptDataError` for that of an instant that a process has begun.
    """
    if not _may_cluster(instant, version):
        return instant.action is Action.CLUSTERING
    try:
        return load_clustering_plan(storage, version, instant) is not None
    except CorruptDataError:
        if instant.state is not InstantState.REQUESTED:
            raise
        return True


def instants_of_clusterings(storage: Storage, timeline: Timeline) -> frozenset[str]:
    """The instants of pending clusterings: they change no rows, so that no query and no clean has to wait for them.

    A damaged plan that no process has begun counts as one, and one that has been begun does not. Cost: in version 6 a
    read per pending replace commit.
    """
    found = set()
    for instant in possible_clusterings(timeline):
        with suppress(CorruptDataError):
            if is_clustering_plan(storage, timeline.version, instant):
                found.add(instant.requested_time)
    return frozenset(found)


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
    except CorruptDataError as error:
        raise CorruptDataError(
            "the plan of a clustering is damaged: end the process that executes it, if there is one, and give the plan"
            f' up by recovery.rollback("{instant.requested_time}")',
            path=path,
            instant=instant.requested_time,
            cause=error.message,
        ) from error
    except NotFoundError:
        # It ended since the timeline was loaded, or its writer does not create such a file.
        return None


def input_of(plan: ClusteringPlan) -> frozenset[FileGroupId]:
    """The file groups that a clustering reads and replaces."""
    return frozenset(FileGroupId(file_slice.partition_path, file_slice.file_id) for file_slice in plan.slices)


def _decode_plan(data: bytes, *, path: str) -> ClusteringPlan | None:
    return decode_requested_replace_metadata(data, path=path).plan if data else None
