"""The reader behind `readStream`, called as Spark calls it, without a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import pyhudi
from pyhudi.errors import ConfigError, SchemaMismatchError, UnsupportedFeatureError

pytest.importorskip("pyspark.sql.datasource", reason="Python data sources need PySpark 4.0")

from pyhudi.spark.data_source import HudiDataSource
from pyhudi.spark.streams import source
from pyspark_hudi import DefaultSource

SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int32())])
EVOLVING = {"hoodie.schema.on.read.enable": "true"}
CHANGES = {"hoodie.datasource.query.incremental.format": "cdc"}


def made(path: Path, **options: str) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(path, schema=SCHEMA, record_key="id", hudi_options=options)


def reader_of(path: Path, **options: str) -> Any:
    """The reader of a query that starts now."""
    made_by_spark = HudiDataSource({"path": str(path), **options})
    return made_by_spark.streamReader(made_by_spark.schema())


def batch(reader: Any, start: dict[str, str]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The rows of the next micro-batch, and its end."""
    # PySpark 4.0 and 4.1 say neither where the query is nor how much it may read.
    asked = () if source.ReadLimit is None else (start, reader.getDefaultReadLimit())
    end = reader.latestOffset(*asked)
    parts = reader.partitions(start, end)
    return [row for part in parts for found in reader.read(part) for row in found.to_pylist()], end


def test_stream_of_a_table_whose_columns_were_altered_has_old_rows_under_new_names(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.insert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    table.alter.rename_column("n", "count", hudi_options=EVOLVING)
    table.refresh().alter.change_type("count", pa.int64(), hudi_options=EVOLVING)
    table.refresh().alter.add_column("city", pa.string(), hudi_options=EVOLVING)
    table.refresh().insert(pa.table({"id": [2], "count": [2], "city": ["oslo"]}), hudi_options=EVOLVING)
    reader = reader_of(tmp_path)
    found, end = batch(reader, reader.initialOffset())
    rows = sorted((row["id"], row["count"], row["city"]) for row in found)
    assert rows == [(1, 1, None), (2, 2, "oslo")]
    assert batch(reader, end) == ([], end)


def test_columns_that_change_while_a_query_runs_stop_it_and_a_new_start_reads_on(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.insert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    reader = reader_of(tmp_path)
    _, end = batch(reader, reader.initialOffset())
    table.alter.drop_column("n", hudi_options=EVOLVING)
    table.refresh().insert(pa.table({"id": [2]}), hudi_options=EVOLVING)
    with pytest.raises(SchemaMismatchError, match="start the query again"):
        batch(reader, end)
    found, _ = batch(reader_of(tmp_path), end)
    assert [row["id"] for row in found] == [2]
    assert "n" not in found[0]


def test_checkpoint_of_another_table_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made(tmp_path / name).insert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    reader, other = (reader_of(tmp_path / name) for name in ("a", "b"))
    with pytest.raises(ConfigError, match="another table"):
        batch(other, reader.initialOffset())


def test_idle_query_has_the_offset_of_its_checkpoint_whatever_release_wrote_it(tmp_path: Path) -> None:
    if source.ReadLimit is None:
        pytest.skip("this PySpark does not say where a query is")
    table = made(tmp_path)
    table.insert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    reader = reader_of(tmp_path)
    _, end = batch(reader, reader.initialOffset())
    for kept in (end, {"offsetCommitTime": end["offsetCommitTime"], "table": table.handle.state.config.name}):
        assert batch(reader, kept) == ([], kept)


def test_table_whose_folder_spark_does_not_tell_is_refused_with_what_helps() -> None:
    with pytest.raises(
        UnsupportedFeatureError, match=r"name the table in the query itself, or read it by spark\.table"
    ):
        HudiDataSource({}).reader(StructType([StructField("id", LongType())]))


def test_limits_of_files_are_refused_for_change_data(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource")
    made(tmp_path, **{"hoodie.table.cdc.enabled": "true"})
    with pytest.raises(ConfigError, match="limited by commits"):
        reader_of(tmp_path, maxFilesPerTrigger="1", **CHANGES)


def test_limits_are_refused_where_pyspark_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.setattr(source, "ReadLimit", None)
    with pytest.raises(UnsupportedFeatureError, match=r"PySpark 4\.2"):
        reader_of(tmp_path, maxCommitsPerTrigger="1")


def test_source_that_spark_finds_by_itself_can_all_that_the_registered_one_can(tmp_path: Path) -> None:
    made(tmp_path).insert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    found_by_spark = DefaultSource({"path": str(tmp_path)})
    reader = found_by_spark.streamReader(found_by_spark.schema())
    assert [row["id"] for row in batch(reader, reader.initialOffset())[0]] == [1]
    assert {name for name in vars(HudiDataSource) if not name.startswith("_")} <= {*vars(DefaultSource)}


def test_progress_of_a_query_names_the_newest_commit(tmp_path: Path) -> None:
    table = made(tmp_path)
    reader = reader_of(tmp_path)
    assert reader.reportLatestOffset() is None
    written = table.insert(pa.table({"id": [1], "n": [1]}, SCHEMA))
    batch(reader, reader.initialOffset())
    assert reader.reportLatestOffset() == {"offsetCommitTime": written.completion_time}


def test_query_that_asks_for_what_is_there_now_ends_there(tmp_path: Path) -> None:
    pytest.importorskip("pyspark.sql.streaming.datasource")
    table = made(tmp_path)
    for number in range(3):
        table.insert(pa.table({"id": [number], "n": [number]}, SCHEMA))
    reader = reader_of(tmp_path, maxCommitsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    table.insert(pa.table({"id": [9], "n": [9]}, SCHEMA))
    offset, sizes = reader.initialOffset(), []
    while True:
        found, end = batch(reader, offset)
        if end == offset:
            break
        sizes.append(len(found))
        offset = end
    assert sizes == [2, 1]
