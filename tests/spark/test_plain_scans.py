"""Plain scans of Parquet: tasks of a write read the files themselves, and get what Spark would hand over."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sql
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.support.spark import temporarily

import pyhudi
from pyhudi.config.enums import Arrangement
from pyhudi.engine.protocol import Distribution, TaskContext
from pyhudi.spark import engine as engines
from pyhudi.spark import parquet_ranges, plain_scans
from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.engine import SparkEngine
from pyhudi.spark.parquet_ranges import FileRange, ListedFile, ScannedColumns, rows_of_ranges

OLD_DAYS = ["0001-01-01", "1200-02-28", "1582-10-04", "1582-10-15", "1883-11-18", "1970-01-01", "2024-02-29"]
OF_SPARK = {
    "flag": "id % 2 = 0",
    "tiny": "cast(id - 3 as tinyint)",
    "small": "cast(id * 1000 as smallint)",
    "number": "cast(id as int)",
    "long": "id * 10000000000",
    "short_float": "cast(id / 3 as float)",
    "float": "-id / 3",
    "price": "cast(id / 7 as decimal(9, 2))",
    "amount": "cast(id / 7 as decimal(18, 4))",
    "huge": "cast(-id / 7 as decimal(38, 10))",
    "text": "repeat('ä', cast(id as int))",
    "bytes": "cast(cast(id as string) as binary)",
    "places": "array(struct(id as x, array(cast(id as string), null) as names), null)",
    "named": "map('a', struct(cast(id as int) as n), 'b', null)",
    "deep": "struct(map('k', array(id, null)) as m, struct('x' as y) as s)",
    "day": "to_date(element_at(array({}), cast(id as int) % 7 + 1))".format(",".join(f"'{day}'" for day in OLD_DAYS)),
}
AT = "cast(concat(cast(day as string), ' 23:59:59.123456') as {})"


@pytest.fixture
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Descriptions of the steps in which tasks read the files themselves."""
    found: list[str] = []
    original = engines.results_of_parts

    def noted(*args: Any) -> Any:
        result = original(*args)
        found.append(args[-1])
        return result

    monkeypatch.setattr(engines, "results_of_parts", noted)
    return found


def _rows(_: TaskContext, batches: Iterator[pa.RecordBatch]) -> pa.Table | None:
    found = list(batches)
    return pa.Table.from_batches(found).combine_chunks() if found else None


def rows_of_splits(engine: SparkEngine, rows: Any, splits: int | None = None) -> list[pa.Table | None]:
    return engine.map_splits(
        rows, _rows, distribution=Distribution(Arrangement.NONE, splits=splits), description="look"
    )


def check(engine: SparkEngine, rows: Any, short: list[str], *, is_short: bool, splits: int | None = None) -> None:
    """The splits are those of the hand-over, which a filter that holds for all rows brings about."""
    found = rows_of_splits(engine, rows, splits)
    assert len(short) == is_short
    handed_over = rows_of_splits(engine, rows.where("true"), splits)
    assert len(short) == is_short
    assert found == handed_over
    assert {table.schema for table in found if table} <= {engine.schema_of(rows)}
    assert is_short is False or any(found)


def put(folder: Path, rows: pa.Table | Mapping[str, Any], name: str = "1.parquet", **options: Any) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.table(rows), folder / name, **options)
    return str(folder)


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_files_of_spark_are_read_as_spark_reads_them(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, kind: str
) -> None:
    made = spark.range(0, 21, 1, 2).selectExpr(*[f"{made} as `{name}`" for name, made in OF_SPARK.items()])
    times = made.selectExpr("*", f"{AT.format('timestamp')} at", f"{AT.format('timestamp_ntz')} at_wall")
    nulls = times.selectExpr(*[f"if(flag, `{name}`, null) as `{name}`" for name in times.columns])
    settings = {
        "spark.sql.parquet.outputTimestampType": kind,
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    }
    with temporarily(spark, settings):
        times.unionAll(nulls).write.parquet(str(tmp_path / "p"))

    check(engine, spark.read.parquet(str(tmp_path / "p")), short, is_short=True)


