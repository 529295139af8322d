"""Statements beside other threads of one session, and values that do not fit under its settings."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.support.spark import temporarily

import pyhudi
from pyhudi.spark.capabilities import IS_4

ANSI = "spark.sql.ansi.enabled"
NARROW = "a ARRAY<INT>, s STRUCT<x: INT, y: ARRAY<INT>>, m MAP<STRING, INT>"
UNFIT = [
    "array(1, 3000000000L), null, null",
    "null, named_struct('x', 3000000000L, 'y', array(1)), null",
    "null, named_struct('x', 1, 'y', array(3000000000L)), null",
    "null, null, map('k', 3000000000L)",
]


@pytest.fixture
def sql(spark: Any) -> Iterator[Any]:
    pyhudi.enable(spark)
    yield spark.sql
    spark.sql("DROP TABLE IF EXISTS threaded")


def test_queries_beside_inserts_keep_the_settings_of_the_session(spark: Any, sql: Any) -> None:
    retries = "'hoodie.write.num.retries.on.conflict.failures'='20'"  # an insert may meet another one in a small file
    sql(f"CREATE TABLE threaded (id INT, v SMALLINT) USING hudi TBLPROPERTIES (primaryKey='id', {retries})")
    limits = "spark.sql.execution.arrow.maxBytesPerBatch"
    seen: set[tuple[Any, ...]] = set()
    with temporarily(spark, {ANSI: "false"}), ThreadPoolExecutor(2) as threads:
        before = (spark.conf.get(ANSI), spark.conf.get(limits, None))
        inserts = [threads.submit(sql, f"INSERT INTO threaded SELECT {number}, 1L") for number in range(3)]
        while not all(insert.done() for insert in inserts):
            seen.add((spark.conf.get(ANSI), spark.conf.get(limits, None)))
        for insert in inserts:
            insert.result()

    assert seen == {before}
    assert sql("SELECT id FROM threaded").count() == 3


@pytest.mark.parametrize("values", UNFIT)
def test_value_inside_of_a_value_that_does_not_fit_is_an_error_without_ansi(spark: Any, sql: Any, values: str) -> None:
    sql(f"CREATE TABLE threaded (id INT, {NARROW}) USING hudi TBLPROPERTIES (primaryKey='id')")
    with temporarily(spark, {ANSI: "false"}):
        with pytest.raises(PySparkException if IS_4 else Py4JJavaError, match="does not fit the column"):
            sql(f"INSERT INTO threaded SELECT 1, {values}")
        sql(
            "INSERT INTO threaded SELECT 2, array(1L, null), named_struct('x', null, 'y', array(2L)), map('k', null) "
            "UNION ALL SELECT 3, null, null, null"
        )

    assert [tuple(row) for row in sql("SELECT id, a, s.x, s.y, m, s IS NULL FROM threaded ORDER BY id").collect()] == [
        (2, [1, None], None, [2], {"k": None}, False),
        (3, None, None, None, None, True),
    ]
