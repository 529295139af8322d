"""Histories of change data at random: what comes late, twice, shuffled and between crashes ends as the source."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.change_data import KINDS, Database, decoded
from tests.support.change_streamers import Batches, streamer
from tests.support.tables import LATER_MS, StepClock, environment, open_table

from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import ingest
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

CHANGES = 30
PARTITIONED = {
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.index.type": "GLOBAL_SIMPLE",
}
ALWAYS = {"hoodie.compact.inline.max.delta.commits": "3", "hoodie.write.set.null.for.missing.columns": "true"}
COLUMNS = ["id", "city", "big", "note"]
HOUR_MS = 3_600_000


def history(kind: str, chance: random.Random) -> Database:
    """A database after so many changes; half of them with a column that was added."""
    database = Database(kind, seed=chance.randrange(10**6))
    for number in range(CHANGES):
        noted = [key for key in database.rows if number > CHANGES // 2 and chance.random() < 0.2]
        if noted:
            database.place += 1
            database.update(noted[0], note=f"n{number}")
        else:
            database.change()
            database.place += 1
    return database


def batches_of(database: Database, chance: random.Random) -> Iterator[pa.Table]:
    """Shuffled windows of the messages. After some of them the source begins again with changes that it has sent."""
    begin = 0
    while begin < len(database.messages):
        size = chance.randrange(1, 14)
        messages = [message for change in database.messages[begin : begin + size] for message in change]
        chance.shuffle(messages)
        yield decoded(messages)
        begin += size
        if chance.random() < 0.25:
            begin = max(0, begin - chance.randrange(1, 20))


def rows_in(storage: MemoryStorage) -> list[dict[str, Any]]:
    rows = open_table(storage).scan().to_arrow().sort_by("id").to_pylist()
    return [{name: row.get(name) for name in COLUMNS} for row in rows]


def run_with_crashes(batches: list[pa.Table], kind: str, chance: random.Random, **given: Any) -> MemoryStorage:
    """The table of a streamer whose process dies at some effects, and is started again when it counts as dead."""
    storage, moment = MemoryStorage(), LATER_MS
    while True:
        moment += HOUR_MS
        following = streamer(Batches(batches), storage, kind, **given)
        following = replace(following, environment=environment(StepClock(moment)))
        if chance.random() < 0.3:
            dying = FaultStorage(storage, before=at_effect(chance.randrange(1, 40), SimulatedCrash()))
            with suppress(SimulatedCrash):
                ingest(replace(following, storage=dying))
        elif ingest(following) is None:
            return storage


@pytest.mark.parametrize("options", [{}, PARTITIONED], ids=["one partition", "partitions"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_table_of_changes_that_are_sent_again_between_crashes_equals_the_source(
    kind: str, table_type: str, options: dict[str, str], seed: int
):
    pytest.importorskip("confluent_kafka")
    chance = random.Random(seed)
    database = history(kind, chance)
    moves = {"hoodie.simple.index.update.partition.path": str(kind != "postgresql").lower()}
    given_options = {**ALWAYS, **options, **(moves if options else {})}
    batches = list(batches_of(database, chance))
    storage = run_with_crashes(batches, kind, chance, options=given_options, table_type=table_type)
    # A row of PostgreSQL stays in its partition, whose value a read gives.
    columns = [name for name in COLUMNS if name != "city" or kind != "postgresql" or not options]
    wanted = [{name: database.rows[key].get(name) for name in columns} for key in sorted(database.rows)]
    assert [{name: row[name] for name in columns} for row in rows_in(storage)] == wanted
