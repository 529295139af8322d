"""Programs that a test runs in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def told_by(
    program: Path, *arguments: str, folder: Path, seconds_max: float, python: str | Path = sys.executable
) -> Any:
    """What a Python program says in its last line, in JSON; it runs in `folder`, and has to end well."""
    ran = subprocess.run(
        [str(python), str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds_max,
        check=False,
        cwd=folder,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])
