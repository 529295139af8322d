"""A real HDFS for tests: a NameNode and two DataNodes on loopback, in one process (`MiniHdfs.java`).

from tests.support.hdfs import hdfs  # noqa: F401   (in a conftest.py)

def test_something(hdfs): storage = open_storage(hdfs.new_root())
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.ports import free_port
from tests.support.server_jars import server_jars

START_ATTEMPTS = 3
PROGRAM = Path(__file__).with_name("MiniHdfs.java")


@dataclass
class Hdfs:
    """A running HDFS. `authority`: host and port of its NameNode."""

    authority: str
    command: Sequence[str] = field(repr=False)
    log: Path = field(repr=False)
    process: subprocess.Popen[str] | None = None

    def new_root(self) -> str:
        """The URI of a folder that no other test has."""
        return f"hdfs://{self.authority}/{secrets.token_hex(6)}/table"

    def tell(self, command: str) -> None:
        """Have the NameNode do what only an administrator can, see `MiniHdfs.java`."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        self._wait_for("done")

    @contextlib.contextmanager
    def safe_mode(self) -> Iterator[None]:
        """Have the NameNode refuse changes during the block."""
        self.tell("safemode enter")
        try:
            yield
        finally:
            self.tell("safemode leave")

    def start(self) -> None:
        """Start the process, over what an earlier one has left."""
        for attempt in range(START_ATTEMPTS):
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
                )
            try:
                self._wait_for("ready")
            except RuntimeError:
                self.kill()
                if attempt == START_ATTEMPTS - 1:
                    raise
            else:
                break

    def kill(self) -> None:
        """End the process as a power failure would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                assert stream is not None
                stream.close()
            self.process = None

    def _wait_for(self, answer: str) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == answer:
                return
        raise RuntimeError(f"HDFS has ended: {self.log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """One cluster for the whole run; skips, with the reason, where there is none."""
    if importlib.util.find_spec("hdfs_native") is None:
        pytest.skip("hdfs-native is not installed")
    try:
        jars = server_jars("hdfs")
    except RuntimeError as error:
        pytest.skip(f"no HDFS to test against: {error}")
    with running(jars, tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@contextlib.contextmanager
def running(jars: Path, folder: Path) -> Iterator[Hdfs]:
    """Start a cluster with its data in a folder, on free ports, and stop it at the end of the block."""
    port = free_port()
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{jars}{os.sep}*"]
    command = [*java, str(PROGRAM), str(folder / "data"), str(port)]
    cluster = Hdfs(f"127.0.0.1:{port}", command, folder / "hdfs.log")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()  # its data are thrown away
