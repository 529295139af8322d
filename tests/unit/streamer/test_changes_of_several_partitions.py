"""Change data whose topic has several partitions: messages of a row come late, also after its delete, or its move.

Debezium and Maxwell send the messages of a record key to one partition. A key that changes has messages in two; and
where a topic is given more partitions, so has each key that goes to another one.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.change_data import KINDS, Database, decoded
from tests.support.change_streamers import Batches, streamer
from tests.support.ingestions import run_until_idle
from tests.support.kafka import Broker
from tests.support.tables import open_table

from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.ingest import ingest

CHANGES = 30
REMEMBER = {"hoodie.write.tombstones.retained.hours": "24", "hoodie.compact.inline.max.delta.commits": "3"}
PARTITIONED = {"hoodie.datasource.write.partitionpath.field": "city", "hoodie.index.type": "GLOBAL_SIMPLE"}
Message = dict[str, Any]


def history(kind: str, seed: int) -> Database:
    database = Database(kind, seed, is_full=True)
    while len(database.messages) < CHANGES:
        database.change()
        database.place += 1
    return database


def in_partitions(database: Database) -> dict[int, list[Message]]:
    """The messages by partition: of two by the record key, and from the middle on of three."""
    partitions: dict[int, list[Message]] = {0: [], 1: [], 2: []}
    for number, change in enumerate(database.messages):
        for message in change:
            if message is not None:
                row = message.get("data") or message.get("after") or message["before"]
                partitions[row["id"] % (2 if number < CHANGES // 2 else 3)].append(message)
    return partitions


def portions(partitions: dict[int, list[Message]], chance: random.Random) -> Iterator[tuple[int, list[Message]]]:
    """Some next messages of a partition, until there are none: the partitions are read as far as it comes."""
    left = {partition: list(messages) for partition, messages in partitions.items() if messages}
    while left:
        partition = chance.choice(sorted(left))
        count = chance.randrange(1, 12)
        yield partition, left[partition][:count]
        left[partition] = left[partition][count:]
        left = {other: messages for other, messages in left.items() if messages}


def rows_in(storage: Storage, columns: list[str]) -> list[dict[str, Any]]:
    return open_table(storage).scan(columns).to_arrow().sort_by("id").to_pylist()


def rows_of(database: Database, columns: list[str]) -> list[dict[str, Any]]:
    return [{name: database.rows[key][name] for name in columns} for key in sorted(database.rows)]


@pytest.mark.parametrize("options", [{}, PARTITIONED], ids=["one partition", "partitions"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_table_of_partitions_that_are_read_at_any_pace_equals_the_source(
    kind: str, table_type: str, options: dict[str, str], seed: int
):
    pytest.importorskip("confluent_kafka")
    # A row of PostgreSQL stays in its partition, whose value a read gives.
    stays = kind == "postgresql" and bool(options)
    moves = {"hoodie.simple.index.update.partition.path": str(not stays).lower()}
    columns = ["id", "big"] if stays else ["id", "city", "big"]
    database, storage = history(kind, seed), MemoryStorage()
    batches = [decoded(messages) for _, messages in portions(in_partitions(database), random.Random(seed))]
    given_streamer = streamer(Batches(batches), storage, kind, {**REMEMBER, **options, **moves}, table_type=table_type)
    run_until_idle(given_streamer)
    assert rows_in(storage, columns) == rows_of(database, columns)


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("kind", "table_type"), [("postgresql", "cow"), ("mysql", "mor")])
def test_table_of_a_topic_that_got_a_partition_equals_the_source(broker: Broker, kind: str, table_type: str):
    database, storage, topic = history(kind, seed=7), MemoryStorage(), broker.new_topic(partitions=2)
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic, **REMEMBER}
    given_streamer = streamer(None, storage, kind, options, table_type=table_type)
    broker.add_partitions(topic, 3)
    for partition, messages in portions(in_partitions(database), random.Random(2)):
        broker.send(topic, [json.dumps(message).encode() for message in messages], partition=partition)
        run_until_idle(given_streamer)
    columns = ["id", "city", "big"]
    assert rows_in(storage, columns) == rows_of(database, columns)


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("messages_at_the_end", "reads"), [(100, 1), (2, 2)])
def test_topic_of_postgresql_is_read_once_where_its_end_is_the_batch(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, messages_at_the_end: int, reads: int
):
    from pyhudi.streamer.sources import kafka

    database, storage, topic = history("postgresql", seed=3), MemoryStorage(), broker.new_topic()
    messages = [message for change in database.messages for message in change if message is not None]
    broker.send(topic, [json.dumps(message).encode() for message in messages[:50]])
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    asked: list[Any] = []
    read = kafka.read_messages

    def counted(*arguments: Any, **named: Any) -> Any:
        asked.append(arguments)
        return read(*arguments, **named)

    monkeypatch.setattr(kafka, "read_messages", counted)
    monkeypatch.setattr(kafka, "LAST_MESSAGES", messages_at_the_end)
    assert ingest(streamer(None, storage, "postgresql", options)) is not None
    assert len(asked) == reads


@pytest.mark.parametrize(("table_type", "value"), [("cow", "of the row"), ("mor", "of the late change")])
def test_late_large_value_is_lost_where_a_newer_row_has_not_its_value(table_type: str, value: str):
    """The newer row has taken the stored value, and nothing says of when that is: only logs still have both rows."""
    pytest.importorskip("confluent_kafka")
    database, storage = Database("postgresql", seed=1), MemoryStorage()
    database.insert(1)
    database.rows[1]["big"] = "of the row"
    for values in ({"big": "of the late change"}, {"city": "new"}):
        database.place += 1
        database.update(1, **values)
    row, late, newer = (decoded(change) for change in database.messages)
    run_until_idle(streamer(Batches([row, newer, late]), storage, "postgresql", table_type=table_type))
    assert rows_in(storage, ["id", "big"]) == [{"id": 1, "big": value}]
