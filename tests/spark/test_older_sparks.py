"""What Spark 3.5 lacks is refused by name; the same code runs here with what newer ones have taken away."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.spark import trip_options

import pyhudi
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark import enable, frames
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES
from pyhudi.sql import enable as enabling


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
