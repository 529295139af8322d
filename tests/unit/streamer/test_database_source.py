"""Databases as a source: SQLite, and a real PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ingestions import Landing, ids_in, ingestion, run_until_idle
from tests.support.ingestions import settings as file_settings
from tests.support.postgres import Postgres
from tests.support.tables import open_table

from pyhudi.errors import ConfigError, SourceError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.streamer.checkpoints import BEGIN
from pyhudi.streamer.config import StreamerConfig
from pyhudi.streamer.ingest import checkpoint_of, ingest
from pyhudi.streamer.settings import Settings, settings_of
from pyhudi.streamer.sources.database import DatabaseSource
from pyhudi.streamer.sources.open import open_source

pytest.importorskip("adbc_driver_sqlite")
INCREMENTAL = {
    "hoodie.streamer.jdbc.incr.pull": "true",
    "hoodie.streamer.jdbc.table.incr.column.name": "changed",
}


@dataclass(frozen=True)
class Sqlite:
    """A database in a file."""

    url: str

    def run(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.url.removeprefix("jdbc:sqlite:"))) as connection, connection:
            for statement in statements:
                connection.execute(statement)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sqlite | Postgres]:
    found = Sqlite(f"jdbc:sqlite:{tmp_path}/db") if request.param == "sqlite" else request.getfixturevalue("postgres")
    found.run("CREATE TABLE orders (id integer PRIMARY KEY, note varchar(20), changed integer)")
    yield found
    found.run("DROP TABLE orders")


def settings(database: Any, options: dict[str, str] | None = None, **given: Any) -> Settings:
    conf = {
        "hoodie.streamer.jdbc.url": database.url,
        "hoodie.streamer.jdbc.user": "postgres",
        "hoodie.streamer.jdbc.driver.class": "org.example.Driver",
        "hoodie.streamer.jdbc.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        **(options or {}),
    }
    return settings_of(StreamerConfig("memory://t/table", "JdbcSource", hoodie_conf=conf, **given))


def test_rows_with_newer_values_are_read_once(database: Any):
    storage = MemoryStorage()
    streamer = ingestion(settings(database, INCREMENTAL), storage)
    assert ingest(streamer) is None  # an empty table
    database.run("INSERT INTO orders VALUES (1, 'a', 9), (2, 'b', 10)")
    assert run_until_idle(streamer) == 1
    assert checkpoint_of(streamer) == "10"
    database.run("INSERT INTO orders VALUES (3, 'c', 100)", "UPDATE orders SET note = 'A', changed = 101 WHERE id = 1")
    assert run_until_idle(streamer) == 1
    assert checkpoint_of(streamer) == "101"
    rows = open_table(storage).scan(["id", "note"]).to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["note"]) for row in rows] == [(1, "A"), (2, "b"), (3, "c")]


def test_row_that_appears_later_with_the_value_of_the_checkpoint_is_read(database: Any):
    storage = MemoryStorage()
    streamer = ingestion(settings(database, INCREMENTAL), storage)
    database.run("INSERT INTO orders VALUES (1, 'a', 10)")
    run_until_idle(streamer)
    database.run("INSERT INTO orders VALUES (2, 'b', 10)")
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 2]
    # As many rows as before have the value, and one of them is new: it comes with the next newer value.
    database.run("UPDATE orders SET changed = 11 WHERE id = 1", "INSERT INTO orders VALUES (3, 'c', 10)")
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 2, 3]


def test_limit_does_not_part_rows_of_one_value(database: Any):
    storage = MemoryStorage()
    database.run("INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 2), (4, 'd', 2), (5, 'e', 3)")
    streamer = ingestion(settings(database, INCREMENTAL, source_limit=2), storage)
    ingest(streamer)
    assert ids_in(storage) == [1, 2, 3, 4]
    assert run_until_idle(streamer) == 1
    assert ids_in(storage) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "other", [{"hoodie.streamer.jdbc.table.name": "archive"}, {"hoodie.streamer.jdbc.table.incr.column.name": "id"}]
)
def test_checkpoint_of_another_table_or_column_is_refused(database: Any, other: dict[str, str]):
    storage = MemoryStorage()
    database.run(
        "INSERT INTO orders VALUES (1, 'a', 9)",
        "CREATE TABLE archive (id integer PRIMARY KEY, note varchar(20), changed integer)",
        "INSERT INTO archive VALUES (5, 'e', 2)",
    )
    try:
        run_until_idle(ingestion(settings(database, INCREMENTAL), storage))
        with pytest.raises(ConfigError, match="another table, query or column"):
            ingest(ingestion(settings(database, {**INCREMENTAL, **other}), storage))
        assert ids_in(storage) == [1]
        run_until_idle(ingestion(settings(database, {**INCREMENTAL, **other}, ignore_checkpoint="new"), storage))
        assert ids_in(storage) == ([1, 5] if "archive" in other.values() else [1])
    finally:
        database.run("DROP TABLE archive")


def test_column_whose_values_are_unequal_to_their_texts_is_refused(tmp_path: Path):
    """SQLite compares the value of an expression with a text by their types: every number is less."""
    database = Sqlite(f"jdbc:sqlite:{tmp_path}/db")
    database.run("CREATE TABLE orders (id integer, changed integer)", "INSERT INTO orders VALUES (1, 5)")
    query = {"hoodie.streamer.jdbc.table.name": "(SELECT id, changed + 0 AS changed FROM orders) o"}
    storage = MemoryStorage()
    with pytest.raises(UnsupportedFeatureError, match="not equal to its own text"):
        ingest(ingestion(settings(database, {**INCREMENTAL, **query}), storage))
    database.run("CREATE VIEW stamped AS SELECT id, CAST(changed AS integer) AS changed FROM orders")
    assert run_until_idle(
        ingestion(settings(database, {**INCREMENTAL, "hoodie.streamer.jdbc.table.name": "stamped"}), storage)
    )
    assert ids_in(storage) == [1]


def test_first_batch_has_rows_without_a_value(database: Any):
    storage = MemoryStorage()
    database.run("INSERT INTO orders VALUES (1, 'a', NULL), (2, 'b', 2)")
    run_until_idle(ingestion(settings(database, INCREMENTAL), storage))
    assert ids_in(storage) == [1, 2]


def test_table_without_a_column_is_read_as_a_whole_each_time(database: Any):
    storage = MemoryStorage()
    database.run("INSERT INTO orders VALUES (1, 'a', 1)")
    streamer = ingestion(settings(database), storage)
    assert ingest(streamer) is not None
    database.run("INSERT INTO orders VALUES (2, 'b', 0)")
    done = ingest(streamer)
    assert done is not None
    assert done.checkpoint is None
    assert ids_in(storage) == [1, 2]


def test_query_in_place_of_a_table_is_read(database: Any):
    storage = MemoryStorage()
    database.run("INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 1)")
    query = {"hoodie.streamer.jdbc.table.name": "(SELECT id, changed FROM orders WHERE note = 'b') chosen"}
    run_until_idle(ingestion(settings(database, {**INCREMENTAL, **query}), storage))
    assert ids_in(storage) == [2]


def test_checkpoint_with_a_quote_is_a_value_and_no_sql(database: Any):
    database.run("INSERT INTO orders VALUES (1, 'it''s', 1)")
    storage = MemoryStorage()
    by_text = {**INCREMENTAL, "hoodie.streamer.jdbc.table.incr.column.name": "note"}
    streamer = ingestion(settings(database, by_text), storage)
    assert run_until_idle(streamer) == 1
    assert checkpoint_of(streamer) == "it's"


def test_types_of_postgresql_are_those_of_the_table(postgres: Postgres):
    postgres.run(
        "CREATE TABLE orders (id integer PRIMARY KEY, changed timestamptz, amount numeric(10, 2), day date, code uuid,"
        " data jsonb, small smallint)",
        "INSERT INTO orders VALUES (1, '2026-11-26 06:00:00.123456+00', 1.5, '2026-11-26',"
        " '00000000-0000-0000-0000-000000000001', '{\"a\": 1}', 7), (2, '2026-11-26 05:00:00+00', NULL, NULL, NULL,"
        " NULL, NULL)",
    )
    try:
        storage = MemoryStorage()
        streamer = ingestion(settings(postgres, INCREMENTAL), storage)
        assert run_until_idle(streamer) == 1
        assert checkpoint_of(streamer) == "2026-11-26 06:00:00.123456+00"
        postgres.run("UPDATE orders SET amount = 2.25, changed = '2026-11-26 07:00:00+00' WHERE id = 2")
        assert run_until_idle(streamer) == 1
        first, second = open_table(storage).scan().to_arrow().sort_by("id").to_pylist()
        assert first["changed"] == datetime(2026, 11, 26, 6, 0, 0, 123456, tzinfo=UTC)
        assert (first["amount"], first["day"], first["small"]) == (Decimal("1.50"), date(2026, 11, 26), 7)
        assert first["code"] == "00000000-0000-0000-0000-000000000001"
        assert first["data"] == '{"a": 1}'
        assert second["amount"] == Decimal("2.25")
    finally:
        postgres.run("DROP TABLE orders")


def test_type_that_is_none_of_arrow_is_refused_until_a_schema_says_one(postgres: Postgres):
    postgres.run("CREATE TABLE orders (id integer PRIMARY KEY, amount numeric)", "INSERT INTO orders VALUES (1, 1.5)")
    try:
        with pytest.raises(UnsupportedFeatureError, match="amount"):
            ingest(ingestion(settings(postgres), MemoryStorage()))
        storage = MemoryStorage()
        schema = pa.schema([("id", pa.int64()), ("amount", pa.decimal128(12, 3))])
        ingest(ingestion(settings(postgres, schema=schema), storage))
        assert open_table(storage).scan(["amount"]).to_arrow().to_pylist() == [{"amount": Decimal("1.500")}]
    finally:
        postgres.run("DROP TABLE orders")


def test_password_is_read_from_a_file_and_in_no_text(tmp_path: Path):
    (tmp_path / "password").write_text("p@ss/word\n")

    class Nowhere:
        url = "jdbc:postgresql://127.0.0.1:1/shop"

    source = open_source(settings(Nowhere, {"hoodie.streamer.jdbc.password.file": str(tmp_path / "password")}))
    assert isinstance(source, DatabaseSource)
    assert source.database.address == "postgresql://postgres:p%40ss%2Fword@127.0.0.1:1/shop"
    assert "word" not in repr(source)
    pytest.importorskip("adbc_driver_postgresql")
    whole = source.pull(BEGIN, limit=None)
    assert whole is not None
    with pytest.raises(SourceError) as raised:
        whole.read(None, None)
    assert "word" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "given", "error"),
    [
        ({"hoodie.streamer.jdbc.url": "jdbc:oracle:thin:@x"}, {}, UnsupportedFeatureError),
        ({"hoodie.streamer.jdbc.incr.pull": "true"}, {}, ConfigError),
        ({**INCREMENTAL, "hoodie.streamer.jdbc.table.incr.column.name": "a; DROP"}, {}, ConfigError),
        (INCREMENTAL, {"op": "INSERT"}, ConfigError),
        ({"hoodie.streamer.jdbc.incr.fallback.to.full.fetch": "true"}, {}, UnsupportedFeatureError),
    ],
)
def test_wrong_options_of_a_database_are_refused(
    options: dict[str, str], given: dict[str, Any], error: type[Exception]
):
    class Nowhere:
        url = "jdbc:sqlite:/nowhere"

    with pytest.raises(error):
        ingestion(settings(Nowhere, options, **given), MemoryStorage())


def test_database_that_does_not_answer_is_an_error_of_the_source(tmp_path: Path):
    class Empty:
        url = f"jdbc:sqlite:{tmp_path}/db"

    with pytest.raises(SourceError, match="does not answer"):
        ingest(ingestion(settings(Empty, INCREMENTAL), MemoryStorage()))


def test_table_of_a_database_says_the_columns_of_files(postgres: Postgres, tmp_path: Path):
    postgres.run(
        "DROP TABLE IF EXISTS described",
        "CREATE TABLE described (id integer PRIMARY KEY, price numeric(10, 2), at timestamptz, note text)",
    )
    provider = "hoodie.streamer.schemaprovider.source.schema.jdbc"
    options = {
        f"{provider}.connection.url": postgres.url,
        f"{provider}.driver.type": "org.postgresql.Driver",
        f"{provider}.username": "postgres",
        f"{provider}.dbtable": "described",
    }
    landing, storage = Landing(tmp_path / "landing"), MemoryStorage()
    landing.put_text("a", '{"id": 1, "price": "2.50", "other": true}')
    given = file_settings(landing, options, schemaprovider_class="org.x.JdbcbasedSchemaProvider")
    assert run_until_idle(ingestion(given, storage)) == 1
    found = open_table(storage).scan(["id", "price", "at", "note"]).to_arrow()
    assert found.to_pylist() == [{"id": 1, "price": Decimal("2.50"), "at": None, "note": None}]
    assert [str(kind) for kind in found.schema.types] == [
        "int32",
        "decimal128(10, 2)",
        "timestamp[us, tz=UTC]",
        "string",
    ]


@pytest.mark.parametrize(
    ("options", "schema"),
    [({}, None), ({"connection.url": "jdbc:postgresql://h/d", "dbtable": "t"}, pa.schema([("id", pa.int64())]))],
    ids=["no database", "a schema beside it"],
)
def test_schema_provider_of_a_database_needs_its_options_alone(
    tmp_path: Path, options: dict[str, str], schema: pa.Schema | None
):
    conf = {f"hoodie.streamer.schemaprovider.source.schema.jdbc.{name}": value for name, value in options.items()}
    with pytest.raises(ConfigError, match="JdbcbasedSchemaProvider"):
        file_settings(Landing(tmp_path), conf, schemaprovider_class="JdbcbasedSchemaProvider", schema=schema)
