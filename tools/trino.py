"""Fetch Trino, which reads our tables in the interop tests, from Maven Central into `.tools`.

    python tools/trino.py        fetches it unless it is there (821 MB, of which 450 MB stay), and prints its folder

Needs `mvn` and `tar` on PATH, and to run Java 24 or newer, at `JAVA_HOME` or below `/usr/lib/jvm`. Another folder that
has Trino can be named in `PYHUDI_TRINO`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "476"
JAVA_MAJOR_MIN = 24
TOOLS = Path(__file__).resolve().parent.parent / ".tools"
FOLDER = TOOLS / f"trino-{VERSION}"
KEPT = ("lib", "plugin/hudi", "secrets-plugin")


def find() -> Path | None:
    """The folder with Trino's jars, if this machine has one: `PYHUDI_TRINO`, or what was fetched."""
    named = os.environ.get("PYHUDI_TRINO")
    if named:
        return Path(named)
    return FOLDER if FOLDER.exists() else None


def find_java() -> Path | None:
    """The program of a Java that Trino runs on."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    for home in [*homes, *sorted(Path("/usr/lib/jvm").glob("*"))]:
        release = home / "release"
        version = re.search(r'JAVA_VERSION="(\d+)', release.read_text()) if release.is_file() else None
        if version is not None and int(version.group(1)) >= JAVA_MAJOR_MIN:
            return home / "bin" / "java"
    return None


def fetch() -> Path:
    """Fetch Trino, or nothing.

    Raises:
        RuntimeError: it cannot be had; Maven says why.
    """
    incoming = TOOLS / "incoming-trino"
    incoming.mkdir(parents=True, exist_ok=True)
    archive = incoming / f"trino-server-{VERSION}.tar.gz"
    artifact = f"io.trino:trino-server:{VERSION}:tar.gz"
    commands = [
        ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={incoming}"],
        ["tar", "-xzf", str(archive), "-C", str(incoming)],  # all of it: plugins share files by hard links
    ]
    try:
        for command in commands:
            if subprocess.run(command, check=False, cwd=incoming).returncode:
                raise RuntimeError(f"{command[0]} says why")
        for name in KEPT:
            kept = incoming / "kept" / name
            kept.parent.mkdir(parents=True, exist_ok=True)
            (incoming / f"trino-server-{VERSION}" / name).replace(kept)
        return (incoming / "kept").replace(FOLDER)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


if __name__ == "__main__":
    try:
        print(find() or fetch())
    except RuntimeError as error:
        sys.exit(f"Trino: {error}")
