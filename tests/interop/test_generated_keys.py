"""Hudi's quick start on a table without keys: both engines upsert and delete rows by the meta columns of a read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.spark import spark

import pyhudi

__all__ = ["spark"]

OracleOf = Callable[[str], Oracle]
TRIPS = pa.table(
    {
        "rider": ["rider-A", "rider-C", "rider-D", "rider-F", "rider-J"],
        "fare": [19.1, 27.7, 33.9, 34.15, 17.85],
        "city": ["san_francisco", "san_francisco", "san_francisco", "sao_paulo", "chennai"],
    }
)
OPTIONS = {"hoodie.table.name": "trips", "hoodie.datasource.write.partitionpath.field": "city"}
OPERATION = "hoodie.datasource.write.operation"
NO_METADATA = {"hoodie.metadata.enable": "false"}


def of_riders(rows: pa.Table, *riders: str) -> pa.Table:
    return rows.filter(pc.is_in(rows["rider"], pa.array(riders)))


def tenfold(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("fare")
    return rows.set_column(at, "fare", pc.multiply(rows["fare"], 10.0))


def fares(rows: pa.Table) -> dict[str, float]:
    return {row["rider"]: round(row["fare"], 2) for row in rows.to_pylist()}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, pytest.param(9, marks=pytest.mark.quick)])
def test_rows_that_were_read_are_upserted_and_deleted_by_both_engines_in_turn(
    version: int, kind: str, oracle_of: OracleOf, spark: Any, tmp_path: Path
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / "trips"
    options = {**OPTIONS, "hoodie.datasource.write.table.type": kind}
    oracle.write(path, TRIPS, {**options, OPERATION: "bulk_insert"})
    table = pyhudi.HudiTable.for_path(str(path))

    def assert_both_read(expected: dict[str, float]) -> None:
        ours = table.refresh().scan().to_arrow()
        assert fares(ours) == expected
        assert_same_rows(oracle.read(path, NO_METADATA), ours, ignore=[], hint=f"{version} {kind}")

    table.upsert(tenfold(of_riders(table.scan().to_arrow(), "rider-D")))
    assert_both_read({"rider-A": 19.1, "rider-C": 27.7, "rider-D": 339.0, "rider-F": 34.15, "rider-J": 17.85})
    table.refresh().delete(of_riders(table.refresh().scan().to_arrow(), "rider-F"))
    assert_both_read({"rider-A": 19.1, "rider-C": 27.7, "rider-D": 339.0, "rider-J": 17.85})

    oracle.write(path, tenfold(of_riders(oracle.read(path), "rider-D", "rider-A")), {**options, OPERATION: "upsert"})
    assert_both_read({"rider-A": 191.0, "rider-C": 27.7, "rider-D": 3390.0, "rider-J": 17.85})
    oracle.write(path, of_riders(oracle.read(path), "rider-J"), {**options, OPERATION: "delete"})
    assert_both_read({"rider-A": 191.0, "rider-C": 27.7, "rider-D": 3390.0})

    frame = spark.read.format("hudi").load(str(path))
    frame.where("rider = 'rider-C'").selectExpr("* EXCEPT (fare)", "fare * 10 AS fare").write.format("hudi").options(
        **options
    ).mode("append").save(str(path))
    frame.where("rider = 'rider-A'").write.format("hudi").options(**options, **{OPERATION: "delete"}).mode(
        "append"
    ).save(str(path))
    assert_both_read({"rider-C": 277.0, "rider-D": 3390.0})
    oracle.write(path, tenfold(of_riders(oracle.read(path), "rider-C")), {**options, OPERATION: "upsert"})
    assert_both_read({"rider-C": 2770.0, "rider-D": 3390.0})
