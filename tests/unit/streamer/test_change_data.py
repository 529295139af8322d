"""Change data of databases as a source."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import MARKER, Database, decoded
from tests.support.change_streamers import CLASSES, MAXWELL, Batches, streamer
from tests.support.ingestions import run_until_idle
from tests.support.kafka import Broker
from tests.support.tables import open_table

from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.ingest import ingest


def rows_in(storage: Storage) -> list[dict[str, Any]]:
    return open_table(storage).scan(["id", "city", "big"]).to_arrow().sort_by("id").to_pylist()


@pytest.mark.parametrize("kind", list(CLASSES))
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_table_of_a_source_of_changes_equals_the_table_of_the_database(kind: str, table_type: str):
    pytest.importorskip("confluent_kafka")
    database, storage = Database(kind, seed=3), MemoryStorage()
    for _ in range(80):
        database.change()
    batches = database.in_batches(20)
    assert run_until_idle(streamer(Batches(batches), storage, kind, table_type=table_type)) == len(batches)
    assert rows_in(storage) == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.parametrize("size", [1, 9], ids=["a batch each", "one batch"])
def test_large_value_that_is_not_sent_is_kept_in_a_batch_in_logs_and_by_a_compaction(size: int):
    pytest.importorskip("confluent_kafka")
    database, storage = Database("postgresql", seed=1), MemoryStorage()
    database.insert(1)
    big = database.rows[1]["big"]
    for city in "abcd":
        database.place += 1
        database.update(1, city=city)
    given = streamer(
        Batches(database.in_batches(size)),
        storage,
        "postgresql",
        {"hoodie.compact.inline": "false"},
        table_type="mor",
        disable_compaction=True,
    )
    run_until_idle(given)
    assert rows_in(storage) == [{"id": 1, "city": "d", "big": big}]
    table = open_table(storage)
    table.services.schedule("compaction", hudi_options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.refresh().services.run(only="compaction")
    assert open_table(storage).inspect.timeline()["action"].to_pylist().count("commit") == (1 if size == 1 else 0)
    assert rows_in(storage) == [{"id": 1, "city": "d", "big": big}]


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_snapshot_that_is_read_again_replaces_no_newer_change(kind: str):
    pytest.importorskip("confluent_kafka")
    database, storage = Database(kind, seed=1), MemoryStorage()
    database.insert(1)
    (read,) = database.messages.pop()
    assert read is not None
    database.place += 1
    database.update(1, city="newer", big="newer")
    batches = [*database.in_batches(1), decoded([{**read, "op": "r"}])]
    assert run_until_idle(streamer(Batches(batches), storage, kind)) == 2
    assert rows_in(storage) == [database.rows[1]]


def test_delete_that_knows_no_more_than_the_key_deletes():
    pytest.importorskip("confluent_kafka")
    database, storage = Database("postgresql", seed=1), MemoryStorage()
    database.insert(1)
    database.insert(2)
    database.place += 1
    gone = {**database._envelope("d", database.rows[1], None), "before": {"id": 1}}
    run_until_idle(streamer(Batches([*database.in_batches(2), decoded([gone])]), storage, "postgresql"))
    assert rows_in(storage) == [database.rows[2]]


def test_large_value_of_a_moved_row_comes_from_the_stored_row():
    pytest.importorskip("confluent_kafka")
    database, storage = Database("postgresql", seed=1), MemoryStorage()
    database.insert(1)
    database.move(1, 2)
    run_until_idle(streamer(Batches(database.in_batches(1)), storage, "postgresql"))
    assert rows_in(storage) == [database.rows[2]]
    assert database.rows[2]["big"] != MARKER


def test_moved_row_without_its_large_value_advances_nothing():
    pytest.importorskip("confluent_kafka")
    database, storage = Database("postgresql", seed=1), MemoryStorage()
    database.insert(1)
    database.move(1, 2)
    delete, _, insert = database.messages.pop()
    batches = [*database.in_batches(1), decoded([delete]), decoded([insert])]
    given = streamer(Batches(batches), storage, "postgresql")
    with pytest.raises(InvalidRequestError, match="neither sent nor stored"):
        run_until_idle(given)
    assert rows_in(storage) == []
    with pytest.raises(InvalidRequestError, match="neither sent nor stored"):
        ingest(given)


@pytest.mark.parametrize(
    ("kind", "options", "given", "error", "why"),
    [
        ("mysql", {}, {"op": "INSERT"}, ConfigError, "UPSERT"),
        ("mysql", MAXWELL, {}, UnsupportedFeatureError, "post processor"),
        ("maxwell", {next(iter(MAXWELL)): "a.Other"}, {}, UnsupportedFeatureError, "post processor"),
        ("mysql", {"hoodie.streamer.source.debezium.decimal.handling.mode": "exact"}, {}, ConfigError, "decimals"),
        ("mysql", {"hoodie.datasource.write.partitionpath.field": "city"}, {}, ConfigError, "global index"),
        ("mysql", {"hoodie.datasource.write.recordkey.field": ""}, {}, ConfigError, "recordkey"),
    ],
)
def test_settings_that_would_lose_changes_are_refused(
    kind: str, options: dict[str, str], given: dict[str, Any], error: type[Exception], why: str
):
    pytest.importorskip("confluent_kafka")
    database = Database(kind, seed=1)
    database.insert(1)
    with pytest.raises(error, match=why):
        ingest(streamer(Batches(database.in_batches(1)), MemoryStorage(), kind, options, **given))


def test_options_that_the_error_names_are_all_that_a_partitioned_table_needs():
    pytest.importorskip("confluent_kafka")
    database, storage = Database("postgresql", seed=1), MemoryStorage()
    database.insert(1)
    database.update(1, big="of the update")
    options, batches = {"hoodie.datasource.write.partitionpath.field": "city"}, Batches(database.in_batches(1))
    with pytest.raises(ConfigError, match="needs a global index") as raised:
        ingest(streamer(batches, storage, "postgresql", options))
    named = dict(re.findall(r"(hoodie[\w.]+)=(\w+)", raised.value.message))
    run_until_idle(streamer(batches, storage, "postgresql", {**options, **named}))
    assert rows_in(storage) == [database.rows[1]]


def test_row_that_moves_to_another_partition_is_there_once():
    pytest.importorskip("confluent_kafka")
    database, storage = Database("mysql", seed=1), MemoryStorage()
    database.insert(1)
    database.update(1, city="rome")
    options = {
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": "true",
    }
    run_until_idle(streamer(Batches(database.in_batches(1)), storage, "mysql", options))
    assert rows_in(storage) == [database.rows[1]]


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", list(CLASSES))
def test_messages_of_a_topic_are_read_as_changes(broker: Broker, kind: str):
    database, storage, topic = Database(kind, seed=5), MemoryStorage(), broker.new_topic()
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    given = streamer(None, storage, kind, options)
    for _ in range(2):
        for _ in range(30):
            database.change()
        messages = [message for change in database.messages for message in change]
        database.messages.clear()
        broker.send(topic, [None if message is None else json.dumps(message).encode() for message in messages])
        assert run_until_idle(given) == 1
    assert rows_in(storage) == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_change_of_a_key_in_several_batches_keeps_the_value_that_is_not_sent(
    broker: Broker, limit: int, table_type: str
):
    database, storage, topic = Database("postgresql", seed=5), MemoryStorage(), broker.new_topic()
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    given = streamer(None, storage, "postgresql", options, source_limit=limit, table_type=table_type)
    database.insert(1)
    for key in (1, 2, 3):
        database.place += 1
        database.update(key, big=f"new{key}")
        database.place += 1
        database.move(key, key + 1)
    database.place += 1
    database.insert(1)
    messages = [message for change in database.messages for message in change]
    assert MARKER in str(messages)
    broker.send(topic, [None if message is None else json.dumps(message).encode() for message in messages])
    run_until_idle(given)
    assert rows_in(storage) == [database.rows[key] for key in sorted(database.rows)] != []


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
def test_change_of_a_key_between_whose_messages_the_topic_ends_keeps_the_value(broker: Broker):
    database, storage, topic = Database("postgresql", seed=5), MemoryStorage(), broker.new_topic()
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    given = streamer(None, storage, "postgresql", options)
    database.insert(1)
    database.place += 1
    database.move(1, 2)
    for change in database.messages:
        for message in change:
            broker.send(topic, [None if message is None else json.dumps(message).encode()])
            run_until_idle(given)
    assert rows_in(storage) == [database.rows[2]]


def changes_of_a_time(values: list[int]) -> Batches:
    """A batch for each change of MySQL, with a `datetime`, which Debezium sends as milliseconds."""
    place = {"connector": "mysql", "name": "s", "db": "shop", "table": "t", "ts_ms": 5, "file": "log.1", "row": 0}
    return Batches(
        [
            decoded([{"op": "c", "after": {"id": 1, "seen": value}, "source": {**place, "pos": number}, "ts_ms": 6}])
            for number, value in enumerate(values)
        ]
    )


SEEN = pa.schema([("id", pa.int64()), ("seen", pa.timestamp("ms"))])


def test_numbers_become_times_by_the_unit_of_the_schema_that_is_given():
    pytest.importorskip("confluent_kafka")
    storage = MemoryStorage()
    run_until_idle(streamer(changes_of_a_time([1_000, 1_704_103_200_000]), storage, "mysql", schema=SEEN))
    assert open_table(storage).scan(["seen"]).to_arrow()["seen"].to_pylist() == [datetime(2024, 1, 1, 10)]


def test_numbers_of_which_only_the_table_says_that_they_are_times_are_refused():
    pytest.importorskip("confluent_kafka")
    storage, source = MemoryStorage(), changes_of_a_time([1_000, 2_000])
    assert ingest(streamer(source, storage, "mysql", schema=SEEN)) is not None
    with pytest.raises(ConfigError, match="column 'seen' come as numbers, and nothing says in which unit"):
        ingest(streamer(source, storage, "mysql"))


DDL = {"type": "table-alter", "database": "shop", "table": "orders", "old": {"charset": "utf8"}, "def": {}, "ts": 6000}


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
def test_batch_of_messages_about_the_schema_alone_is_passed(broker: Broker):
    """Also where it is the first, and nothing says which columns the table has: then it is read with the next ones."""
    database, storage, topic = Database("maxwell", seed=5), MemoryStorage(), broker.new_topic()
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    given = streamer(None, storage, "maxwell", options, source_limit=1)
    broker.send(topic, [DDL])
    assert run_until_idle(given) == 0
    database.insert(1)
    broker.send(topic, [database.messages[0][0]])
    assert run_until_idle(streamer(None, storage, "maxwell", options)) == 1
    broker.send(topic, [DDL])
    run_until_idle(given)
    database.update(1, city="rome")
    broker.send(topic, [database.messages[1][0]])
    run_until_idle(given)
    assert rows_in(storage) == [database.rows[1]]


@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
def test_decimals_of_maxwell_keep_their_digits(broker: Broker):
    storage, topic = MemoryStorage(), broker.new_topic()
    options = {"bootstrap.servers": broker.servers, "hoodie.streamer.source.kafka.topic": topic}
    place = b'{"database": "shop", "table": "orders", "type": "insert", "ts": 5, "commit": true, "position": '
    schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(20, 4))])
    amounts = ["12345678901234.5678", "-1234567890123456.7891"]
    for number, (amount, given_schema) in enumerate(zip(amounts, (schema, None), strict=True)):
        value = place + f'"log.1:{number}", "data": {{"id": {number}, "amount": {amount}}}}}'.encode()
        broker.send(topic, [value])
        run_until_idle(streamer(None, storage, "maxwell", options, schema=given_schema))
    rows = open_table(storage).scan(["id", "amount"]).to_arrow().sort_by("id")
    assert [str(amount) for amount in rows["amount"].to_pylist()] == amounts
