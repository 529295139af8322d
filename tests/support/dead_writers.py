"""Tables with a writer that died."""

from __future__ import annotations

from contextlib import suppress

from tests.support.hooks import at
from tests.support.table_builder import TableBuilder
from tests.support.tables import (
    Row,
    open_table,
    rows,
)

from pyhudi.format.timeline.instant import InstantTime
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage, SimulatedCrash
from pyhudi.transaction.heartbeat import HeartbeatSettings

START: set[Row] = {(1, "oslo", 1, "a"), (2, "rome", 1, "a")}


NOW_MS = 1_790_000_000_000


def prepared(version: int = 9) -> Storage:
    return TableBuilder(version).insert(*START).build(MemoryStorage(clock=lambda: NOW_MS))


def crashed_upsert(version: int = 9) -> tuple[Storage, InstantTime]:
    """A table with an upsert that died when its files were written; and its instant."""
    storage = prepared(version)
    dying = FaultStorage(storage, before=at("commit", "put_if_absent"))
    with suppress(SimulatedCrash):
        open_table(dying).upsert(rows((1, "oslo", 2, "b"), (9, "bern", 2, "b")))
    (instant,) = load_table(storage).timeline.pending_writes
    return storage, instant.requested_time


ADDED: Row = (50, "wien", 9, "z")


SILENT_MS = HeartbeatSettings().expiry_ms
