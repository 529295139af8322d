"""The real Debezium for tests: Kafka Connect in a process of its own, which sends a database's changes to the broker.

with connector(broker, tmp_path, {"connector.class": "io.debezium.connector.mariadb.MariaDbConnector", …}): …
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.support.kafka import Broker
from tests.support.mariadb import USER, MariaDb
from tests.support.ports import free_port
from tests.support.postgres import USER as USER_OF_POSTGRES
from tests.support.postgres import Postgres
from tests.support.server_jars import server_jars

STOP_SECONDS = 30


@contextlib.contextmanager
def connector(broker: Broker, folder: Path, settings: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a connector of Debezium until the end of the block; the test is skipped where its jars cannot be had."""
    try:
        jars = server_jars("debezium")
    except RuntimeError as error:
        pytest.skip(f"no Debezium to test with: {error}")
    worker = {
        "bootstrap.servers": broker.servers,
        "listeners": f"http://127.0.0.1:{free_port()}",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "service_load",
    }
    files = [folder / "worker.properties", folder / "connector.properties"]
    for file, values in zip(files, (worker, {"tasks.max": "1", **settings}), strict=True):
        file.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", main, *map(str, files)]
    with (folder / "connect.log").open("ab") as log, subprocess.Popen(java, stdout=log, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def settings_of_mariadb(broker: Broker, server: MariaDb, folder: Path, topics: str, table: str) -> dict[str, str]:
    """The settings of a connector that sends the changes of a table to the topic `topics.database.table`."""
    return {
        "name": topics,
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": "",
        "database.server.id": "4711",
        "database.ssl.mode": "disable",
        "topic.prefix": topics,
        "table.include.list": table,
        "include.schema.changes": "false",  # to a topic of their own
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / "history"),
    }


def settings_of_postgres(server: Postgres, topics: str, table: str) -> dict[str, str]:
    """The settings of a connector that sends the changes of a table to the topic `topics.schema.table`."""
    address = urlsplit(server.url.removeprefix("jdbc:"))
    return {
        "name": topics,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": str(address.hostname),
        "database.port": str(address.port),
        "database.user": USER_OF_POSTGRES,
        "database.password": "",
        "database.dbname": address.path.strip("/"),
        "topic.prefix": topics,
        "table.include.list": table,
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
    }
