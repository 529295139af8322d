"""`format("hudi")` end to end: what is written is what is read, by Spark, by SQL and without Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.spark import trip_options

import pyhudi
from pyhudi.errors import (
    ConfigError,
    HudiError,
    RecordKeyError,
    SchemaMismatchError,
    TableExistsError,
    TableNotFoundError,
)

TRIPS = "uuid string, city string, fare double, ts long"
FIRST = [("a", "oslo", 1.0, 1), ("b", "oslo", 2.0, 1), ("c", "rome", 3.0, 1)]


def write(spark: Any, path: Path, rows: list[tuple[Any, ...]], mode: str = "append", **more: str) -> None:
    frame = spark.createDataFrame(rows, TRIPS)
    frame.write.format("hudi").options(**trip_options(**more)).mode(mode).save(str(path))


def trips(spark: Any, path: Path, **options: str) -> list[tuple[Any, ...]]:
    frame = spark.read.format("hudi").options(**options).load(str(path))
    return sorted(map(tuple, frame.select("uuid", "city", "fare", "ts").collect()))


def instants(path: Path) -> list[str]:
    history = pyhudi.HudiTable.for_path(str(path)).inspect.history()
    return sorted(history["instant"].to_pylist())


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Path:
    """A table with three trips in two cities."""
    write(spark, tmp_path / "trips", FIRST)
    return tmp_path / "trips"


def test_upsert_updates_inserts_and_keeps_the_rest(spark: Any, table: Path) -> None:
    write(spark, table, [("a", "oslo", 10.0, 2), ("b", "oslo", 20.0, 0), ("d", "bern", 4.0, 2), ("d", "bern", 5.0, 3)])

    # b loses against the greater ts in the table; of the two d in the batch the greater ts wins.
    assert trips(spark, table) == [
        ("a", "oslo", 10.0, 2),
        ("b", "oslo", 2.0, 1),
        ("c", "rome", 3.0, 1),
        ("d", "bern", 5.0, 3),
    ]


def test_rows_agree_with_those_read_without_spark(spark: Any, table: Path) -> None:
    frame = spark.read.format("hudi").load(str(table))
    rows = pyhudi.HudiTable.for_path(str(table)).scan().to_arrow()

    assert frame.columns == rows.column_names
    assert sorted(map(tuple, frame.collect())) == sorted(tuple(row.values()) for row in rows.to_pylist())
    assert {row["_hoodie_partition_path"] for row in rows.to_pylist()} == {"oslo", "rome"}


def test_delete_removes_keys(spark: Any, table: Path) -> None:
    write(spark, table, [("a", "oslo", 0.0, 9)], **{"hoodie.datasource.write.operation": "delete"})

    assert [row[0] for row in trips(spark, table)] == ["b", "c"]


def test_bulk_insert_in_every_sort_mode_keeps_all_rows(spark: Any, tmp_path: Path) -> None:
    rows = spark.range(0, 500, 1, 3).selectExpr(
        "cast(id as string) uuid", "concat('c', id % 3) city", "id / 2.0 fare", "id ts"
    )
    modes = (
        "NONE",
        "GLOBAL_SORT",
        "PARTITION_SORT",
        "PARTITION_PATH_REPARTITION",
        "PARTITION_PATH_REPARTITION_AND_SORT",
    )
    for mode in modes:
        chosen = {"hoodie.datasource.write.operation": "bulk_insert", "hoodie.bulkinsert.sort.mode": mode}
        rows.write.format("hudi").options(**trip_options(**chosen)).mode("append").save(str(tmp_path / mode))

        assert [row[3] for row in sorted(trips(spark, tmp_path / mode), key=lambda row: row[3])] == list(range(500))


def test_columns_of_all_types_come_back_as_they_went(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql(
        "select 'k' as uuid, 'x' as city, 1L as ts, true as yes, 3 as number, 1.5f as ratio,"
        " cast(12.34 as decimal(20,2)) as fare, date'1969-12-31' as day, timestamp'2024-07-01 12:00:00.123456' as at,"
        " timestamp_ntz'2024-07-01 12:00:00' as wall, X'00ff' as bytes, array(1, null) as list,"
        " map('a', named_struct('km', 1, 'at', timestamp'1950-01-01 00:00:00')) as legs, cast(null as string) as note"
    )
    frame.write.format("hudi").options(**trip_options()).save(str(tmp_path))

    read = spark.read.format("hudi").load(str(tmp_path)).select(frame.columns)

    assert read.dtypes == frame.dtypes
    assert read.collect() == frame.collect()
    [row] = pyhudi.HudiTable.for_path(str(tmp_path)).scan(["at", "fare"]).to_arrow().to_pylist()
    assert row["at"] == dt.datetime(2024, 7, 1, 16, 0, 0, 123456, tzinfo=dt.UTC)
    assert row["fare"] == Decimal("12.34")


def test_column_added_later_is_null_in_older_rows(spark: Any, table: Path) -> None:
    wider = spark.createDataFrame([("e", "bern", 5.0, 2, "hi")], TRIPS + ", note string")
    wider.write.format("hudi").options(**trip_options()).mode("append").save(str(table))

    notes = spark.read.format("hudi").load(str(table)).select("uuid", "note").collect()

    assert dict(map(tuple, notes)) == {"a": None, "b": None, "c": None, "e": "hi"}


def test_time_travel_shows_the_rows_of_then(spark: Any, table: Path) -> None:
    write(spark, table, [("a", "oslo", 10.0, 2)])

    first, second = instants(table)
    assert trips(spark, table, **{"as.of.instant": first}) == FIRST
    assert trips(spark, table, **{"as.of.instant": second})[0] == ("a", "oslo", 10.0, 2)


def test_incremental_read_gives_rows_of_later_commits_only(spark: Any, table: Path) -> None:
    begin = pyhudi.HudiTable.for_path(str(table)).inspect.history()["completion_time"][0].as_py()
    write(spark, table, [("a", "oslo", 10.0, 2), ("z", "oslo", 9.0, 2)])
    since = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin,
    }

    assert trips(spark, table, **since) == [("a", "oslo", 10.0, 2), ("z", "oslo", 9.0, 2)]


def test_save_modes_do_as_they_say(spark: Any, table: Path) -> None:
    other = [("z", "oslo", 9.0, 1)]

    with pytest.raises(TableExistsError):
        write(spark, table, other, mode="errorifexists")
    write(spark, table, other, mode="ignore")
    assert trips(spark, table) == FIRST
    write(spark, table, other, mode="overwrite")
    assert trips(spark, table) == other


def test_dataframe_of_a_table_can_be_written_back_to_it(spark: Any, table: Path) -> None:
    doubled = spark.read.format("hudi").load(str(table)).selectExpr("uuid", "city", "fare * 2 as fare", "ts + 1 as ts")

    doubled.write.format("hudi").options(**trip_options()).mode("append").save(str(table))

    assert [row[2] for row in trips(spark, table)] == [2.0, 4.0, 6.0]


def test_null_key_found_in_a_worker_is_a_typed_error_and_nothing_is_written(spark: Any, table: Path) -> None:
    for operation in ("upsert", "insert", "bulk_insert"):
        with pytest.raises(RecordKeyError):
            write(
                spark,
                table,
                [("e", "oslo", 1.0, 1), (None, "oslo", 1.0, 1)],
                **{"hoodie.datasource.write.operation": operation},
            )

    assert trips(spark, table) == FIRST
    assert len(instants(table)) == 1


@pytest.mark.parametrize(
    ("columns", "options", "error"),
    [
        ("'a' uuid, 'x' city, 1L ts", {"hoodie.datasource.write.recordkey.field": "uid"}, ConfigError),
        ("'a' uuid, 'x' city, 1L ts", {"hoodie.datasource.write.partitionpath.field": "town"}, ConfigError),
        ("'a' uuid, 'x' city, 1L ts", {"hoodie.datasource.write.precombine.field": "time"}, ConfigError),
        ("'a' uuid, 'x' city, 1L ts, interval 1 day length", {}, SchemaMismatchError),
        ("'a' uuid, 'x' city, 1L ts, 1 n, 2 n", {}, SchemaMismatchError),
    ],
    ids=["key", "partition", "ordering", "interval", "duplicate"],
)
def test_bad_request_is_typed_and_leaves_no_table(
    spark: Any, tmp_path: Path, columns: str, options: dict[str, str], error: type[HudiError]
) -> None:
    with pytest.raises(error):
        spark.sql(f"select {columns}").write.format("hudi").options(**trip_options(**options)).save(str(tmp_path / "t"))

    with pytest.raises(TableNotFoundError):
        spark.read.format("hudi").load(str(tmp_path / "t"))


def test_sql_reads_the_table_by_name(spark: Any, table: Path) -> None:
    spark.sql(f"CREATE TABLE named_trips USING hudi OPTIONS (path '{table}')")
    try:
        rows = spark.sql("SELECT uuid, city, fare, ts FROM named_trips WHERE city = 'oslo'").collect()
    finally:
        spark.sql("DROP TABLE named_trips")

    assert sorted(map(tuple, rows)) == FIRST[:2]


def test_table_object_takes_and_gives_dataframes(spark: Any, table: Path) -> None:
    rows = spark.createDataFrame([("f", "rome", 6.0, 2)], TRIPS)

    result = pyhudi.HudiTable.for_path(str(table)).upsert(rows)

    assert (result.inserted, result.updated) == (1, 0)
    frame = pyhudi.HudiTable.for_path(str(table)).scan().to_df(spark).where("city = 'rome'").select("uuid")
    assert sorted(row.uuid for row in frame.collect()) == ["c", "f"]
