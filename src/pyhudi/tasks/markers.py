"""Creates the markers of one write's tasks, as its options and its engine allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine, TaskContext
from pyhudi.format.markers import Marker, MarkersType
from pyhudi.transaction.markers.announcing import TaskMarkers, create_markers, register_service
from pyhudi.transaction.markers.early_conflicts import EarlyDetection
from pyhudi.transaction.markers.remote import serving
from pyhudi.transaction.markers.service import MarkerService
from pyhudi.transaction.transaction import Transaction

GATHERED_FILES_MIN = 8
"""From so many files on whose names are known before, a write gathers their markers: it puts two files in place of one
for each, and does not list, and remove, a folder for each partition."""


class BeginsFiles(Protocol):
    """A task that writes data files of one file group."""

    @property
    def starts_group(self) -> bool:
        """Whether the file group is a new one."""
        ...

    def first_markers(self, context: TaskContext) -> list[Marker]:
        """The markers that it creates before it begins its first file."""
        ...


@contextmanager
def task_markers(
    transaction: Transaction,
    config: WriteConfig,
    engine: Engine,
    *,
    may_conflict: bool = True,
    file_groups: int = 0,
) -> Iterator[TaskMarkers]:
    """What tasks that run in the block need to create markers; a marker service ends with the block.

    Only with DIRECT markers can a task that outlives the block still start files: the commit, which follows the block,
    deletes the files of lost attempts that have markers by then. `may_conflict`: whether early conflict detection is
    useful. `file_groups`: of so many the first files are announced ahead, where no option says how.

    Raises:
        UnsupportedFeatureError: the options ask for a service that the engine's tasks cannot reach.
        StorageError: the service cannot listen.
    """
    detection = _detection(transaction, config) if may_conflict and config.markers.detects_early else None
    gathers = not engine.repeats_tasks and file_groups >= GATHERED_FILES_MIN
    kind = config.markers.kind or (MarkersType.TIMELINE_SERVER_BASED if gathers else MarkersType.DIRECT)
    if kind is MarkersType.DIRECT:
        yield TaskMarkers(detection=detection)
        return
    hosts = engine.callback_hosts
    key = transaction.environment.ids.uuid()
    service = MarkerService(transaction.storage, transaction.instant_time, detection)
    with ExitStack() as stack:
        address = None
        if hosts is not None:
            address = stack.enter_context(serving(service, key, host=hosts.host, bind_to=hosts.bind_to))
        stack.callback(service.stop)
        yield TaskMarkers(service=register_service(service, key, address))


def announce_ahead(
    transaction: Transaction, how: TaskMarkers, engine: Engine, tasks: Mapping[int, BeginsFiles]
) -> None:
    """Store the markers of the tasks' first files at once, if a service keeps them and their names are known.

    `tasks`: by their numbers. A task that finds its marker stored goes on at once; it creates those of its further
    files itself, as does one that is not among them. A file that is announced, and never begun, does no harm. Cost: a
    put for new file groups, and one for the others.

    Raises what `create_markers` raises.
    """
    if how.service is None or engine.repeats_tasks:
        return
    # Those that other writers may be writing to come first: after a conflict nothing is announced.
    markers: dict[bool, list[Marker]] = {True: [], False: []}
    for number, task in tasks.items():
        markers[not task.starts_group] += task.first_markers(TaskContext.of_only_run(number))
    for groups_exist, announced in markers.items():
        if announced:
            create_markers(transaction.storage, transaction.instant_time, how, announced, groups_exist=groups_exist)


def _detection(transaction: Transaction, config: WriteConfig) -> EarlyDetection:
    timeline = transaction.base.timeline
    return EarlyDetection(
        heartbeat=transaction.settings.heartbeat,
        version=timeline.version,
        known_commits=frozenset(timeline.completed_times) if config.markers.early_checks_commits else None,
    )
