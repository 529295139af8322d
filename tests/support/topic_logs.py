"""A topic's log of events, held out from the streamer whose watermark is judged by it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.support.ingestions import ids_in
from tests.support.kafka import Broker
from tests.support.tables import open_table

from pyhudi.storage.protocol import Storage
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.result import IngestedBatch

BEGIN_MS = int(datetime(2026, 11, 22, 9, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS, HOURS = 60_000, 3
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
    events_of_partition: int = 8
    events: dict[int, list[dict[str, int]]] = field(default_factory=dict)
    left: dict[int, list[dict[str, int]]] = field(default_factory=dict)

    def add_partition(self, number: int) -> None:
        """Events of all minutes, at most `lateness` later than newer ones; the last is after all hours."""
        minutes = [self.chance.uniform(0, 60 * HOURS) for _ in range(self.events_of_partition)]
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


def said_hours(storage: Storage, lateness: int) -> set[int]:
    """The hours that the watermark says to be complete."""
    watermark, late = open_table(storage).watermark(), timedelta(minutes=lateness)
    return {hour for hour in range(HOURS) if watermark.covers(f"2026-11-22/{9 + hour:02}", lateness=late)}


def check_no_hour_is_complete_early(log: Log, broker: Broker, topic: str, streamer: Ingestion) -> None:
    """Send the log in portions, with rounds between: no hour is complete early, and each is at the end."""
    storage = streamer.storage
    while any(log.left.values()):
        number, portion = log.next_portion()
        broker.send(topic, portion, partition=number)
        if log.chance.random() < 0.3:
            continue  # more comes before the next round
        while isinstance(ingest(streamer), IngestedBatch):
            assert not said_hours(storage, log.lateness) & log.missing_hours(set(ids_in(storage)))
    while isinstance(ingest(streamer), IngestedBatch):
        pass
    assert said_hours(storage, log.lateness) == set(range(HOURS))
