"""Names that temporary views have, too: the table that a view hides, and the one that it reads, are not written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import pyhudi
from pyhudi.spark.reads import parquet_files

Rows = list[tuple[Any, ...]]

STATEMENTS = [
    "INSERT INTO t VALUES (3, 30)",
    "INSERT INTO t (id, v) VALUES (3, 30)",
    "INSERT INTO t SELECT * FROM t",
    "INSERT INTO IDENTIFIER('t') VALUES (3, 30)",
    "INSERT OVERWRITE t (id, v) VALUES (3, 30)",
    "INSERT OVERWRITE t SELECT '', '', '', '', '', 3, 30",
    "WITH q AS (SELECT * FROM t) INSERT OVERWRITE t SELECT * FROM q",
    "FROM t INSERT OVERWRITE t SELECT *",
    "UPDATE t SET v = 0",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM IDENTIFIER('t')",
    "MERGE INTO t USING (SELECT 1 AS id, 0 AS v) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
    "EXECUTE IMMEDIATE 'DELETE FROM t'",
    "TRUNCATE TABLE t",
    "ALTER TABLE t ADD COLUMNS (z INT)",
]
VIEWS: dict[str, Callable[[Any], Any]] = {
    "of rows": lambda spark: spark.sql("SELECT 1 AS id, 1 AS v").createOrReplaceTempView("t"),
    "of a table": lambda spark: spark.table("read.o").createOrReplaceTempView("t"),
    "of a folder": lambda spark: spark.read.format("hudi").load(str(folder(spark))).createOrReplaceTempView("t"),
    "of the table that it hides": lambda spark: spark.table("hidden.t").createOrReplaceTempView("t"),
    "of a query": lambda spark: spark.sql("CREATE TEMPORARY VIEW t AS SELECT * FROM read.o"),
}


def folder(spark: Any) -> Path:
    return Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:")) / "read.db" / "o"


@pytest.fixture
def names(spark: Any) -> Iterator[Callable[[], tuple[Rows, Rows]]]:
    """Tables `hidden.t` and `read.o`; a function that gives the rows of both."""
    pyhudi.enable(spark)  # other tests may have disabled it
    for database, table in (("hidden", "t"), ("read", "o")):
        spark.sql(f"CREATE DATABASE {database}")
        spark.sql(f"CREATE TABLE {database}.{table} (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey = 'id')")
        spark.sql(f"INSERT INTO {database}.{table} VALUES (1, 10)")
    spark.sql("USE hidden")

    def rows(name: str) -> Rows:
        return sorted(tuple(row) for row in spark.sql(f"SELECT id, v FROM {name}").collect())

    yield lambda: (rows("hidden.t"), rows("read.o"))
    spark.catalog.dropTempView("t")
    spark.sql("USE default")
    for database in ("hidden", "read"):
        spark.sql(f"DROP DATABASE {database} CASCADE")


@pytest.mark.parametrize("view", VIEWS)
def test_statement_on_the_name_of_a_view_changes_neither_the_hidden_table_nor_its_own(
    spark: Any, names: Any, view: str
) -> None:
    VIEWS[view](spark)
    before = {path: path.read_bytes() for path in folder(spark).rglob("*") if path.is_file()}

    for statement in STATEMENTS:
        with pytest.raises((PySparkException, Py4JJavaError)):
            spark.sql(statement).collect()
        assert names() == ([(1, 10)], [(1, 10)]), statement
    for write in (
        lambda: spark.table("t").write.insertInto("t"),
        lambda: spark.table("t").write.insertInto("t", overwrite=True),
        lambda: spark.table("t").writeTo("t").append(),
        lambda: spark._jsparkSession.table("t").write().insertInto("t"),
    ):
        with pytest.raises((PySparkException, Py4JJavaError)):
            write()
    assert {path: path.read_bytes() for path in folder(spark).rglob("*") if path.is_file()} == before


def test_view_of_a_single_file_is_not_written_to_where_the_jvm_cannot_ask_for_files(
    spark: Any, names: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "is_possible", lambda _: False)
    VIEWS["of a folder"](spark)

    for statement in ("INSERT INTO t SELECT * FROM t", "INSERT OVERWRITE t SELECT '', '', '', '', '', 3, 30"):
        with pytest.raises(PySparkException):
            spark.sql(statement).collect()

    assert names() == ([(1, 10)], [(1, 10)])


def test_hidden_table_takes_writes_under_its_full_name_and_by_methods_that_know_no_views(
    spark: Any, names: Any
) -> None:
    VIEWS["of rows"](spark)
    rows = spark.sql("SELECT 2 AS id, 20 AS v")

    spark.sql("INSERT INTO hidden.t VALUES (3, 30)")
    spark.sql("DELETE FROM spark_catalog.hidden.t WHERE id = 1")
    rows.write.format("hudi").mode("append").saveAsTable("t")
    assert names()[0] == [(2, 20), (3, 30)]
    spark.sql("MERGE INTO read.o USING t ON o.id = t.id WHEN MATCHED THEN UPDATE SET v = t.v")
    assert names()[1] == [(1, 1)]


def test_table_can_be_made_under_the_name_of_a_view(spark: Any, names: Any) -> None:
    VIEWS["of rows"](spark)
    spark.sql("DROP TABLE hidden.t")
    spark.sql("SELECT 5 AS id, 50 AS v").write.format("hudi").option(
        "hoodie.datasource.write.recordkey.field", "id"
    ).saveAsTable("t")

    assert names()[0] == [(5, 50)]
    with suppress(PySparkException, Py4JJavaError):
        spark.sql("DELETE FROM t")
    assert names()[0] == [(5, 50)]
