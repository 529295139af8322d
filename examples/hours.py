"""A stream that is written each minute, and a batch for each hour of it, once, when the hour is complete.

    python examples/hours.py [FOLDER]

`ods` gets the readings of two meters as they come, and each commit keeps how far each meter has come in event time. A
job asks that table which hours are complete, and puts their sums into `dwd`, each hour once. A meter that is silent
holds the hours back, as its readings may still come. A reading that comes after its hour was summed up is reported.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pyarrow as pa

import pyhudi

BEGIN = datetime(2026, 11, 22, 9, tzinfo=UTC)
METERS = ("north", "south")
LATENESS = timedelta(minutes=5)
READINGS = pa.schema(
    [
        ("id", pa.string()),
        ("hour", pa.string()),
        ("meter", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("value", pa.int64()),
    ]
)
SUMS = pa.schema([("hour", pa.string()), ("meter", pa.string()), ("total", pa.int64())])


def main(folder: str) -> None:
    """Readings of hours 9 and 10: south is silent for a while, and one reading of north is late by too much."""
    create(folder)
    for minute, meter, value in ((10, "north", 1), (20, "south", 2), (70, "north", 4), (64, "south", 8)):
        show(folder, minute, meter, value)
    show(folder, 66, "south", 16)
    show(folder, 59, "north", 32)
    print(f"after hour 09 was summed up came: {late(folder)}")


def show(folder: str, minute: int, meter: str, value: int) -> None:
    """Write a reading, run the job, and print what it did."""
    write(folder, meter, [(minute, value)])
    print(f"{meter} at {BEGIN + timedelta(minutes=minute):%H:%M}: {run(folder) or 'nothing new is complete'}")


def create(folder: str) -> None:
    """The two tables."""
    pyhudi.HudiTable.create(
        f"{folder}/ods",
        schema=READINGS,
        record_key="id",
        partition_by="hour",
        table_type="mor",
    )
    pyhudi.HudiTable.create(f"{folder}/dwd", schema=SUMS, record_key=["hour", "meter"])


def write(folder: str, meter: str, readings: Iterable[tuple[int, int]]) -> None:
    """Write readings of a meter: in which minute after the begin, and the value."""
    rows = []
    for minute, value in readings:
        at = BEGIN + timedelta(minutes=minute)
        rows.append({"id": f"{meter} {minute}", "hour": f"{at:%Y-%m-%d/%H}", "meter": meter, "at": at, "value": value})
    options = {
        "hoodie.write.track.event.time.watermark": "true",
        "hoodie.payload.event.time.field": "at",
        "hoodie.write.event.time.source": meter,
    }
    pyhudi.HudiTable.for_path(f"{folder}/ods").upsert(pa.Table.from_pylist(rows, READINGS), hudi_options=options)


def run(folder: str) -> list[str]:
    """Sum up the hours that are complete and were not summed up before. Which these are."""
    ods, dwd = (pyhudi.HudiTable.for_path(f"{folder}/{name}") for name in ("ods", "dwd"))
    watermark = ods.watermark(sources=METERS)
    known: dict[str, str | None] = json.loads(dwd.inspect.commit_value("_hours") or "{}")
    hours = sorted(set(ods.scan(["hour"]).to_arrow()["hour"].to_pylist()) - set(known))
    complete = [hour for hour in hours if watermark.covers(hour, lateness=LATENESS)]
    if not complete:
        return []
    rows = ods.scan(["hour", "meter", "value"], [("hour", "in", complete)]).to_arrow()
    sums = rows.group_by(["hour", "meter"]).aggregate([("value", "sum")]).rename_columns(SUMS.names)
    # In one commit with the sums: which hours they are of, and the write of `ods` with which they were complete.
    known |= dict.fromkeys(complete, watermark.instant)
    dwd.upsert(sums.cast(SUMS), hudi_options={"_hours": json.dumps(known)})
    return complete


def late(folder: str) -> dict[str, int]:
    """How many rows came to each hour after it was summed up."""
    ods, dwd = (pyhudi.HudiTable.for_path(f"{folder}/{name}") for name in ("ods", "dwd"))
    summed: dict[str, str] = json.loads(dwd.inspect.commit_value("_hours") or "{}")
    found = {hour: ods.inspect.late_rows(hour, instant) for hour, instant in summed.items()}
    return {hour: rows for hour, rows in found.items() if rows}


def sums(folder: str) -> dict[tuple[str, str], int]:
    """What `dwd` has, by hour and meter."""
    rows = pyhudi.HudiTable.for_path(f"{folder}/dwd").scan(SUMS.names).to_arrow().to_pylist()
    return {(row["hour"], row["meter"]): row["total"] for row in rows}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
