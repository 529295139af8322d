"""The life of a small table, with Arrow alone: create it, insert, upsert, delete, and read it as it was.

    python examples/upsert.py [FOLDER]

Needs neither Spark nor Java.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])


def main(folder: str) -> None:
    """Write the table `trips` below `folder`, and print what it holds after each step."""
    trips = pyhudi.HudiTable.create(
        f"{folder}/trips", schema=SCHEMA, record_key="id", partition_by="city", ordering_fields="ts"
    )
    first = trips.insert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "fare": [9.5, 7.0], "ts": [1, 1]}))
    print(f"insert: {first.inserted} inserted")

    # Trip 2 has a newer version, trip 3 is new, and the version of trip 1 is older than the stored one: it loses.
    rows = pa.table({"id": [2, 3, 1], "city": ["rome", "rome", "oslo"], "fare": [8.0, 5.5, 0.0], "ts": [2, 2, 0]})
    second = trips.upsert(rows)
    print(f"upsert: {second.inserted} inserted, {second.updated} updated")

    trips.delete(pa.table({"id": [3], "city": ["rome"]}))

    # A table is a value: `trips` still shows the moment when it was opened. `refresh()` opens it as it is now.
    now = trips.refresh()
    print("now:", fares(now.scan(columns=["id", "fare"]).to_arrow()))
    print("in rome:", fares(now.scan(columns=["id", "fare"], where=[("city", "==", "rome")]).to_arrow()))
    print("after the insert:", fares(now.scan(columns=["id", "fare"], as_of=first.instant).to_arrow()))


def fares(rows: pa.Table) -> dict[int, float]:
    """The fare of each trip."""
    return {row["id"]: row["fare"] for row in rows.sort_by("id").to_pylist()}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(tempfile.mkdtemp()) / "examples"))
