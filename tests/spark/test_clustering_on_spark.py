"""Clusterings whose tasks run on Spark, on request and after a write of `format("hudi")`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.spark import trip_options

import pyhudi

TRIPS = "uuid string, city string, fare double, ts long"
APART = {"hoodie.parquet.small.file.limit": "0", "hoodie.compact.inline": "false"}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "fare"}
EXPECTED = [("a", 9.0), ("b", 1.0), ("c", -2.0), ("d", None), ("e", 5.0)]


def write(spark: Any, path: Path, *rows: tuple[Any, ...], **more: str) -> None:
    frame = spark.createDataFrame(list(rows), TRIPS)
    frame.write.format("hudi").options(**{**trip_options(), **APART, **more}).mode("append").save(str(path))


def life(spark: Any, path: Path, **more: str) -> None:
    """Three commits: two file groups in oslo and two in rome, and an update."""
    write(spark, path, ("a", "oslo", 3.0, 1), ("d", "rome", None, 1), **more)
    write(spark, path, ("b", "oslo", 1.0, 1), ("c", "rome", -2.0, 1), ("e", "rome", 5.0, 1), **more)
    write(spark, path, ("a", "oslo", 9.0, 2), **more)


def by_file(spark: Any, path: Path) -> list[list[tuple[str, Any]]]:
    """Uuids and fares, file by file, in the order in which they are stored."""
    files: dict[str, list[tuple[str, Any]]] = {}
    for row in pyhudi.HudiTable.for_path(str(path)).scan(["_hoodie_file_name", "uuid", "fare"]).to_arrow().to_pylist():
        files.setdefault(row["_hoodie_file_name"], []).append((row["uuid"], row["fare"]))
    read = spark.read.format("hudi").load(str(path)).select("uuid", "fare").collect()
    assert sorted(map(tuple, read)) == EXPECTED
    return sorted(files.values())


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_clustering_on_spark_joins_and_sorts_the_files_of_each_partition(spark: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    life(spark, path, **{"hoodie.datasource.write.table.type": kind})
    table = pyhudi.HudiTable.for_path(str(path), spark=spark)

    (done,) = table.services.cluster(hudi_options=SORTED).to_pylist()

    assert (done["groups"], done["replaced"], done["files"], done["rows"]) == (2, 4, 2, 5)
    assert by_file(spark, path) == [[("b", 1.0), ("a", 9.0)], [("d", None), ("c", -2.0), ("e", 5.0)]]


def test_a_write_of_spark_clusters_when_it_is_time(spark: Any, tmp_path: Path) -> None:
    path, inline = tmp_path / "t", {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
    life(spark, path, **SORTED, **inline)
    assert by_file(spark, path) == [[("b", 1.0), ("a", 9.0)], [("d", None), ("c", -2.0), ("e", 5.0)]]
