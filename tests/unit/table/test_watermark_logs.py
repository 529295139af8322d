"""The watermark beside held-out logs of events: never early, and never stuck, whatever fails or comes twice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import MOR, SCHEMA, StepClock, environment, new_table, open_table

import pyhudi
from pyhudi.api.watermark import Watermark
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

BEGIN_MS = int(datetime(2026, 11, 22, 9, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS, HOURS, EVENTS = 60_000, 4, 16
IDLE = timedelta(minutes=30)
OPTIONS = {
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
}


@dataclass
class Source:
    """The log of a source: the ids and times of its events, in the order in which they come. `sent`: how many did."""

    name: str
    events: list[tuple[int, int]]
    sent: int = 0
    batches: list[list[tuple[int, int]]] = field(default_factory=list)

    def next_batch(self, chance: random.Random) -> list[tuple[int, int]]:
        """What the source sends: new events, or a batch of before once more."""
        if self.batches and (self.sent == len(self.events) or chance.random() < 0.2):
            return chance.choice(self.batches)
        return self.events[self.sent : self.sent + chance.randrange(1, 6)]

    def committed(self, batch: list[tuple[int, int]]) -> None:
        if batch == self.events[self.sent : self.sent + len(batch)]:
            self.sent += len(batch)
            self.batches.append(batch)


def source(name: str, first_id: int, lateness: int, chance: random.Random) -> Source:
    """A source whose events are at most `lateness` minutes later than newer ones. The last one is after all hours."""
    minutes = [chance.uniform(0, 60 * HOURS) for _ in range(EVENTS)]
    minutes.sort(key=lambda minute: minute + chance.uniform(0, lateness))
    times = [BEGIN_MS + int(minute * MINUTE_MS) for minute in [*minutes, 60 * HOURS + lateness + 1]]
    return Source(name, [(first_id + number, time) for number, time in enumerate(times)])


def write(storage: Storage, clock: StepClock, name: str, batch: list[tuple[int, int]]) -> None:
    rows = [(number, name, time, "") for number, time in batch]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, SCHEMA, strict=True)]
    options = {**OPTIONS, "hoodie.write.event.time.source": name}
    table = open_table(storage, env=environment(clock))
    table.upsert(pa.table(arrays, schema=SCHEMA), hudi_options=options)


def missing_hours(table: pyhudi.HudiTable, sources: list[Source], idle: Sequence[str]) -> set[int]:
    """The hours that are not complete: of which an event of a source that is not idle is not among the rows."""
    there = set(table.scan(["id"]).to_arrow()["id"].to_pylist())
    counted = [event for log in sources if log.name not in idle for event in log.events]
    return {(time - BEGIN_MS) // (60 * MINUTE_MS) for number, time in counted if number not in there}


def said_hours(watermark: Watermark, lateness: int) -> set[int]:
    """The hours that the watermark says to be complete."""
    late = timedelta(minutes=lateness)
    return {hour for hour in range(HOURS) if watermark.covers(f"2026-11-22/{9 + hour:02}", lateness=late)}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("lateness", [0, 25])
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 3))
def test_no_hour_is_complete_early_or_never_whatever_fails_comes_twice_or_is_silent(
    kind: str, lateness: int, seed: int, count: int
):
    chance, clock, storage = random.Random(seed), StepClock(), MemoryStorage()
    new_table(storage, **(MOR if kind == "mor" else {}))
    sources = [source(f"s{number}", 1000 * (number + 1), lateness, chance) for number in range(count)]
    names = [found.name for found in sources]
    while any(found.sent < len(found.events) for found in sources):
        sender = chance.choice(sources)
        batch = sender.next_batch(chance)
        clock.ms += chance.choice([0, 1, 60]) * MINUTE_MS
        if chance.random() < 0.2:
            dying = FaultStorage(storage, before=at_effect(chance.randrange(1, 30), SimulatedCrash()))
            with suppress(SimulatedCrash):
                write(dying, clock, sender.name, batch)
            clock.ms += 60 * MINUTE_MS
        else:
            write(storage, clock, sender.name, batch)
            sender.committed(batch)
        table = open_table(storage, env=environment(clock))
        for idle_after in (None, IDLE):
            found = table.watermark(sources=names, idle_after=idle_after)
            assert not said_hours(found, lateness) & missing_hours(table, sources, found.idle)
    last = open_table(storage, env=environment(clock)).watermark(sources=names)
    assert said_hours(last, lateness) == set(range(HOURS))
