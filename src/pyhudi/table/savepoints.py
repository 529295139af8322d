"""Savepoints of the active timeline: the states of the table that services must leave readable."""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.format.avro.container import CONTAINER_BYTES_MAX
from pyhudi.format.metadata.savepoint import SavepointMetadata, decode_savepoint_metadata
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.storage.bounded import read_decoded
from pyhudi.storage.protocol import Storage
from pyhudi.table.timeline import Timeline, instant_path


def load_savepoints(storage: Storage, timeline: Timeline) -> Mapping[str, SavepointMetadata]:
    """The completed savepoints by the requested time of the write that each keeps.

    Cost: one read per savepoint. Raises `CorruptDataError` naming a damaged one.
    """
    return {
        instant.requested_time: read_decoded(
            storage, instant_path(instant, timeline.version), CONTAINER_BYTES_MAX, decode_savepoint_metadata
        )
        for instant in timeline.instants
        if instant.action is Action.SAVEPOINT and instant.state is InstantState.COMPLETED
    }
