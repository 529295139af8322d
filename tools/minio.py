"""Build the S3 server that the storage tests talk to: MinIO, from the Go module proxy, into `.tools/bin`.

    python tools/minio.py        builds it unless it is there (about three minutes, once) and prints its path

Needs `go` on PATH. A server that is installed already can be named in `PYHUDI_MINIO` instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from filelock import FileLock, Timeout

MODULE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
"""One commit, so that a server that is built next year is the one that the tests passed with."""

TOOLS = Path(__file__).resolve().parent.parent / ".tools"
BINARY = TOOLS / "bin" / "minio"
BUILD_SECONDS_MAX = 900
"""A build takes three minutes on two cores that nobody else uses, twice that beside a test run."""


def server() -> Path:
    """The server's executable, built first if this machine has none.

    Processes that ask at the same time (the workers of pytest-xdist) wait for the first one's build and share it.

    Raises:
        RuntimeError: there is none and it could not be built; the message says why.
    """
    found = find()
    if found is not None:
        return found
    TOOLS.mkdir(exist_ok=True)
    try:
        with FileLock(TOOLS / "minio.lock", timeout=BUILD_SECONDS_MAX):
            return find() or build()
    except Timeout as error:
        raise RuntimeError(f"another process builds MinIO for more than {BUILD_SECONDS_MAX} seconds") from error


def find() -> Path | None:
    """The server's executable if this machine has one: `PYHUDI_MINIO`, our own build, or PATH."""
    named = os.environ.get("PYHUDI_MINIO")
    if named:
        return Path(named)
    if BINARY.exists():
        return BINARY
    installed = shutil.which("minio")
    return Path(installed) if installed else None


def build() -> Path:
    """Compile the server, and put it in its place only when it is whole.

    Raises:
        RuntimeError: no Go, or the build failed or took too long.
    """
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("building MinIO needs `go` on PATH; or set PYHUDI_MINIO to a server's executable")
    unfinished = TOOLS / "unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(unfinished), "GO111MODULE": "on"}
    # Without symbols the linker has less to do. Outside of any Go module of the caller, so that only MinIO's own
    # go.mod counts.
    command = [go, "install", "-ldflags=-s -w", MODULE]
    try:
        subprocess.run(
            command, check=True, cwd=unfinished, env=environment, timeout=BUILD_SECONDS_MAX, capture_output=True
        )
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"building MinIO failed: {error.stderr.decode(errors='replace')[-2000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"building MinIO took more than {BUILD_SECONDS_MAX} seconds") from error
    BINARY.parent.mkdir(exist_ok=True)
    return (unfinished / "minio").replace(BINARY)


if __name__ == "__main__":
    try:
        if find() is None:
            print("building MinIO, the S3 server of the tests, once: about three minutes", file=sys.stderr, flush=True)
        print(server())
    except RuntimeError as error:
        sys.exit(f"minio: {error}")
