"""Messages of commits in a topic of Kafka, with a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.kafka import Broker

import pyhudi
from pyhudi.config.options_hooks import KAFKA_CALLBACK

SCHEMA = pa.schema([("id", pa.int64())])
WAIT_SECONDS = 60


def messages_of(broker: Broker, topic: str, partition: int, count: int) -> list[Any]:
    """The first messages of a partition, with their keys."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "t", "auto.offset.reset": "earliest"})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        return [consumer.poll(WAIT_SECONDS) for _ in range(count)]
    finally:
        consumer.close()


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
def test_commits_are_messages_of_the_topic_in_their_order(broker: Broker, tmp_path: Path) -> None:
    topic = broker.new_topic(partitions=2)
    kafka = "hoodie.write.commit.callback.kafka"
    options = {
        "hoodie.write.commit.callback.on": "true",
        "hoodie.write.commit.callback.class": KAFKA_CALLBACK,
        f"{kafka}.bootstrap.servers": broker.servers,
        f"{kafka}.topic": topic,
        f"{kafka}.partition": "1",
        f"{kafka}.acks": "all",
    }
    table = pyhudi.HudiTable.create(tmp_path / "rides", schema=SCHEMA, record_key="id", hudi_options=options)
    written = [table.insert(pa.table({"id": [number]})).instant for number in range(3)]
    messages = messages_of(broker, topic, 1, len(written))
    assert [message.key() for message in messages] == [b"rides"] * 3
    bodies = [json.loads(message.value()) for message in messages]
    assert [body["commitTime"] for body in bodies] == written
    assert {(body["tableName"], body["basePath"]) for body in bodies} == {("rides", f"file:{tmp_path}/rides")}
    assert [sum(stat["numInserts"] for stat in body["hoodieWriteStat"]) for body in bodies] == [1, 1, 1]
