"""What Spark 3.5 lacks is refused by name; the same code runs here with what newer ones have taken away."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.support.spark import trip_options

import pyhudi
from pyhudi.errors import HudiError, UnsupportedFeatureError
from pyhudi.spark import enable, frames
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES
from pyhudi.spark.reads import earlier_columns
from pyhudi.sql import enable as enabling
from pyhudi.sql import parser
from pyhudi.sql.plain import passing
from pyhudi.sql.statements import temporary_view

IDS = pa.table({"id": [1, 2]})


@pytest.fixture
def without_sources(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """The session, enabled as if PySpark had no Python data sources."""
    enabling.disable()
    monkeypatch.setattr(enable, "HAS_PYTHON_SOURCES", False)
    yield enabling.enable(spark)
    enabling.disable()
    monkeypatch.undo()
    enabling.enable(spark)


@pytest.mark.parametrize("name", ["hudi", "org.apache.hudi"])
def test_stream_that_reads_is_refused_where_spark_has_no_python_sources(
    without_sources: SparkSession, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"PySpark 4.0 or newer: .*HudiTable.changes"):
        without_sources.readStream.format(name).load(str(tmp_path))
    with pytest.raises(UnsupportedFeatureError, match="a stream that reads a Hudi table"):
        without_sources.readStream.load(str(tmp_path), format=name)


def test_stream_of_files_is_written_exactly_once_on_every_spark(without_sources: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, city in enumerate(("oslo", "rome")):
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"uuid": "{number}", "city": "{city}", "ts": 1}}')
        stream = without_sources.readStream.schema("uuid string, city string, ts long").json(str(tmp_path / "in"))
        writer = stream.writeStream.format("hudi").options(**trip_options(), checkpointLocation=str(tmp_path / "c"))
        writer.trigger(availableNow=True).start(str(tmp_path / "t")).awaitTermination()

    table = pyhudi.HudiTable.for_path(str(tmp_path / "t"))
    assert sorted(table.scan(columns=["uuid"]).to_arrow()["uuid"].to_pylist()) == ["0", "1"]
    assert table.inspect.history().num_rows == 2


def test_temporary_view_over_a_folder_reads_it_anew_each_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(temporary_view, "HAS_PYTHON_SOURCES", False)
    table = pyhudi.HudiTable.create(tmp_path / "it's", schema=IDS.schema, record_key="id")
    table.insert(IDS)
    path = str(tmp_path / "it's").replace("'", "\\'")
    (first,) = table.refresh().inspect.history()["instant"].to_pylist()

    for view in ("GLOBAL TEMPORARY VIEW older_view", "TEMP VIEW older_view", "TEMPORARY VIEW `older view`"):
        spark.sql(f"CREATE OR REPLACE {view} USING hudi OPTIONS (path '{path}')")
    spark.sql(f"CREATE TEMPORARY VIEW older_then USING hudi OPTIONS (PATH '{path}', as.of.instant '{first}')")
    table.insert(pa.table({"id": [3]}))

    counts = {view: spark.table(view).count() for view in ("global_temp.older_view", "older_view", "`older view`")}
    assert set(counts.values()) == {3}
    assert spark.table("older_then").count() == 2
    for view in ("older_view", "older view", "older_then"):
        spark.catalog.dropTempView(view)
    spark.catalog.dropGlobalTempView("older_view")


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("v (id BIGINT) USING hudi OPTIONS (path '/t')", "leave the list of columns out"),
        ("v USING hudi OPTIONS (path '/t') AS SELECT 1", "the end of the statement is expected"),
        ("v USING hudi", "the path of the table is missing"),
    ],
)
def test_temporary_view_over_a_folder_that_is_not_understood_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rest: str, message: str
) -> None:
    monkeypatch.setattr(temporary_view, "HAS_PYTHON_SOURCES", False)

    with pytest.raises(HudiError, match=message):
        spark.sql(f"CREATE TEMPORARY VIEW {rest}")


def test_numbers_of_narrower_files_are_read_where_spark_does_not_widen_them(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(earlier_columns, "CONVERTED_BY_PARQUET", frozenset())
    narrow = pa.schema([("id", pa.int32()), ("n", pa.int32()), ("km", pa.float32())])
    wide = pa.schema([("id", pa.int32()), ("n", pa.int64()), ("km", pa.float64())])
    table = pyhudi.HudiTable.create(tmp_path / "t", schema=narrow, record_key="id")
    table.insert(pa.table([[1], [2], [0.5]], narrow))
    table.refresh().insert(pa.table([[2], [1 << 40], [0.25]], wide))

    rows = spark.read.format("hudi").load(str(tmp_path / "t")).orderBy("id")

    assert [tuple(row) for row in rows.select("id", "n", "km").collect()] == [(1, 2, 0.5), (2, 1 << 40, 0.25)]


def test_command_that_spark_alone_parses_changes_no_folder_of_a_hudi_table(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parser, "HAS_PYTHON_SOURCES", False)
    tables = {"older_hudi": "hudi TBLPROPERTIES (primaryKey = 'id')", "older_parquet": "parquet"}
    for table, form in tables.items():
        spark.sql(f"CREATE TABLE {table} (id INT) USING {form}")
        spark.sql(f"INSERT INTO {table} VALUES (1)")
        text = f"TRUNCATE TABLE {table}"
        refused = pytest.raises(PySparkException, match="knows nothing of the timeline")
        with passing(spark, text), refused if table == "older_hudi" else nullcontext():
            spark._jsparkSession.sql(text)

    assert [spark.table(table).count() for table in tables] == [1, 0]
    for table in tables:
        spark.sql(f"DROP TABLE {table}")


def test_session_of_connect_before_4_is_refused_before_anything_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Session:
        __module__ = "pyspark.sql.connect.session"

    monkeypatch.setattr(enable, "IS_4", False)

    with pytest.raises(UnsupportedFeatureError, match=r"Spark Connect needs PySpark 4.0 or newer: use a classic"):
        enable.enable_format(Session())


def test_rows_of_arrow_and_those_that_pass_as_tuples_are_the_same(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, list[Any]] = {
        "id": [1, None],
        "text": ["a", ""],
        "raw": [b"\x00\xff", None],
        "at": [dt.datetime(2013, 11, 3, 6, 30, tzinfo=dt.UTC), None],
        "tags": [[("k", 1)], []],
        "inner": [{"a": 1, "b": None}, None],
        "list": [[1, None], None],
    }
    kinds = {
        "id": pa.int64(),
        "text": pa.string(),
        "raw": pa.binary(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.map_(pa.string(), pa.int32()),
        "inner": pa.struct([("a", pa.int32()), ("b", pa.string())]),
        "list": pa.list_(pa.int64()),
    }
    rows = pa.table(values, schema=pa.schema(list(kinds.items())))
    monkeypatch.setattr(frames, "IS_4", False)
    from_tuples = frames.frame_of_arrow(spark, rows)

    assert frames.arrow_of_frame(from_tuples).cast(rows.schema).equals(rows)


@pytest.mark.skipif(HAS_PYTHON_SOURCES, reason="PySpark 4.0 and newer take USING hudi themselves")
def test_entry_of_the_catalog_says_hudi_and_is_changed_and_dropped_by_spark(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE older (id BIGINT, city STRING) USING hudi PARTITIONED BY (city) COMMENT 'few'")
    try:
        facts = {row.col_name: row.data_type for row in spark.sql("DESCRIBE EXTENDED older").collect()}
        assert (facts["Provider"], facts["Comment"], facts["Type"]) == ("hudi", "few", "MANAGED")
        spark.sql("ALTER TABLE older ADD COLUMNS (n INT COMMENT 'how many')")
        assert spark.table("older").columns[-3:] == ["id", "city", "n"]
    finally:
        spark.sql("DROP TABLE older")
    assert not spark.catalog.tableExists("older")
