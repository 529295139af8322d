"""Hudi's SQL quick start in both engines: the same rows and properties; then each writes on in the other's table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.oracle import Oracle
from tests.support.spark import spark

from pyhudi.format.properties import parse_properties

__all__ = ["spark"]

COLUMNS = "ts BIGINT, uuid STRING, rider STRING, driver STRING, fare DOUBLE, city STRING"
TRIPS = """
    (1695159649087, '334e26e9-8355', 'rider-A', 'driver-K', 19.10, 'san_francisco'),
    (1695091554788, 'e96c4396-3fad', 'rider-C', 'driver-M', 27.70, 'san_francisco'),
    (1695046462179, '9909a8b1-2d15', 'rider-D', 'driver-L', 33.90, 'san_francisco'),
    (1695516137016, 'e3cf430c-889d', 'rider-F', 'driver-P', 34.15, 'sao_paulo'),
    (1695376420876, '1dced545-862b', 'rider-G', 'driver-Q', 43.40, 'sao_paulo'),
    (1695173887231, '3eeb61f7-c2b0', 'rider-I', 'driver-S', 41.06, 'chennai')
"""
SCRIPT = [
    """CREATE TABLE {t} ({columns}) USING hudi PARTITIONED BY (city) LOCATION '{path}'
    TBLPROPERTIES (primaryKey = 'uuid', type = '{type}', orderingFields = 'ts')""",
    "INSERT INTO {t} VALUES {trips}",
    """INSERT INTO {t} PARTITION (city = 'oslo')
    SELECT 1, 'k-1', 'rider-X', driver, fare + 1 FROM {t} WHERE rider = 'rider-A'""",
    "SET hoodie.spark.sql.insert.into.operation = upsert",
    "INSERT INTO {t} (uuid, ts, city, fare) VALUES ('e96c4396-3fad', 1695999999999, 'san_francisco', 0.5)",
    "RESET hoodie.spark.sql.insert.into.operation",
    "INSERT OVERWRITE {t} PARTITION (city = 'chennai') SELECT 2, 'k-2', 'rider-Y', 'driver-Z', 7.5",
    "ALTER TABLE {t} ADD COLUMNS (tip DOUBLE)",
    "INSERT INTO {t} VALUES (3, 'k-3', 'rider-Q', 'driver-Q', 1.5, 0.25, 'oslo')",
    "ALTER TABLE {t} DROP PARTITION (city = 'sao_paulo')",
]
QUESTIONS = [
    "SELECT _hoodie_record_key, _hoodie_partition_path, ts, uuid, rider, driver, fare, tip, city FROM {t}",
    "SELECT city, count(*), max(fare) FROM {t} GROUP BY city",
    "SHOW PARTITIONS {t}",
]
IGNORED = {
    # what each engine writes in its own way, or only one of them
    "hoodie.table.checksum",
    "hoodie.table.name",
    "hoodie.table.create.schema",
    "hoodie.archivelog.folder",
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.index.defs.path",
}


@pytest.fixture
def ours(spark: Any) -> Iterator[Callable[[str], list[tuple[str | None, ...]]]]:
    # In the database of the oracle: JVM Hudi refuses a table under the name of another one.
    yield lambda text: sorted(
        (tuple(_text(value) for value in row) for row in spark.sql(text).collect()), key=str
    )  # every value as text, as the oracle tells it
    for table in ("ours_cow", "ours_mor", "seen_by_us"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def _text(value: Any) -> str | None:
    return None if value is None else str(value) if not isinstance(value, Decimal) else f"{value:f}"


def theirs(oracle: Oracle, text: str) -> list[tuple[str | None, ...]]:
    return sorted((tuple(row.values()) for row in oracle.sql(text)), key=str)


def properties_of(path: Path) -> dict[str, str]:
    values = parse_properties((path / ".hoodie/hoodie.properties").read_bytes(), path=str(path))
    return {name: value for name, value in values.items() if name not in IGNORED}


@pytest.mark.parametrize(
    "kind", [pytest.param("cow", marks=pytest.mark.quick), pytest.param("mor", marks=pytest.mark.quick)]
)
def test_quick_start_gives_the_same_table_in_both_engines_and_each_writes_on(
    kind: str, tmp_path: Path, oracle_of: Callable[[str], Oracle], ours: Any
) -> None:
    oracle = oracle_of("1.2.0")
    names = {"columns": COLUMNS, "trips": TRIPS, "type": kind}
    for text in SCRIPT:
        ours(text.format(t=f"ours_{kind}", path=tmp_path / "ours", **names))
        oracle.sql(text.format(t=f"theirs_{kind}", path=tmp_path / "theirs", **names))

    for question in QUESTIONS:
        assert ours(question.format(t=f"ours_{kind}")) == theirs(oracle, question.format(t=f"theirs_{kind}")), question
    mine, jvm = properties_of(tmp_path / "ours"), properties_of(tmp_path / "theirs")
    assert {name: mine.get(name) for name in jvm} == jvm

    ours(f"CREATE TABLE seen_by_us USING hudi LOCATION '{tmp_path}/theirs'")
    oracle.sql(f"CREATE TABLE seen_by_them_{kind} USING hudi LOCATION '{tmp_path}/ours'")
    added = "VALUES (4, 'k-4', 'rider-N', 'driver-N', 2.5, 0.75, 'bergen')"
    ours(f"INSERT INTO seen_by_us {added}")
    oracle.sql(f"INSERT INTO seen_by_them_{kind} {added}")

    for question in QUESTIONS:
        expected = theirs(oracle, question.format(t=f"seen_by_them_{kind}"))
        assert ours(question.format(t=f"ours_{kind}")) == expected, question
        assert ours(question.format(t="seen_by_us")) == expected, question
    for table in (f"theirs_{kind}", f"seen_by_them_{kind}"):
        oracle.sql(f"DROP TABLE {table}")
