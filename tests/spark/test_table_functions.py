"""Hudi's table functions and index statements in a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import InvalidRequestError, SqlStatementError, TableNotFoundError

_SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
_NAME = "function_trips"


@pytest.fixture
def trips(spark: Any, tmp_path: Path) -> Iterator[pyhudi.HudiTable]:
    """A merge-on-read table with change data: an insert, an update in a log, and a delete."""
    options = {"hoodie.metadata.enable": "true", "hoodie.compact.inline": "false"}
    table = pyhudi.HudiTable.create(
        tmp_path / "trips",
        schema=_SCHEMA,
        record_key="id",
        partition_by="city",
        table_type="mor",
        hudi_options={"hoodie.table.cdc.enabled": "true"},
    )
    table.insert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "fare": [1.0, 2.0]}), hudi_options=options)
    table.refresh().upsert(pa.table({"id": [1], "city": ["oslo"], "fare": [9.0]}), hudi_options=options)
    table.refresh().delete(pa.table({"id": [2], "city": ["rome"]}), hudi_options=options)
    spark.sql(f"CREATE TABLE {_NAME} USING hudi LOCATION '{tmp_path / 'trips'}'")
    yield table.refresh()
    spark.sql(f"DROP TABLE {_NAME}")


def _collected(spark: Any, query: str, **given: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query, **given).collect()]


def test_changes_are_rows_or_images(spark: Any, trips: pyhudi.HudiTable) -> None:
    latest = f"hudi_table_changes('{_NAME}', 'latest_state', 'earliest')"
    assert _collected(spark, f"SELECT id, fare FROM {latest} WHERE fare > 1") == [(1, 9.0)]
    images = f"hudi_table_changes('{_NAME}', 'cdc', 'earliest')"
    assert _collected(spark, f"SELECT op, count(*) FROM {images} GROUP BY op ORDER BY op") == [
        ("d", 1),
        ("i", 2),
        ("u", 1),
    ]
    assert spark.sql(f"SELECT op FROM {images}").count() == len(_collected(spark, f"SELECT * FROM {images}"))
    first = trips.inspect.history()["completion_time"].to_pylist()[-1]
    later = f"SELECT op FROM Hudi_Table_Changes('{_NAME}', 'cdc', :first) ORDER BY op"
    assert _collected(spark, later, args={"first": first}) == [("d",), ("u",)]
    none = f"SELECT * FROM hudi_table_changes('{_NAME}', 'cdc', '{first}', '{first}')"
    assert _collected(spark, none) == []


def test_metadata_functions_are_tables_in_any_query(spark: Any, trips: pyhudi.HudiTable, tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    joined = f"""
        SELECT t.Action, f.Log_File_Count, '{{x}}' AS braces
        FROM hudi_filesystem_view('{path}', 'o*') AS f
        JOIN hudi_query_timeline('{_NAME}') t ON t.Timestamp = f.Base_Instant_Time"""
    assert _collected(spark, joined) == [("deltacommit", 1, "{x}")]
    assert _collected(spark, f"SELECT count(*) FROM hudi_filesystem_view('{_NAME}')") == [(2,)]
    written = f"SELECT Total_Records_Written FROM hudi_query_timeline('{_NAME}', 'true') ORDER BY Timestamp"
    assert _collected(spark, written)[:2] == [(2,), (1,)]
    names = f"SELECT explode(map_keys(filesystemMetadata)) FROM hudi_metadata('{_NAME}') WHERE key = 'oslo'"
    assert len(_collected(spark, names)) == 2
    frame = spark.createDataFrame([("oslo",)], "key string")
    both = f"SELECT m.type FROM hudi_metadata('{_NAME}') m JOIN {{cities}} USING (key)"
    assert _collected(spark, both, cities=frame) == [(2,)]


def test_a_view_on_a_function_is_read_anew(spark: Any, trips: pyhudi.HudiTable) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW function_view AS SELECT * FROM hudi_query_timeline('{_NAME}')")
    before = spark.table("function_view").count()
    trips.upsert(pa.table({"id": [1], "city": ["oslo"], "fare": [10.0]}))
    assert (before, _collected(spark, "SELECT count(*) FROM function_view")) == (3, [(4,)])
    spark.catalog.dropTempView("function_view")


def test_a_call_that_does_not_fit_is_refused(spark: Any, trips: pyhudi.HudiTable) -> None:
    for call, error, words in (
        (f"hudi_table_changes('{_NAME}')", SqlStatementError, r"takes \(table, format, begin, end\)"),
        (f"hudi_table_changes('{_NAME}', 'rows', 'earliest')", SqlStatementError, "latest_state, cdc"),
        (f"hudi_table_changes('{_NAME}', 'cdc', 'soon')", SqlStatementError, "no instant time"),
        (f"hudi_query_timeline('{_NAME}', 'maybe')", SqlStatementError, "'true' or 'false'"),
        ("hudi_metadata(null)", SqlStatementError, "must be given"),
        ("hudi_metadata('no_such_table')", TableNotFoundError, "no Hudi table of this name"),
    ):
        with pytest.raises(error, match=words):
            spark.sql(f"SELECT * FROM {call}")


def test_indexes_are_made_shown_refreshed_and_dropped(spark: Any, trips: pyhudi.HudiTable) -> None:
    def shown() -> list[tuple[Any, ...]]:
        return _collected(spark, f"SHOW INDEXES FROM {_NAME}")

    assert shown() == []
    spark.sql(f"CREATE INDEX record_index ON {_NAME} (id)")
    spark.sql(f"CREATE INDEX IF NOT EXISTS record_index ON TABLE {_NAME} USING record_index (id)")
    spark.sql(f"CREATE INDEX by_city ON {_NAME} USING secondary_index (city)")
    spark.sql(f"CREATE INDEX loud ON {_NAME} USING column_stats (city) OPTIONS (expr = 'upper')")
    assert shown() == [
        ("secondary_index_by_city", "secondary_index", "city"),
        ("expr_index_loud", "column_stats", "city"),
        ("record_index", "record_index", ""),
    ]
    assert trips.refresh().lookup([(1)], ["fare"]).to_pylist() == [{"fare": 9.0}]
    spark.sql(f"REFRESH INDEX by_city ON {_NAME}")
    spark.sql(f"DROP INDEX by_city ON {_NAME}")
    spark.sql(f"DROP INDEX IF EXISTS by_city ON {_NAME}")
    spark.sql(f"DROP INDEX loud ON {_NAME}")
    assert [row[0] for row in shown()] == ["record_index"]
    with pytest.raises(InvalidRequestError):
        spark.sql(f"DROP INDEX by_city ON {_NAME}")
    with pytest.raises(SqlStatementError, match="did you mean BLOOM_FILTERS"):
        spark.sql(f"CREATE INDEX b ON {_NAME} USING bloom_filter (city)")
    with pytest.raises(SqlStatementError, match="expr belongs to USING"):
        spark.sql(f"CREATE INDEX b ON {_NAME} (city) OPTIONS (expr = 'upper')")
