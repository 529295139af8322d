"""Two processes write one table at the same time, and nothing is lost. No lock service is configured.

    python examples/two_writers.py [FOLDER]

Each process upserts the readings of its own sensor. All readings lie in one file group, so the writers conflict: the
second to commit gets `WriteConflictError`, unless an option lets pyhudi run the write again.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("sensor", pa.string()), ("hour", pa.int64()), ("degrees", pa.float64())])
HOURS = 3
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "20"}


def main(folder: str) -> None:
    """Write the table `readings` below `folder` from two processes, and print how many readings it holds."""
    path = f"{folder}/readings"
    readings = pyhudi.HudiTable.create(path, schema=SCHEMA, record_key=["sensor", "hour"])
    readings.insert(reading("attic", hour=0, degrees=20.0))

    # "spawn" begins each process afresh: a fork would inherit the locks of this process's threads.
    with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as processes:
        list(processes.map(write_readings, [path, path], ["cellar", "roof"]))

    readings = readings.refresh()
    counts = (
        readings.scan(columns=["sensor"]).to_arrow().group_by("sensor").aggregate([([], "count_all")]).sort_by("sensor")
    )
    for row in counts.to_pylist():
        print(f"readings of the {row['sensor']}: {row['count_all']}")
    print(f"{readings.inspect.history().num_rows} commits")


def write_readings(path: str, sensor: str) -> None:
    """Upsert one reading per hour, each in a write of its own."""
    table = pyhudi.HudiTable.for_path(path, hudi_options=RETRIES)
    for hour in range(HOURS):
        table.upsert(reading(sensor, hour=hour, degrees=15.0 + hour))


def reading(sensor: str, *, hour: int, degrees: float) -> pa.Table:
    """One row of the table."""
    return pa.table({"sensor": [sensor], "hour": [hour], "degrees": [degrees]}, schema=SCHEMA)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "examples"))
