"""Kafka as a source, with a real broker."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from tests.support.ingestions import ids_in, ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.ports import free_port
from tests.support.tables import LATER_MS, StepClock, environment, open_table

import pyhudi
from pyhudi import Watermark
from pyhudi.errors import ConfigError, SourceDataLostError, SourceError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.ingest import Ingestion, checkpoint_of, ingest
from pyhudi.streamer.sources import kafka_client
from pyhudi.streamer.sources.open import open_source
from pyhudi.streamer.sources.schema_registry import SchemaRegistry
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
LOSS = {"hoodie.streamer.source.kafka.enable.failOnDataLoss": "false"}


def ids(first: int, count: int) -> list[dict[str, int]]:
    return [{"id": number} for number in range(first, first + count)]


def test_messages_of_all_partitions_are_in_the_table_once(broker: Broker):
    topic, storage = broker.new_topic(partitions=3), MemoryStorage()
    streamer = ingestion(topic_settings(broker, topic), storage)
    assert ingest(streamer) is None  # an empty topic first: nothing is passed over later
    broker.send(topic, ids(0, 4), partition=0)
    broker.send(topic, ids(10, 2), partition=2)
    assert run_until_idle(streamer) == 1
    assert checkpoint_of(streamer) == f"{topic},0:4,1:0,2:2"
    broker.send(topic, ids(20, 3), partition=1)
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [0, 1, 2, 3, 10, 11, 20, 21, 22]
    assert checkpoint_of(streamer) == f"{topic},0:4,1:3,2:2"


@pytest.mark.parametrize("name", ["LEADER_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH"])
def test_broker_whose_leaders_change_is_asked_again(name: str, broker: Broker, monkeypatch: pytest.MonkeyPatch):
    topic, storage, asks = broker.new_topic(), MemoryStorage(), AdminClient.list_offsets
    broker.send(topic, ids(0, 2))
    failures = [KafkaException(KafkaError(getattr(KafkaError, name)))]

    def fails_once(client: Any, *arguments: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return asks(client, *arguments, **named)

    monkeypatch.setattr(AdminClient, "list_offsets", fails_once)
    assert run_until_idle(ingestion(topic_settings(broker, topic), storage)) == 1
    assert (ids_in(storage), failures) == ([0, 1], [])


def test_topic_that_is_behind_is_in_the_metrics(broker: Broker):
    topic = broker.new_topic(partitions=2)
    broker.send(topic, ids(0, 7))
    given = topic_settings(
        broker,
        topic,
        {"hoodie.metrics.on": "true", "hoodie.metrics.reporter.type": "INMEMORY", "hoodie.table.name": topic},
        source_limit=4,
    )
    streamer, seen = ingestion(given, MemoryStorage()), []
    for _ in range(3):
        ingest(streamer)
        seen.append([pyhudi.metrics()[f"{topic}.deltastreamer.kafka{name}Count"] for name in ("Delay", "MessageIn")])
    assert seen == [[7, 4], [3, 3], [0, 0]]


def test_limit_divides_the_messages_into_batches(broker: Broker):
    topic, storage = broker.new_topic(partitions=2), MemoryStorage()
    broker.send(topic, ids(0, 7), partition=0)
    broker.send(topic, ids(10, 1), partition=1)
    assert run_until_idle(ingestion(topic_settings(broker, topic, source_limit=4), storage)) == 2
    assert ids_in(storage) == [*range(7), 10]


def test_killed_at_some_effects_each_message_is_in_the_table_once(broker: Broker):
    topic = broker.new_topic()
    broker.send(topic, ids(0, 3))
    given = topic_settings(broker, topic)
    for number in range(1, 40, 6):
        inner = MemoryStorage()
        with suppress(SimulatedCrash):
            ingest(ingestion(given, FaultStorage(inner, before=at_effect(number, SimulatedCrash()))))
        run_until_idle(ingestion(given, inner, environment(StepClock(LATER_MS))))
        assert ids_in(inner) == [0, 1, 2], f"effect {number}"


def test_aborted_transactions_and_markers_are_passed_over(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    streamer = ingestion(topic_settings(broker, topic), storage)
    broker.send_in_transactions(topic, [(ids(1, 2), True), (ids(10, 2), False), (ids(3, 1), True)])
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 2, 3]
    broker.send_in_transactions(topic, [(ids(20, 1), False)])
    assert run_until_idle(streamer) == 1  # only the checkpoint moves
    assert ids_in(storage) == [1, 2, 3]
    assert ingest(streamer) is None


def test_aborted_messages_are_read_where_uncommitted_ones_are_asked_for(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send_in_transactions(topic, [(ids(1, 1), True), (ids(10, 1), False)])
    run_until_idle(ingestion(topic_settings(broker, topic, {"isolation.level": "read_uncommitted"}), storage))
    assert ids_in(storage) == [1, 10]


def test_gaps_of_a_compacted_topic_are_passed_over_even_before_there_is_a_table(broker: Broker):
    settings = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0.001"}
    topic, storage = broker.new_topic(**settings), MemoryStorage()
    for number in range(6):
        broker.send(topic, ids(number, 1), key="k")
        time.sleep(0.005)
    streamer = ingestion(topic_settings(broker, topic, source_limit=2), storage)
    deadline = time.monotonic() + 120
    while (offsets := broker.offsets(topic))[0] < 5:
        assert time.monotonic() < deadline, f"the broker has not compacted the topic: it has the offsets {offsets}"
        broker.send(topic, ids(6, 1), key="another")  # a newer segment, as the newest one is not compacted
    run_until_idle(streamer)
    assert set(ids_in(storage)) == {5, 6}
    assert checkpoint_of(streamer) == f"{topic},0:{offsets[-1] + 1}"


def test_first_batches_without_rows_do_not_hold_up_those_behind_them(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, [None, None, None, {"id": 1}, {"id": 2}])
    streamer = ingestion(topic_settings(broker, topic, source_limit=1), storage)
    assert run_until_idle(streamer) == 2
    assert ids_in(storage) == [1, 2]
    assert checkpoint_of(streamer) == f"{topic},0:5"


def test_tombstones_are_no_rows(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, [{"id": 1}, None, {"id": 2}])
    run_until_idle(ingestion(topic_settings(broker, topic), storage))
    assert ids_in(storage) == [1, 2]


def test_messages_that_expired_stop_the_run_until_the_loss_is_accepted(broker: Broker):
    topic, storage = broker.new_topic(partitions=2), MemoryStorage()
    broker.send(topic, ids(0, 2), partition=0)
    broker.send(topic, ids(100, 2), partition=1)
    run_until_idle(ingestion(topic_settings(broker, topic), storage))
    broker.send(topic, ids(2, 4), partition=0)
    broker.send(topic, ids(102, 2), partition=1)
    broker.expire(topic, 0, 5)
    with pytest.raises(SourceDataLostError) as raised:
        ingest(ingestion(topic_settings(broker, topic), storage))
    assert raised.value.context == {"topic": topic, "partition": 0, "first_lost": 2, "last_lost": 4}
    run_until_idle(ingestion(topic_settings(broker, topic, LOSS), storage))
    assert ids_in(storage) == [0, 1, 5, 100, 101, 102, 103]


def test_topic_that_was_made_anew_stops_the_run_even_with_more_messages_than_before(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, ids(0, 2))
    run_until_idle(ingestion(topic_settings(broker, topic), storage))
    broker.delete_topic(topic)
    broker.new_topic(name=topic)
    broker.send(topic, ids(10, 5))
    with pytest.raises(SourceDataLostError, match="made anew"):
        ingest(ingestion(topic_settings(broker, topic), storage))
    run_until_idle(ingestion(topic_settings(broker, topic, LOSS), storage))
    assert ids_in(storage) == [0, 1, 10, 11, 12, 13, 14]
    assert ingest(ingestion(topic_settings(broker, topic), storage)) is None


def test_topic_that_is_made_anew_before_its_messages_are_read_is_not_taken_for_the_first(broker: Broker):
    topic = broker.new_topic()
    broker.send(topic, ids(0, 2))
    pull = open_source(topic_settings(broker, topic)).pull(Checkpoint(), limit=None)
    assert pull is not None
    assert pull.parts is not None
    (part,) = pull.parts.tasks
    broker.delete_topic(topic)
    broker.new_topic(name=topic)
    broker.send(topic, ids(10, 2))
    for read in (lambda: pull.read(None, None), lambda: list(part.batches(pa.schema([]), None, None))):
        with pytest.raises(SourceDataLostError, match="while it was being read"):
            read()


def test_partition_that_is_added_later_is_read_from_its_first_message(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, ids(0, 1))
    run_until_idle(ingestion(topic_settings(broker, topic), storage))
    broker.add_partitions(topic, 2)
    broker.send(topic, ids(10, 4), partition=1)
    broker.expire(topic, 1, 2)
    run_until_idle(ingestion(topic_settings(broker, topic), storage))
    assert ids_in(storage) == [0, 12, 13]


def test_topic_that_is_empty_first_is_read_from_its_first_message(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    given = ingestion(topic_settings(broker, topic), storage)
    assert run_until_idle(given) == 0
    assert storage.list_recursive("") == ()
    broker.send(topic, ids(0, 2))
    assert run_until_idle(given) == 1
    assert ids_in(storage) == [0, 1]


def test_message_that_is_no_object_is_named_and_advances_nothing(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, [{"id": 1}, None, b"{not json", {"id": 2}])
    with pytest.raises(SourceError, match="cannot be read") as raised:
        ingest(ingestion(topic_settings(broker, topic), storage))
    assert raised.value.context == {"topic": topic, "partition": 0, "offset": 2}
    assert storage.list_recursive("") == ()


def test_rows_say_where_they_come_from_when_asked_for(broker: Broker):
    topic, storage = broker.new_topic(partitions=2), MemoryStorage()
    broker.send(topic, ids(0, 2), partition=1)
    offsets = topic_settings(broker, topic, {"hoodie.streamer.source.kafka.append.offsets": "true"}, source_limit=1)
    assert run_until_idle(ingestion(offsets, storage)) == 2
    names = ["id", "_hoodie_kafka_source_partition", "_hoodie_kafka_source_offset"]
    rows = open_table(storage).scan(names).to_arrow().sort_by("id").to_pylist()
    assert [tuple(row[name] for name in names) for row in rows] == [(0, 1, 0), (1, 1, 1)]


def test_latest_passes_over_what_is_there_and_nothing_that_comes(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, ids(0, 3))
    given = topic_settings(broker, topic, {"auto.offset.reset": "latest"}, schema=pa.schema([("id", pa.int64())]))
    assert run_until_idle(ingestion(given, storage)) == 1
    broker.send(topic, ids(10, 2))
    assert run_until_idle(ingestion(given, storage)) == 1
    assert ids_in(storage) == [10, 11]


def test_latest_without_columns_is_refused_as_it_would_pass_messages_over(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, ids(0, 3))
    with pytest.raises(ConfigError, match="give them as schema"):
        ingest(ingestion(topic_settings(broker, topic, {"auto.offset.reset": "latest"}), storage))


def test_topic_that_is_not_there_is_an_error_of_the_source(broker: Broker):
    with pytest.raises(SourceError, match="no such topic"):
        ingest(ingestion(topic_settings(broker, "not-there"), MemoryStorage()))


def test_broker_that_is_away_is_named_and_its_client_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", 0.5)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(SourceError, match="no broker answers") as caught:
        kafka_client.topic_of(kafka_client.broker_of({"bootstrap.servers": address}), "orders")
    assert caught.value.context["servers"] == address
    assert capfd.readouterr().err == ""
    said = [record.message for record in caplog.records if record.name == "pyhudi.kafka"]
    assert len(said) == 1
    assert address in said[0]


def test_checkpoint_of_a_commit_of_jvm_hudi_is_gone_on_from(broker: Broker):
    topic, storage = broker.new_topic(partitions=2), MemoryStorage()
    broker.send(topic, ids(0, 4), partition=0)
    broker.send(topic, ids(10, 2), partition=1)
    given = topic_settings(broker, topic)
    run_until_idle(ingestion(given, storage))
    commit_with(storage, "streamer.checkpoint.key.v2", f"{topic},0:3,1:2")
    run_until_idle(ingestion(given, storage))
    assert ids_in(storage) == [0, 1, 2, 3, 3, 10, 11]


def commit_with(storage: Storage, key: str, text: str) -> None:
    """An empty commit with metadata, as a writer of JVM Hudi may make one."""
    table = open_table(storage)
    prefix = {"hoodie.datasource.write.commitmeta.key.prefix": key.partition(".")[0] + "."}
    table.insert(table.schema.empty_table(), hudi_options={**prefix, key: text})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"auto.offset.reset": "group"}, UnsupportedFeatureError),
        ({"bootstrap.servers": ""}, ConfigError),
        ({"no.such.option": "x"}, ConfigError),
        ({"hoodie.streamer.source.kafka.checkpoint.type": "timestamp"}, UnsupportedFeatureError),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], error: type[Exception]):
    pytest.importorskip("confluent_kafka")
    with pytest.raises(error):
        ingest(ingestion(topic_settings(Broker("127.0.0.1:1"), "t", options), MemoryStorage()))


def test_two_lines_of_one_message_are_one_row(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    broker.send(topic, [json.dumps({"id": 1, "x": {"y": [1, 2]}}, indent=2).encode(), {"id": 2}])
    run_until_idle(ingestion(topic_settings(broker, topic), storage))
    assert ids_in(storage) == [1, 2]


def test_avro_of_two_writer_schemas_is_read_by_the_ids_in_the_messages(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    schemas = {
        7: '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}',
        8: '{"type": "record", "name": "r", "fields": [{"name": "note", "type": "string"},'
        ' {"name": "id", "type": "long"}]}',
    }
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _, number: schemas[number])
    topic, storage = broker.new_topic(), MemoryStorage()
    old, new = b"\0\0\0\0\7", b"\0\0\0\0\10"
    broker.send(topic, [old + b"\2", new + b"\2a\4", old + b"\6"])
    given = topic_settings(
        broker, topic, {"hoodie.streamer.schemaprovider.registry.url": "http://x/"}, source_class="AvroKafkaSource"
    )
    run_until_idle(ingestion(given, storage))
    rows = open_table(storage).scan(["id", "note"]).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "note": None}, {"id": 2, "note": "a"}, {"id": 3, "note": None}]
    broker.send(topic, [b"\1", old + b"\10"])
    with pytest.raises(SourceError, match="too short") as raised:
        ingest(ingestion(given, storage))
    assert raised.value.context == {"topic": topic, "partition": 0, "offset": 3}


def test_watermark_of_a_topic_is_that_of_its_slowest_partition(broker: Broker):
    topic, storage, minute = broker.new_topic(partitions=2), MemoryStorage(), 60_000
    options = {
        "hoodie.streamer.source.kafka.append.offsets": "true",
        "hoodie.write.track.event.time.watermark": "true",
        "hoodie.payload.event.time.field": "at",
    }
    given = topic_settings(broker, topic, options)
    begin = int(datetime(2026, 11, 22, 9, tzinfo=UTC).timestamp() * 1000)

    def send(partition: int, *minutes: int) -> Watermark:
        rows = [{"id": number, "at": begin + number * minute} for number in minutes]
        broker.send(topic, rows, partition=partition)
        run_until_idle(ingestion(given, storage))
        return open_table(storage).watermark()

    assert send(0, 30, 90).time is None  # the other partition may still have events of any time
    assert not send(1, 59).covers("2026-11-22/09")
    found = send(1, 61)
    assert found.covers("2026-11-22/09")
    assert found.sources == {
        f"{topic}-0": datetime(2026, 11, 22, 10, 30, tzinfo=UTC),
        f"{topic}-1": datetime(2026, 11, 22, 10, 1, tzinfo=UTC),
    }
    without = topic_settings(broker, topic, {**options, "hoodie.streamer.source.kafka.append.offsets": "false"})
    broker.send(topic, [{"id": 1, "at": begin}])
    with pytest.raises(ConfigError, match=r"append\.offsets"):
        ingest(ingestion(without, storage))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_of_a_process_that_used_a_broker_asks_by_a_client_of_its_own(broker: Broker):
    topic, storage = broker.new_topic(), MemoryStorage()
    streamer = ingestion(topic_settings(broker, topic), storage)
    broker.send(topic, ids(0, 2))
    assert run_until_idle(streamer) == 1
    child = multiprocessing.get_context("fork").Process(target=_ask_in_child, args=(streamer,))
    child.start()
    child.join(20)
    code = child.exitcode
    child.kill()
    assert code == 7


def _ask_in_child(streamer: Ingestion) -> None:
    os._exit(7 if ingest(streamer) is None else 2)


@pytest.mark.parametrize("given", ["10", "700"])
def test_client_refills_its_queue_at_once_unless_an_option_says_when(given: str, monkeypatch: pytest.MonkeyPatch):
    """By its own default it waits for a second each time that 100,000 messages were there."""
    asked: dict[str, str] = {}

    def consumer(settings: dict[str, str], **_: object) -> None:
        asked.update(settings)
        raise SourceError("no broker", topic="t")

    monkeypatch.setattr(kafka_client, "Consumer", consumer)
    options = {"bootstrap.servers": "localhost:9"} | ({} if given == "10" else {"fetch.queue.backoff.ms": given})
    with pytest.raises(SourceError, match="no broker"):
        list(kafka_client.read_messages(options, "t", {0: 0}, {0: 1}))
    assert asked["fetch.queue.backoff.ms"] == given
