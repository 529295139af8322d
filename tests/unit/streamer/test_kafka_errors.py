"""Failed messages of a topic, with a real broker: each is in the error table once."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.support.ingestions import ids_in, ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.tables import LATER_MS, StepClock, environment, open_table

from pyhudi.environment import Environment
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.schema_registry import SchemaRegistry
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
LOSS = {"hoodie.streamer.source.kafka.enable.failOnDataLoss": "false"}


ERRORS = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": "memory://t/errors"}


def with_errors(given: Settings, table: Storage, errors: Storage, env: Environment | None = None) -> Ingestion:
    made = ingestion(given, table, env)
    assert made.errors is not None
    return replace(made, errors=replace(made.errors, storage=errors))


def errors_in(storage: Storage) -> list[tuple[str, str, bytes]]:
    rows = open_table(storage).scan(["source", "position", "reason", "_corrupt_record"]).to_arrow().to_pylist()
    return sorted((row["position"], row["reason"], row["_corrupt_record"]) for row in rows)


def test_killed_at_some_effects_each_message_is_in_the_table_or_the_error_table_once(broker: Broker):
    topic = broker.new_topic()
    broker.send(topic, [{"id": 1}, b"{bad", None, {"id": None}, {"id": 2}])
    given = topic_settings(broker, topic, ERRORS)
    one_by_one = topic_settings(broker, topic, ERRORS, source_limit=1, schema=pa.schema([("id", pa.int64())]))
    for number in range(1, 60, 7):
        table, errors = MemoryStorage(), MemoryStorage()
        hook = at_effect(number, SimulatedCrash())
        with suppress(SimulatedCrash):
            ingest(with_errors(given, FaultStorage(table, before=hook), FaultStorage(errors, before=hook)))
        run_until_idle(with_errors(one_by_one, table, errors, environment(StepClock(LATER_MS))))
        assert ids_in(table) == [1, 2], f"effect {number}"
        assert errors_in(errors) == [
            ("0:1", "JSON_ROW_DESERIALIZATION_FAILURE", b"{bad"),
            ("0:3", "RECORD_CREATION", b'{"id": null}'),
        ], f"effect {number}"


def test_message_of_a_topic_that_was_made_anew_is_another_one_in_the_error_table(broker: Broker):
    topic, table, errors = broker.new_topic(), MemoryStorage(), MemoryStorage()
    for _ in range(2):
        broker.send(topic, [{"id": 1}, b"{bad"])
        run_until_idle(with_errors(topic_settings(broker, topic, {**ERRORS, **LOSS}), table, errors))
        broker.delete_topic(topic)
        broker.new_topic(name=topic)
    assert [position for position, _, _ in errors_in(errors)] == ["0:1", "0:1"]


def test_avro_that_cannot_be_read_is_in_the_error_table_with_its_bytes(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _, number: schema if number == 7 else None)
    topic, table, errors = broker.new_topic(), MemoryStorage(), MemoryStorage()
    good, unknown = b"\0\0\0\0\7", b"\0\0\0\0\10"
    broker.send(topic, [good + b"\2", b"\1", unknown + b"\2", good, good + b"\4"])
    options = {**ERRORS, "hoodie.streamer.schemaprovider.registry.url": "http://x/"}
    run_until_idle(with_errors(topic_settings(broker, topic, options, source_class="AvroKafkaSource"), table, errors))
    assert ids_in(table) == [1, 2]
    assert errors_in(errors) == [
        ("0:1", "AVRO_DESERIALIZATION_FAILURE", b"\1"),
        ("0:2", "AVRO_DESERIALIZATION_FAILURE", unknown + b"\2"),
        ("0:3", "AVRO_DESERIALIZATION_FAILURE", good),
    ]


def test_change_data_that_cannot_be_read_is_in_the_error_table(broker: Broker):
    topic, table, errors = broker.new_topic(), MemoryStorage(), MemoryStorage()
    place = {"connector": "postgresql", "name": "s", "db": "s", "schema": "public", "table": "t", "ts_ms": 1, "lsn": 5}
    change = {"op": "c", "before": None, "after": {"id": 1}, "source": place, "ts_ms": 2}
    broker.send(topic, [b"{bad", change])
    given = topic_settings(broker, topic, ERRORS, source_class="PostgresDebeziumSource", op="UPSERT")
    run_until_idle(with_errors(given, table, errors))
    assert ids_in(table) == [1]
    assert [position for position, _, _ in errors_in(errors)] == ["0:0"]


def test_offsets_of_rows_are_those_of_their_messages_beside_an_error_table(broker: Broker):
    topic, table, errors = broker.new_topic(), MemoryStorage(), MemoryStorage()
    broker.send(topic, [b"{bad", {"id": 1}, b"{bad", {"id": 2}])
    options = {**ERRORS, "hoodie.streamer.source.kafka.append.offsets": "true"}
    run_until_idle(with_errors(topic_settings(broker, topic, options), table, errors))
    rows = open_table(table).scan(["id", "_hoodie_kafka_source_offset"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["_hoodie_kafka_source_offset"]) for row in rows) == [(1, 1), (2, 3)]
