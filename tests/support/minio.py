"""A real S3 server for tests: one MinIO process on loopback, with a folder and credentials of its own.

Use the `minio` fixture:

    from tests.support.minio import minio  # noqa: F401   (in a conftest.py)

    def test_something(minio): storage = open_storage(minio.new_root(), minio.options)
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.ports import free_port

START_SECONDS = 90
BUCKET = "tables"


@dataclass(frozen=True, slots=True)
class Minio:
    """A running server: `endpoint` is an http URL, `folder` holds its data (`<folder>/<bucket>/<key>/…`)."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    folder: Path = field(repr=False)

    @property
    def options(self) -> dict[str, str]:
        """Storage options that reach this server."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.access.key": self.access_key,
            "fs.s3a.secret.key": self.secret_key,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.endpoint.region": "us-east-1",
        }

    def new_root(self, scheme: str = "s3") -> str:
        """The URI of a folder in the bucket that no other test has."""
        return f"{scheme}://{BUCKET}/{secrets.token_hex(6)}/table"


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """One server for the whole run; skips, with the reason, where there is none and none can be built."""
    try:
        binary = server_program()
    except RuntimeError as error:
        pytest.skip(f"no S3 server to test against: {error}")
    folder = tmp_path_factory.mktemp("minio")
    # A folder that exists in the server's root before it starts is a bucket.
    (folder / "data" / BUCKET).mkdir(parents=True)
    with running(binary, folder) as server:
        yield server


@contextlib.contextmanager
def running(binary: Path, folder: Path) -> Iterator[Minio]:
    """Start a server over `folder/data` on a free port, and stop it at the end of the block."""
    server = Minio(
        endpoint=f"http://127.0.0.1:{free_port()}",
        access_key=f"access{secrets.token_hex(8)}",
        secret_key=f"secret{secrets.token_hex(16)}",
        folder=folder / "data",
    )
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "HOME": str(folder),
        "MINIO_ROOT_USER": server.access_key,
        "MINIO_ROOT_PASSWORD": server.secret_key,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "GOMAXPROCS": "2",
    }
    address = server.endpoint.removeprefix("http://")
    command = [str(binary), "server", "--quiet", "--address", address, str(server.folder)]
    with (folder / "minio.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_until_live(process, server.endpoint, folder / "minio.log")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def server_program() -> Path:
    """The executable, built if there is none yet, by one process for all; `RuntimeError` where that cannot be."""
    program: Path = _minio_tool().server()
    return program


def needs_server(item: pytest.Item) -> bool:
    """Whether a test will ask for the `minio` fixture, by its name or as the store `s3`."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return "minio" in getattr(item, "fixturenames", ()) or parameters.get("storage") == "s3"


def _minio_tool() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "minio.py"
    spec = importlib.util.spec_from_file_location("pyhudi_tools_minio", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _wait_until_live(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        # Anonymous access is denied once the server knows its users; before that it answers 503, or not at
        # all.
        try:
            urllib.request.urlopen(f"{endpoint}/{BUCKET}", timeout=1).close()
        except urllib.error.HTTPError as answer:
            answer.close()
            if answer.code == 403:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"MinIO did not start: {log.read_text(errors='replace')[-2000:]}")
