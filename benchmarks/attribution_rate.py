"""How near the attribution of users comes to that of the day after, and how soon: `make bench-claims`.

    python benchmarks/attribution_rate.py [USERS]

100,000 users, of whom 85 % have a click of at most three days before, among ten clicks for each user. The clicks of
five of these 85 come after the first run. `examples/attribution.py` runs before and after: printed are the share of
users that has a channel, and the seconds of a run. At the end the table equals the answer of plain Python.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pyhudi

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
example = importlib.import_module("attribution")

Click: TypeAlias = tuple[str, str, datetime]
User: TypeAlias = tuple[str, str, datetime]

ATTRIBUTED, LATE = 85, 5
CLICKS_OF_A_USER = 10
SCHEDULE_MINUTES = 10


def events(count: int) -> tuple[list[Click], list[Click], list[User]]:
    """Clicks that are there in time, those that are not, and users. Clicks that do not count are older, or newer."""
    chance, noon = random.Random(11), example.BEGIN + timedelta(days=3, hours=12)
    soon, late = list[Click](), list[Click]()
    users = [(f"d{number}", "install", noon + timedelta(seconds=number % 600)) for number in range(count)]
    for number, (device, _, at) in enumerate(users):
        place = number % 100
        for click in range(CLICKS_OF_A_USER):
            back = chance.uniform(0, 71) if click == 0 and place < ATTRIBUTED else chance.uniform(73, 84)
            found = (device, f"c{chance.randrange(9)}", at - timedelta(hours=back))
            (late if click == 0 and place < LATE else soon).append(found)
    return soon, late, users


def say(run: str, seconds: float, found: int, users: int) -> None:
    print(json.dumps({"run": run, "seconds": round(seconds, 1), "rate": round(found / users, 4)}), flush=True)


def main(count: int, folder: str) -> None:
    spark = pyhudi.spark_session(
        master="local[2]", config={"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    )
    example.create(folder)
    soon, late, users = events(count)
    example.write(folder, soon, users)
    longest = 0.0
    for run in ("first", "again, with nothing new", "after the late clicks"):
        if run.startswith("after"):
            example.write(folder, late, [])
        began = time.perf_counter()
        example.run(spark, folder)
        seconds = time.perf_counter() - began
        longest = max(longest, seconds)
        say(run, seconds, len(example.attributed(folder)), count)
    newest: dict[tuple[str, str], tuple[datetime, str]] = {}
    users_at = {device: at for device, _, at in users}
    for device, channel, at in [*soon, *late]:
        if users_at[device] - example.DAYS <= at <= users_at[device]:
            key = (device, "install")
            newest[key] = max(newest.get(key, (at, channel)), (at, channel))
    assert example.attributed(folder) == {key: channel for key, (_, channel) in newest.items()}
    minutes = SCHEDULE_MINUTES + longest / 60
    print(
        json.dumps({"users": count, "clicks": len(soon) + len(late), "longest_minutes_to_a_result": round(minutes, 2)})
    )
    spark.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, name)
