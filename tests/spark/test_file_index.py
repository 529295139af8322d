"""A plain `where` leaves files out when Spark plans it, and changes no answer."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as sql
from tests.support.waiting import wait_until

import pyhudi
from pyhudi.spark.reads import callbacks, file_index, jvm_partitions
from pyhudi.spark.reads.jvm_objects import FileToRead, Jvm, encoded_uri

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.int64())])
CITIES = ("oslo", "rome", "bonn")
Listed = list[list[str]]


def trips(first: int, cities: tuple[str, ...] = CITIES) -> pa.Table:
    """One row for each city, with fares that only this batch has."""
    numbers = range(first, first + len(cities))
    return pa.table({"id": numbers, "city": list(cities), "fare": numbers}, schema=SCHEMA)


def new_table(path: Path, **options: str) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.create(
        str(path),
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        table_type=options.pop("type", "cow"),
        hudi_options=options,
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    """Six files: two batches, three cities."""
    table = new_table(tmp_path / "trips")
    table.bulk_insert(trips(0))
    table.refresh().bulk_insert(trips(10))
    return str(tmp_path / "trips")


@pytest.fixture
def listed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Listed:
    """The files of each answer that Spark gets."""
    assert file_index.is_possible(spark)  # tries with a file of its own, once
    answers: Listed = []
    real = Jvm.file_statuses

    def noted(self: Jvm, groups: list[list[FileToRead]]) -> Any:
        answers.append([file.uri for files in groups for file in files])
        return real(self, groups)

    monkeypatch.setattr(Jvm, "file_statuses", noted)
    return answers


def load(spark: Any, path: str, **options: str) -> Any:
    return spark.read.format("hudi").options(**options).load(path)


def ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows.select("id").collect())


@pytest.mark.parametrize(
    ("condition", "found", "files"),
    [
        ("city = 'rome'", [1, 11], 2),
        ("fare > 10", [11, 12], 2),
        ("city = 'rome' and fare < 5", [1], 1),
        ("city in ('rome', 'bonn') and id in (1, 12)", [1, 12], 2),
        ("upper(city) = 'ROME'", [1, 11], 2),
        ("city = 'rome' and (city = 'oslo' or fare = 11)", [11], 1),
        ("city = 'rome' or fare = 0", [0, 1, 11], 3),
        ("city like '%om%'", [1, 11], 2),
        ("_hoodie_partition_path = 'rome'", [1, 11], 2),
        ("_metadata.file_path like '%/bonn/%'", [2, 12], 2),
    ],
)
def test_where_leaves_files_out(
    spark: Any, table: str, listed: Listed, condition: str, found: list[int], files: int
) -> None:
    assert ids(load(spark, table).where(condition)) == found
    assert [len(each) for each in listed] == [files]


def test_where_that_nothing_meets_reads_no_file(spark: Any, table: str, listed: Listed) -> None:
    assert ids(load(spark, table).where("city = 'nowhere'")) == []
    assert listed == []


def test_all_rows_are_read_without_looking_into_files(spark: Any, table: str, listed: Listed) -> None:
    assert ids(load(spark, table)) == [0, 1, 2, 10, 11, 12]
    assert [len(each) for each in listed] == [6]


def test_spark_gets_the_same_answer_each_time(spark: Any, table: str, listed: Listed) -> None:
    rows = load(spark, table).where("city = 'rome'")

    assert rows.count() == 2
    pyhudi.HudiTable.for_path(table).bulk_insert(trips(20))
    assert ids(rows) == [1, 11]
    assert listed[0] == listed[1]


def test_sql_views_joins_and_subqueries_leave_files_out(spark: Any, table: str, listed: Listed) -> None:
    rows = load(spark, table)
    rows.createOrReplaceTempView("pruned_trips")
    try:
        assert [
            row[0] for row in spark.sql("select id from pruned_trips where city = 'oslo' order by id").collect()
        ] == [
            0,
            10,
        ]
        assert [len(each) for each in listed] == [2]
        listed.clear()
        joined = (
            "select a.id from pruned_trips a join pruned_trips b on a.city = b.city and b.fare = 11 where a.fare < 5"
        )
        assert [row[0] for row in spark.sql(joined).collect()] == [1]
        assert sorted(len(each) for each in listed) == [1, 3]
    finally:
        spark.catalog.dropTempView("pruned_trips")


def test_cached_rows_serve_another_read_of_the_same_files(spark: Any, table: str, listed: Listed) -> None:
    cached = load(spark, table).where("city = 'rome'").cache()
    try:
        assert ids(cached) == [1, 11]
        assert ids(load(spark, table).where("city = 'rome'")) == [1, 11]
        assert len(listed) == 1
        pyhudi.HudiTable.for_path(table).bulk_insert(trips(20))
        assert ids(load(spark, table).where("city = 'rome'")) == [1, 11, 21]
    finally:
        cached.unpersist()


def test_explain_shows_the_table_and_the_filters(spark: Any, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(spark, table).where("city = 'rome'").explain()

    plan = capsys.readouterr().out
    assert "FileScan parquet" in plan
    assert f"file:{table}"[:60] in plan  # Spark cuts long texts off
    assert "= rome)]" in plan.partition("PartitionFilters: ")[2].partition(", PushedFilters")[0]


def test_input_files_are_all_files_as_uris(spark: Any, tmp_path: Path) -> None:
    new_table(tmp_path / "my trips%").bulk_insert(trips(0, ("São Paulo",)))

    (file,) = load(spark, str(tmp_path / "my trips%")).inputFiles()

    assert file.startswith(f"file:{tmp_path}/my%20trips%25/S")
    (path,) = load(spark, str(tmp_path / "my trips%")).select("_metadata.file_path").first()
    assert file in (path, encoded_uri(path))


@pytest.mark.parametrize("folder", ["a b", "a%20b", "ä[1]{}", "a+b&c"])
def test_spark_sees_the_paths_that_its_filters_name(spark: Any, tmp_path: Path, listed: Listed, folder: str) -> None:
    table = new_table(tmp_path / folder)
    table.bulk_insert(trips(0))
    rows = load(spark, str(tmp_path / folder))
    found = rows.select("id", "_metadata.file_path", "_metadata.file_name", "_metadata.file_size").collect()

    for row in found:
        for name in ("file_path", "file_name"):
            listed.clear()
            assert ids(rows.where(sql.col(f"_metadata.{name}") == row[name])) == [row["id"]]
            assert [len(each) for each in listed] == [1 if name == "file_name" or folder == "a+b&c" else 3]


def test_the_time_of_a_file_is_known(spark: Any, table: str) -> None:
    (row,) = (
        load(spark, table).where("id = 0").select("_metadata.file_path", "_metadata.file_modification_time").collect()
    )

    modified = Path(row["file_path"].removeprefix("file:")).stat().st_mtime_ns // 1_000_000
    assert int(row["file_modification_time"].timestamp() * 1000) == modified


def test_a_table_may_have_columns_with_names_of_spark(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("file_name", pa.string()), ("File_Size", pa.int64())])
    path = str(tmp_path / "t")
    table = pyhudi.HudiTable.create(path, schema=schema, record_key="id")
    table.bulk_insert(pa.table({"id": [1], "file_name": ["x"], "File_Size": [7]}, schema=schema))
    rows = load(spark, path)

    assert ids(rows.where("file_name = 'x' and `File_Size` = 7")) == [1]
    assert ids(rows.where("_metadata.file_name != 'x' and _metadata.file_size != 7")) == [1]


def test_time_travel_and_ranges_leave_files_out(spark: Any, tmp_path: Path, listed: Listed) -> None:
    table = new_table(tmp_path / "t")
    first = table.bulk_insert(trips(0))
    table.refresh().upsert(trips(0, ("oslo",)))
    path = str(tmp_path / "t")

    assert ids(load(spark, path, **{"as.of.instant": str(first.instant)}).where("city = 'oslo'")) == [0]
    (before,) = listed
    assert ids(load(spark, path).where("city = 'oslo'")) == [0]
    assert listed[1] != before
    assert all(len(each) == 1 for each in listed)
    listed.clear()
    changes = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": str(first.completion_time),
    }
    assert ids(load(spark, path, **changes).where("city = 'oslo'")) == [0]
    assert ids(load(spark, path, **changes).where("city = 'rome'")) == []
    assert [len(each) for each in listed] == [1]


def test_slices_of_merge_on_read_tables_leave_files_out(spark: Any, tmp_path: Path, listed: Listed) -> None:
    path = tmp_path / "t"
    table = new_table(path, type="mor", **{"hoodie.compact.inline": "false"})
    table.bulk_insert(trips(0))
    changed = trips(0, ("oslo",)).set_column(2, "fare", pa.array([50], pa.int64()))
    table.refresh().upsert(changed)

    assert ids(load(spark, str(path)).where("city = 'rome'")) == [1]
    assert [file for each in listed for file in each if "/rome/" not in file] == []
    listed.clear()
    assert [tuple(row) for row in load(spark, str(path)).where("fare = 50").select("id", "city").collect()] == [
        (0, "oslo")
    ]
    assert ids(load(spark, str(path)).where("fare = 0")) == []
    listed.clear()
    optimized = {"hoodie.datasource.query.type": "read_optimized"}
    assert ids(load(spark, str(path), **optimized).where("fare = 0")) == [0]
    assert [len(each) for each in listed] == [1]


def test_queries_in_many_threads_leave_files_out(spark: Any, table: str) -> None:
    rows = load(spark, table)
    answers: dict[int, list[int]] = {}

    def ask(number: int) -> None:
        answers[number] = ids(rows.where(sql.col("city") == CITIES[number % 3]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {number: [number % 3, number % 3 + 10] for number in range(6)}


def test_filters_that_spark_cannot_print_leave_nothing_out(spark: Any, table: str, listed: Listed) -> None:
    is_odd = sql.udf(lambda number: number % 2 == 1, "boolean")

    assert ids(load(spark, table).where(is_odd("fare"))) == [1, 11]
    assert [len(each) for each in listed] == [6]


def test_sessions_that_cannot_be_called_get_paths(
    spark: Any, table: str, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = spark.sparkContext._gateway
    monkeypatch.setitem(callbacks._known, gateway, False)

    assert ids(load(spark, table).where("city = 'rome'")) == [1, 11]
    assert listed == []


def test_spark_without_the_classes_gets_paths(
    spark: Any, table: str, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_index, "tried", type(file_index.tried)())
    monkeypatch.setattr(jvm_partitions, "DIRECTORY", "org.apache.spark.sql.execution.of_the_future.PartitionDirectory")

    assert ids(load(spark, table).where("city = 'rome'")) == [1, 11]
    assert listed == []


def test_another_session_of_the_same_jvm_is_called_too(spark: Any, table: str, listed: Listed) -> None:
    other = pyhudi.enable(spark.newSession())

    assert ids(load(other, table).where("city = 'rome'")) == [1, 11]
    assert [len(each) for each in listed] == [2]


def test_calls_without_the_secret_are_refused(spark: Any, table: str, caplog: pytest.LogCaptureFixture) -> None:
    assert callbacks.can_be_called(spark)
    gateway = spark.sparkContext._gateway
    name = next(iter(gateway.gateway_property.pool.dict))

    with socket.create_connection(("127.0.0.1", gateway._python_proxy_port), timeout=60) as stranger:
        stranger.sendall(f"c\n{name}\ntoString\ne\n".encode())
        with suppress(ConnectionResetError):  # which the machine sends where it had not read everything
            assert stranger.recv(100) == b""
    wait_until(lambda: "Could not authenticate" in caplog.text)


def test_indexes_that_spark_let_go_are_freed(spark: Any, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "FILES_MAX", 12)
    monkeypatch.setattr(file_index.live, "files_max", 12)

    def live() -> int:
        gc.collect()
        return len(file_index.live.indexes)

    before = live()
    for _ in range(8):
        load(spark, table)
    assert waited(lambda: live() < before + 8, lambda: load(spark, table))


def waited(is_so: Callable[[], bool], step: Callable[[], object], seconds: float = 100) -> bool:
    """Whether something becomes true in time; `step` is done between two looks."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        step()
        time.sleep(0.05)
    return True
