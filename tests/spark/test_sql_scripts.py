"""Tables that statements name by `IDENTIFIER` or variables, statements in texts, and scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from tests.support.spark import temporarily

import pyhudi
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.capabilities import IS_4


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    pyhudi.enable(spark)
    spark.sql("CREATE TABLE scripted (id INT, v INT) USING hudi TBLPROPERTIES (primaryKey='id')")
    spark.sql("INSERT INTO scripted VALUES (1, 1), (2, 2), (3, 3)")
    yield spark.sql
    spark.sql("DROP TABLE IF EXISTS scripted")


def stored(sql: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, sql("SELECT id, v FROM scripted").collect()))


def test_identifier_and_variables_name_the_table_of_a_statement(spark: Any, sql: Any) -> None:
    sql("INSERT INTO IDENTIFIER('scripted') VALUES (4, 4)")
    sql("UPDATE IDENTIFIER('script' || 'ed') AS t SET v = t.v + 10 WHERE t.id = 1")
    sql("DELETE FROM IDENTIFIER(:name) WHERE scripted.id = 2", {"name": "default.scripted"})
    sql(
        "MERGE INTO IDENTIFIER('`default`.`scripted`') t USING (SELECT 3 AS id, 30 AS v) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    assert stored(sql) == [(1, 11), (3, 30), (4, 4)]
    with temporarily(spark, {"tests.table": "scripted", "tests.id": "4"}):
        sql("DELETE FROM ${tests.table} WHERE id = ${spark:tests.id}")
    assert stored(sql) == [(1, 11), (3, 30)]
    with pytest.raises(AnalysisException):
        sql("DELETE FROM IDENTIFIER(3) WHERE id = 1")


def test_statements_in_texts_run_with_their_values(sql: Any) -> None:
    sql("EXECUTE IMMEDIATE 'DELETE FROM scripted WHERE id = ?' USING 1")
    sql("EXECUTE IMMEDIATE 'UPDATE scripted SET v = :v WHERE id = :id' USING (20 AS v, 2 AS id)")
    sql("EXECUTE IMMEDIATE 'INSERT INTO scripted VALUES (5, 5)'")
    assert stored(sql) == [(2, 20), (3, 3), (5, 5)]
    if IS_4:  # before, Spark itself has no such statement
        assert sql("EXECUTE IMMEDIATE 'SELECT max(?) FROM VALUES (1)' USING 7").collect()[0][0] == 7


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN INSERT INTO scripted VALUES (50, 5); END",
        "BEGIN DECLARE x INT DEFAULT 3; UPDATE scripted SET v = x WHERE id = x; END",
        "BEGIN IF 1 = 1 THEN DELETE FROM scripted WHERE id = 1; END IF; END",
        "BEGIN SELECT 1; MERGE INTO scripted t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE; END",
    ],
)
def test_script_that_changes_a_hudi_table_is_refused_by_name(sql: Any, script: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="cannot stand in a script"):
        sql(script)
    assert stored(sql) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.skipif(not IS_4, reason="Spark 3.5 has no scripts")
def test_script_without_hudi_tables_is_run_by_spark(sql: Any) -> None:
    chosen = "SELECT CASE WHEN x = 3 THEN 'three' ELSE 'other' END"
    script = f"BEGIN DECLARE x INT DEFAULT 3; IF x > 2 THEN {chosen}; END IF; END"
    assert sql(script).collect()[0][0] == "three"


@pytest.mark.skipif(not IS_4, reason="Spark 3.5 has no variables")
def test_variables_of_the_session_stand_in_statements(sql: Any) -> None:
    sql("DECLARE OR REPLACE VARIABLE limit_of_ids INT DEFAULT 2")
    try:
        sql("UPDATE scripted SET v = limit_of_ids WHERE id > limit_of_ids")
    finally:
        sql("DROP TEMPORARY VARIABLE IF EXISTS limit_of_ids")
    assert stored(sql) == [(1, 1), (2, 2), (3, 2)]
