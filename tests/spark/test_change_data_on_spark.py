"""Change data of databases on Spark: the table, the checkpoints and the errors are those of a run without Spark."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import Database
from tests.support.change_streamers import CLASSES, MAXWELL
from tests.support.kafka import Broker
from tests.support.recorded_changes import AVRO_COLUMNS, avro_messages, avro_rows
from tests.support.registries import Registry
from tests.support.spark_streamers import TOPIC, run

import pyhudi
from pyhudi.errors import HudiError, InvalidRequestError, SourceError, UnsupportedFeatureError
from pyhudi.storage.local import LocalStorage
from pyhudi.table.state import load_table
from pyhudi.table.watermarks import load_source_times

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]

PARTITIONS = 3
CHANGES = 45
WATCHED = {
    "hoodie.write.track.event.time.watermark": "true",
    "hoodie.streamer.source.kafka.append.offsets": "true",
}
Message = dict[str, Any]


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 3)
    monkeypatch.setattr("pyhudi.spark.engine.IN_PROCESS_BYTES_MAX", 0)


def options_of(broker: Broker, topic: str, kind: str, options: dict[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": broker.servers, TOPIC: topic, **(MAXWELL if kind == "maxwell" else {}), **options}


def outcome(spark: Any, path: Path, kind: str, options: dict[str, str], **given: Any) -> tuple[Any, ...]:
    """What a run says, with Spark or without it; or its error."""
    try:
        done = run(path, CLASSES[kind], options, spark=spark, **{"source_ordering_fields": None, **given})
    except HudiError as error:
        return type(error), error.message, {name: text for name, text in error.context.items() if name != "row"}
    write = None if done.last is None else done.last.write
    counts = None if write is None else (write.inserted, write.updated, write.deleted)
    return done.checkpoint, done.items, done.failed, counts


def rows_in(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns of a table, and its rows but for what differs between two writes of the same."""
    rows = pyhudi.HudiTable.for_path(path).scan().to_arrow().sort_by("id")
    names = sorted(set(rows.column_names) - {"_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"})
    return [str(rows.schema.field(name)) for name in names], rows.select(names).to_pylist()


def check_equal(spark: Any, folder: Path, kind: str, options: dict[str, str], **given: Any) -> list[dict[str, Any]]:
    """Run a streamer with Spark and without it: what they say and their tables are equal. Gives the rows."""
    said = [outcome(session, folder / name, kind, options, **given) for name, session in (("s", spark), ("l", None))]
    assert said[0] == said[1]
    assert not isinstance(said[0][0], type), said
    on_spark, local = rows_in(folder / "s"), rows_in(folder / "l")
    assert on_spark == local
    return local[1]


def send_window(broker: Broker, topic: str, changes: list[list[Message | None]], chance: random.Random) -> None:
    """Send the messages of some changes shuffled, to any partition."""
    messages = [message for change in changes for message in change]
    chance.shuffle(messages)
    for partition in range(PARTITIONS):
        chosen = messages[partition::PARTITIONS]
        texts = [None if message is None else json.dumps(message).encode() for message in chosen]
        broker.send(topic, texts, partition=partition)


@pytest.mark.parametrize(
    ("kind", "version", "table_type"),
    [
        ("postgresql", "9", "mor"),
        ("postgresql", "8", "cow"),
        ("postgresql", "6", "mor"),
        ("mysql", "9", "cow"),
        ("maxwell", "9", "mor"),
    ],
)
def test_table_of_shuffled_changes_is_that_of_a_run_without_spark_and_of_the_database(
    spark: Any, broker: Broker, tmp_path: Path, kind: str, version: str, table_type: str
) -> None:
    database, chance, topic = Database(kind, seed=5), random.Random(3), broker.new_topic(partitions=PARTITIONS)
    while len(database.messages) < CHANGES:
        database.change()
        database.place += 1
    watched = kind == "mysql"
    options = options_of(broker, topic, kind, {"hoodie.write.table.version": version, **(WATCHED if watched else {})})
    given: dict[str, Any] = {"table_type": table_type}
    if version == "8":
        given["transformer_class"] = "SqlQueryBasedTransformer"
        options["hoodie.streamer.transformer.sql"] = "SELECT *, upper(city) AS upper_city FROM <SRC>"
    rows: list[dict[str, Any]] = []
    for begin in range(0, CHANGES, 25):
        send_window(broker, topic, database.messages[begin : begin + 25], chance)
        rows = check_equal(spark, tmp_path, kind, options, **given)
    # A delete at the end of a partition is in the next batch.
    send_window(broker, topic, database.messages[-1:] * PARTITIONS, chance)
    rows = check_equal(spark, tmp_path, kind, options, **given)
    watermarks = [load_source_times(load_table(LocalStorage(tmp_path / name)))[1] for name in ("s", "l")]
    times = [{source: found.time for source, found in of_table.items()} for of_table in watermarks]
    assert times[0] == times[1]
    assert len(times[0]) == PARTITIONS * watched
    found = [{name: row[name] for name in ("id", "city", "big")} for row in rows]
    assert found == [database.rows[key] for key in sorted(database.rows)]


