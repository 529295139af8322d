"""A real PostgreSQL for tests, where the machine has one: a server on loopback, with a folder of its own.

from tests.support.postgres import postgres  # noqa: F401   (in a conftest.py)

def test_something(postgres): url = postgres.url
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_port

USER = "postgres"
_INSTALLED = "/usr/lib/postgresql"


@dataclass(frozen=True)
class Postgres:
    """A running server. `url`: as JDBC has it. `_control` stops and starts it."""

    url: str
    _control: Callable[[str], None]

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the server at once, and start it again at the end of the block, with what it had."""
        self._control("stop")
        try:
            yield
        finally:
            self._control("start")

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self._address) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self._address) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            found: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
            return found

    @property
    def _address(self) -> str:
        return self.url.removeprefix("jdbc:").replace("://", f"://{USER}@")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server; the test is skipped where there is none, or no driver for it."""
    programs = _programs()
    if programs is None or importlib.util.find_spec("adbc_driver_postgresql") is None:
        pytest.skip("needs PostgreSQL and its ADBC driver")
    folder = Path(tempfile.mkdtemp(prefix="pyhudi-postgres-"))
    other: dict[str, Any] = {}
    if getpass.getuser() == "root":  # as which PostgreSQL does not run
        shutil.chown(folder, USER, USER)
        other = {"user": USER, "group": USER, "extra_groups": []}

    def run(program: str, *arguments: str) -> None:
        silent = subprocess.DEVNULL
        subprocess.run(
            [str(programs / program), *arguments], check=True, cwd=folder, stdout=silent, stderr=silent, **other
        )

    data = str(folder / "data")
    run("initdb", "-D", data, "-A", "trust", "-U", USER, "--no-sync")
    port = free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -c wal_level=logical -k {folder}"

    def control(action: str) -> None:
        run(
            "pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-m", "immediate", "-w", "-t", "300", action
        )

    control("start")
    try:
        yield Postgres(f"jdbc:postgresql://127.0.0.1:{port}/postgres", control)
    finally:
        control("stop")
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path | None:
    """The folder with the programs of the newest PostgreSQL of this machine."""
    named = shutil.which("initdb")
    if named is not None:
        return Path(named).resolve().parent
    found = sorted(Path(_INSTALLED).glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None
