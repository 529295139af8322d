"""A DynamoDB for tests: moto's server, in a process of its own on loopback.

from tests.support.dynamodb import dynamodb, dynamodb_server  # noqa: F401

def test_something(dynamodb): DynamoDbLocks(endpoint_url=dynamodb.endpoint, ...)
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.support.ports import free_port

START_SECONDS = 60
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}


@dataclass(frozen=True, slots=True)
class DynamoDb:
    """A running server; `endpoint` is an http URL."""

    endpoint: str


@pytest.fixture
def dynamodb(dynamodb_server: DynamoDb, monkeypatch: pytest.MonkeyPatch) -> DynamoDb:
    """The run's server, with credentials in the environment for this test alone."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return dynamodb_server


@pytest.fixture(scope="session")
def dynamodb_server() -> Iterator[DynamoDb]:
    """One server for the whole run; skips, with the reason, where there is none."""
    for package in ("boto3", "moto", "flask"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no DynamoDB to test against: {package} is not installed")
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_live(process, port)
        yield DynamoDb(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def _wait_until_live(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("moto's server did not start")
