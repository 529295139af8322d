"""Forms in which users write statements: definitions before them, full names, fields of structs, and DEFAULT."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException

import pyhudi
from pyhudi.errors import SqlStatementError, UnsupportedFeatureError
from pyhudi.spark.capabilities import IS_4


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    pyhudi.enable(spark)  # other tests may have disabled it
    spark.sql("CREATE DATABASE forms")
    spark.sql("USE forms")
    yield lambda text: [tuple(row) for row in spark.sql(text).collect()]
    spark.sql("USE default")
    spark.sql("DROP DATABASE forms CASCADE")


SOURCE = "WITH s AS (SELECT 1 AS id, 'm' AS name, 'x' AS p), u (a) AS (SELECT 2)"
MERGE = (
    f"{SOURCE} MERGE INTO forms.t USING (SELECT s.*, a FROM s, u) s ON forms.t.id = s.id AND forms.t.p = s.p "
    "WHEN MATCHED THEN UPDATE SET t.place.x = s.a, forms.t.name = DEFAULT, ts = 4"
)
SCRIPT = [
    # the statement, and the rows (id, name, place, ts) after it
    ("INSERT INTO t VALUES (1, DEFAULT, named_struct('x', 1, 'y', 'u'), 1, 'x'), (2, 'b', default, 1, 'y')",
     [(1, None, (1, "u"), 1), (2, "b", None, 1)]),
    ("UPDATE forms.t SET forms.t.name = 'q', ts = forms.t.ts + 1 WHERE spark_catalog.forms.t.id = 1",
     [(1, "q", (1, "u"), 2), (2, "b", None, 1)]),
    ("UPDATE t SET place.x = place.x + 76, ts = 3, name = DEFAULT WHERE id = 1",
     [(1, None, (77, "u"), 3), (2, "b", None, 1)]),
    ("UPDATE t AS v SET v.Place.Y = v.name, ts = 3 WHERE v.id = 2",
     [(1, None, (77, "u"), 3), (2, "b", (None, "b"), 3)]),
    (MERGE,
     [(1, None, (2, "u"), 4), (2, "b", (None, "b"), 3)]),
    (f"{SOURCE} UPDATE t SET name = (SELECT max(name) FROM s), ts = 5 WHERE id IN (SELECT id FROM s)",
     [(1, "m", (2, "u"), 5), (2, "b", (None, "b"), 3)]),
    (f"{SOURCE} INSERT INTO t (id, name, ts, p) SELECT id + 2, name, 1, p FROM s",
     [(1, "m", (2, "u"), 5), (2, "b", (None, "b"), 3), (3, "m", None, 1)]),
    (f"{SOURCE} DELETE FROM forms.t WHERE forms.t.id IN (WITH w AS (SELECT a FROM u) SELECT a FROM w)",
     [(1, "m", (2, "u"), 5), (3, "m", None, 1)]),
    ("FROM t INSERT INTO t SELECT id + 3, name, place, ts, p WHERE id = 1",
     [(1, "m", (2, "u"), 5), (3, "m", None, 1), (4, "m", (2, "u"), 5)]),
    ("INSERT OVERWRITE t SELECT * FROM t WHERE id > 1",
     [(3, "m", None, 1), (4, "m", (2, "u"), 5)]),
    ("CREATE OR REPLACE TABLE fresh USING hudi AS SELECT delete FROM (SELECT 1 AS delete)",
     [(3, "m", None, 1), (4, "m", (2, "u"), 5)]),
]  # fmt: skip
REFUSED = {
    "CREATE OR REPLACE TABLE t (id INT) USING hudi": "OR REPLACE",
    "REPLACE TABLE t USING hudi AS SELECT 1 AS id": "REPLACE",
    "REPLACE TABLE t AS SELECT 1 AS id": "REPLACE",
    "CREATE TABLE n (id INT, name STRING DEFAULT 'a') USING hudi": "DEFAULT",
    "FROM t INSERT INTO t SELECT * INSERT INTO fresh SELECT 1": "INSERT INTO fresh",
    "MERGE INTO t USING t s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (place.x) VALUES (1)": "place.x",
}
OF_SPARK = [
    "WITH s AS (SELECT 1) DELETE t",
    "WITH 'x' SELECT 1",
    "FROM (SELECT 1",
    "UPDATE",
    "INSERT nothing",
    "ALTER TABLE",
]
"""Wrong, and not about a Hudi table: Spark says what is wrong."""
QUERIES = {
    "WITH t AS (SELECT 1 AS delete) SELECT delete FROM t": [(1,)],
    "SELECT forms.t.id, spark_catalog.forms.t.place.x FROM forms.t WHERE forms.t.id > 3": [(4, 2)],
    "SELECT count(forms.t.id) FROM t JOIN forms.t o ON o.id = forms.t.id": [(2,)],
    "SELECT max(id) FROM forms.t o WHERE EXISTS (SELECT 1 FROM t WHERE forms.t.id = o.id)": [(4,)],
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_statements_mean_what_they_mean_in_spark_however_they_are_written(kind: str, sql: Any) -> None:
    sql(
        "CREATE TABLE t (id INT, name STRING, place STRUCT<x: INT, y: STRING>, ts INT, p STRING) USING hudi "
        f"PARTITIONED BY (p) TBLPROPERTIES (primaryKey = 'id', orderingFields = 'ts', type = '{kind}')"
    )
    for statement, expected in SCRIPT:
        sql(statement)
        assert sql("SELECT id, name, place, ts FROM t ORDER BY id") == expected, statement
    for query, expected in QUERIES.items():
        assert sql(query) == expected, query
    for statement, place in REFUSED.items():
        with pytest.raises(SqlStatementError) as caught:
            sql(statement)
        assert statement[caught.value.context["column"] - 1 :].startswith(place), statement
    for statement in OF_SPARK:
        with pytest.raises(ParseException):
            sql(statement)
    assert sql("SELECT id, name, place, ts FROM t ORDER BY id") == SCRIPT[-1][1]


@pytest.mark.skipif(not IS_4, reason="Spark 3.5 has no EXECUTE IMMEDIATE")
def test_parameter_without_a_value_is_the_error_of_spark(sql: Any) -> None:
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        sql("EXECUTE IMMEDIATE 'SELECT :param'")


def test_backslash_that_stands_for_itself_is_refused_in_statements_on_hudi_tables(sql: Any, spark: Any) -> None:
    sql("CREATE TABLE b (id INT, name STRING) USING hudi TBLPROPERTIES (primaryKey = 'id')")
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        sql("INSERT INTO b VALUES (1, 'x')")
        for text, args in (("INSERT INTO b VALUES (2, 'a\\b')", None), ("INSERT INTO b VALUES (2, :v)", {"v": "it's"})):
            with pytest.raises(UnsupportedFeatureError, match="escapedStringLiterals"):
                spark.sql(text, args)
        assert sql("SELECT id, name FROM b") == [(1, "x")]
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