@pytest.mark.parametrize("route", [{}, {"hoodie.streamer.source.kafka.route.values": "public.orders"}])
def test_avro_of_a_real_database_gives_its_table_by_the_schema_of_each_message(
    spark: Any,
    broker: Broker,
    small_registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    route: dict[str, str],
) -> None:
    monkeypatch.setattr("pyhudi.streamer.sources.topic_parts.MESSAGES_OF_A_PART", 40)
    topic, sent = broker.new_topic(), avro_messages(small_registry)
    registry = {"hoodie.streamer.schemaprovider.registry.url": small_registry.url}
    options = options_of(broker, topic, "postgresql", {**registry, **route})
    rows: list[dict[str, Any]] = []
    half = len(sent) // 2
    for portion in (sent[:half], sent[half:], sent[-1:]):  # a delete at the end is in the batch after
        broker.send(topic, portion)
        rows = check_equal(spark, tmp_path, "postgresql", options, schema=AVRO_COLUMNS)
    assert [{name: row[name] for name in AVRO_COLUMNS.names} for row in rows] == avro_rows() != []
    broker.send(topic, [b"\0\0\1\0\0\2"])
    said = [outcome(session, tmp_path / name, "postgresql", options) for name, session in (("s", spark), ("l", None))]
    assert said[0] == said[1]
    assert said[0][0] is SourceError


def test_messages_that_are_no_changes_are_in_the_error_table_of_a_run_without_spark(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    database, topic = Database("postgresql", seed=8), broker.new_topic(partitions=PARTITIONS)
    while len(database.messages) < 20:
        database.change()
    send_window(broker, topic, database.messages, random.Random(1))
    keyless = json.loads(json.dumps(database.messages[0][0]))
    keyless["after"]["id"] = None
    broker.send(topic, [b"{bad", {"id": 1}, {}, {"op": "c", "after": "x"}, keyless], partition=1)
    options = options_of(broker, topic, "postgresql", {})
    for name, session in (("s", spark), ("l", None)):
        errors = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": f"{tmp_path}/e{name}"}
        said = outcome(session, tmp_path / name, "postgresql", {**options, **errors})
        assert said[2] == 5, said
    assert rows_in(tmp_path / "s") == rows_in(tmp_path / "l")
    kept = ["source", "position", "reason", "message", "_corrupt_record"]
    failed = [
        pyhudi.HudiTable.for_path(f"{tmp_path}/e{name}").scan(kept).to_arrow().sort_by("position").to_pylist()
        for name in ("s", "l")
    ]
    # Whether a change without a key is none, or a row that lacks it, is a question of what is read with it.
    for row in (row for rows in failed for row in rows if row["_corrupt_record"] == json.dumps(keyless).encode()):
        assert row.pop("reason") in {"JSON_ROW_DESERIALIZATION_FAILURE", "RECORD_CREATION"}
        assert "key" in row.pop("message")
    assert failed[0] == failed[1]


REFUSED: dict[str, tuple[type[HudiError], list[Any]]] = {
    "no JSON": (SourceError, [b"{bad"]),
    "no change": (InvalidRequestError, [{"id": 5}]),
    "another table": (UnsupportedFeatureError, []),
    "a value that no row has": (InvalidRequestError, []),
}


@pytest.mark.parametrize("what", REFUSED)
def test_batch_that_cannot_become_rows_is_the_error_of_a_run_without_spark(
    spark: Any, broker: Broker, tmp_path: Path, what: str
) -> None:
    database, other = Database("postgresql", seed=1), Database("postgresql", seed=1, table="other")
    topic = broker.new_topic(partitions=2)
    database.insert(1)
    other.insert(2)
    broker.send(topic, [database.messages[0][0]] * 4, partition=0)
    kind, messages = REFUSED[what]
    if what == "another table":
        messages = [other.messages[0][0]]
    elif what == "a value that no row has":
        database.rows[7] = {"id": 7, "city": "x", "big": "not sent"}
        database.place += 1
        database.move(7, 8)
        messages = database.messages[-1]
    broker.send(topic, messages, partition=1)
    options = options_of(broker, topic, "postgresql", {})
    on_spark = outcome(spark, tmp_path / "s", "postgresql", options)
    local = outcome(None, tmp_path / "l", "postgresql", options)
    assert on_spark[0] is local[0] is kind
    assert on_spark == local or what == "no change"  # which says what the messages with it have
    assert not (tmp_path / "s").exists()


def test_times_without_a_unit_are_refused_and_read_with_one(spark: Any, broker: Broker, tmp_path: Path) -> None:
    database, topic = Database("mysql", seed=1), broker.new_topic()
    database.insert(1)
    database.rows[1]["at"] = 1_700_000_000_000
    broker.send(topic, database.messages[0])
    options = options_of(broker, topic, "mysql", {})
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("big", pa.string()), ("at", pa.timestamp("ms"))])
    check_equal(spark, tmp_path, "mysql", options, schema=schema)
    broker.send(topic, database.messages[0])
    assert outcome(spark, tmp_path / "s", "mysql", options) == outcome(None, tmp_path / "l", "mysql", options)


def test_more_moved_rows_than_the_driver_takes_are_refused_by_name(
    spark: Any, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, topic = Database("postgresql", seed=1), broker.new_topic()
    for key in range(3):
        database.insert(key)
        database.place += 1
        database.move(key, key + 10)
        database.place += 1
    send_window_to_one = [message for change in database.messages for message in change]
    broker.send(topic, send_window_to_one)
    options = options_of(broker, topic, "postgresql", {})
    monkeypatch.setattr("pyhudi.streamer.changes_in_parts.MOVED_ROWS_MAX", 4)
    with pytest.raises(UnsupportedFeatureError, match="smaller source_limit"):
        run(tmp_path / "t", CLASSES["postgresql"], options, spark=spark, source_ordering_fields=None)
    monkeypatch.undo()
    assert run(tmp_path / "t", CLASSES["postgresql"], options, spark=spark, source_ordering_fields=None).rows == 3
