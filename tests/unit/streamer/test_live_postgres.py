"""A table that follows a real PostgreSQL, by the real Debezium and the real broker, equals that of the database."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.change_data import MARKER, decoded, in_windows
from tests.support.debezium import connector, settings_of_postgres
from tests.support.ingestions import ingestion, run_until_idle, topic_settings
from tests.support.kafka import Broker
from tests.support.postgres import Postgres
from tests.support.tables import open_table
from tests.support.waiting import wait_until

import pyhudi
from pyhudi.cdc import flatten, table_options
from pyhudi.storage.memory import MemoryStorage

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300)]
COLUMNS = pa.schema(
    [
        ("id", pa.int32()),
        ("city", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("big", pa.string()),
        ("code", pa.string()),
        ("doc", pa.string()),
        ("seen", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
    ]
)
ORDERS = """
    create table followed.orders (id int primary key, city text, amount numeric(10, 2), big text, code uuid, doc json,
                                  seen timestamptz not null default '1970-01-01 00:00:00Z', day date)
"""
PARTS, STATEMENTS_OF_A_PART, KEYS = 3, 40, 30


def statements(seed: int, *, with_note: bool) -> Iterator[str]:
    """Changes at random, some of several rows; a key that is taken or not there makes one without effect."""
    rng = random.Random(seed)
    for _ in range(STATEMENTS_OF_A_PART):
        key, other, number = rng.randrange(KEYS), rng.randrange(KEYS), rng.randrange(10_000)
        doc = json.dumps({"n": number, "long": "y" * rng.choice([1, 3000])})
        values = (
            f"'c{number}', {number / 100}, repeat('x{number}', 500), '{number:08}-0000-4000-8000-000000000000',"
            f" '{doc}', '2024-01-01 10:00:{number % 60:02}.25+02', '2024-02-03'"
        )
        put = f"insert into followed.orders (id, city, amount, big, code, doc, seen, day) values ({key}, {values})"
        move = f"update followed.orders set id = {other} where id = {key}"
        yield rng.choice(
            [
                f"delete from followed.orders where id = {key}",
                f"{put} on conflict (id) do update set city = excluded.city, big = excluded.big, doc = excluded.doc",
                f"insert into followed.orders (id, day) values ({key}, '1969-12-31') on conflict do nothing",
                f"update followed.orders set city = 'u{number}', amount = -amount where id = {key}",
                f"update followed.orders set day = null where id between {key} and {key + 5}",
                f"{move} and not exists (select 1 from followed.orders where id = {other})",
                *([f"update followed.orders set note = 'n{number}' where id % 3 = {key % 3}"] if with_note else []),
            ]
        )


def move_of_a_large_row(part: int) -> list[str]:
    """A row with a large value, and an update of its key alone."""
    return [
        f"insert into followed.orders (id, big) values ({500 + part}, repeat('moved', 900))",
        f"update followed.orders set id = {600 + part} where id = {500 + part}",
    ]


def rows_of_database(postgres: Postgres) -> list[dict[str, Any]]:
    texts = ", ".join(f"{name}::text" for name in ("city", "amount", "big", "code", "doc", "day", "note"))
    seen = "(extract(epoch from seen) * 1000000)::bigint as seen"
    return postgres.rows(f"select id, {texts}, {seen} from followed.orders order by id")


def rows_of_table(table: pyhudi.HudiTable) -> list[dict[str, Any]]:
    rows = table.scan([*COLUMNS.names, "note"]).to_arrow().sort_by("id")
    place = rows.column_names.index("seen")
    rows = rows.set_column(place, "seen", rows["seen"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    return [
        {name: value if isinstance(value, int | None) else str(value) for name, value in row.items()}
        for row in rows.to_pylist()
    ]


def wait_for_row(broker: Broker, postgres: Postgres, topic: str, key: int) -> None:
    """Insert a row, and wait until its message has come."""
    postgres.run(f"insert into followed.orders (id) values ({key})")
    wait_until(lambda: any((m["after"] or {}).get("id") == key for m in broker.documents(topic)), seconds=90)


@pytest.fixture(scope="module")
def followed(
    broker: Broker, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, pyhudi.HudiTable]:
    """The topic of a table, and the table of a streamer that followed it: Debezium is killed in the midst of it."""
    folder = tmp_path_factory.mktemp("debezium_of_postgres")
    topic, storage = broker.new_topic(name=f"{folder.name}.followed.orders"), MemoryStorage()
    external = [f"alter table followed.orders alter column {name} set storage external" for name in ("big", "doc")]
    postgres.run("create schema followed", ORDERS, *external, *statements(0, with_note=False))
    settings = settings_of_postgres(postgres, folder.name, "followed.orders")
    options = {"hoodie.write.set.null.for.missing.columns": "true"}
    given = topic_settings(
        broker, topic, options, source_class="PostgresDebeziumSource", op="UPSERT", schema=COLUMNS, table_type="mor"
    )
    following = ingestion(given, storage)
    for part in range(1, PARTS):
        if part == PARTS - 1:
            postgres.run("alter table followed.orders add column note text")
        with connector(broker, folder, settings) as process:
            wait_for_row(broker, postgres, topic, 1_000 + part)
            for statement in [*statements(part, with_note=part == PARTS - 1), *move_of_a_large_row(part)]:
                postgres.run(statement)
                run_until_idle(following)
            wait_for_row(broker, postgres, topic, 2_000 + part)
            process.kill()
            process.wait()
        run_until_idle(following)
    return topic, open_table(storage)


def test_table_that_follows_a_live_postgresql_equals_its_table(
    postgres: Postgres, followed: tuple[str, pyhudi.HudiTable]
):
    _, table = followed
    assert rows_of_table(table) == rows_of_database(postgres) != []


def test_live_postgresql_sends_tombstones_markers_in_moved_rows_and_a_new_column(
    broker: Broker, followed: tuple[str, pyhudi.HudiTable]
):
    changes = broker.documents(followed[0])
    assert {change["op"] for change in changes} == {"r", "c", "u", "d"}
    assert None in broker.values(followed[0])
    assert [change for change in changes if change["op"] == "c" and change["after"]["big"] == MARKER]
    assert [change for change in changes if change["op"] == "u" and change["after"]["doc"] == MARKER]
    assert "note" not in changes[0]["after"]
    assert "note" in changes[-1]["after"]


@pytest.mark.parametrize(("size", "seed"), [(40, 1), (10_000, 2)])
def test_table_of_shuffled_messages_of_a_live_postgresql_equals_its_table(
    broker: Broker, postgres: Postgres, followed: tuple[str, Any], tmp_path: Path, size: int, seed: int
):
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.write.set.null.for.missing.columns": "true",
        **table_options("postgresql"),
    }

    def stored(keys: pa.Table) -> pa.Table:
        return pyhudi.HudiTable.for_path(path).scan(where=[("id", "in", keys["id"].to_pylist())]).to_arrow()

    for window in in_windows(broker.documents(followed[0]), size, seed):
        rows = flatten(decoded(window), keys=["id"], schema=COLUMNS, stored=stored)
        pyhudi.save(rows, path, hudi_options=options)
    assert rows_of_table(pyhudi.HudiTable.for_path(path)) == rows_of_database(postgres)