def test_files_of_arrow_are_read_as_spark_reads_them(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    instant = dt.datetime(1500, 1, 1, 1, 2, 3, 456000)
    columns = {
        "text": pa.array(["a", None], pa.large_string()),
        "bytes": pa.array([b"a", None], pa.large_binary()),
        "texts": pa.array([["a", None], None], pa.large_list(pa.large_string())),
        "price": pa.array([Decimal("1.23"), None], pa.decimal128(20, 2)),
        "named": pa.array([[("a", {"n": 1})], None], pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
    }
    dated = {
        "at": pa.array([instant, None], pa.timestamp("ms", "Europe/Berlin")),
        "at_wall": pa.array([instant, None], pa.timestamp("us")),
        "day": pa.array([instant, None], pa.date32()),
    }
    rows = spark.read.parquet(put(tmp_path / "p", columns), put(tmp_path / "q", columns))
    check(engine, rows, short, is_short=True)
    short.clear()
    modes = {"spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED"}
    with temporarily(spark, modes):
        check(engine, spark.read.parquet(put(tmp_path / "dated", columns | dated)), short, is_short=True)
    short.clear()
    with temporarily(spark, dict.fromkeys(modes, "LEGACY")):
        check(engine, spark.read.parquet(str(tmp_path / "dated")), short, is_short=False)


CHOICES = {
    "some columns": lambda rows: rows.select("text", "id"),
    "a column less": lambda rows: rows.drop("id"),
    "other names": lambda rows: rows.withColumnRenamed("text", "id2").toDF("n", "t", "more"),
    "a column twice": lambda rows: rows.selectExpr("id", "id as same", "text"),
    "an alias": lambda rows: rows.alias("x").select("x.text"),
}


@pytest.mark.parametrize("choose", CHOICES.values(), ids=CHOICES)
def test_columns_that_are_chosen_and_named_are_read_so(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, choose: Any
) -> None:
    rows = {"id": range(5), "text": list("abcde"), "other": [None] * 4 + [1]}
    check(engine, choose(spark.read.parquet(put(tmp_path / "p", rows))), short, is_short=True)


def test_view_of_files_is_read_from_the_files(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    spark.read.parquet(put(tmp_path / "p", {"id": range(5)})).createOrReplaceTempView("plain_files")
    check(engine, spark.table("plain_files"), short, is_short=True)


@pytest.mark.parametrize("splits", [None, 1, 3, 100])
def test_splits_are_those_of_spark_and_as_many_as_are_asked_for(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, splits: int | None
) -> None:
    for number, rows in enumerate([4000, 1, 700, 2500, 90]):
        values = {"id": range(rows), "text": [f"{number} {row}" for row in range(rows)]}
        put(tmp_path / "p", values, f"{number}.parquet", row_group_size=300 + 100 * number)
    settings = {"spark.sql.files.maxPartitionBytes": "7001", "spark.sql.files.openCostInBytes": "1000"}
    with temporarily(spark, settings):
        check(engine, spark.read.parquet(str(tmp_path / "p")), short, is_short=True, splits=splits)


NAMES = ("a b", "50%", "c%20d", "ü", "x=1; isDirectory=false", "[a]", "q?", "a+b", "; length=9; replication=1; x")


def test_folders_and_files_with_any_name_are_read(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    for number, name in enumerate(NAMES):
        put(tmp_path / "p" / name, {"id": [number]}, f"{name}.parquet")
    check(engine, spark.read.parquet(f"{tmp_path / 'p'}/*/*.parquet"), short, is_short=True)
    short.clear()
    rows = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "p"))
    check(engine, rows, short, is_short=False)


PLANS = {
    "filter": lambda rows: rows.where("id > 1"),
    "limit": lambda rows: rows.limit(3),
    "sort": lambda rows: rows.sort("id"),
    "sort in splits": lambda rows: rows.sortWithinPartitions("text"),
    "coalesce": lambda rows: rows.coalesce(1),
    "computed": lambda rows: rows.withColumn("id", sql.col("id") + 1),
    "computed, of the same type": lambda rows: rows.withColumn("text", sql.upper("text")),
    "cast": lambda rows: rows.withColumn("id", sql.col("id").cast("int")),
    "constant": lambda rows: rows.withColumn("x", sql.lit(1)),
    "nested": lambda rows: rows.select("in.a"),
    "union": lambda rows: rows.unionAll(rows),
    "observed": lambda rows: rows.observe("seen", sql.count(sql.lit(1)).alias("n")),
    "where it comes from": lambda rows: rows.select("id", "_metadata.file_size"),
    "metadata": lambda rows: rows.select("id", sql.col("_metadata.file_name").alias("text")),
}


@pytest.mark.parametrize("change", PLANS.values(), ids=PLANS)
def test_plan_that_does_more_than_choose_columns_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, change: Any
) -> None:
    rows = {"id": range(5), "text": list("edcba"), "in": [{"a": 1}] * 5}
    check(engine, change(spark.read.parquet(put(tmp_path / "p", rows))), short, is_short=False)


READS = {
    "merged": lambda read, path: read.option("mergeSchema", "true").parquet(path),
    "chosen by name": lambda read, path: read.option("pathGlobFilter", "1*").parquet(path),
    "calendar": lambda read, path: read.option("datetimeRebaseMode", "LEGACY").parquet(path),
    "no such column": lambda read, path: read.schema("id long, more int").parquet(path),
    "other letter case": lambda read, path: read.schema("ID long").parquet(path),
    "another format": lambda read, path: read.text(path),
    "metadata of columns": lambda read, path: read.schema(
        StructType([StructField("id", LongType(), True, {"comment": "x"}), StructField("text", StringType())])
    ).parquet(path),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_read_with_options_or_other_columns_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, read: Any
) -> None:
    path = put(tmp_path / "p", {"id": range(5), "text": list("edcba")})
    check(engine, read(spark.read, path), short, is_short=False)


@pytest.mark.skipif(not IS_4, reason="Spark makes no wider numbers of those in a file")
def test_file_with_narrower_numbers_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    path = put(tmp_path / "p", {"id": pa.array([1, 2], pa.int32())})
    check(engine, spark.read.schema("id long").parquet(path), short, is_short=False)


FILES = {
    "unsigned": pa.table({"id": pa.array([1], pa.uint8()), "n": pa.array([1], pa.uint32())}),
    "duration": pa.table({"id": pa.array([1], pa.duration("us"))}),
    "dictionary": pa.table({"id": pa.array(["a"]).dictionary_encode()}),
    "names with dots": pa.table({"id": [1], "a.b": [2], "a": [{"b": 3}]}),
}


@pytest.mark.parametrize("rows", FILES.values(), ids=FILES)
def test_file_of_types_that_arrow_reads_otherwise_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, rows: pa.Table
) -> None:
    check(engine, spark.read.parquet(put(tmp_path / "p", rows)).select("id"), short, is_short=False)


