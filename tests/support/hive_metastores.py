"""Real Hive metastores for tests: one process each on loopback, with Derby in memory.

from tests.support.hive_metastores import hive_metastore  # noqa: F401   (in a conftest.py)

def test_something(hive_metastore): ...  # its `uri`, with the versions that the test is run with
"""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.server_jars import server_jars

START_SECONDS = 150
SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
    "datanucleus.schema.autoCreateAll": "true",
    "metastore.schema.verification": "false",
    "hive.metastore.schema.verification": "false",
    # What is named by default is in Hive's other jars.
    "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
}
_OPENED = ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.nio", "sun.nio.ch")


@dataclass(frozen=True)
class Metastore:
    """A running metastore. `uri`: its address, as options name it."""

    uri: str
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="session", params=["hive-3", "hive-4"])
def hive_metastore(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """One metastore of each version for the whole run; skips, with the reason, where there is none."""
    with metastore_or_skip(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@contextlib.contextmanager
def metastore_or_skip(server: str, folder: Path) -> Iterator[Metastore]:
    """A metastore of one version; skips, with the reason, where there is none."""
    if importlib.util.find_spec("thriftpy2") is None:
        pytest.skip("thriftpy2 is not installed")
    try:
        jars = server_jars(server)
    except RuntimeError as error:
        pytest.skip(f"no Hive metastore to test against: {error}")
    with running(jars, folder) as found:
        yield found


@contextlib.contextmanager
def running(jars: Path, folder: Path) -> Iterator[Metastore]:
    """Start a metastore with its folders in this one, on a free port, and stop it at the end of the block."""
    port = free_port()
    settings = {**SETTINGS, "metastore.warehouse.dir": str(folder / "warehouse")}
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (folder / "metastore-site.xml").write_text(f"<configuration>{rows}</configuration>")
    hadoop = sorted(str(path) for path in jars.glob("hadoop-client-*.jar"))  # before older ones of Hive's
    command = [
        "java",
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        *("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"),
        ":".join([str(folder), *hadoop, f"{jars}/*"]),
        *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)),
    ]
    log = folder / "metastore.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_until_live(process, port, log)
            yield Metastore(f"thrift://127.0.0.1:{port}", process)
        finally:
            process.kill()  # its data are in memory
            process.wait()


def _wait_until_live(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)
    raise RuntimeError(f"the Hive metastore did not start: {log.read_text(errors='replace')[-2000:]}")
