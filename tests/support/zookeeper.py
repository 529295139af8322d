"""A real ZooKeeper for tests: one server process on loopback, from the jars that come with pyspark.

from tests.support.zookeeper import zookeeper  # noqa: F401

def test_something(zookeeper): ZooKeeperLocks(hosts=zookeeper.hosts, ...)
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.ports import free_port

START_SECONDS = 60
TICK_MS = 100
"""Sessions may be as short as two ticks."""
JARS = ("zookeeper-*", "zookeeper-jute-*", "netty-*", "slf4j-api-*", "metrics-core-*", "snappy-java-*", "commons-io-*")


@dataclass(frozen=True, slots=True)
class ZooKeeper:
    """A running server; `hosts` is its connect string."""

    hosts: str
    process: subprocess.Popen[bytes]


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """One server for the whole run; skips, with the reason, where there is none."""
    with running(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@contextlib.contextmanager
def running(folder: Path, port: int | None = None) -> Iterator[ZooKeeper]:
    """Start a server over `folder`, and stop it at the end of the block. Needs kazoo, pyspark and Java."""
    reason = _missing()
    if reason is not None:
        pytest.skip(f"no ZooKeeper to test against: {reason}")
    port = port or free_port()
    settings = folder / "zoo.cfg"
    settings.write_text(
        f"tickTime={TICK_MS}\ndataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "maxSessionTimeout=60000\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n"
    )
    command = ["java", "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", _class_path()]
    command += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)]
    with (folder / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_live(process, port, folder / "zookeeper.log")
            yield ZooKeeper(f"127.0.0.1:{port}", process)
        finally:
            process.kill()
            process.wait()


def _missing() -> str | None:
    for package in ("kazoo", "pyspark"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed"
    return "there is no Java" if shutil.which("java") is None else None


def _class_path() -> str:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    jars = Path(spec.origin).parent / "jars"
    return ":".join(str(jar) for pattern in JARS for jar in sorted(jars.glob(f"{pattern}.jar")))


def _wait_until_live(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            # Before it takes sessions it answers that it is not serving requests.
            connection.sendall(b"srvr")
            if b"Mode: standalone" in connection.makefile("rb").read():
                return
        time.sleep(0.05)
    raise RuntimeError(f"ZooKeeper did not start: {log.read_text(errors='replace')[-2000:]}")
