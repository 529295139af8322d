"""A plain `where`, SQL and joins ask the indexes of a table when Spark plans them, and change no answer."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.read.skipping import file_bounds
from pyhudi.spark.reads import file_index
from pyhudi.spark.reads.jvm_objects import FileToRead, Jvm

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("name", pa.string()),
        ("note", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("ts", pa.int64()),
        ("n", pa.int32()),
    ]
)
OPTIONS = {"hoodie.parquet.small.file.limit": "0", "hoodie.metadata.record.index.min.filegroup.count": "1"}
EXPRESSIONS = {
    "by_lower": ("name", {"expr": "lower"}),
    "by_upper": ("name", {"expr": "upper"}),
    "by_trim": ("name", {"expr": "trim"}),
    "by_start": ("name", {"expr": "substring", "pos": "1", "len": "5"}),
    "by_length": ("name", {"expr": "length"}),
    "by_year": ("day", {"expr": "year"}),
    "by_month": ("day", {"expr": "month"}),
    "by_year_at": ("at", {"expr": "year"}),
    "by_day_at": ("at", {"expr": "date_format", "format": "yyyy-MM-dd"}),
    "by_month_of_day": ("day", {"expr": "date_format", "format": "yyyy-MM"}),
    "by_day": ("ts", {"expr": "from_unixtime", "format": "yyyy-MM-dd"}),
    "by_second": ("n", {"expr": "from_unixtime"}),
    "by_days": ("day", {"expr": "date_add", "days": "10"}),
    "by_seconds": ("at", {"expr": "unix_timestamp"}),
    "by_pattern": ("name", {"expr": "regexp_extract", "pattern": "([a-z]+)", "idx": "1"}),
}
Listed = list[int]


def batch(first: int) -> pa.Table:
    """Two rows, a year and 40 days apart from those of other batches; their notes are in no order."""
    ids = [first, first + 1]
    times = [
        dt.datetime(2000 + first, 1, 15, 12, tzinfo=dt.UTC) + dt.timedelta(days=20 * first + 3 * k) for k in (0, 1)
    ]
    seconds = [int(each.timestamp()) for each in times]
    columns = [
        ids,
        ["oslo"] * 2,
        [f"Name{first} ", f"NAME{first}" + "x" * first],
        [f"note {7 * each % 18}" for each in ids],
        [each.date() for each in times],
        times,
        seconds,
        seconds,
    ]
    return pa.table([pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


@pytest.fixture(scope="module", params=["cow", "mor"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nine files of two rows, with a record index, a secondary index and indexes of expressions."""
    path = str(tmp_path_factory.mktemp("indexed") / request.param)
    table = pyhudi.HudiTable.create(
        path, schema=SCHEMA, record_key="id", partition_by="city", table_type=request.param, hudi_options=OPTIONS
    )
    for first in range(0, 18, 2):
        table = table.refresh()
        table.insert(batch(first))
    table = table.refresh()
    table.indexes.create("record_index", hudi_options=OPTIONS)
    table.indexes.create("by_note", "secondary", "note")
    for name, (column, expression) in EXPRESSIONS.items():
        table.indexes.create(name, "expression", column, expression=expression)
    return path


@pytest.fixture
def table(made: str, tmp_path: Path) -> str:
    """A copy of it: tests write."""
    return str(shutil.copytree(made, tmp_path / Path(made).name))


