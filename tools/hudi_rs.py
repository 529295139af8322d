"""Build the program by which hudi-rs 0.6 writes in the interop tests (`tests/interop/rust`), into `.tools/bin`.

    python tools/hudi_rs.py        builds it unless it is there (half an hour on two cores, once) and prints its path

Needs `cargo` and `protoc` on PATH, and the messages that come with `protoc` (in Debian the package `libprotobuf-dev`).
A program that is built already can be named in `PYHUDI_HUDI_RS` instead.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tests" / "interop" / "rust"
TARGET = ROOT / ".tools" / "hudi-rs"
BINARY = ROOT / ".tools" / "bin" / "hudi-rs"


def find() -> Path | None:
    """The program if this machine has it: `PYHUDI_HUDI_RS`, or our own build."""
    named = os.environ.get("PYHUDI_HUDI_RS")
    if named:
        return Path(named)
    return BINARY if BINARY.exists() else None


def build() -> Path:
    """Compile the program, and put it in its place only when it is whole.

    Raises:
        RuntimeError: a tool is missing, or the build failed.
    """
    missing = [tool for tool in ("cargo", "protoc") if shutil.which(tool) is None]
    if missing:
        raise RuntimeError(f"building hudi-rs needs {' and '.join(missing)} on PATH; or set PYHUDI_HUDI_RS")
    _check_messages()
    command = [
        "cargo",
        "build",
        "--release",
        "--manifest-path",
        str(SOURCE / "Cargo.toml"),
        "--target-dir",
        str(TARGET),
    ]
    if subprocess.run(command, check=False).returncode:
        raise RuntimeError("building hudi-rs failed; cargo says why")
    BINARY.parent.mkdir(parents=True, exist_ok=True)
    return (TARGET / "release" / "hudi-rs").replace(BINARY)


def _check_messages() -> None:
    """Raise `RuntimeError` where `protoc` does not find its own messages, before a build that ends there."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "any.proto").write_text('syntax = "proto3";\nimport "google/protobuf/empty.proto";\n')
        command = ["protoc", f"--proto_path={folder}", f"--descriptor_set_out={folder}/any", "any.proto"]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            raise RuntimeError("protoc does not find google/protobuf/empty.proto: install libprotobuf-dev")


if __name__ == "__main__":
    try:
        print(find() or build())
    except RuntimeError as error:
        sys.exit(f"hudi-rs: {error}")
