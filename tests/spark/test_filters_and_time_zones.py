"""Conditions of SQL on columns of every type, in a table and over the same rows in memory, in two time zones.

Plain Parquet is no measure: Spark skips row groups by bounds that do not count NaN, and loses rows of `d = NaN`.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import pyhudi

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("part", pa.string()),
        ("i", pa.int32()),
        ("d", pa.float64()),
        ("n", pa.decimal128(20, 3)),
        ("b", pa.bool_()),
        ("s", pa.string()),
        ("x", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("inside", pa.struct([("l", pa.int64()), ("s", pa.string())])),
    ]
)
TEXTS = ["", "A", "Zürich", "a", "e\u0301", "z", "\u00e9", "\uffee", "\U0001f600"]
#: Around the hours that Oslo's clocks leave out, and have twice.
MOMENTS = [
    dt.datetime(2024, 3, 31, 0, 59, 59, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 31, 1, 0, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC),
    dt.datetime(2024, 10, 27, 1, 30, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 30, tzinfo=dt.UTC),
]
CONDITIONS = [
    "i > 3 AND i <= 20",
    "i IN (1, 2, NULL)",
    "NOT (i = 1)",
    "d = 0",
    "d > 5",
    "d = double('NaN')",
    "d >= double('NaN')",
    "isnan(d)",
    "n > 1.5",
    "n = 0",
    "n < -0.001",
    "b",
    "NOT b",
    "s > 'Z'",
    "s >= '\uffee'",
    "s = ''",
    "s LIKE 'Z%'",
    "s IS NULL",
    "x > X'7F'",
    "x = X''",
    "day < DATE'1970-01-01'",
    "day = '2024-03-31'",
    "at >= TIMESTAMP'2024-10-27 02:30:00'",
    "at < '2024-03-31 03:00:00'",
    "at = TIMESTAMP'2024-03-31 01:00:00 UTC'",
    "date(at) = DATE'2024-10-27'",
    "hour(at) = 2",
    "inside.l > 3",
    "inside.s = 'a' OR inside IS NULL",
    "part = 'p1' AND coalesce(d, 0) < 1",
]


def row(number: int) -> dict[str, object]:
    is_null = number % 7 == 0
    doubles = [-0.0, 0.0, math.nan, 5.5, -math.inf, 1e300]
    return {
        "id": number,
        "part": f"p{number // 9}",
        "i": None if is_null else number,
        "d": None if is_null else doubles[number % 6],
        "n": None if is_null else Decimal(number - 5) / 2,
        "b": None if is_null else number % 2 == 0,
        "s": None if is_null else TEXTS[number % len(TEXTS)],
        "x": None if is_null else bytes([number * 9 % 256] * (number % 3)),
        "day": None if is_null else dt.date(1969, 12, 28) + dt.timedelta(days=number * 1000),
        "at": None if is_null else MOMENTS[number % 5],
        "inside": None if is_null else {"l": number % 9, "s": "a" if number % 2 else None},
    }


ROWS = pa.Table.from_pylist([row(number) for number in range(27)], SCHEMA)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A copy-on-write table with statistics, and a merge-on-read one with logs."""
    folder = tmp_path_factory.mktemp("tables")
    statistics = {"hoodie.metadata.index.column.stats.enable": "true"}
    for kind in ("cow", "mor"):
        table = pyhudi.HudiTable.create(
            folder / kind,
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            table_type=kind,  # type: ignore[arg-type]
            hudi_options={"hoodie.compact.inline": "false", **statistics},
        )
        table.upsert(ROWS)
        table.refresh().upsert(ROWS.take(list(range(0, 27, 2))))
    return {"cow": folder / "cow", "mor": folder / "mor"}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Oslo"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_conditions_of_sql_find_the_rows_that_they_find_in_memory(
    spark: SparkSession, places: dict[str, Path], kind: str, zone: str
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    memory = session.createDataFrame(ROWS)
    table = session.read.format("hudi").load(str(places[kind]))
    wrong = {}
    for condition in CONDITIONS:
        expected, found = (
            sorted(one.id for one in rows.where(condition).select("id").collect()) for rows in (memory, table)
        )
        if found != expected:
            wrong[condition] = (expected, found)
    assert wrong == {}
