"""Statements over columns whose names are words of SQL, which Spark does not reserve."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.expressions import EXPRESSIONS, expression_over_words

import pyhudi
from pyhudi.spark.capabilities import IS_4


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    pyhudi.enable(spark)
    yield spark.sql
    spark.sql("DROP TABLE IF EXISTS worded")


def stored(sql: Any) -> list[tuple[int, ...]]:
    return sorted(map(tuple, sql("SELECT id, end, case FROM worded").collect()))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_columns_named_end_and_case_stand_in_every_clause(kind: str, sql: Any) -> None:
    sql(
        "CREATE TABLE worded (id INT, start INT, end INT, case INT) USING hudi "
        f"TBLPROPERTIES (primaryKey='id', type='{kind}')"
    )
    sql("INSERT INTO worded (id, start, end, case) VALUES (1, 1, 5, 3), (2, 1, CASE WHEN true THEN 7 END, 6)")
    sql(
        "MERGE INTO worded t USING (SELECT 1 AS id, 9 AS end) s ON t.id = s.id "
        "WHEN MATCHED AND CASE WHEN s.end > 3 THEN true ELSE false END THEN UPDATE SET end = 2"
    )
    assert stored(sql) == [(1, 2, 3), (2, 7, 6)]
    sql(
        "MERGE INTO worded t USING (SELECT 1 AS id, 9 AS end) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET "
        "end = CASE WHEN s.end > 100 THEN 1 WHEN s.id > 0 THEN s.end ELSE 3 END, case = t.case"
    )
    assert stored(sql) == [(1, 9, 3), (2, 7, 6)]
    sql("UPDATE worded SET case = end - case WHERE worded.case = 3")
    assert stored(sql) == [(1, 9, 6), (2, 7, 6)]
    sql("UPDATE worded SET end = CASE case WHEN 6 THEN case END, case = DEFAULT WHERE end = 9")
    assert stored(sql) == [(1, 6, None), (2, 7, 6)]
    sql("DELETE FROM worded WHERE case = 6")
    assert stored(sql) == [(1, 6, None)]


@pytest.mark.skipif(not IS_4, reason="the expressions are those of Spark 4's grammar, which 3.5 lacks: a::INT")
def test_expressions_over_columns_named_by_words_are_expressions_of_spark(spark: Any) -> None:
    rng = random.Random(1)
    parser = spark._jsparkSession.sessionState().sqlParser()
    for text in [*EXPRESSIONS, *(expression_over_words(rng, 2) for _ in range(25))]:
        parser.parseExpression(text)
