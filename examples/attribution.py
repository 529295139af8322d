"""Which click brought a new user: every ten minutes, by MERGE INTO, with Spark.

    python examples/attribution.py [FOLDER]

`clicks` has each click once, by upsert; `users` are installs and first orders, by insert. A run takes the newest click
of at most three days before: one of exactly three days before counts, one after it does not. A run that was left out is
made up for by the next, and a click that came late corrects what was said before. After a run a queue is told what
changed: it keeps the position of the table up to which it was told.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

import pyhudi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = timedelta(days=3)
BEGIN = datetime(2026, 11, 20, tzinfo=UTC)
CLICKS = pa.schema(
    [("device", pa.string()), ("day", pa.string()), ("channel", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)
USERS = pa.schema([("device", pa.string()), ("kind", pa.string()), ("at", pa.timestamp("us", "UTC"))])
RESULT = pa.schema(
    [("device", pa.string()), ("kind", pa.string()), ("channel", pa.string()), ("clicked", pa.timestamp("us", "UTC"))]
)
Click: TypeAlias = tuple[str, str, datetime]
User: TypeAlias = tuple[str, str, datetime]
BEFORE_ALL = "20000101000000"
"""A position before all writes."""
MERGE = """
    MERGE INTO hudi.`{folder}/attribution` AS t
    USING (
        SELECT device, kind, channel, clicked FROM (
            SELECT u.device, u.kind, c.channel, c.at AS clicked,
                   row_number() OVER (PARTITION BY u.device, u.kind ORDER BY c.at DESC) AS place
            FROM hudi.`{folder}/users` AS u
            JOIN hudi.`{folder}/clicks` AS c ON c.device = u.device
            WHERE c.at <= u.at AND c.at >= u.at - INTERVAL 3 DAYS
        ) WHERE place = 1
    ) AS s
    ON t.device = s.device AND t.kind = s.kind
    WHEN MATCHED AND s.clicked > t.clicked THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *
"""


def main(folder: str) -> None:
    """Clicks and users of three runs, the second of which is left out; and the same in plain Python."""
    spark = pyhudi.spark_session(
        master="local[1]", config={"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
    )
    create(folder)
    noon = BEGIN + timedelta(days=3, hours=12)
    second = timedelta(seconds=1)
    clicks: list[Click] = [
        ("a", "search", noon - DAYS),
        ("b", "video", noon - DAYS - second),
        ("c", "video", noon - 2 * second),
        ("c", "search", noon + second),
    ]
    users: list[User] = [("a", "install", noon), ("b", "install", noon), ("c", "install", noon), ("d", "install", noon)]
    write(folder, clicks, users)
    run(spark, folder)
    print(attributed(folder))
    position, _ = told(folder, BEFORE_ALL)
    later: list[Click] = [("d", "mail", noon - timedelta(days=1)), ("c", "mail", noon - timedelta(days=1))]
    write(folder, later, [("c", "order", noon + 2 * second)])  # the run of these minutes is left out
    last: list[Click] = [("a", "mail", noon - timedelta(days=2)), ("b", "video", noon)]
    write(folder, last, [])
    run(spark, folder)
    position, changed = told(folder, position)
    print("told:", changed)
    run(spark, folder)  # again, as after a failure: nothing changes
    print("told:", told(folder, position)[1])
    print(attributed(folder))
    assert attributed(folder) == expected([*clicks, *later, *last], [*users, ("c", "order", noon + 2 * second)])
    spark.stop()


def create(folder: str) -> None:
    """The three tables."""
    pyhudi.HudiTable.create(
        f"{folder}/clicks", schema=CLICKS, record_key=["device", "at"], partition_by="day", table_type="mor"
    )
    pyhudi.HudiTable.create(f"{folder}/users", schema=USERS, record_key=["device", "kind"])
    pyhudi.HudiTable.create(f"{folder}/attribution", schema=RESULT, record_key=["device", "kind"])


def write(folder: str, clicks: Iterable[Click], users: Iterable[User]) -> None:
    """Clicks and users of some minutes."""
    rows = [{"device": device, "day": f"{at:%Y-%m-%d}", "channel": channel, "at": at} for device, channel, at in clicks]
    pyhudi.HudiTable.for_path(f"{folder}/clicks").upsert(pa.Table.from_pylist(rows, CLICKS))
    new = [dict(zip(USERS.names, user, strict=True)) for user in users]
    pyhudi.HudiTable.for_path(f"{folder}/users").insert(pa.Table.from_pylist(new, USERS))


def run(spark: SparkSession, folder: str) -> None:
    """What the scheduler calls every ten minutes."""
    spark.sql(MERGE.format(folder=folder))


def attributed(folder: str) -> dict[tuple[str, str], str]:
    """The channel of each user, by device and kind."""
    rows = pyhudi.HudiTable.for_path(f"{folder}/attribution").scan(RESULT.names).to_arrow().to_pylist()
    return {(row["device"], row["kind"]): row["channel"] for row in sorted(rows, key=str)}


def told(folder: str, after: str) -> tuple[str, list[tuple[str, str, str]]]:
    """What a queue is told that knows the result at a position: the position of now, and the users that changed."""
    table = pyhudi.HudiTable.for_path(f"{folder}/attribution")
    position = table.inspect.position() or BEFORE_ALL
    changed = table.changes(after, position, columns=RESULT.names, format="latest_state").to_arrow().to_pylist()
    return position, sorted((row["device"], row["kind"], row["channel"]) for row in changed)


def expected(clicks: Sequence[Click], users: Iterable[User]) -> dict[tuple[str, str], str]:
    """The same from all clicks and users, in plain Python."""
    found = {}
    for device, kind, at in users:
        known = [(clicked, channel) for of, channel, clicked in clicks if of == device and at - DAYS <= clicked <= at]
        if known:
            found[(device, kind)] = max(known)[1]
    return found


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
