"""One topic with the changes of many tables of a database, with a real broker."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.support.change_data import Database
from tests.support.kafka import Broker
from tests.support.registries import SmallRegistry

import pyhudi
from pyhudi.errors import SourceError, UnsupportedFeatureError
from pyhudi.streamer import StreamerConfig, TableResult, run_many
from pyhudi.streamer.sources import kafka
from pyhudi.streamer.sources.decoding import Messages
from pyhudi.streamer.sources.routed_changes import tables_of_avro, tables_of_json
from pyhudi.streamer.sources.schema_registry import SchemaRegistry

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
VALUES, FIELD = "hoodie.streamer.source.kafka.route.values", "hoodie.streamer.source.kafka.route.field"
CLASSES = {"postgresql": "PostgresDebeziumSource", "mysql": "MysqlDebeziumSource", "maxwell": "JsonKafkaSource"}
MAXWELL = {"hoodie.streamer.source.json.kafka.post.processor.class": "a.b.MaxwellJsonKafkaSourcePostProcessor"}
SPACES = {"postgresql": "public", "mysql": "shop", "maxwell": "shop"}


def table(broker: Broker, path: Path, topic: str, kind: str, values: str, **given: Any) -> StreamerConfig:
    conf = {
        "bootstrap.servers": broker.servers,
        "hoodie.streamer.source.kafka.topic": topic,
        "hoodie.datasource.write.recordkey.field": "id",
        VALUES: values,
        **(MAXWELL if kind == "maxwell" else {}),
        **given.pop("options", {}),
    }
    return StreamerConfig(path, CLASSES[kind], hoodie_conf=conf, **given)


def run_until_idle(configs: list[StreamerConfig]) -> None:
    """Runs of all tables until none has anything new."""
    while True:
        results = run_many(configs)
        assert errors(results) == []
        if not any(found.result.batches for found in results):
            return


def errors(results: tuple[TableResult, ...]) -> list[Exception]:
    return [found.error for found in results if found.error is not None]


def rows(path: Path) -> list[dict[str, Any]]:
    return pyhudi.HudiTable.for_path(path).scan(["id", "city", "big"]).to_arrow().sort_by("id").to_pylist()


def changed(databases: list[Database], changes: int) -> list[Any]:
    """What so many changes of tables, in any order, send; what a change sends stays together."""
    order, messages = random.Random(7), []
    for _ in range(changes):
        database = order.choice(databases)
        database.change()
        while database.messages:
            messages += database.messages.pop(0)
    return [None if message is None else json.dumps(message).encode() for message in messages]


@pytest.mark.parametrize("kind", list(CLASSES))
@pytest.mark.parametrize("limit", [None, 5])
def test_tables_of_one_topic_equal_those_of_the_database_and_each_message_is_read_once(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, limit: int | None
):
    databases = [Database(kind, seed=3, table="orders"), Database(kind, seed=4, table="items")]
    topic, space = broker.new_topic(), SPACES[kind]
    configs = [
        table(broker, tmp_path / database.table, topic, kind, f"{space}.{database.table}", source_limit=limit)
        for database in databases
    ]
    sent = changed(databases, 40)
    assert None in sent or kind == "maxwell"
    broker.send(topic, sent)
    read: list[int] = []

    def counted(client: Any, name: str, begin: Any, end: Any, **given: Any) -> Messages:
        for batch in read_messages(client, name, begin, end, **given):
            read.append(batch.num_rows)
            yield batch

    read_messages = kafka.read_messages
    monkeypatch.setattr(kafka, "read_messages", counted)
    run_until_idle(configs)
    for database in databases:
        assert rows(tmp_path / database.table) == [database.rows[key] for key in sorted(database.rows)] != []
    if limit is None:
        assert sum(read) <= len(sent) + 1  # a delete at the end may be read a second time


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_change_of_a_key_in_several_ranges_keeps_the_value_that_is_not_sent(broker: Broker, tmp_path: Path, limit: int):
    orders, items = (Database("postgresql", seed=5, table=name) for name in ("orders", "items"))
    topic = broker.new_topic()
    configs = [
        table(broker, tmp_path / name, topic, "postgresql", f"public.{name}", source_limit=limit)
        for name in ("orders", "items")
    ]
    for database in (orders, items):
        database.insert(1)
    for key in (1, 2, 3):
        for database in (orders, items):
            database.place += 1
            database.move(key, key + 1)
    changes = [change for pair in zip(orders.messages, items.messages, strict=True) for change in pair]
    broker.send(topic, [message if message is None else json.dumps(message).encode() for c in changes for message in c])
    run_until_idle(configs)
    assert rows(tmp_path / "orders") == [orders.rows[4]]
    assert rows(tmp_path / "items") == [items.rows[4]]


def test_changes_that_say_no_table_stop_the_tables_and_other_tables_are_passed_over(broker: Broker, tmp_path: Path):
    orders, other = Database("mysql", seed=1, table="orders"), Database("mysql", seed=2, table="other")
    topic = broker.new_topic()
    given = table(broker, tmp_path / "orders", topic, "mysql", "shop.orders")
    broker.send(topic, changed([orders, other], 20))
    run_until_idle([given])
    assert rows(tmp_path / "orders") == [orders.rows[key] for key in sorted(orders.rows)]
    broker.send(topic, [b"{"])
    (error,) = errors(run_many([given]))
    assert isinstance(error, SourceError)
    assert error.context["field"] == "the table of the database"


def test_field_of_a_change_tells_tables_apart_where_it_is_named(broker: Broker, tmp_path: Path):
    orders, items = Database("mysql", seed=1, table="orders"), Database("mysql", seed=2, table="items")
    topic = broker.new_topic()
    broker.send(topic, changed([orders, items], 20))
    options = {FIELD: "source.table"}
    run_until_idle([table(broker, tmp_path / "items", topic, "mysql", "items", options=options)])
    assert rows(tmp_path / "items") == [items.rows[key] for key in sorted(items.rows)] != []


def test_two_tables_of_the_database_in_one_table_are_refused(broker: Broker, tmp_path: Path):
    orders, items = Database("mysql", seed=1, table="orders"), Database("mysql", seed=2, table="items")
    topic = broker.new_topic()
    broker.send(topic, changed([orders, items], 20))
    (error,) = errors(run_many([table(broker, tmp_path / "both", topic, "mysql", "shop.orders,shop.items")]))
    assert isinstance(error, UnsupportedFeatureError)
    assert not (tmp_path / "both").exists()


def envelope(table_name: str, *columns: dict[str, Any]) -> str:
    """The Avro schema of Debezium's messages of a table."""
    value = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}, *columns]}
    source = {
        "type": "record",
        "name": "Source",
        "fields": [
            *({"name": name, "type": "string"} for name in ("connector", "name", "db", "table", "file")),
            *({"name": name, "type": "long"} for name in ("ts_ms", "pos")),
            {"name": "row", "type": "int"},
        ],
    }
    fields = [
        {"name": "before", "type": ["null", value]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": source},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ]
    return json.dumps({"type": "record", "name": "Envelope", "namespace": f"shop.{table_name}", "fields": fields})


SCHEMAS = {
    7: envelope("orders", {"name": "city", "type": "string"}),
    8: envelope("items", {"name": "city", "type": "double"}),
}


def avro_change(number: int, table_name: str, position: int, op: str, row: dict[str, Any]) -> bytes:
    source = {"connector": "mysql", "name": "s", "db": "shop", "table": table_name, "file": "l.000001", "ts_ms": 1}
    message = {
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
        "source": {**source, "pos": position, "row": 0},
        "op": op,
        "ts_ms": 2,
    }
    body = io.BytesIO()
    fastavro.schemaless_writer(body, json.loads(SCHEMAS[number]), message)
    return b"\0" + number.to_bytes(4, "big") + body.getvalue()


def test_avro_of_two_tables_whose_columns_do_not_fit_is_read_for_each(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SchemaRegistry, "schema", lambda _, number: SCHEMAS[number])
    topic = broker.new_topic()
    options = {"hoodie.streamer.schemaprovider.registry.url": "http://x/"}
    broker.send(
        topic,
        [
            avro_change(7, "orders", 1, "c", {"id": 1, "city": "oslo"}),
            avro_change(8, "items", 2, "c", {"id": 1, "city": 0.5}),
            avro_change(7, "orders", 3, "c", {"id": 2, "city": "rome"}),
            avro_change(7, "orders", 4, "d", {"id": 1, "city": "oslo"}),
            None,
        ],
    )
    run_until_idle(
        [
            table(broker, tmp_path / name, topic, "mysql", f"shop.{name}", options=options)
            for name in ("orders", "items")
        ]
    )
    found = {
        name: pyhudi.HudiTable.for_path(tmp_path / name).scan(["id", "city"]).to_arrow() for name in ("orders", "items")
    }
    assert found["orders"].to_pylist() == [{"id": 2, "city": "rome"}]
    assert found["items"].to_pylist() == [{"id": 1, "city": 0.5}]


def test_registry_that_gives_an_id_again_tells_the_tables_of_the_next_topic_apart(
    broker: Broker, tmp_path: Path, small_registry: SmallRegistry
):
    options = {"hoodie.streamer.schemaprovider.registry.url": small_registry.url}
    changes = {"orders": (7, {"id": 1, "city": "oslo"}), "items": (8, {"id": 2, "city": 0.5})}
    for name, (number, row) in changes.items():
        small_registry.forget()
        head, topic = small_registry.register(name, SCHEMAS[number]).to_bytes(5), broker.new_topic()
        broker.send(topic, [head + avro_change(number, name, 1, "c", row)[len(head) :]])
        run_until_idle([table(broker, tmp_path / name, topic, "mysql", f"shop.{name}", options=options)])
        assert head == b"\0\0\0\0\1"
        assert pyhudi.HudiTable.for_path(tmp_path / name).scan(list(row)).to_arrow().to_pylist() == [row]


def test_messages_that_cannot_be_read_are_of_no_table_and_others_of_theirs():
    values = [
        avro_change(7, "orders", 1, "c", {"id": 1, "city": "oslo"}),
        b"\1",
        avro_change(8, "items", 2, "c", {"id": 1, "city": 0.5}),
        b"\0\0\0\0\7\1",
    ]
    messages = pa.chunked_array([pa.array(values, pa.binary())])
    assert tables_of_avro(SCHEMAS.get, messages).to_pylist() == ["shop.orders", None, "shop.items", None]


@pytest.mark.parametrize(
    ("is_maxwell", "values", "tables"),
    [
        (
            False,
            ['{"source": {"db": "d", "schema": "s", "table": "t"}}', '{"source": {"db": "d", "table": "t"}}'],
            ["s.t", "d.t"],
        ),
        (False, ['{"source": {"table": "t"}}', '{"source": null}', "{}"], [None, None, None]),
        (
            False,
            ['{"source": {"db": "d", "table": "t"}}', "{", '{"source": {"db": "d", "table": 1}}', "[]"],
            ["d.t", None, None, None],
        ),
        (True, ['{"database": "d", "table": "t"}', '{"database": "d"}'], ["d.t", None]),
        (True, ['{"database": "d", "table": "t"}', "nothing"], ["d.t", None]),
    ],
    ids=["names", "no names", "others", "maxwell", "maxwell and others"],
)
def test_table_of_a_change_is_found_in_messages_of_any_form(
    is_maxwell: bool, values: list[str], tables: list[str | None]
):
    messages = pa.chunked_array([pa.array([value.encode() for value in values], pa.binary())])
    assert tables_of_json(messages, is_maxwell=is_maxwell).to_pylist() == tables