@pytest.fixture
def listed(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Listed:
    """How many files each answer has that Spark gets. No footer is read, so that indexes alone leave files out."""
    assert file_index.is_possible(spark)
    answers: Listed = []
    real = Jvm.file_statuses

    def noted(self: Jvm, groups: list[list[FileToRead]]) -> Any:
        answers.append(sum(map(len, groups)))
        return real(self, groups)

    monkeypatch.setattr(Jvm, "file_statuses", noted)
    monkeypatch.setattr(file_bounds, "FOOTERS_ON_DISK_MAX", 0)
    return answers


CONDITIONS = [
    ("id = 5", 1),
    ("id in (5, 8) and city = 'oslo'", 2),
    ("id = 5 or id = 17", 2),
    ("_hoodie_record_key = '5'", 1),
    ("note = 'note 3'", 1),
    ("note in ('note 3', 'note 4', 'none')", 2),
    ("id = 5 or n = 3", 9),
    ("lower(name) = 'name4xxxx'", 1),
    ("lower(name) like 'name4x%'", 1),
    ("upper(name) = 'NAME4XXXX' or id = 8", 9),
    ("upper(name) = 'NAME4XXXX' or upper(name) = 'NAME8XXXXXXXX'", 2),
    ("trim(name) = 'Name8'", 1),
    ("left(name, 5) = 'Name8'", 1),
    ("length(name) > 18", 2),
    ("year(day) = 2004", 1),
    ("year(day) in (2004, 2006)", 2),
    ("year(day) between 2003 and 2004", 1),
    ("month(day) = 4", 1),
    ("year(at) = 2004", 1),
    ("date_format(at, 'yyyy-MM-dd') = '2004-04-04'", 1),
    ("date_format(at, 'yyyy-MM-dd') >= '2015'", 1),
    ("date_format(day, 'yyyy-MM') = '2004-04'", 1),
    ("date_format(at, 'yyyy-MM') = '2004-04'", 9),
    ("from_unixtime(ts, 'yyyy-MM-dd') = '2004-04-04'", 1),
    ("from_unixtime(ts, 'yyyy-MM-dd') like '2004-04%'", 1),
    ("from_unixtime(n) < '2001-01-01'", 1),
    ("date_add(day, 10) = date'2004-04-14'", 1),
    ("unix_timestamp(at) < 980000000", 1),
    ("regexp_extract(name, '([a-z]+)', 1) = 'xxxx'", 9),
    ("lower(name) != 'name4xxxx' and length(name) = 9", 7),
    ("substring(name, 1, 4) = 'Name'", 9),
    ("lower(note) = 'note 3'", 9),
    ("date_add(day, 11) = date'2004-04-14'", 9),
    ("year(day) + 1 = 2005", 9),
    ("to_date(name, 'yyyy') = date'2004-01-01' or id = 3", 9),
]


def test_where_asks_the_indexes_and_keeps_every_row(spark: Any, table: str, listed: Listed) -> None:
    asked = CONDITIONS if table.endswith("cow") else CONDITIONS[::6]
    off = spark.read.format("hudi").option("hoodie.enable.data.skipping", "false").load(table)
    rows = spark.read.format("hudi").load(table)
    found = {}
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        each = off.selectExpr("id", *(f"{condition} as c{at}" for at, (condition, _) in enumerate(asked))).collect()
        listed.clear()
        for at, (condition, _) in enumerate(asked):
            ids = {row[0] for row in rows.where(condition).select("id").collect()}
            assert ids == {row["id"] for row in each if row[f"c{at}"]}, condition
            found[condition] = sum(listed)
            listed.clear()
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert found == dict(asked)


def test_sql_and_joins_ask_them_and_a_later_write_is_no_part_of_an_older_answer(
    spark: Any, table: str, listed: Listed
) -> None:
    rows = spark.read.format("hudi").load(table)
    rows.createOrReplaceTempView("indexed")
    joined = "select a.id from indexed a join indexed b on a.id = b.id where b.id = 4 and lower(b.name) = 'name4 '"
    assert [row[0] for row in spark.sql(joined).collect()] == [4]
    assert listed == [1, 1]
    listed.clear()
    pyhudi.HudiTable.for_path(table).upsert(batch(6).set_column(3, SCHEMA.field(3), pa.array(["moved", None])))
    assert [row[0] for row in rows.where("id = 6").select("note").collect()] == ["note 6"]
    assert [row[0] for row in rows.where("note = 'note 6'").select("id").collect()] == [6]
    newest = spark.read.format("hudi").load(table)
    assert [row[0] for row in newest.where("note = 'moved'").select("id").collect()] == [6]
    assert [row[0] for row in newest.where("note is null").select("id").collect()] == [7]
    assert sorted(row[0] for row in newest.where("year(day) = 2006").select("id").collect()) == [6, 7]
    pyhudi.HudiTable.for_path(table).delete(batch(6).select(["id", "city"]))
    old = spark.read.format("hudi").option("hoodie.datasource.query.type", "read_optimized").load(table)
    assert old.where("id in (6, 7)").count() == (2 if table.endswith("mor") else 0), "logs change no base file"
    pyhudi.HudiTable.for_path(table).upsert(batch(6))
