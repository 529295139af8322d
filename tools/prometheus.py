"""Get the Prometheus that scrapes a stream in the tests: Debian's package, unpacked below `.tools` and not installed.

    python tools/prometheus.py        unpacks it unless it is there, and prints its path

A server that is installed already is taken from PATH, or can be named in `PYHUDI_PROMETHEUS`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent / ".tools"
FOLDER = TOOLS / "prometheus"
SECONDS_MAX = 300


def find() -> Path | None:
    """The server's executable if this machine has one: `PYHUDI_PROMETHEUS`, what was unpacked, or PATH."""
    named = os.environ.get("PYHUDI_PROMETHEUS")
    if named:
        return Path(named)
    unpacked = FOLDER / "usr" / "bin" / "prometheus"
    if unpacked.exists():
        return unpacked
    installed = shutil.which("prometheus")
    return Path(installed) if installed else None


def unpack() -> Path:
    """Fetch the package and unpack it, and put it in its place only when it is whole.

    Raises:
        RuntimeError: this is no Debian, or the package cannot be had; the message says why.
    """
    if shutil.which("apt-get") is None:
        raise RuntimeError("apt-get is not here: install Prometheus, or name its executable in PYHUDI_PROMETHEUS")
    TOOLS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOOLS) as name:
        folder = Path(name)
        _run(["apt-get", "download", "prometheus"], folder)
        (package,) = folder.glob("prometheus_*.deb")
        _run(["dpkg-deb", "-x", str(package), "unpacked"], folder)
        if not FOLDER.exists():
            (folder / "unpacked").rename(FOLDER)
    return FOLDER / "usr" / "bin" / "prometheus"


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, check=True, cwd=folder, timeout=SECONDS_MAX, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{' '.join(command)}: {error.stderr[-1000:]}") from error
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{' '.join(command)} took more than {SECONDS_MAX} seconds") from error


if __name__ == "__main__":
    try:
        print(find() or unpack())
    except RuntimeError as error:
        sys.exit(f"prometheus: {error}")
