"""Trino reads our tables by the names that a Hive metastore has: base files of all versions, of no logs.

It is fetched by `python tools/trino.py`.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.hive_metastores import metastore_or_skip
from tests.support.ports import free_port

import pyhudi
from tools import trino as program

START_SECONDS = 500
QUERY_SECONDS = 120
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
Row = tuple[int, str, float]

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Trino:
    """A server of Trino that finds tables in a metastore, both by their addresses."""

    port: int
    metastore: str

    def query(self, sql: str) -> list[list[Any]]:
        address = f"http://127.0.0.1:{self.port}/v1/statement"
        headers = {"X-Trino-User": "tests", "X-Trino-Catalog": "hudi", "X-Trino-Schema": "rides"}
        answer = _json(urllib.request.Request(address, sql.encode(), headers))
        rows = answer.get("data", [])
        while "nextUri" in answer:
            answer = _json(urllib.request.Request(answer["nextUri"]))
            rows += answer.get("data", [])
        assert "error" not in answer, answer["error"]["message"]
        return rows

    def rows(self, table: str) -> list[Row]:
        return [tuple(row) for row in self.query(f"SELECT id, city, fare FROM {table} ORDER BY id")]


def _json(request: urllib.request.Request) -> Any:
    with urllib.request.urlopen(request, timeout=QUERY_SECONDS) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    jars, java = program.find(), program.find_java()
    if jars is None or java is None:
        pytest.skip(f"Trino, or Java {program.JAVA_MAJOR_MIN} for it, is not here: python tools/trino.py")
    folder = tmp_path_factory.mktemp("trino")
    with metastore_or_skip("hive-3", tmp_path_factory.mktemp("metastore")) as metastore:
        found = Trino(free_port(), metastore.uri)
        (folder / "catalogs").mkdir()
        (folder / "catalogs" / "hudi.properties").write_text(
            f"connector.name=hudi\nhive.metastore.uri={metastore.uri}\nfs.hadoop.enabled=true\n"
        )
        (folder / "config.properties").write_text(
            "coordinator=true\nnode-scheduler.include-coordinator=true\n"
            f"http-server.http.port={found.port}\ndiscovery.uri=http://localhost:{found.port}\n"
            f"catalog.config-dir={folder / 'catalogs'}\n"
            "query.max-memory=300MB\nquery.max-memory-per-node=200MB\nmemory.heap-headroom-per-node=200MB\n"
        )
        settings = {"config": folder / "config.properties", "node.environment": "tests", "node.id": "one"}
        settings["node.data-dir"] = folder / "data"
        command = [java, "-Xmx1g", "-XX:+UseSerialGC", "--add-modules=jdk.incubator.vector"]
        command += [f"-D{name}={value}" for name, value in settings.items()]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [*command, "-cp", f"{jars}/lib/*", "io.trino.server.TrinoServer"], cwd=jars, stdout=log, stderr=log
            )
        try:
            _wait_until_live(found, server, folder / "log")
            yield found
        finally:
            server.kill()
            server.wait()


def _wait_until_live(server: Trino, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError, AssertionError):
            server.query("SELECT 1")
            return
        time.sleep(1)
    raise RuntimeError(f"Trino did not start: {log.read_text(errors='replace')[-2000:]}")


def rows(*given: Row) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], SCHEMA)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_trino_reads_what_base_files_have(kind: str, version: int, trino: Trino, tmp_path: Path) -> None:
    name = f"{kind}{version}"
    table = pyhudi.HudiTable.create(
        tmp_path / name,
        name=name,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        table_type=kind,
        table_version=version,
    )
    options = {
        "hoodie.datasource.hive_sync.enable": "true",
        "hoodie.datasource.hive_sync.metastore.uris": trino.metastore,
        "hoodie.datasource.hive_sync.database": "rides",
    }
    inserted = [(1, "oslo", 1.0), (2, "rome", 2.0), (3, "oslo", 3.0), (4, "it's 1/2", 4.0)]
    table.upsert(rows(*inserted), hudi_options=options)
    table.upsert(rows((1, "oslo", 10.0)), hudi_options=options)
    table.delete_where([("id", "==", 3)])
    changed = [(1, "oslo", 10.0), (2, "rome", 2.0), (4, "it's 1/2", 4.0)]
    assert trino.rows(name) == (changed if kind == "cow" else inserted)

    if kind == "mor":
        table.services.compact()
        assert trino.rows(name) == changed
    table.services.cluster()
    assert trino.rows(name) == changed
    table.insert_overwrite(rows((7, "rome", 7.0)), hudi_options=options)
    assert trino.rows(name) == [changed[0], changed[2], (7, "rome", 7.0)]
    table.delete_partition(["rome"])
    table.alter.add_column("tip", pa.float64())
    table.catalog.sync(hudi_options=options)
    assert trino.query(f"SELECT id, tip FROM {name} ORDER BY id") == [[1, None], [4, None]]
    assert trino.query(f"SELECT id FROM {name} WHERE city = 'it''s 1/2'") == [[4]]
    assert trino.query(f"SELECT count(*) FROM {name} WHERE city = 'rome'") == [[0]]
