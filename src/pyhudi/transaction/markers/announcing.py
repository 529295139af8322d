"""Markers of tasks: a task creates a marker for each data file before it begins to write the file.

DIRECT: the task puts an empty file. TIMELINE_SERVER_BASED: it sends a request to the marker service of its write, in
this process or in another one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyhudi.errors import TransactionError
from pyhudi.format.markers import Marker, marker_path
from pyhudi.storage.bounded import at_once
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.markers.reading import groups_of_files
from pyhudi.transaction.markers.remote import ServiceAddress, create_remotely

if TYPE_CHECKING:  # both load the timeline and its conflicts, for which the first task of a worker would wait
    from pyhudi.transaction.markers.early_conflicts import EarlyDetection
    from pyhudi.transaction.markers.service import MarkerService


@dataclass(frozen=True, slots=True)
class ServiceHandle:
    """How a task finds the marker service: by a secret key, in this process; in others also by an address."""

    process: int
    key: str = field(repr=False)
    address: ServiceAddress | None


@dataclass(frozen=True, slots=True)
class TaskMarkers:
    """How the tasks of one write create markers.

    Without a `service` each task puts its own, after a check of other writers if there is `detection`. The service
    does that check itself.
    """

    service: ServiceHandle | None = None
    detection: EarlyDetection | None = None


DIRECT_MARKERS = TaskMarkers()
"""One file per marker, and no check of other writers."""

_services: weakref.WeakValueDictionary[str, MarkerService] = weakref.WeakValueDictionary()


def create_markers(
    storage: Storage, instant_time: str, how: TaskMarkers, markers: Sequence[Marker], *, groups_exist: bool
) -> None:
    """Store the markers of data files, and return when they are durable; only then may the files be written.

    `groups_exist`: the files belong to existing file groups, which other writers may be writing to. Cost: with DIRECT
    one put per marker, many at once on an object store, and before it what `check_groups_are_free` costs; otherwise a
    share of a batch of the service.

    Raises:
        WriteConflictError: early conflict detection found another live writer on one of the groups.
        TransactionError: the write has ended without this task.
        StorageError: perhaps not all markers were stored.
    """
    if how.service is not None:
        _request_from(how.service, instant_time, markers, groups_exist=groups_exist)
        return
    if groups_exist and how.detection is not None:
        from pyhudi.transaction.markers.early_conflicts import check_groups_are_free  # noqa: PLC0415 - see above

        groups = frozenset(groups_of_files(marker.data_path for marker in markers))
        check_groups_are_free(storage, instant_time, how.detection, groups)
    at_once(storage, lambda marker: storage.put(marker_path(instant_time, marker), b"", durable=False), markers)


def remove_markers(storage: Storage, instant_time: str, how: TaskMarkers, markers: Sequence[Marker]) -> None:
    """Remove the markers of a task whose write has ended, as no other process looks for them any more.

    Those of a service have gone with the write. Cost: with DIRECT a delete per marker.
    """
    if how.service is None:
        at_once(storage, lambda marker: storage.delete(marker_path(instant_time, marker)), markers)


def register_service(service: MarkerService, key: str, address: ServiceAddress | None) -> ServiceHandle:
    """Let tasks of this process find the service while it is referenced."""
    _services[key] = service
    return ServiceHandle(os.getpid(), key, address)


def _request_from(handle: ServiceHandle, instant_time: str, markers: Sequence[Marker], *, groups_exist: bool) -> None:
    # A forked child has a copy of the service, whose batches the parent would not see.
    service = _services.get(handle.key) if handle.process == os.getpid() else None
    if service is not None:
        service.create(markers, groups_exist=groups_exist)
    elif handle.address is not None:
        create_remotely(handle.address, handle.key, markers, groups_exist=groups_exist)
    else:
        raise TransactionError(
            "the write of this task has ended, so it must not write more files", instant=instant_time
        )
