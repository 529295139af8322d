"""Merge-on-read tables through `format("hudi")`: what Spark writes to logs, and what it reads from them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as sql
from tests.support.parquet_damage import with_damaged_page
from tests.support.spark import temporarily, trip_options
from tests.support.tables import plan_of as scan_plan_of

import pyhudi
from pyhudi.config.enums import QueryType
from pyhudi.spark.reads import har_views as log_archives
from pyhudi.spark.reads import native_logs as split_reads
from pyhudi.spark.reads.reader import scan_frame

TRIPS = "uuid string, city string, fare double, ts long"
FIRST = [("a", "oslo", 1.0, 1), ("b", "oslo", 2.0, 1), ("c", "rome", 3.0, 1), ("d", "bern", 4.0, 1)]
NOW = [("a", "oslo", 10.0, 2), ("c", "rome", 30.0, 2), ("d", "bern", 4.0, 1)]
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


HAS_FUNCTIONS = hasattr(sql, "arrow_udf")
"""Whether PySpark has functions over Arrow (4.1). Without them a task reads slices whose logs Spark cannot open."""
OF_LOGS_IN_AVRO = "ArrowEvalPython" if HAS_FUNCTIONS else "MapInArrow"


def write(spark: Any, path: Path, rows: list[tuple[Any, ...]], **more: str) -> None:
    frame = spark.createDataFrame(rows, TRIPS)
    frame.write.format("hudi").options(**trip_options(**MOR, **more)).mode("append").save(str(path))


def load(spark: Any, path: Path, **options: str) -> Any:
    return spark.read.format("hudi").options(**options).load(str(path))


def trips(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.select("uuid", "city", "fare", "ts").collect()))


def opened(path: Path) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(str(path))


def instants(path: Path) -> list[str]:
    return sorted(opened(path).inspect.history()["instant"].to_pylist())


def shape(path: Path) -> dict[str, int]:
    """How many logs the newest slices have, by partition path."""
    return {row["partition_path"]: len(row["logs"]) for row in opened(path).inspect.files().to_pylist()}


@pytest.fixture(scope="module")
def table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three file groups: one with two logs, one with one, one with none. Tests that write make their own."""
    path = tmp_path_factory.mktemp("mor") / "t"
    write(spark, path, FIRST)
    write(spark, path, [("a", "oslo", 10.0, 2), ("b", "oslo", 0.0, 0), ("c", "rome", 30.0, 2)])
    write(spark, path, [("b", "oslo", 0.0, 0)], **{"hoodie.datasource.write.operation": "delete"})
    assert shape(path) == {"oslo": 2, "rome": 1, "bern": 0}
    return path


def nowhere(spark: Any, uri: str) -> bool:
    del spark, uri
    return False


