"""A real MariaDB for tests, where the machine has one: a server on loopback with a binlog, in a folder of its own.

from tests.support.mariadb import mariadb  # noqa: F401   (in a conftest.py)

def test_something(mariadb): mariadb.run("insert into shop.orders values (1)")
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port

USER = "reader"
_PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"  # where Debian has the server, and users do not look
_START_SECONDS = 60


@dataclass(frozen=True)
class MariaDb:
    """A running server. `port`: on 127.0.0.1, for the user `reader` without a password."""

    port: int
    _client: tuple[str, ...]

    def run(self, *statements: str) -> str:
        """Run statements in one transaction; what the last one gave, as text."""
        script = "".join(f"{statement};\n" for statement in ("begin", *statements, "commit"))
        done = subprocess.run(self._client, input=script, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, table: str, columns: list[str]) -> list[dict[str, Any]]:
        """The rows of a table by its first column: numbers, and all else as text."""
        pairs = ", ".join(f"'{name}', {name}" for name in columns)
        found = self.run(f"select json_object({pairs}) from {table} order by {columns[0]}")
        return [json.loads(line) for line in found.splitlines()]


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A server; the test is skipped where there is none."""
    found = [shutil.which(program, path=_PATH) for program in _PROGRAMS]
    if None in found:
        pytest.skip(f"needs MariaDB ({', '.join(_PROGRAMS)})")
    server, install, client = (str(program) for program in found)
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-mariadb-"))  # the name of a socket may have 107 characters
    data, socket, port, user = folder / "data", folder / "socket", free_port(), getpass.getuser()
    settings = ["--no-defaults", f"--datadir={data}", f"--user={user}"]
    subprocess.run(
        [install, *settings, "--auth-root-authentication-method=normal", "--skip-test-db"],
        check=True,
        capture_output=True,
    )
    started = [
        *(server, *settings, f"--socket={socket}", f"--port={port}", "--bind-address=127.0.0.1"),
        *("--log-bin=binlog", "--binlog-format=ROW", "--server-id=1", "--skip-name-resolve"),
        *("--innodb-flush-log-at-trx-commit=0", f"--pid-file={folder / 'pid'}"),
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(started, stdout=log, stderr=log) as process:
        found_client = (client, "--no-defaults", f"--socket={socket}", "--batch", "--raw", "--skip-column-names")
        running = MariaDb(port, found_client)
        try:
            _wait_until_live(process, socket, folder / "log")
            running.run(f"create user {USER}@'%'", f"grant all on *.* to {USER}@'%'")
            yield running
        finally:
            process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def _wait_until_live(process: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not socket.exists():
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
        time.sleep(0.05)
