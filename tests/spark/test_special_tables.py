"""Tables of JVM Hudi that lack what others have, read by Spark."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.interop.compare import assert_same_rows
from tests.support.golden import expected_features

GOLDEN = Path(__file__).parents[1] / "golden" / "features"


def unpacked(name: str, to: Path) -> str:
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(to, filter="data")
    return str(to / "table")


@pytest.mark.parametrize("name", ["v9-no-meta-columns-cow", "v9-no-meta-columns-mor", "v6-no-meta-columns-mor"])
def test_table_without_meta_columns_has_the_columns_of_its_rows_alone(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.read.format("hudi").load(unpacked(name, tmp_path))

    assert_same_rows(expected_features(name), rows.toArrow(), ignore=[], hint=name)


@pytest.mark.parametrize("name", ["v9-renamed-mor", "v6-dropped-and-added", "v9-retyped-cow", "v9-retyped-mor"])
def test_files_from_before_a_change_of_columns_are_read_by_the_columns_of_today(
    name: str, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.read.format("hudi").load(unpacked(name, tmp_path))

    assert_same_rows(expected_features(name), rows.toArrow(), ignore=[], hint=name)
