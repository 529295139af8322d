"""Partition columns of tables of JVM Hudi, in Spark: what `to_arrow` gives, and what is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.interop.compare import assert_same_rows
from tests.support.golden import unpacked

import pyhudi

FOUND = {
    "v9-by-time-updated-by-sql": (("p", "1704067199000"), ["b"]),
    "v9-slash-dates": (("day", "2024/01/31"), ["a"]),
    "v9-dropped-column": (("p", "6"), ["b"]),
}


def test_partition_columns_of_tables_of_jvm_hudi_are_what_it_shows(spark: Any, tmp_path: Path) -> None:
    for name, ((column, value), ids) in FOUND.items():
        (tmp_path / name).mkdir()
        folder = unpacked(f"keys/{name}", tmp_path / name)
        frame = spark.read.format("hudi").load(str(folder / "table"))

        assert_same_rows(pq.read_table(folder / "read.parquet"), frame.toArrow(), hint=name)
        assert [row.id for row in frame.where(frame[column] == value).collect()] == ids
        table = pyhudi.HudiTable.for_path(str(folder / "table"))
        assert [row.id for row in table.scan(where=[(column, "==", value)]).to_df(spark).collect()] == ids
