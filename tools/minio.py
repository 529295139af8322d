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

MODULE = "github.com/minio/minio@latest"
TOOLS = Path(__file__).resolve().parent.parent / ".tools"
BINARY = TOOLS / "bin" / "minio"


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
    """Compile the server. Raises `RuntimeError` without Go, `CalledProcessError` when the build fails."""
    go = shutil.which("go")
    if go is None:
        raise RuntimeError("building MinIO needs `go` on PATH; or set PYHUDI_MINIO to a server's executable")
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(BINARY.parent), "GO111MODULE": "on"}
    # Outside of any Go module of the caller, so that only MinIO's own go.mod counts.
    subprocess.run([go, "install", MODULE], check=True, cwd=TOOLS, env=environment)
    return BINARY


if __name__ == "__main__":
    try:
        print(find() or build())
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(f"minio: {error}")