@pytest.fixture(params=["Spark opens logs", "Spark cannot open logs"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Logs are archives to a session on this machine only: then Spark opens them; else it asks for their columns."""
    if request.param != "Spark opens logs":
        monkeypatch.setattr(split_reads, "can_archive", nowhere)
    return str(request.param)


@pytest.fixture
def without_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_reads, "can_archive", nowhere)


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan())


@pytest.mark.usefixtures("way")
def test_a_snapshot_merges_logs_and_agrees_with_what_is_read_without_spark(spark: Any, table: Path) -> None:
    frame = load(spark, table)
    rows = opened(table).scan().to_arrow()

    assert trips(frame) == NOW
    assert frame.columns == rows.column_names
    assert sorted(map(tuple, frame.collect())) == sorted(tuple(row.values()) for row in rows.to_pylist())


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("city = 'oslo'", ["a"]),
        ("fare >= 10", ["a", "c"]),
        ("fare = 1.0", []),
        ("city in ('rome', 'bern') and ts < 2", ["d"]),
    ],
)
def test_select_and_where_see_merged_rows(spark: Any, table: Path, condition: str, expected: list[str]) -> None:
    frame = load(spark, table).where(condition).select("uuid")

    assert frame.columns == ["uuid"]
    assert sorted(row.uuid for row in frame.collect()) == expected


@pytest.mark.usefixtures("way")
def test_counts_and_aggregates_need_no_column_of_the_key(spark: Any, table: Path) -> None:
    frame = load(spark, table)

    assert frame.count() == 3
    assert frame.groupBy().sum("fare").collect()[0][0] == 44.0


def test_a_read_optimized_query_leaves_logs_out(spark: Any, table: Path) -> None:
    assert trips(load(spark, table, **{"hoodie.datasource.query.type": "read_optimized"})) == FIRST


@pytest.mark.usefixtures("way")
def test_time_travel_shows_the_rows_of_then(spark: Any, table: Path) -> None:
    first, second, third = instants(table)

    assert trips(load(spark, table, **{"as.of.instant": first})) == FIRST
    assert trips(load(spark, table, **{"as.of.instant": second})) == [NOW[0], FIRST[1], NOW[1], FIRST[3]]
    assert trips(load(spark, table, **{"as.of.instant": third})) == NOW


def test_an_incremental_read_gives_what_logs_changed_since(spark: Any, table: Path) -> None:
    times = sorted(opened(table).inspect.history()["completion_time"].to_pylist())
    since = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": times[0]}

    assert trips(load(spark, table, **since)) == [NOW[0], NOW[1]]
    assert trips(load(spark, table, **{**since, "hoodie.datasource.read.begin.instanttime": times[2]})) == []


def test_an_incremental_read_gives_no_late_row_that_lost(spark: Any, tmp_path: Path) -> None:
    by_time = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING", "hoodie.compact.inline": "false"}
    write(spark, tmp_path / "t", [("a", "oslo", 1.0, 5), ("b", "oslo", 2.0, 5)], **by_time)
    begin = opened(tmp_path / "t").inspect.position()
    write(spark, tmp_path / "t", [("a", "oslo", 0.0, 4), ("b", "oslo", 3.0, 6)])
    since = {"hoodie.datasource.query.type": "incremental", "hoodie.datasource.read.begin.instanttime": str(begin)}

    frame = load(spark, tmp_path / "t", **since)

    assert trips(frame) == [("b", "oslo", 3.0, 6)]
    assert frame.count() == frame.where("fare > 0").count() == 1
    assert trips(opened(tmp_path / "t").changes(begin).to_df(spark)) == [("b", "oslo", 3.0, 6)]


@pytest.mark.usefixtures("way")
def test_a_frame_of_the_table_object_takes_columns_and_conditions(spark: Any, table: Path) -> None:
    frame = opened(table).scan(["fare", "uuid"], [("city", "in", ["oslo", "bern"])]).to_df(spark)

    assert sorted(map(tuple, frame.collect())) == [(4.0, "d"), (10.0, "a")]
    assert trips(opened(table).scan(query_type="read_optimized").to_df(spark)) == FIRST


def test_slices_without_logs_are_left_to_the_reader_of_spark(spark: Any, table: Path) -> None:
    plan = scan_plan_of(opened(table))
    assert (len(plan.plain), len(plan.merged)) == (1, 2)

    def text_of(frame: Any) -> str:
        return str(frame._jdf.queryExecution().executedPlan())

    assert "MapInArrow" in text_of(scan_frame(spark, plan))
    only_plain = scan_plan_of(opened(table), query_type=QueryType.READ_OPTIMIZED)
    assert "MapInArrow" not in text_of(scan_frame(spark, only_plain))


@pytest.mark.usefixtures("without_archives")
@pytest.mark.skipif(not HAS_FUNCTIONS, reason="PySpark 4.0 has no functions over Arrow: tasks read whole slices")
def test_of_logs_that_spark_cannot_open_only_the_columns_that_a_query_needs_are_read(spark: Any, table: Path) -> None:
    frame = load(spark, table)

    def functions(query: Any) -> int:
        lines = plan_of(query).splitlines()
        return sum(line.partition("], [")[0].count("read(") for line in lines if "ArrowEvalPython" in line)

    assert functions(frame.groupBy().sum("fare")) == 1
    assert functions(frame.where("ts > 1").select("fare")) == 2
    assert functions(frame.select("uuid", "city", "fare", "ts")) == 4
    frame.createOrReplaceTempView("trips_with_logs")
    assert functions(spark.sql("select city, max(ts) from trips_with_logs group by city")) == 2


def test_logs_in_parquet_are_opened_by_spark_and_no_function_reads_them(spark: Any, table: Path) -> None:
    frame = load(spark, table)

    assert "ArrowEvalPython" not in plan_of(frame.groupBy().sum("fare"))
    assert sum(name.startswith("har:") for name in frame.inputFiles()) == 2  # the third log has deletes only


def test_a_log_in_avro_and_one_in_parquet_are_read_each_in_its_way(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "a folder with spaces & more"
    write(spark, path, FIRST)
    write(spark, path, [("a", "oslo", 10.0, 2)])
    write(spark, path, [("c", "rome", 30.0, 2)], **{"hoodie.logfile.data.block.format": "avro"})
    frame = load(spark, path)

    assert trips(frame) == sorted([NOW[0], FIRST[1], NOW[1], FIRST[3]])
    assert OF_LOGS_IN_AVRO in plan_of(frame)
    assert sum(name.startswith("har:") for name in frame.inputFiles()) == 1


@pytest.mark.parametrize("version", ["6", "8"])
def test_logs_of_older_tables_and_rolled_back_writes_are_opened_as_well(
    spark: Any, tmp_path: Path, version: str
) -> None:
    path, older = tmp_path / "t", {"hoodie.write.table.version": version}
    write(spark, path, FIRST, **older)
    write(spark, path, [("a", "oslo", 9.0, 9), ("c", "rome", 9.0, 9)])
    opened(path).recovery.rollback(instants(path)[-1])
    write(spark, path, [("a", "oslo", 10.0, 2), ("c", "rome", 30.0, 2)])
    frame = load(spark, path)

    assert trips(frame) == sorted([NOW[0], FIRST[1], NOW[1], FIRST[3]])
    assert sum(name.startswith("har:") for name in frame.inputFiles()) == 2


def test_blocks_that_spark_splits_keep_the_places_of_their_rows(spark: Any, tmp_path: Path) -> None:
    path, rows = tmp_path / "t", [(f"k{number:05}", "oslo", float(number), 1) for number in range(4000)]
    small = {"hoodie.parquet.block.size": "20000", "hoodie.parquet.page.size": "5000"}
    write(spark, path, rows, **small)
    for turn in (2, 3):
        changed = [(key, city, -fare, turn) for key, city, fare, _ in rows if int(fare) % turn == 0]
        write(spark, path, changed, **small)
    with temporarily(spark, {"spark.sql.files.maxPartitionBytes": "8000", "spark.sql.files.openCostInBytes": "0"}):
        frame = load(spark, path)
        splits = frame.rdd.getNumPartitions()
        found = trips(frame)

    assert splits > 10
    assert found == [
        (
            key,
            city,
            -fare if not int(fare) % 2 or not int(fare) % 3 else fare,
            3 if not int(fare) % 3 else 1 + (not int(fare) % 2),
        )
        for key, city, fare, _ in rows
    ]


def test_a_log_that_only_deletes_is_read(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path, FIRST)
    write(spark, path, FIRST[:1], **{"hoodie.datasource.write.operation": "delete"})

    assert trips(load(spark, path)) == FIRST[1:]


def test_the_same_log_is_archived_once_and_its_folder_goes_with_the_process(spark: Any, table: Path) -> None:
    trips(load(spark, table))
    folder = Path(log_archives._folder().name)
    before = sorted(folder.iterdir())

    trips(load(spark, table))

    assert sorted(folder.iterdir()) == before != []
    assert log_archives._folder()._finalizer.alive  # type: ignore[attr-defined]  # runs when Python ends


def test_an_archive_that_the_system_tidied_away_is_made_again(spark: Any, table: Path) -> None:
    assert trips(load(spark, table)) == NOW
    folder = Path(log_archives._folder().name)
    for index in folder.glob("*/_index"):
        index.unlink()
    assert trips(load(spark, table)) == NOW

    shutil.rmtree(folder)
    assert trips(load(spark, table)) == NOW


@pytest.mark.parametrize("name", ["_metadata", "__part", "__BITS"])
def test_columns_may_have_the_names_that_the_read_itself_uses(spark: Any, tmp_path: Path, name: str) -> None:
    options = trip_options(**MOR)
    for number in (1, 2):
        row = spark.sql(f"select 'k' as uuid, 'x' as city, 1.5 as fare, {number}L as ts, {number} as `{name}`")
        row.write.format("hudi").options(**options).mode("append").save(str(tmp_path / "t"))

    assert load(spark, tmp_path / "t").select("uuid", name).collect() == [("k", 2)]


def test_many_logs_are_not_looked_into_by_the_driver(spark: Any, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_reads, "LOOKED_INTO_MAX", 2)

    frame = load(spark, table)

    assert OF_LOGS_IN_AVRO in plan_of(frame)
    assert trips(frame) == NOW


@pytest.mark.usefixtures("way")
def test_files_of_one_size_are_told_apart_by_their_names(
    spark: Any, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_size = {"a/b_1.parquet": 77, "a/c_1.parquet": 77}
    by_name = split_reads.file_parts(same_size)
    assert by_name is not None
    assert "crc32" in str(by_name.of_row)
    assert len(set(by_name.by_path.values())) == 2
    by_size = split_reads.file_parts({"a": 1, "b": 2})
    assert by_size is not None
    assert "file_size" in str(by_size.of_row)
    assert by_size.by_path == {"a": 1, "b": 2}
    assert split_reads.file_parts({"a/same": 1, "b/same": 1}) is None

    of_names = split_reads.file_parts
    monkeypatch.setattr(split_reads, "file_parts", lambda sizes: of_names(dict.fromkeys(sizes, 7)))
    assert trips(load(spark, table)) == NOW


def test_columns_of_all_types_come_back_from_logs_as_they_went(spark: Any, tmp_path: Path, way: str) -> None:
    frame = spark.sql(
        "select 'k' as uuid, 'x' as city, 1L as ts, true as yes, 3 as number, 1.5f as ratio,"
        " cast(12.34 as decimal(20,2)) as fare, date'1969-12-31' as day, timestamp'2024-07-01 12:00:00.123456' as at,"
        " timestamp_ntz'2024-07-01 12:00:00' as wall, X'00ff' as bytes, array(1, null) as list,"
        " map('a', named_struct('km', 1, 'at', timestamp'1950-01-01 00:00:00')) as legs, cast(null as string) as note"
    )
    for block_format in ("avro", "parquet"):
        path = tmp_path / block_format
        options = trip_options(**MOR, **{"hoodie.logfile.data.block.format": block_format})
        for row in (frame.withColumn("number", frame.number - 1), frame):
            row.write.format("hudi").options(**options).mode("append").save(str(path))
        assert shape(path) == {"x": 1}

        read = load(spark, path).select(frame.columns)

        assert read.dtypes == frame.dtypes
        assert read.collect() == frame.collect()
        opens_it = way == "Spark opens logs" and block_format == "parquet"
        assert any(name.startswith("har:") for name in read.inputFiles()) is opens_it


def test_a_write_compacts_on_spark_when_it_is_time(spark: Any, tmp_path: Path) -> None:
    path, inline = tmp_path / "t", {"hoodie.compact.inline.max.delta.commits": "2"}
    write(spark, path, FIRST, **inline)
    write(spark, path, [("a", "oslo", 10.0, 2), ("c", "rome", 30.0, 2)], **inline)

    assert shape(path) == {"oslo": 0, "rome": 0, "bern": 0}
    expected = sorted([NOW[0], FIRST[1], NOW[1], FIRST[3]])
    assert trips(load(spark, path)) == expected
    assert trips(load(spark, path, **{"hoodie.datasource.query.type": "read_optimized"})) == expected


def test_a_global_index_moves_a_record_whose_newest_version_is_in_a_log(spark: Any, tmp_path: Path) -> None:
    path, table_wide = tmp_path / "t", {"hoodie.index.type": "GLOBAL_SIMPLE"}
    write(spark, path, FIRST, **table_wide)
    write(spark, path, [("a", "oslo", 10.0, 5)], **table_wide)

    write(spark, path, [("a", "rome", 0.0, 4)], **table_wide)
    assert trips(load(spark, path))[0] == ("a", "oslo", 10.0, 5)
    write(spark, path, [("a", "rome", 0.0, 6)], **table_wide)
    assert trips(load(spark, path)) == [("a", "rome", 0.0, 6), *FIRST[1:]]


def damage(log: Path, column: str) -> int:
    """Change a byte in a column of a log's only block; returns where the block's content begins."""
    content = log.read_bytes()
    log.write_bytes(with_damaged_page(content, column))
    return content.index(b"PAR1")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("column", ["_hoodie_record_key", "ts"])
def test_a_log_whose_deciding_columns_are_damaged_is_named_and_no_row_is_given(
    spark: Any, tmp_path: Path, column: str
) -> None:
    path = tmp_path / "t"
    write(spark, path, FIRST)
    write(spark, path, [("a", "oslo", 10.0, 2)])
    (log,) = (path / "oslo").glob(".*.log.*_*-*-*")
    damage(log, column)

    with pytest.raises(Exception, match=r"CorruptDataError[^\n]*oslo/") as caught:
        load(spark, path).collect()
    assert log.name in str(caught.value)


def test_a_log_damaged_elsewhere_is_named_by_spark_as_a_base_file_would_be(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path, FIRST)
    write(spark, path, [("a", "oslo", 10.0, 2)])
    (log,) = (path / "oslo").glob(".*.log.*_*-*-*")
    begin = damage(log, "uuid")

    block = re.escape(f"block-{log.name.removeprefix('.')}-{begin}")
    with temporarily(spark, {"parquet.page.verify-checksum.enabled": "true"}), pytest.raises(Exception, match=block):
        load(spark, path).collect()


@pytest.mark.usefixtures("without_archives")
def test_a_log_damaged_elsewhere_is_named_by_the_function_that_reads_it(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(spark, path, FIRST)
    write(spark, path, [("a", "oslo", 10.0, 2)])
    (log,) = (path / "oslo").glob(".*.log.*_*-*-*")
    damage(log, "uuid")

    with pytest.raises(Exception, match=r"CorruptDataError[^\n]*oslo/") as caught:
        load(spark, path).collect()
    assert log.name in str(caught.value)
