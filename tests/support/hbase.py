"""A real HBase for tests: master, region server and ZooKeeper in one process, and its Thrift server in another.

`make interop` has fetched the jars; where it could not, `missing_hbase` says why and the tests skip aloud.

from tests.support.hbase import hbase  # noqa: F401

def test_something(hbase): table = hbase.new_index()
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.oracle import ORACLE_HOME
from tests.support.ports import free_port

JARS = ORACLE_HOME / "hbase"
START_SECONDS = 150
IDLE_SECONDS = 4
"""After which the Thrift server closes a connection; by default it is a minute."""
PACKAGES = ("lang", "nio", "io", "net", "util", "util.concurrent", "lang.reflect")
JAVA = [
    "java",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in PACKAGES),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
]
LOG = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c{2}: %m%n
"""
# Hudi's bundles rename the package of HBase's client, also in the name of a codec that the client sends, and no server
# knows the new name. Without a codec both speak plain protocol buffers.
FOR_BUNDLES = {
    "hbase.client.rpc.codec": "",
    "hbase.client.default.rpc.codec": "",
    "hbase.defaults.for.version.skip": "true",
}


@dataclass(frozen=True, slots=True)
class HBase:
    """A running HBase. `settings`: a folder with the settings for a JVM Hudi that reaches it."""

    thrift_port: int
    zookeeper_port: int
    settings: Path
    thrift: subprocess.Popen[bytes]

    @property
    def server(self) -> str:
        """The address of its Thrift server."""
        return f"thrift://127.0.0.1:{self.thrift_port}"

    def client(self) -> Any:
        """A new connection of the Thrift client."""
        import happybase

        return happybase.Connection("127.0.0.1", self.thrift_port, timeout=60_000)

    def new_table(self, name: str, family: str = "_s") -> str:
        """Create a table, as a user of JVM Hudi does; returns its name."""
        self.client().create_table(name, {family: {}})
        return name

    def rows(self, name: str) -> dict[str, dict[str, str]]:
        """All rows of a table, as text, without the family."""
        found = self.client().table(name).scan()
        return {key.decode(): {c.decode().partition(":")[2]: v.decode() for c, v in row.items()} for key, row in found}

    def options_of_jvm(self, table: str) -> dict[str, str]:
        """The options by which JVM Hudi finds a table of this HBase."""
        return {
            "hoodie.index.type": "HBASE",
            "hoodie.index.hbase.zkquorum": "127.0.0.1",
            "hoodie.index.hbase.zkport": str(self.zookeeper_port),
            "hoodie.index.hbase.zknode.path": "/hbase",
            "hoodie.index.hbase.table": table,
        }


@pytest.fixture(scope="session")
def hbase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBase]:
    """One HBase for the whole run; skips, with the reason, where there is none."""
    reason = missing_hbase()
    if reason is not None:
        pytest.skip(f"no HBase to test against: {reason}")
    with running(tmp_path_factory.mktemp("hbase")) as server:
        yield server


def missing_hbase() -> str | None:
    """Why there is no HBase on this machine, or None."""
    if importlib.util.find_spec("happybase") is None:
        return "the package happybase is not installed"
    if shutil.which("java") is None:
        return "there is no Java"
    return None if JARS.is_dir() else "run `make interop`, which says what it could not fetch"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[HBase]:
    """Start HBase with its files in `folder`, and stop it at the end of the block. It takes half a minute."""
    zookeeper, thrift = free_port(), free_port()
    _write_settings(folder / "conf", {**_settings(folder), "hbase.zookeeper.property.clientPort": str(zookeeper)})
    (folder / "conf" / "log4j.properties").write_text(LOG)
    _write_settings(folder / "jvm", FOR_BUNDLES)
    common = [*JAVA, "-cp", f"{folder / 'conf'}:{JARS}/*"]
    package = "org.apache.hadoop.hbase"
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(
            _process([*common, "-Xmx768m", f"{package}.master.HMaster", "start"], folder / "master.log")
        )
        _wait(master, folder / "master.log", lambda: "Master has completed init" in _text(folder / "master.log"))
        command = [*common, "-Xmx256m", f"{package}.thrift.ThriftServer", "start", "-p", str(thrift)]
        server = stack.enter_context(_process([*command, "--bind", "127.0.0.1"], folder / "thrift.log"))
        _wait(server, folder / "thrift.log", lambda: _listens(thrift))
        yield HBase(thrift, zookeeper, folder / "jvm", server)


def _settings(folder: Path) -> dict[str, str]:
    address = dict.fromkeys(
        (
            "hbase.zookeeper.quorum",
            "hbase.master.ipc.address",
            "hbase.regionserver.ipc.address",
            "hbase.unsafe.master.hostname",
            "hbase.unsafe.regionserver.hostname",
        ),
        "127.0.0.1",
    )
    ports = dict.fromkeys(("hbase.master.info.port", "hbase.regionserver.info.port", "hbase.thrift.info.port"), "-1")
    return {
        **address,
        **ports,
        "hbase.rootdir": f"file://{folder}/data",
        "hbase.tmp.dir": f"{folder}/tmp",
        "hbase.zookeeper.property.dataDir": f"{folder}/zookeeper",
        "hbase.localcluster.assign.random.ports": "true",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.thrift.server.socket.read.timeout": str(IDLE_SECONDS * 1000),
    }


def _write_settings(folder: Path, values: Mapping[str, str]) -> None:
    folder.mkdir()
    # Hadoop reads an empty value only from an attribute.
    lines = [f'<property name="{name}" value="{value}"/>' for name, value in values.items()]
    (folder / "hbase-site.xml").write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


@contextlib.contextmanager
def _process(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, is_ready: Any) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if is_ready():
            return
        time.sleep(0.2)
    raise RuntimeError(f"HBase did not start: {_text(log)[-2000:]}")


def _text(log: Path) -> str:
    return log.read_text(errors="replace")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
