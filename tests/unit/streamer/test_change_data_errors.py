"""Messages of change data that are no changes, beside an error table, with a real broker."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import Database
from tests.support.ingestions import ingestion, run_until_idle
from tests.support.kafka import Broker
from tests.support.tables import open_table

from pyhudi.errors import InvalidRequestError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import Ingestion
from pyhudi.streamer.settings import settings_of

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
ERRORS = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": "memory://t/errors"}
MAXWELL = {"hoodie.streamer.source.json.kafka.post.processor.class": "MaxwellJsonKafkaSourcePostProcessor"}
CLASSES = {"postgresql": "PostgresDebeziumSource", "mysql": "MysqlDebeziumSource", "maxwell": "JsonKafkaSource"}


def streamer(broker: Broker, topic: str, kind: str, table: Storage, errors: Storage, **given: Any) -> Ingestion:
    conf = {
        "bootstrap.servers": broker.servers,
        "hoodie.streamer.source.kafka.topic": topic,
        "hoodie.datasource.write.recordkey.field": "id",
        **ERRORS,
        **(MAXWELL if kind == "maxwell" else {}),
    }
    config = StreamerConfig("memory://t/table", source_class=CLASSES[kind], hoodie_conf=conf, **given)
    made = ingestion(settings_of(config), table)
    assert made.errors is not None
    return replace(made, errors=replace(made.errors, storage=errors))


def failed_in(errors: Storage) -> dict[int, str]:
    """The reasons by offset."""
    rows = open_table(errors).scan(["position", "reason"]).to_arrow().to_pylist()
    return {int(row["position"].partition(":")[2]): row["reason"] for row in rows}


def rows_in(storage: Storage) -> list[dict[str, Any]]:
    return open_table(storage).scan(["id", "city", "big"]).to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("kind", list(CLASSES))
def test_messages_that_are_no_changes_are_in_the_error_table_and_the_changes_in_the_table(broker: Broker, kind: str):
    database, table, errors, topic = Database(kind, seed=8), MemoryStorage(), MemoryStorage(), broker.new_topic()
    for _ in range(40):
        database.change()
    messages: list[Any] = [message for change in database.messages for message in change]
    strange = [
        b"{bad",
        {"id": 1},
        {},
        {"op": 5, "type": 5, "database": "shop", "table": "orders"},
        {"op": "c", "type": "insert", "after": "x", "data": "x", "database": "shop", "table": "orders"},
        {"op": "d", "type": "delete", "database": "shop", "table": "orders"},
    ]
    for number, message in enumerate(strange):
        messages.insert(5 * number, message)
    places = [5 * number for number in range(len(strange))]
    broker.send(
        topic,
        [value if value is None or isinstance(value, bytes) else json.dumps(value).encode() for value in messages],
    )
    given = streamer(broker, topic, kind, table, errors)
    assert run_until_idle(given) == 1
    assert rows_in(table) == [database.rows[key] for key in sorted(database.rows)]
    assert sorted(failed_in(errors)) == places
    assert set(failed_in(errors).values()) == {"JSON_ROW_DESERIALIZATION_FAILURE"}


def test_change_without_a_key_is_in_the_error_table(broker: Broker):
    database, table, errors, topic = Database("mysql", seed=1), MemoryStorage(), MemoryStorage(), broker.new_topic()
    database.insert(1)
    keyless = json.loads(json.dumps(database.messages[0][0]))
    keyless["after"]["id"] = None
    broker.send(topic, [keyless, database.messages[0][0]])
    run_until_idle(streamer(broker, topic, "mysql", table, errors))
    assert rows_in(table) == [database.rows[1]]
    assert failed_in(errors) == {0: "RECORD_CREATION"}


def test_value_that_the_schema_does_not_take_is_in_the_error_table(broker: Broker):
    database, table, errors, topic = Database("mysql", seed=1), MemoryStorage(), MemoryStorage(), broker.new_topic()
    database.insert(1)
    wrong = json.loads(json.dumps(database.messages[0][0]))
    wrong["after"]["id"] = "one"
    broker.send(topic, [wrong, database.messages[0][0]])
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("big", pa.string())])
    run_until_idle(streamer(broker, topic, "mysql", table, errors, schema=schema))
    assert rows_in(table) == [database.rows[1]]
    assert list(failed_in(errors)) == [0]


def test_truncated_source_table_stops_the_run_beside_an_error_table(broker: Broker):
    database, table, errors, topic = Database("mysql", seed=1), MemoryStorage(), MemoryStorage(), broker.new_topic()
    database.insert(1)
    broker.send(topic, [database.messages[0][0], {**database.messages[0][0], "op": "t", "after": None}])
    with pytest.raises(UnsupportedFeatureError, match="truncated"):
        run_until_idle(streamer(broker, topic, "mysql", table, errors))
    assert table.list_recursive("") == errors.list_recursive("") == ()


def test_message_that_is_no_change_stops_the_run_without_an_error_table(broker: Broker):
    database, table, topic = Database("mysql", seed=1), MemoryStorage(), broker.new_topic()
    database.insert(1)
    broker.send(topic, [database.messages[0][0], {"id": 5}])
    given = streamer(broker, topic, "mysql", table, MemoryStorage())
    with pytest.raises(InvalidRequestError, match="what changed"):
        run_until_idle(replace(given, errors=None))
    assert table.list_recursive("") == ()


def test_message_about_the_schema_alone_is_in_no_table(broker: Broker):
    database, table, errors, topic = Database("maxwell", seed=1), MemoryStorage(), MemoryStorage(), broker.new_topic()
    database.insert(1)
    given = streamer(broker, topic, "maxwell", table, errors)
    for message in (database.messages[0][0], {"type": "table-drop", "database": "shop", "table": "orders", "ts": 6000}):
        broker.send(topic, [message])
        run_until_idle(given)
    assert rows_in(table) == [database.rows[1]]
    assert errors.list_recursive("") == ()
