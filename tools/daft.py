"""Make the environment in which Daft reads our tables in the interop tests, below `.tools`.

    python tools/daft.py        makes it unless it is there, and prints its interpreter

Another environment that has Daft can be named by its interpreter in `PYHUDI_DAFT`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".tools" / "daft"
PACKAGES = ("daft==0.7.26", "pyarrow==25.0.1", "sortedcontainers==2.4.0")  # Daft's reader of Hudi imports the last


def find() -> Path | None:
    """The interpreter, if this machine has one: `PYHUDI_DAFT`, or the environment that was made."""
    named = os.environ.get("PYHUDI_DAFT")
    if named:
        return Path(named)
    made = FOLDER / "bin" / "python"
    return made if made.exists() else None


def make() -> Path:
    """Make the environment, or nothing.

    Raises:
        RuntimeError: the packages cannot be had; pip says why.
    """
    python = FOLDER / "bin" / "python"
    commands = [
        [sys.executable, "-m", "venv", str(FOLDER)],
        [str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
    ]
    if any(subprocess.run(command, check=False).returncode for command in commands):
        shutil.rmtree(FOLDER, ignore_errors=True)
        raise RuntimeError("its packages cannot be installed; pip says why")
    return python


if __name__ == "__main__":
    try:
        print(find() or make())
    except RuntimeError as error:
        sys.exit(f"Daft: {error}")
