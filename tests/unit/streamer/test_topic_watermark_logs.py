"""The watermark of a topic beside a held-out log of its events: no hour is complete early, and each is at the end."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.ingestions import ingestion, topic_settings
from tests.support.kafka import Broker
from tests.support.topic_logs import BEGIN_MS, MINUTE_MS, OPTIONS, Log, check_no_hour_is_complete_early, said_hours

from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import ingest

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_hour_of_a_topic_is_complete_before_all_its_events_are_in_the_table(broker: Broker, seed: int):
    chance, storage, topic = random.Random(seed), MemoryStorage(), broker.new_topic(partitions=3)
    log = Log(chance, lateness=chance.choice([0, 20]))
    for number in range(3):
        log.add_partition(number)
    streamer = ingestion(topic_settings(broker, topic, OPTIONS), storage)
    check_no_hour_is_complete_early(log, broker, topic, streamer)


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
