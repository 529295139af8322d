"""How a task says which data file it is about to write, before it begins the file.

DIRECT: the task puts an empty file of its own. TIMELINE_SERVER_BASED: it asks the marker service of its write, in this
process or in another one.

Source: `format/timeline.md` 6.1; mission rows S3-27, S3-28.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyhudi.errors import TransactionError
from pyhudi.format.markers import Marker, marker_path
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.markers.early_conflicts import EarlyDetection, check_groups_are_free
from pyhudi.transaction.markers.reading import groups_of_files
from pyhudi.transaction.markers.remote import ServiceAddress, announce_remotely
from pyhudi.transaction.markers.service import MarkerService


@dataclass(frozen=True, slots=True)
class ServiceHandle:
    """How a task finds the marker service: by a secret key, in this process; in others also by an address."""

    process: int
    key: str = field(repr=False)
    address: ServiceAddress | None


@dataclass(frozen=True, slots=True)
class TaskMarkers:
    """How the tasks of one write announce their files.

    Without a `service` by markers of their own, after a look at other writers if there is `detection`; the service
    looks by itself.
    """

    service: ServiceHandle | None = None
    detection: EarlyDetection | None = None


DIRECT_MARKERS = TaskMarkers()
"""A file per marker, and no look at others."""

_services: weakref.WeakValueDictionary[str, MarkerService] = weakref.WeakValueDictionary()


def announce(
    storage: Storage, instant_time: str, how: TaskMarkers, markers: Sequence[Marker], *, groups_exist: bool
) -> None:
    """Return when the markers of files are stored; then, and not before, the files may be begun.

    `groups_exist`: they are of file groups that others may be writing, too. Cost: DIRECT one put per marker, and
    before it what `check_groups_are_free` costs; else the share of this task in the batches of the service.

    Raises:
        WriteConflictError: early conflict detection found another live writer on one of the groups.
        TransactionError: the write has ended without this task.
        StorageError: the markers may not be stored.
    """
    if how.service is not None:
        _announce_to(how.service, instant_time, markers, groups_exist=groups_exist)
        return
    if groups_exist and how.detection is not None:
        groups = frozenset(groups_of_files(marker.data_path for marker in markers))
        check_groups_are_free(storage, instant_time, how.detection, groups)
    for marker in markers:
        storage.put(marker_path(instant_time, marker), b"", durable=False)


def register(service: MarkerService, key: str, address: ServiceAddress | None) -> ServiceHandle:
    """Let tasks of this process find the service for as long as somebody holds it."""
    _services[key] = service
    return ServiceHandle(os.getpid(), key, address)


def _announce_to(handle: ServiceHandle, instant_time: str, markers: Sequence[Marker], *, groups_exist: bool) -> None:
    # A forked child has a copy of the service, whose markers nobody would see.
    service = _services.get(handle.key) if handle.process == os.getpid() else None
    if service is not None:
        service.announce(markers, groups_exist=groups_exist)
    elif handle.address is not None:
        announce_remotely(handle.address, handle.key, markers, groups_exist=groups_exist)
    else:
        raise TransactionError("the write of this task has ended, so it may begin no more files", instant=instant_time)
