"""`format("hudi")` over history that JVM Hudi has cleaned: the same answers and refusals as without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.golden.archives import entries, unpack
from tests.interop.history_life import History, State, check_history
from tests.support.tables import plan_of

import pyhudi
from pyhudi.errors import HistoryNotRetainedError
from pyhudi.spark.reads import parquet_files
from pyhudi.spark.reads.reader import scan_frame

GOLDEN = Path(__file__).parents[1] / "golden" / "history"
NAME = "v9-merged"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of an unpacked table, by name."""
    chosen = [entry for entry in entries(GOLDEN) if entry["name"] == NAME]
    return unpack(GOLDEN, chosen, tmp_path_factory.mktemp("history-on-spark"))


@pytest.fixture
def careless(spark: SparkSession) -> Iterator[SparkSession]:
    """A session that passes over files that are missing."""
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    yield spark
    spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_spark_gives_answers_of_a_cleaned_table_whole_or_refuses_them(
    spark: SparkSession, tables: dict[str, Path]
) -> None:
    (entry,) = [entry for entry in entries(GOLDEN) if entry["name"] == NAME]
    history = History(tuple(State(**state) for state in entry["states"]))
    path = tables[NAME] / "table"
    pyhudi.enable(spark)

    def read(options: dict[str, str]) -> pa.Table:
        rows = spark.read.format("hudi").options(**options).load(str(path))
        return rows.select("id", "_hoodie_commit_time", "value").toArrow()

    refused = check_history(path, history, read, few=True)

    assert len(refused) > 2


def test_cleaned_file_is_an_error_though_the_session_ignores_missing_files(
    careless: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    table = pyhudi.HudiTable.create(path, schema=pa.schema([("id", pa.int64())]), record_key="id")
    table.insert(pa.table({"id": [1, 2]}))
    pyhudi.enable(careless)
    rows = careless.read.format("hudi").load(path)
    (gone,) = table.refresh().inspect.files().column("path").to_pylist()
    Path(path, gone).unlink()

    with pytest.raises(Exception, match=gone):
        rows.collect()


def test_a_file_that_is_cleaned_before_spark_looks_it_up_is_a_typed_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "is_possible", lambda _: False)  # as through Spark Connect
    path = str(tmp_path / "t")
    table = pyhudi.HudiTable.create(path, schema=pa.schema([("id", pa.int64())]), record_key="id")
    table.insert(pa.table({"id": [1, 2]}))
    plan = plan_of(table.refresh())
    gone = str(plan.slices[0].files.base)
    Path(path, gone).unlink()

    with pytest.raises(HistoryNotRetainedError, match="refresh") as missing:
        scan_frame(spark, plan)
    assert str(missing.value.context["path"]).endswith(gone)
