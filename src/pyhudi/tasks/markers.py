"""Creates the markers of one write's tasks, as its options and its engine allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.format.markers import MarkersType
from pyhudi.transaction.markers.announcing import TaskMarkers, register_service
from pyhudi.transaction.markers.early_conflicts import EarlyDetection
from pyhudi.transaction.markers.remote import serving
from pyhudi.transaction.markers.service import MarkerService
from pyhudi.transaction.transaction import Transaction


@contextmanager
def task_markers(
    transaction: Transaction, config: WriteConfig, engine: Engine, *, may_conflict: bool = True
) -> Iterator[TaskMarkers]:
    """What tasks that run in the block need to create markers; a marker service ends with the block.

    Only with DIRECT markers can a task that outlives the block still start files: the commit, which follows the block,
    deletes the files of lost attempts that have markers by then. `may_conflict`: whether early conflict detection is
    useful.

    Raises:
        UnsupportedFeatureError: the options ask for a service that the engine's tasks cannot reach.
        StorageError: the service cannot listen.
    """
    detection = _detection(transaction, config) if may_conflict and config.markers.detects_early else None
    if config.markers.keeping is MarkersType.DIRECT:
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


def _detection(transaction: Transaction, config: WriteConfig) -> EarlyDetection:
    timeline = transaction.base.timeline
    return EarlyDetection(
        heartbeat=transaction.settings.heartbeat,
        version=timeline.version,
        known_commits=frozenset(timeline.completed_times) if config.markers.early_checks_commits else None,
    )
