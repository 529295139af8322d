"""The watermark of a table of change data, with a real broker."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.ingestions import ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.tables import open_table

from pyhudi import Watermark
from pyhudi.errors import ConfigError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.ingest import ingest

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
TRACKED = {
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.streamer.source.kafka.append.offsets": "true",
}
MAXWELL = {"hoodie.streamer.source.json.kafka.post.processor.class": "MaxwellJsonKafkaSourcePostProcessor"}


def at(minute: int) -> datetime:
    return datetime(2026, 11, 22, 9 + minute // 60, minute % 60, tzinfo=UTC)


def change(kind: str, op: str, key: int, minute: int) -> dict[str, Any]:
    """A change of a row at a minute after nine, at the place of the log with that number."""
    ms, row = int(at(minute).timestamp() * 1000), {"id": key, "seen": int(at(0).timestamp() * 1000)}
    if kind == "maxwell":
        name = {"c": "insert", "d": "delete", "r": "bootstrap-insert"}[op]
        place = {} if op == "r" else {"position": f"log.000001:{minute}", "commit": True}
        return {"database": "shop", "table": "orders", "type": name, "ts": ms // 1000, "data": row, **place}
    source = {"connector": kind, "name": "src", "db": "shop", "table": "orders", "ts_ms": ms}
    if kind == "postgresql":
        source |= {"schema": "public", "lsn": minute + 1}
    else:
        source |= {"file": "log.000001", "pos": minute, "row": 0}
    image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {"op": op, **image, "source": source, "ts_ms": ms + 1}


def given_for(broker: Broker, topic: str, kind: str, options: dict[str, str]) -> Any:
    classes = {"postgresql": "PostgresDebeziumSource", "mysql": "MysqlDebeziumSource", "maxwell": "JsonKafkaSource"}
    options = {**options, **(MAXWELL if kind == "maxwell" else {})}
    return topic_settings(broker, topic, options, source_class=classes[kind], op="UPSERT", table_type="mor")


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "maxwell"])
def test_watermark_is_the_time_of_the_last_change_of_the_slowest_partition(broker: Broker, kind: str):
    topic, storage = broker.new_topic(partitions=2), MemoryStorage()
    streamer = ingestion(given_for(broker, topic, kind, TRACKED), storage)

    def send(partition: int, *changes: dict[str, Any]) -> Watermark:
        broker.send(topic, [*changes, None], partition=partition)
        run_until_idle(streamer)
        return open_table(storage).watermark()

    assert send(0, change(kind, "r", 1, 55), change(kind, "r", 2, 55)).time is None
    assert send(1, change(kind, "r", 3, 55)).time is None  # the snapshot may have more rows of that time
    assert send(0, change(kind, "c", 4, 56), change(kind, "c", 5, 70)).time is None
    assert send(1, change(kind, "c", 6, 58)).time == at(58)
    found = send(1, change(kind, "d", 6, 61))
    assert found.covers("2026-11-22/09")
    assert found.sources == {f"{topic}-0": at(70), f"{topic}-1": at(61)}
    assert send(1, change(kind, "c", 7, 59)).time == at(61)


def test_column_that_is_named_is_the_event_time_of_changes(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    options = {**TRACKED, "hoodie.payload.event.time.field": "seen"}
    broker.send(topic, [change("mysql", "c", 1, 58)])
    run_until_idle(ingestion(given_for(broker, topic, "mysql", options), storage))
    assert open_table(storage).watermark().time == at(0)


def test_changes_without_their_partitions_have_no_watermark(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, [change("mysql", "c", 1, 58)])
    options = {**TRACKED, "hoodie.streamer.source.kafka.append.offsets": "false"}
    with pytest.raises(ConfigError, match=r"append\.offsets"):
        ingest(ingestion(given_for(broker, topic, "mysql", options), storage))
    assert storage.list_recursive("") == ()


def test_rows_of_changes_say_where_their_messages_are(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, [change("postgresql", "c", 1, 5), None, change("postgresql", "c", 2, 6)])
    run_until_idle(ingestion(given_for(broker, topic, "postgresql", TRACKED), storage))
    rows = open_table(storage).scan(["id", "_hoodie_kafka_source_offset"]).to_arrow().sort_by("id").to_pylist()
    assert [row["_hoodie_kafka_source_offset"] for row in rows] == [0, 2]