def test_names_that_differ_by_letter_case_are_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    with temporarily(spark, {"spark.sql.caseSensitive": "true"}):
        rows = spark.read.parquet(put(tmp_path / "p", {"id": [1], "ID": [2]}))
        check(engine, rows.select("id"), short, is_short=False)


@pytest.mark.parametrize("second", [{"id": [1.5]}, {"id": ["x"]}, {"other": [1]}])
def test_folder_with_one_file_of_another_type_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, second: dict[str, Any]
) -> None:
    put(tmp_path / "p", {"id": [1]}, "1.parquet")
    rows = spark.read.schema("id long").parquet(put(tmp_path / "p", second, "2.parquet"))
    if "other" in second:
        check(engine, rows, short, is_short=False)
        return
    with pytest.raises(Exception, match=r"2\.parquet"):  # Spark's own
        rows_of_splits(engine, rows)
    assert not short


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
def test_old_dates_of_the_julian_calendar_are_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, kind: str
) -> None:
    settings = {
        "spark.sql.parquet.outputTimestampType": kind,
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    }
    with temporarily(spark, settings):
        spark.sql("select timestamp'1200-01-01 00:00:00' at, date'1200-01-01' day, 1L id").write.parquet(
            str(tmp_path / "p")
        )
    rows = spark.read.parquet(str(tmp_path / "p"))
    for name in ("at", "day"):
        check(engine, rows.select(name), short, is_short=False)
    check(engine, rows.select("id"), short, is_short=True)


def test_times_in_structs_of_type_int96_are_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    spark.sql("select struct(timestamp'2024-01-01 00:00:00' at) s").write.parquet(str(tmp_path / "p"))
    check(engine, spark.read.parquet(str(tmp_path / "p")), short, is_short=False)
    without_zone = spark.read.schema("s struct<at: timestamp_ntz>").parquet(str(tmp_path / "p"))
    scan = plain_scans.plain_scan(without_zone, engine.schema_of(without_zone), None)
    assert scan is not None
    assert not engines.all_read_alike(engine, scan)


