"""A driver that is killed between two stages of an upsert by Spark."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from pyhudi.format.file_names import parse_data_file
from pyhudi.storage.protocol import Storage

PROGRAM = Path(__file__).with_name("killed_driver_program.py")
PROGRAM_SECONDS_MAX = 300
ROWS = pa.table(
    {"id": range(20), "city": [f"c{number % 4}" for number in range(20)], "ts": [1] * 20, "fare": range(20)}
)
#: The calls of the engine that an upsert makes.
STAGES = {"staging": "map_splits", "listing": "map", "look-up": "map", "files": "exchange"}
CALLS = range(1, len(STAGES) + 1)
NAMES = [f"after {stage}" for stage in STAGES]


def kill_driver(
    master: str, calls: int, uri: str, store: Mapping[str, str], config: Mapping[str, str], folder: Path
) -> None:
    """Upsert into the table from a driver that is killed after so many calls of its engine; it runs in `folder`."""
    settings = json.dumps({"uri": uri, "store": dict(store), "config": dict(config)})
    killed = subprocess.run(
        [sys.executable, str(PROGRAM), master, str(calls), settings],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
        check=False,
        cwd=folder,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:]
    assert killed.stdout.split() == list(STAGES.values())[:calls]


def data_files(storage: Storage) -> set[str]:
    """The paths of the table's data files."""
    return {
        info.path for info in storage.list_recursive("") if parse_data_file(info.name) and ".hoodie" not in info.path
    }
