"""What other programs put into a table's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.support.table_builder import TableBuilder
from tests.support.tables import StepClock

from pyhudi.format.metadata.commit import CommitMetadata, encode_commit_metadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.storage.protocol import Storage
from pyhudi.table.instant_times import completed_now, next_time
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, PARTITIONS_KEY
from pyhudi.table.state import load_table, update_properties
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage


def with_metadata_table() -> Storage:
    storage = TableBuilder().insert((1, "oslo", 1, "a")).build()
    update_properties(storage, {PARTITIONS_KEY: "files"})
    storage.put(f"{METADATA_TABLE_FOLDER}/.hoodie/hoodie.properties", b"x")
    return storage


def begun(storage: Storage, action: Action, body: bytes = b"") -> Instant:
    """A requested instant of JVM Hudi, above everything on the timeline."""
    table = load_table(storage)
    instant = Instant(next_time(table.timeline, table.config, StepClock()), action, InstantState.REQUESTED)
    storage.put_if_absent(instant_path(instant, table.version), body)
    return instant


def ended(storage: Storage, instant: Instant, metadata: CommitMetadata | None = None) -> None:
    """The instant is completed by JVM Hudi, with these metadata."""
    table = load_table(storage)
    inflight = replace(instant, state=InstantState.INFLIGHT)
    storage.put_if_absent(instant_path(inflight, table.version), b"")
    body = b"" if metadata is None else encode_commit_metadata(metadata, table.version)
    completed = completed_now(inflight, table.timeline, table.config, StepClock())
    storage.put_if_absent(instant_path(completed, table.version), body)


def meeting(inner: Storage, others: Callable[[Storage], object], *, before: tuple[str, str]) -> FaultStorage:
    """A store on which others act once, before an operation of this name on a path that has this in it."""
    done = False

    def hook(operation: str, path: str) -> None:
        nonlocal done
        if not done and operation == before[0] and before[1] in path:
            done = True
            others(inner)

    return FaultStorage(inner, before=hook)
