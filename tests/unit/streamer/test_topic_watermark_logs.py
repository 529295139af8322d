"""The watermark of a topic beside a held-out log of its events: no hour is complete early, and each is at the end."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ingestions import ids_in, ingestion, topic_settings
from tests.support.kafka import Broker
from tests.support.tables import open_table

from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import IngestedBatch, ingest

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
BEGIN_MS = int(datetime(2026, 11, 22, 9, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS, HOURS, EVENTS = 60_000, 3, 8
OPTIONS = {
    "hoodie.streamer.source.kafka.append.offsets": "true",
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.payload.event.time.field": "at",
    "hoodie.streamer.kafka.source.maxEvents": "7",
}


@dataclass
class Log:
    """The events of a topic, by partition in the order in which they are sent. `left`: those that are still to come."""

    chance: random.Random
    lateness: int
    events: dict[int, list[dict[str, int]]] = field(default_factory=dict)
    left: dict[int, list[dict[str, int]]] = field(default_factory=dict)

    def add_partition(self, number: int) -> None:
        """Events of all minutes, at most `lateness` later than newer ones; the last is after all hours."""
        minutes = [self.chance.uniform(0, 60 * HOURS) for _ in range(EVENTS)]
        minutes.sort(key=lambda minute: minute + self.chance.uniform(0, self.lateness))
        minutes.append(60 * HOURS + self.lateness + 1)
        times = [BEGIN_MS + int(minute * MINUTE_MS) for minute in minutes]
        self.events[number] = [{"id": 100 * number + place, "at": time} for place, time in enumerate(times)]
        self.left[number] = list(self.events[number])

    def next_portion(self) -> tuple[int, list[dict[str, int]]]:
        """Some next events of a partition."""
        number = self.chance.choice([number for number, events in self.left.items() if events])
        count = self.chance.randrange(1, 6)
        portion, self.left[number] = self.left[number][:count], self.left[number][count:]
        return number, portion

    def missing_hours(self, there: set[int]) -> set[int]:
        """The hours of which an event is not in the table."""
        events = [event for events in self.events.values() for event in events if event["id"] not in there]
        return {(event["at"] - BEGIN_MS) // (60 * MINUTE_MS) for event in events}


def said_hours(storage: MemoryStorage, lateness: int) -> set[int]:
    """The hours that the watermark says to be complete."""
    watermark, late = open_table(storage).watermark(), timedelta(minutes=lateness)
    return {hour for hour in range(HOURS) if watermark.covers(f"2026-11-22/{9 + hour:02}", lateness=late)}


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_hour_of_a_topic_is_complete_before_all_its_events_are_in_the_table(broker: Broker, seed: int):
    chance, storage, topic = random.Random(seed), MemoryStorage(), broker.new_topic(partitions=3)
    log = Log(chance, lateness=chance.choice([0, 20]))
    for number in range(3):
        log.add_partition(number)
    streamer = ingestion(topic_settings(broker, topic, OPTIONS), storage)
    while any(log.left.values()):
        number, portion = log.next_portion()
        broker.send(topic, portion, partition=number)
        if chance.random() < 0.3:
            continue  # more comes before the next round
        while isinstance(ingest(streamer), IngestedBatch):
            assert not said_hours(storage, log.lateness) & log.missing_hours(set(ids_in(storage)))
    while isinstance(ingest(streamer), IngestedBatch):
        pass
    assert said_hours(storage, log.lateness) == set(range(HOURS))


def test_partition_that_is_added_holds_the_watermark_back_until_it_has_a_message(broker: Broker):
    storage, topic = MemoryStorage(), broker.new_topic()
    streamer = ingestion(topic_settings(broker, topic, OPTIONS), storage)
    broker.send(topic, [{"id": 1, "at": BEGIN_MS + 61 * MINUTE_MS}])
    assert ingest(streamer) is not None
    assert said_hours(storage, 0) == {0}
    broker.add_partitions(topic, 2)
    broker.send(topic, [{"id": 2, "at": BEGIN_MS + 190 * MINUTE_MS}])
    assert ingest(streamer) is not None
    assert said_hours(storage, 0) == set()
    broker.send(topic, [{"id": 3, "at": BEGIN_MS + 121 * MINUTE_MS}], partition=1)
    assert ingest(streamer) is not None
    assert said_hours(storage, 0) == {0, 1}
