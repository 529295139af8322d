"""A table that follows a real MariaDB, by the real Debezium and the real broker, equals that of the database."""

from __future__ import annotations

import json
import lzma
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import decoded, in_windows
from tests.support.debezium import connector, settings_of_mariadb
from tests.support.ingestions import ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.mariadb import MariaDb
from tests.support.tables import open_table
from tests.support.waiting import wait_until

import pyhudi
from pyhudi.cdc import flatten, table_options
from pyhudi.storage.memory import MemoryStorage

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
RECORDED = Path(__file__).parents[1] / "cdc" / "recorded" / "mariadb.jsonl.xz"
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("big", pa.string()),
        ("seen", pa.timestamp("ms")),
        ("day", pa.date32()),
    ]
)
ORDERS = """
    create table shop.orders (id int primary key, city varchar(100), amount decimal(10, 2), big text,
                              seen datetime not null default '1970-01-01', day date)
"""
PARTS, STATEMENTS_OF_A_PART, KEYS = 3, 40, 30


def statements(seed: int, *, with_note: bool) -> Iterator[str]:
    """Changes at random, some of several rows; a key that is taken or not there makes one without effect."""
    rng = random.Random(seed)
    for _ in range(STATEMENTS_OF_A_PART):
        key, other, number = rng.randrange(KEYS), rng.randrange(KEYS), rng.randrange(10_000)
        values = f"'c{number}', {number / 100}, repeat('x{number}', 500), '2024-01-01 10:00:{number % 60:02}'"
        yield rng.choice(
            [
                f"replace into shop.orders (id, city, amount, big, seen, day) values ({key}, {values}, '2024-02-03')",
                f"insert ignore into shop.orders (id, city, day) values ({key}, null, '1969-12-31')",
                f"update shop.orders set city = 'u{number}', amount = -amount where id = {key}",
                f"update shop.orders set day = null where id between {key} and {key + 5}",
                f"update ignore shop.orders set id = {other} where id = {key}",
                f"delete from shop.orders where id = {key}",
                "flush binary logs",
                *([f"update shop.orders set note = 'n{number}' where id % 3 = {key % 3}"] if with_note else []),
            ]
        )


def rows_of_database(mariadb: MariaDb) -> list[dict[str, Any]]:
    text = ", ".join(f"'{name}', cast({name} as char)" for name in ("city", "amount", "big", "seen", "day", "note"))
    found = mariadb.run(f"select json_object('id', id, {text}) from shop.orders order by id")
    return [json.loads(line) for line in found.splitlines()]


def rows_of_table(table: pyhudi.HudiTable) -> list[dict[str, Any]]:
    rows = table.scan([*COLUMNS.names, "note"]).to_arrow().sort_by("id").to_pylist()
    return [
        {name: value if isinstance(value, int | None) else str(value) for name, value in row.items()} for row in rows
    ]


def wait_for_row(broker: Broker, mariadb: MariaDb, topic: str, key: int) -> None:
    """Insert a row, and wait until its message has come."""
    mariadb.run(f"insert into shop.orders (id) values ({key})")
    wait_until(lambda: any((m["after"] or {}).get("id") == key for m in broker.documents(topic)), seconds=90)


@pytest.fixture(scope="module")
def followed(
    broker: Broker, mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, pyhudi.HudiTable]:
    """The topic of a table, and the table of a streamer that followed it: Debezium is killed in the midst of it."""
    folder = tmp_path_factory.mktemp("debezium")
    topic, storage = broker.new_topic(name=f"{folder.name}.shop.orders"), MemoryStorage()
    mariadb.run("create database shop", ORDERS, *statements(0, with_note=False))
    settings = settings_of_mariadb(broker, mariadb, folder, folder.name, "shop.orders")
    options = {"hoodie.write.set.null.for.missing.columns": "true"}
    given = topic_settings(
        broker, topic, options, source_class="MysqlDebeziumSource", op="UPSERT", schema=COLUMNS, table_type="mor"
    )
    following = ingestion(given, storage)
    for part in range(1, PARTS):
        if part == PARTS - 1:
            mariadb.run("alter table shop.orders add column note text")
        with connector(broker, folder, settings) as process:
            wait_for_row(broker, mariadb, topic, 1_000 + part)
            for statement in statements(part, with_note=part == PARTS - 1):
                mariadb.run(statement)
                run_until_idle(following)
            wait_for_row(broker, mariadb, topic, 2_000 + part)
            kill(process)
        run_until_idle(following)
    return topic, open_table(storage)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def test_table_that_follows_a_live_mariadb_equals_its_table(mariadb: MariaDb, followed: tuple[str, pyhudi.HudiTable]):
    _, table = followed
    assert rows_of_table(table) == rows_of_database(mariadb) != []


@pytest.mark.parametrize(("size", "seed"), [(40, 1), (10_000, 2)])
def test_table_of_shuffled_messages_of_a_live_mariadb_equals_its_table(
    broker: Broker, mariadb: MariaDb, followed: tuple[str, Any], tmp_path: Path, size: int, seed: int
):
    messages = broker.documents(followed[0])
    assert len({message["source"]["file"] for message in messages}) > 5  # the log was rotated
    options = {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.set.null.for.missing.columns": "true",
        **table_options("mariadb"),
    }
    for window in in_windows(messages, size, seed):
        pyhudi.save(flatten(decoded(window), keys=["id"], schema=COLUMNS), tmp_path / "t", hudi_options=options)
    assert rows_of_table(pyhudi.HudiTable.for_path(tmp_path / "t")) == rows_of_database(mariadb)


def test_recorded_messages_have_the_form_of_those_of_a_live_mariadb(
    broker: Broker, followed: tuple[str, pyhudi.HudiTable]
):
    recorded = [json.loads(line)["value"] for line in lzma.decompress(RECORDED.read_bytes()).splitlines()]
    kept = [message for message in recorded if message is not None]
    assert forms_of(broker.documents(followed[0])) == forms_of(kept)


def forms_of(messages: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """Operations of the stream, each with the fields and types of the message and of its source."""
    return {
        (
            message["op"],
            *((name, type(value).__name__) for name, value in sorted(message.items())),
            *((name, type(value).__name__) for name, value in sorted(message["source"].items())),
        )
        for message in messages
        if message["op"] != "r"  # the first and the last row of a snapshot, and one alone, say so in other ways
    }