SETTINGS = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.files.maxPartitionNum": "1",
    "spark.sql.sources.useV1SourceList": "",
}


@pytest.mark.parametrize(("name", "value"), SETTINGS.items(), ids=SETTINGS)
def test_session_that_reads_parquet_otherwise_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, name: str, value: str
) -> None:
    path = put(tmp_path / "p", {"id": [1]})
    with temporarily(spark, {name: value}):
        check(engine, spark.read.parquet(path), short, is_short=False)


def test_session_with_keys_for_encrypted_files_is_left_to_spark(spark: Any, tmp_path: Path) -> None:
    rows = spark.read.parquet(put(tmp_path / "p", {"id": [1]}))
    schema = SparkEngine(spark).schema_of(rows)
    assert plain_scans.plain_scan(rows, schema, None) is not None
    with temporarily(spark, {"parquet.crypto.factory.class": "x"}):
        assert plain_scans.plain_scan(rows, schema, None) is None


def test_folders_of_partitions_are_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    put(tmp_path / "p" / "city=x", {"id": [1], "city": ["y"]})  # the name of the folder counts
    check(engine, spark.read.parquet(str(tmp_path / "p")), short, is_short=False)


def test_cached_rows_are_those_that_were_cached(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    path = Path(put(tmp_path / "p", {"id": [1]})) / "1.parquet"
    before = path.stat()
    rows = spark.read.parquet(str(tmp_path / "p")).cache()
    try:
        assert rows.count() == 1
        put(tmp_path / "p", {"id": [2]})
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        assert [table.to_pylist() for table in rows_of_splits(engine, rows) if table] == [[{"id": 1}]]
    finally:
        rows.unpersist()
    assert not short


def test_view_of_a_hudi_table_with_superseded_rows_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    table = pyhudi.HudiTable.create(
        str(tmp_path / "t"),
        schema=pa.schema([("id", pa.string()), ("n", pa.int64())]),
        record_key="id",
        table_type="MERGE_ON_READ",
    )
    table.upsert(pa.table({"id": ["a", "b"], "n": [1, 2]}))
    table.upsert(pa.table({"id": ["a"], "n": [3]}))
    rows = spark.read.format("hudi").load(str(tmp_path / "t")).select("id", "n")
    found = pa.concat_tables(filter(None, rows_of_splits(engine, rows)))
    assert sorted(found["n"].to_pylist()) == [2, 3]
    assert not short


def test_file_that_was_written_again_since_spark_listed_it_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    rows = spark.read.parquet(put(tmp_path / "p", {"id": [1, 2, 3]}))
    put(tmp_path / "p", {"id": [4, 5, 6]})
    os.utime(tmp_path / "p" / "1.parquet", (1_700_000_000, 1_700_000_000))
    check(engine, rows, short, is_short=False)


def test_file_that_is_written_again_after_the_footers_were_read_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.read.parquet(put(tmp_path / "p", {"id": [1, 2, 3]}))
    original = engines.all_read_alike

    def checked(*args: Any) -> bool:
        alike = original(*args)
        put(tmp_path / "p", {"id": [4, 5, 6]})
        os.utime(tmp_path / "p" / "1.parquet", (1_700_000_000, 1_700_000_000))
        return alike

    monkeypatch.setattr(engines, "all_read_alike", checked)
    check(engine, rows, short, is_short=False)


def test_damaged_file_is_the_error_that_spark_has_for_it(spark: Any, engine: SparkEngine, tmp_path: Path) -> None:
    path = Path(put(tmp_path / "p", {"id": range(10_000)}, compression="none", use_dictionary=False)) / "1.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[4:40] = bytes(36)
    path.write_bytes(damaged)
    with pytest.raises(Exception, match=r"1\.parquet"):
        rows_of_splits(engine, spark.read.parquet(str(tmp_path / "p")))


def test_error_of_the_function_is_raised_as_it_is(spark: Any, engine: SparkEngine, tmp_path: Path) -> None:
    def fail(context: TaskContext, batches: Iterator[pa.RecordBatch]) -> None:
        raise pyhudi.errors.SchemaMismatchError("no", rows=sum(batch.num_rows for batch in batches))

    rows = spark.read.parquet(put(tmp_path / "p", {"id": [1, 2]}))
    with pytest.raises(pyhudi.errors.SchemaMismatchError) as raised:
        engine.map_splits(rows, fail, distribution=Distribution(Arrangement.NONE), description="look")
    assert raised.value.context["rows"] in (0, 2)


def test_footers_of_many_files_are_read_in_tasks(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.spark.engine.FOOTER_BYTES", 16 << 20)
    for number in range(18):
        put(tmp_path / "p", {"id": [number]}, f"{number}.parquet")
    check(engine, spark.read.parquet(str(tmp_path / "p")), short, is_short=True)
    put(tmp_path / "p", {"id": pa.array([1], pa.uint16())}, "last.parquet")
    short.clear()
    check(engine, spark.read.parquet(str(tmp_path / "p" / "last.parquet")), short, is_short=False)


def test_wide_values_that_a_file_holds_once_come_in_pieces(tmp_path: Path) -> None:
    put(tmp_path / "p", {"text": pa.array(["x" * 400_000, "y" * 400_000] * 300)}, compression="zstd")
    path = tmp_path / "p" / "1.parquet"
    found = path.stat()
    assert found.st_size < 100_000
    file = ListedFile(str(path), found.st_size, found.st_mtime_ns // 1_000_000)
    columns = ScannedColumns(("text",), pa.schema([("text", pa.string())]), True, True)
    sizes = [(batch.num_rows, batch.nbytes) for batch in rows_of_ranges(columns, [FileRange(file, 0, file.size)])]
    assert sum(rows for rows, _ in sizes) == 600
    assert max(size for _, size in sizes) < 70 << 20


def test_times_by_the_second_are_those_of_the_file(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "p", {"id": [1]})) / "1.parquet"
    os.utime(path, ns=(0, 1_700_000_000_123_000_000))
    columns = ScannedColumns(("id",), pa.schema([("id", pa.int64())]), True, True)
    for modified, is_alike in ((1_700_000_000_123, True), (1_700_000_000_000, True), (1_700_000_000_124, False)):
        file = ListedFile(str(path), path.stat().st_size, modified)
        assert parquet_ranges.reads_alike(columns, file) is is_alike


@pytest.mark.parametrize("operation", ["bulk_insert", "insert"])
def test_table_is_that_of_rows_that_spark_hands_over(
    spark: Any, short: list[str], tmp_path: Path, operation: str
) -> None:
    rows = {"id": [f"{n:04}" for n in range(3000)], "city": [f"c{n % 3}" for n in range(3000)], "n": range(3000)}
    read = spark.read.parquet(put(tmp_path / "p", rows, row_group_size=500))
    stored = []
    for number, frame in enumerate((read, read.where("true"))):
        table = pyhudi.HudiTable.create(
            str(tmp_path / str(number)), schema=pa.table(rows).schema, record_key="id", partition_by="city"
        )
        result = getattr(table, operation)(frame)
        files = sorted(pq.read_metadata(path).num_rows for path in (tmp_path / str(number)).rglob("*.parquet"))
        stored.append((table.scan(columns=["id", "city", "n"]).to_arrow().sort_by("id"), files, result.inserted))
    assert stored[0] == stored[1]
    assert len(short) == 1


def test_table_with_padded_texts_or_defaults_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str]
) -> None:
    spark.sql("create table padded (id bigint, c char(3), d int default 7) using parquet")
    try:
        spark.sql("insert into padded values (1, 'a', 2)")
        spark.sql("alter table padded add column e int default 9")
        check(engine, spark.table("padded").select("id", "d", "e"), short, is_short=False)
        check(engine, spark.table("padded").select("c"), short, is_short=False)
    finally:
        spark.sql("drop table padded")


def test_table_of_parquet_in_the_catalog_is_read_from_its_files(
    spark: Any, engine: SparkEngine, short: list[str]
) -> None:
    spark.sql("create table unpadded using parquet as select id, cast(id as string) text from range(5)")
    try:
        check(engine, spark.table("unpadded"), short, is_short=True)
    finally:
        spark.sql("drop table unpadded")


def test_folder_without_a_file_is_left_to_spark(
    spark: Any, engine: SparkEngine, short: list[str], tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    assert rows_of_splits(engine, spark.read.schema("id long").parquet(str(tmp_path / "p"))) == [None]
    assert not short
