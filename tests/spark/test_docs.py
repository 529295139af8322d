"""The Spark examples of README.md and of the pages run: quickstart.md, moving.md, merge_on_read.md and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.pages import ROOT, blocks

import pyhudi
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES

TRIPS = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])


def run(page: str, folder: Path, **names: Any) -> Any:
    """Run the blocks of a page that name this module."""
    for block in blocks(ROOT / page):
        if block.tested_by == "tests/spark/test_docs.py":
            exec(block.code.replace('"/tmp/', f'"{folder}/'), names)
    return names


def test_spark_example_of_the_quickstart_adds_a_trip(spark: Any, tmp_path: Path, capsys: Any) -> None:
    path = f"{tmp_path}/trips"
    trips = pyhudi.HudiTable.create(path, schema=TRIPS, record_key="id", partition_by="city", ordering_fields="ts")

    run("docs/quickstart.md", tmp_path)

    assert trips.refresh().scan(["id", "fare"]).to_arrow().to_pylist() == [{"id": 4, "fare": 12.0}]
    assert "oslo" in capsys.readouterr().out


def test_spark_example_of_the_readme_writes_and_reads(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(2, "rome", 8.0, 2)], "id long, city string, fare double, ts long")
    code, sql = (block.code for block in blocks(ROOT / "README.md") if block.tested_by == "tests/spark/test_docs.py")
    before_time_travel = code[: code.index("spark.read.format", code.index(".show()"))]
    names = {"pyhudi": pyhudi, "df": frame}

    exec(before_time_travel.replace('"/tmp/', f'"{tmp_path}/'), names)
    assert pyhudi.HudiTable.for_path(f"{tmp_path}/trips").scan(["id"]).to_arrow()["id"].to_pylist() == [2]

    news = spark.createDataFrame([(3, "rome", 5.0, 3)], "id long, city string, fare double, ts long")
    news.createTempView("news")
    exec(sql.replace("/tmp/", f"{tmp_path}/"), names)
    rows = spark.sql("SELECT id, fare FROM trips ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(2, 9.0), (3, 5.0)]
    spark.sql("DROP TABLE trips")
    spark.catalog.dropTempView("news")


def test_spark_example_of_merge_on_read_writes_a_merge_on_read_table(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(2, "rome", 8.0, 2)], "id long, city string, fare double, ts long")

    run("docs/merge_on_read.md", tmp_path, spark=spark, df=frame)

    assert pyhudi.HudiTable.for_path(f"{tmp_path}/mor-trips").inspect.detail().type == "MERGE_ON_READ"


@pytest.mark.skipif(not HAS_PYTHON_SOURCES, reason="before PySpark 4.0 no stream reads a Hudi table")
def test_spark_example_of_streaming_copies_the_dear_trips(spark: Any, tmp_path: Path) -> None:
    trips = pyhudi.HudiTable.create(f"{tmp_path}/stream-trips", schema=TRIPS, record_key="id", ordering_fields="ts")
    trips.upsert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "fare": [8.0, 12.0], "ts": [1, 1]}))

    run("docs/streaming.md", tmp_path, spark=spark)

    copy = pyhudi.HudiTable.for_path(f"{tmp_path}/stream-dear-trips")
    assert copy.scan(["id", "fare"]).to_arrow().to_pylist() == [{"id": 2, "fare": 12.0}]


def test_spark_example_of_reading_leaves_files_out(spark: Any, tmp_path: Path, capsys: Any) -> None:
    trips = pyhudi.HudiTable.create(f"{tmp_path}/trips", schema=TRIPS, record_key="id", partition_by="city")
    trips.insert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "fare": [9.5, 7.0], "ts": [1, 1]}))

    run("docs/design/reading.md", tmp_path, spark=spark)

    assert "PushedFilters: [IsNotNull(fare), GreaterThan(fare,100.0)]" in capsys.readouterr().out


def test_job_for_the_jar_runs_with_three_new_lines(spark: Any, tmp_path: Path, capsys: Any) -> None:
    [job] = blocks(ROOT / "docs" / "moving.md")[:1]
    assert [line for line in job.code.splitlines() if line.endswith("# new")] == [
        "import pyhudi  # new",
        "pyhudi.enable(spark)  # new",
        'before = pyhudi.HudiTable.for_path("/tmp/moved").inspect.position()  # new',
    ]
    try:
        exec(job.code.replace("/tmp/", f"{tmp_path}/"), {})
        assert [line.split() for line in capsys.readouterr().out.splitlines() if "|" in line][1:] == [
            ["|", "1|10.5|"],
            ["|", "2|", "8.0|"],
        ]
    finally:
        spark.sql("DROP TABLE IF EXISTS trips")
