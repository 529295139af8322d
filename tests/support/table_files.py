"""What other programs put into a table's folder."""

from __future__ import annotations

from tests.support.table_builder import TableBuilder
from tests.support.tables import StepClock

from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.storage.protocol import Storage
from pyhudi.table.instant_times import next_time
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER, PARTITIONS_KEY
from pyhudi.table.state import load_table, update_properties
from pyhudi.table.timeline import instant_path


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
